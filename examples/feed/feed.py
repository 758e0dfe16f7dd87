"""A feed with three objectives: fair in every part and unfair in the blend, and what that does to ranks.

    python examples/feed/feed.py [FIGURE]

The data are made up, so the truth is known: the chances of a like, a comment and a share depend on all three scores, upwards in
group a and downwards in group b. Calibrating each score by itself leaves blends unfair; calibrating them jointly does not.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import evenscore as es
from evenscore.simulation.objectives import feed

WEIGHTS = (1, 2, 5)
SPEC = feed(3000)
COLUMNS = SPEC.columns
FIT, JUDGE = "1-8/10", "9-10/10"  # the error of the maps themselves is a gap too: fit on many, judge on others


def data() -> dict[str, np.ndarray]:
    """Impressions of 6,000 members, with the session in which they were shown: about ten a session, members mixed."""
    drawn = SPEC.data(seed=1)
    n_rows = len(drawn["user"])
    return drawn | {"session": np.random.default_rng(2).integers(0, n_rows // 10, n_rows)}


def calibrators(rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """Maps fitted on eight tenths of the members: score by score, and jointly."""
    pairs = zip(COLUMNS["scores"], COLUMNS["outcomes"], strict=True)
    roles = {"group": "group", "user": "user", "split": FIT}
    return {
        "one by one": [es.calibrate(es.tally(rows, score=score, outcome=outcome, **roles)) for score, outcome in pairs],
        "jointly": es.calibrate_jointly(rows, **COLUMNS, split=FIT),
    }


def sweep(rows: dict[str, np.ndarray]) -> es.WeightSweep:
    """Parity of ten blends before and after, on the other members."""
    return es.sweep_weights(rows, **COLUMNS, steps=3, calibrator=calibrators(rows), split=JUDGE)


def blended(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The blend that ranks the feed, and the blend of what happened."""
    score = sum(w * rows[name] for w, name in zip(WEIGHTS, COLUMNS["scores"], strict=True))
    outcome = sum(w * rows[name] for w, name in zip(WEIGHTS, COLUMNS["outcomes"], strict=True))
    return rows | {"blend": score / sum(WEIGHTS), "value": outcome / sum(WEIGHTS)}


def ranks(rows: dict[str, np.ndarray]) -> es.Impact:
    """Positions that items of each group would gain if sessions were ranked by what the blend stands for in their group."""
    whole = blended(rows)
    fitted = es.tally(whole, score="blend", outcome="value", group="group", user="user", split=FIT)
    return es.rank_impact(
        whole, query="session", score="blend", group="group", user="user", calibrator=es.calibrate(fitted), top_k=3
    )


def main() -> None:
    rows = data()
    swept = sweep(rows)
    print(swept, end="\n\n")
    print({version: swept.verdict_of(version) for version in swept.versions}, end="\n\n")
    print(ranks(rows))
    if len(sys.argv) > 1:
        import matplotlib.pyplot as plt

        drawing, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
        swept.plot(ax=ax)
        drawing.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
