"""A side may have no curve at a point that was looked at: there is no gap there, and the largest is that of the others."""

from dataclasses import replace

import numpy as np
from simple_users import simple, tally_of

import evenscore as es
from evenscore.calibration.repair_state import rms_gap


def test_a_point_without_a_curve_hides_no_gap():
    test = es.parity_test(tally_of(simple(400)))
    pair = test.pairs[0]
    gone = np.arange(len(pair.gap)) == 3
    hole = {name: np.where(gone, np.nan, getattr(pair, name)) for name in ("gap", "se", "band_low", "band_high")}
    holed = replace(pair, **hole, regions=())
    largest = np.nanargmax(np.abs(holed.gap))
    assert (holed.max_gap, holed.at_score) == (holed.gap[largest], holed.score[largest])
    assert replace(test, pairs=(holed,)).max_gap == holed.max_gap and np.isfinite(rms_gap(holed))
    nothing = replace(holed, gap=np.full_like(holed.gap, np.nan))
    assert np.isnan(nothing.max_gap) and nothing.largest is None
