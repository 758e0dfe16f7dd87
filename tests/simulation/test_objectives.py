"""Simulated objectives: what is drawn has the conditional means that the truth states, and the dependence that was asked for."""

import numpy as np
import pytest

import evenscore as es
from evenscore.simulation.objectives import feed, simulate_objectives, toy

SIGMAS = 4.5  # of Monte Carlo error; some forty comparisons in this file


def test_means_given_all_scores_are_the_truth():
    spec = feed(40_000, bend=0.6)
    data = spec.data(seed=3)
    for group in spec.groups:
        mine = data["group"] == group
        scores = np.column_stack([data[name][mine] for name in spec.score_columns])
        residual = np.column_stack([data[name][mine] for name in spec.objectives]) - spec.truth.means(scores, group)
        user = data["user"][mine] - data["user"][mine].min()
        for test in (np.ones(len(scores)), scores[:, 0], scores[:, 1] * scores[:, 2], scores[:, 2] > 0.3):
            for k in range(3):
                by_user = np.bincount(user, residual[:, k] * test)
                assert abs(by_user.sum()) < SIGMAS * np.sqrt((by_user**2).sum())


def test_labels_are_alike_between_objectives_and_within_users():
    spec = simulate_objectives(
        4000, rows_per_user=2, kinds="real", score_correlation=0.3, label_correlation=0.5, score_likeness=0.2, outcome_likeness=0.4
    )
    data = spec.data(seed=1)
    scores = np.column_stack([data[name] for name in spec.score_columns])
    labels = np.column_stack([data[name] for name in spec.objectives]) - scores
    for values, between, within in ((scores, 0.3, 0.2), (labels, 0.5, 0.4)):
        assert np.corrcoef(values.T)[0, 1] == pytest.approx(between, abs=0.04)
        assert np.corrcoef(values[::2, 2], values[1::2, 2])[0, 1] == pytest.approx(within, abs=0.05)


def test_the_toy_is_the_papers():
    data = toy(200_000).data(seed=0)
    assert np.array_equal(data["first"], data["score_first"] + data["score_second"])
    for name in ("first", "second"):
        assert np.polyfit(data[f"score_{name}"], data[name], 1)[0] == pytest.approx(1, abs=0.01)
    total = data["score_first"] + data["score_second"]
    assert np.polyfit(total, data["first"] + data["second"], 1)[0] == pytest.approx(1.5, abs=0.01)


def test_the_same_seed_gives_the_same_data_in_every_frame():
    spec = simulate_objectives(50, labelled=(1, 0.5, 0.2), kinds=("binary", "real", "binary"))
    first, again = spec.data(seed=(4, 2)), spec.data(seed=(4, 2), frame="polars")
    for name, values in first.items():
        assert np.array_equal(values, again[name].to_numpy(), equal_nan=values.dtype.kind == "f")
    assert 0.4 < np.isnan(first["comment"]).mean() < 0.6 and first["like"].dtype == np.int64
    assert spec.to_dict()["labelled"] == [1.0, 0.5, 0.2] and "comment (real)" in repr(spec)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"slopes": [[1, 0], [0, 1]]}, "3 x 3 slopes"),
        ({"kinds": "ordinal"}, "'binary', 'real'"),
        ({"kinds": ["binary"]}, "1 entries for 3"),
        ({"spread": 0}, "above 0"),
        ({"score_correlation": -0.6}, "score_correlation"),
        ({"labelled": 0}, "labelled"),
        ({"users": 0}, "at least 1"),
        ({"objectives": ["x", "x", "y"]}, "each once"),
        ({"slopes": {"a": np.eye(3)}}, "the groups are"),
    ],
)
def test_impossible_objectives_are_refused(wrong, message):
    with pytest.raises(es.EvenscoreError, match=message):
        simulate_objectives(**({"users": 10} | wrong))


def test_truth_refuses_what_it_does_not_know():
    truth = feed(10).truth
    with pytest.raises(es.EvenscoreError, match="no group 'c'"):
        truth.means([[0.5, 0.5, 0.5]], "c")
    with pytest.raises(es.EvenscoreError, match=r"\(n, 3\)"):
        truth.means([[0.5, 0.5]], "a")
