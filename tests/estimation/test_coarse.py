"""Coarse cells: two groups with one curve, which lie differently in their cells, must not seem to differ."""

from types import SimpleNamespace

import numpy as np
import pytest

import evenscore as es
from data import NAMES
from evenscore.estimation.comparison import compare_groups
from evenscore.estimation.gaps import Look, _bend, estimate_gaps, hidden_gap
from evenscore.estimation.kernels import smoother
from evenscore.estimation.nulls import Null
from evenscore.estimation.smoothing import Smoothing
from support.looks import of_one

pytestmark = pytest.mark.filterwarnings("ignore:the bandwidth:evenscore.EvenscoreWarning")


def steep(score):
    return 0.05 + 0.9 / (1 + np.exp(-10 * (score - 0.5)))


def two_shapes(seed, users=1000, rows=4):
    """One group in the middle of the scores, the other at both ends."""
    rng = np.random.default_rng(seed)
    score = np.concatenate([rng.beta(2, 2, users * rows), rng.beta(0.7, 0.7, users * rows)])
    outcome = (rng.random(len(score)) < steep(score)).astype(float)
    return {"s": score, "y": outcome, "g": np.repeat([0, 1], users * rows), "u": np.repeat(np.arange(2 * users), rows)}


def test_a_released_tally_does_not_make_a_gap_of_two_shapes():
    """With bandwidths of at least three cells 10 of 10 were rejected."""
    tallies = [es.tally(two_shapes(seed), **NAMES, cells=128).release(min_users=20) for seed in range(10)]
    p_values = [es.parity_test(tally, both=False).p_value for tally in tallies]
    assert sum(p <= 0.05 for p in p_values) <= 2  # probability .99 at a level of 5 %


def test_points_at_which_cells_could_make_the_gap_are_left_out_and_counted():
    result = es.parity_test(es.tally(two_shapes(1), **NAMES, cells=8), both=False)
    pair = result.pairs[0]
    assert pair.too_coarse > 0 and result.to_dict()["pairs"][0]["too_coarse"] == pair.too_coarse
    notes = " ".join(result.remarks)
    assert f"{pair.too_coarse} points of the grid left out, one curve for both bends" in notes
    assert (
        "no wider than a cell, and nothing inside a cell can be seen; there are 8 cells, 512 are possible: tally with more cells"
        in notes
    )


def test_too_few_cells_are_inconclusive_and_say_why():
    tally = es.tally(two_shapes(1), **NAMES, cells=4)
    result = es.parity_test(tally, both=False)
    assert result.verdict == "inconclusive" and np.isnan(result.p_value)
    assert result.reason.startswith("the 4 cells are too coarse") and result.reason.endswith("tally with more cells")


def test_few_values_are_no_coarse_cells():
    """Each value is its own cell, so nothing can differ inside one."""
    data = two_shapes(1)
    data["s"] = np.round(data["s"] * 4) / 4
    result = es.parity_test(es.tally(data, **NAMES, cells=8), both=False)
    assert result.pairs[0].too_coarse == 0 and np.isfinite(result.p_value)


def test_a_number_narrower_than_a_cell_is_marked_in_the_result():
    tally = es.tally(two_shapes(1), **NAMES, cells=16, scale="score")
    assert any("the bandwidth is no wider than a cell" in note for note in es.parity_test(tally, bandwidth=0.04).remarks)
    fine = es.tally(two_shapes(1), **NAMES)
    assert not any("the bandwidth is" in note for note in es.parity_test(fine, both=False).remarks)


@pytest.mark.parametrize("cells", [8, 16])
def test_the_hidden_gap_of_a_parabola_is_what_it_shows_without_noise(cells):
    """Up to what a straight density inside a cell leaves out."""
    data = two_shapes(3, users=20_000)
    data["y"] = data["s"] ** 2
    comparison = compare_groups(es.tally(data, **NAMES, cells=cells, scale="score"), 0, 1, "user")
    points = np.linspace(0.1, 0.9, 9)
    smoothing = Smoothing(bandwidth=0.08)
    look = Look(comparison, points, smoothing, Null.of(comparison, smoothing))
    (process,) = estimate_gaps([look])
    hidden = hidden_gap(look, process)
    assert np.abs(hidden - process.values).max() < 0.1 * np.abs(process.values).max()


def test_a_steep_curve_and_a_wide_bandwidth_are_no_gap_either():
    """512 cells; with 150 users a group the rule of thumb smooths a tenth of the scores."""
    found = [es.parity_test(es.tally(two_shapes(seed, users=150), **NAMES), both=False, bandwidth=0.12) for seed in range(10)]
    assert sum(one.p_value <= 0.05 for one in found) <= 2 and any(one.pairs[0].too_coarse for one in found)


def test_wide_cells_are_not_followed_inside():
    position, width = np.array([0.02, 0.06, 0.3, 0.7]), np.array([0.04, 0.04, 0.44, 0.48])
    settings = {"points": np.array([0.1]), "positions": position, "weight": np.ones(4), "bandwidth": 0.2}
    both, fine = smoother(**settings, cell_width=width).tilt, smoother(**settings, cell_width=0.04).tilt
    np.testing.assert_array_equal(both[0, 2:], 0)
    np.testing.assert_allclose(both[0, :2], fine[0, :2])
    assert smoother(**settings, cell_width=0.1).tilt is None


def test_a_few_people_who_agree_do_not_show_a_gap_at_a_rare_score():
    """Score 0: 2 of 40 people against 0 of 40, in a sea of others at score 1; the variance of the second is not next to nothing."""
    outcome = np.concatenate([np.ones(2), np.zeros(38), np.tile([0, 1], 500), np.zeros(40), np.tile([0, 1], 500)])
    score = np.concatenate([np.zeros(40), np.ones(1000), np.zeros(40), np.ones(1000)])
    tally = es.tally({"s": score, "y": outcome, "g": np.repeat([0, 1], 1040), "u": np.arange(2080)}, **NAMES)
    pair = es.parity_test(tally, both=False).pairs[0]
    comparison = compare_groups(tally, 0, 1, "user")
    process = of_one(
        estimate_gaps,
        comparison,
        points=np.array([0.0, 1.0]),
        smoothing=Smoothing(bandwidth=1.0),
        null=Null.of(comparison, Smoothing(bandwidth=1.0)),
    )
    rate = 2 / 80
    binomial = np.sqrt(rate * (1 - rate) * (1 / 40 + 1 / 40))
    assert process.se[0] == pytest.approx(binomial, rel=1e-6)
    assert pair.p_value > 0.2


def test_a_cell_that_weighs_nothing_bends_no_curve():
    """Rounding is all that two cells leave of a parabola's curvature."""
    points, outcome = np.linspace(0.1, 0.3, 41), np.array([0.1, 0.4, 1.0])
    for share in np.random.default_rng(1).uniform(0.1, 2, 50):
        weight = np.array([share, 1.3, 1e-17])
        cells = SimpleNamespace(weight=weight, outcome=weight * outcome, position=np.array([0.1, 0.2, 0.35]))
        assert np.abs(_bend(cells, points, 0.3)).max() < 10
