"""Joined cells: the sums of what they are made of, and estimates that hardly know the difference."""

import dataclasses

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.estimation.comparison import CELLS_A_BANDWIDTH, Sides, compare_groups
from evenscore.estimation.gaps import estimate_gaps
from evenscore.estimation.grids import comparison_grid
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.moments import WEIGHTINGS
from evenscore.tallies.pairs import USER_PAIRS, PairSums, every_pair
from evenscore.tallies.view import FEWEST_JOINED, SUMMED, GroupView
from support.looks import of_one

EXACT = {"rtol": 1e-10, "atol": 1e-12}
SE_TOLERANCE, GAP_TOLERANCE = 0.02, 0.02  # of a standard error, and in standard errors: docs/lattice.md


@pytest.fixture(scope="module")
def tally():
    return es.tally(as_dict(repeated_users(20_000, seed=1, spanning=True, real=True, n_groups=3)), **NAMES)


def members_of(view):
    """Which cells of the lattice each joined cell is made of, as a matrix of 0 and 1."""
    return (view.places == np.arange(len(view.cells))[:, None]).astype(float)


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_sums_are_those_of_their_cells(tally, weighting):
    view = GroupView.of(tally, 1, weighting)
    joined = view.joined(1 / 150)
    into = members_of(joined)
    assert FEWEST_JOINED / 2 < len(joined.cells) < 0.8 * len(view.cells)
    for name in set(SUMMED) - {"N"}:
        np.testing.assert_allclose(getattr(joined.sums, name), into @ getattr(view.sums, name), **EXACT)
    for name in ("T2", "Q4"):
        np.testing.assert_allclose(getattr(joined.higher, name), into @ getattr(view.higher, name), **EXACT)
    for name in ("ww", "wy", "yw", "yy"):
        np.testing.assert_allclose(getattr(joined.pairs, name), into @ getattr(view.pairs, name) @ into.T, **EXACT)
    np.testing.assert_allclose(joined.folds.Y2, view.folds.Y2 @ into.T, **EXACT)
    other, fine = GroupView.of(tally, 0, weighting), view.shared_pairs(GroupView.of(tally, 0, weighting))
    np.testing.assert_allclose(joined.shared_pairs(other.joined(1 / 150)).yw, into @ fine.yw @ into.T, **EXACT)


def test_people_stay_where_they_are(tally):
    """Means and first moments along the axis are kept, and quantiles are those of the lattice."""
    view = GroupView.of(tally, 0, "user")
    joined = view.joined(1 / 150)
    fine, wide = view.sums, joined.sums
    assert wide.W @ wide.position == pytest.approx(fine.W @ fine.position)
    assert (wide.tilt + wide.Y * wide.position).sum() == pytest.approx((fine.tilt + fine.Y * fine.position).sum())
    edges = tally.lattice.axis_edges
    assert (wide.position >= edges[joined.cells]).all() and (wide.position <= edges[joined.cells] + wide.width).all()
    assert wide.width.sum() == pytest.approx(edges[-1] - edges[0])
    levels = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(joined.quantiles(levels), view.quantiles(levels), **EXACT)


def test_the_rest_is_the_whole_less_the_group(tally):
    comparison = Sides(tally, "user").compare(0, None)
    joined = comparison.joined(0.03)
    assert len(joined.weight) < len(comparison.weight)
    into = members_of(joined.b)[:, comparison.b.cells]
    np.testing.assert_allclose(joined.b.pairs.yy, into @ comparison.b.pairs.yy @ into.T, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(joined.cross.ww, into @ comparison.cross.ww @ into.T, rtol=1e-8, atol=1e-9)


def test_few_cells_and_few_values_are_not_joined(tally):
    few = es.tally(as_dict(repeated_users(5000, seed=1)), **NAMES, cells=FEWEST_JOINED)
    assert (view := GroupView.of(few, 0, "user")).joined(0.1) is view
    data = as_dict(repeated_users(5000, seed=1))
    data["s"] = np.round(data["s"] * 300) / 300
    assert (view := GroupView.of(es.tally(data, **NAMES), 0, "user")).joined(0.1) is view
    view = GroupView.of(tally, 0, "user")
    view = view.at(view.used)
    assert view.joined(1e-5) is view


@pytest.mark.parametrize("real", [False, True])
def test_gaps_and_standard_errors_hardly_change(real):
    tally = es.tally(as_dict(repeated_users(20_000, seed=4, real=real)), **NAMES)
    comparison = compare_groups(tally, 0, 1, "user")
    smoothing = comparison.settle(Smoothing())
    joined = comparison.joined(smoothing.h)
    assert len(joined.weight) < 0.8 * len(comparison.weight)
    assert np.median(joined.a.sums.width) < 1.2 * smoothing.h / CELLS_A_BANDWIDTH
    points, _ = comparison_grid(comparison, smoothing.h)
    np.testing.assert_allclose(comparison_grid(joined, smoothing.h)[0], points, **EXACT)
    fine, wide = (of_one(estimate_gaps, each, points, smoothing) for each in (comparison, joined))
    np.testing.assert_allclose(wide.se, fine.se, rtol=SE_TOLERANCE)
    np.testing.assert_allclose(wide.values / fine.se, fine.values / fine.se, atol=GAP_TOLERANCE)


def test_a_view_with_fewer_people_joins_alike(tally):
    """Without a fold nothing is known about pairs, and the cells are the same."""
    view = GroupView.of(tally, 2, "user")
    left = view.without_folds()[3]
    assert dataclasses.replace(left).joined(1 / 150).cells.tolist() == view.joined(1 / 150).cells.tolist()


@pytest.mark.parametrize("n_cells", [1, 7, 64])
@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_pair_sums_go_where_their_cells_go(n_cells, within, share):
    """A dense matrix of joined, left out and kept cells, pair by pair."""
    rng = np.random.default_rng(n_cells)
    every = every_pair(n_cells, within)
    index = None if share == 1 else np.sort(every[rng.random(len(every)) < share]).astype(np.int32)
    values = rng.normal(size=(2, 4, len(every) if index is None else len(index)))
    sums = PairSums(USER_PAIRS, values, n_cells, within, index)
    alike = np.flatnonzero(within & (sums.pairs % (n_cells + 1) == 0))  # of a cell with itself
    values[:, 2, alike] = values[:, 1, alike]
    for places in (np.arange(n_cells), np.arange(n_cells) // 3, np.where(rng.random(n_cells) < 0.4, -1, np.arange(n_cells) // 2)):
        size = places.max() + 1
        for number, weighting in enumerate(WEIGHTINGS):
            expected = np.zeros((4, size, size))
            for four, pair in zip(values[number].T, sums.pairs.tolist(), strict=True):
                c, d = divmod(pair, n_cells)
                turned = four[[0, 2, 1, 3]]
                for left, right, own in [(c, d, four), (d, c, turned)] if within and c != d else [(c, d, four)]:
                    if places[left] >= 0 and places[right] >= 0:
                        expected[:, places[left], places[right]] += own
            found = sums.squares(weighting, places)
            np.testing.assert_allclose([found[name] for name in ("ww", "wy", "yw", "yy")], expected, rtol=1e-12, atol=1e-12)
