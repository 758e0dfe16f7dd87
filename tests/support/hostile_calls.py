"""What functions are given beside the hostile option."""

import evenscore as es
from data import NAMES, as_dict, repeated_users

ROWS = as_dict(repeated_users(240, 1, gap=0.2))
ROWS |= {"s2": ROWS["s"][::-1].copy(), "y2": ROWS["y"][::-1].copy()}
TALLY = es.tally(ROWS, **NAMES, cells=64, cuts=(0.5,))
CALIBRATOR = es.calibrate(TALLY, method="platt")
AUDIT = es.audit(ROWS, **NAMES, method="bonferroni", repair=False)
PAIRS = {"scores": ["s", "s2"], "outcomes": ["y", "y2"], "group": "g", "user": "u"}
