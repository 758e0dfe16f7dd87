"""Fair thresholds at many thresholds, beside the function for one."""

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.thresholds.tried import thinned, try_thresholds


@pytest.mark.parametrize(("scale", "positive"), [("score", "above"), ("rank", "below"), ("few values", "above")])
def test_it_is_what_the_function_for_one_gives(scale, positive):
    rows = repeated_users(900, seed=4, n_groups=3, rows_per_user=2, gap=0.3)
    data = as_dict(rows)
    if scale == "few values":
        data["s"] = np.round(rows.score * 10) / 10
        tally = es.tally(data, **NAMES)
    else:
        tally = es.tally(data, scale=scale, cells=128, cuts=[0.4], **NAMES)
    stops = thinned(tally, "user", 12, None if scale == "few values" else 0.4)
    tried = try_thresholds(tally, stops, positive=positive, weighting="user")
    assert 5 < len(tried) <= 13 and (scale == "few values" or 0.4 in [own.threshold for own in tried])
    for own in tried[:: len(tried) // 3]:
        fair = es.fair_thresholds(tally, threshold=own.threshold, positive=positive)
        metrics = es.decision_metrics(tally, threshold=own.threshold, positive=positive).by_group
        for group, wanted in zip(own.groups, fair.groups, strict=True):
            for name in ("threshold", "outcome_before", "outcome_after", "rate_after", "to_positive", "to_negative"):
                assert getattr(group, name) == pytest.approx(getattr(wanted, name), rel=1e-9, abs=1e-12), name
            assert group.rate_before == pytest.approx(metrics[group.group]["selection_rate"], rel=1e-9)


def test_a_group_without_outcomes_on_one_side_is_no_threshold_to_try():
    rows = repeated_users(600, seed=4, n_groups=2, rows_per_user=2)
    data = as_dict(rows) | {"s": np.where(rows.group == 0, rows.score / 2, 0.5 + rows.score / 2)}
    tally = es.tally(data, cells=64, **NAMES)
    with pytest.raises(es.DataError, match="both sides"):
        try_thresholds(tally, thinned(tally, "user", 12, None), positive="above", weighting="user")
