import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenscore as es
from evenscore.tallies.axis import end_values_inside
from evenscore.tallies.lattice import Lattice

finite = st.floats(-1e6, 1e6, allow_nan=False)


def brute_cell(lattice, score):
    return sum(1 for edge in lattice.edges if edge <= score)


@given(st.lists(finite, min_size=1, max_size=30), finite, st.floats(1e-3, 1e6), st.integers(3, 40), st.lists(finite, max_size=3))
def test_a_cell_is_the_number_of_edges_not_above(scores, low, width, cells, cuts):
    lattice = Lattice(low, low + width, cells=cells, cuts=cuts)
    probes = [*scores, *lattice.edges[:20], *cuts, *np.nextafter(lattice.edges[:20], -np.inf)]
    assert lattice.cell(probes).tolist() == [brute_cell(lattice, score) for score in probes]


def test_cuts_near_each_other_leave_edges_in_order():
    lattice = Lattice(-37, 1414, cells=22, cuts=[0.0, 0.5, -207.0])
    assert (np.diff(lattice.edges) > 0).all() and lattice.cell([0.0])[0] == lattice.first_cell(0.0)


@pytest.mark.parametrize("scale", ["auto", "score", "logit", "rank"])
def test_cuts_are_exact_edges(scale):
    scores = np.random.default_rng(0).beta(1, 5, 5000)
    cuts = [0.015, 0.05, 0.0501, 1 / 3]
    lattice = Lattice.from_scores(scores, cuts=cuts, scale=scale)
    for cut in cuts:
        first = lattice.first_cell(cut)
        np.testing.assert_array_equal(lattice.cell(scores) >= first, scores >= cut)
        assert lattice.cell([cut])[0] == first
        assert lattice.cell([np.nextafter(cut, 0)])[0] == first - 1
    assert lattice.first_cell(0.123456) is None


def test_probabilities_get_the_unit_interval():
    for scale, second in (("score", 1), ("auto", 84)):
        lattice = Lattice.from_scores(np.random.default_rng(0).random(1000), scale=scale)
        assert (lattice.low, lattice.high, lattice.n_cells) == (0, 1, 512)
        assert lattice.cell([0.0, 1.0, 0.5, 1 / 512]).tolist() == [0, 511, 256, second]


def test_one_outlier_spoils_nothing():
    scores = np.append(np.random.default_rng(0).normal(600, 50, 10_000), 1e12)
    lattice = Lattice.from_scores(scores)
    assert 400 < lattice.low < 500
    assert 700 < lattice.high < 800
    assert lattice.cell([-1e12, 1e12]).tolist() == [0, 511]
    position = lattice.positions(np.linspace(0, 1e12, 512))
    assert position.max() < 810


def test_few_distinct_scores_are_their_own_cells():
    scores = np.random.default_rng(0).integers(300, 700, 50_000).astype(float)
    lattice = Lattice.from_scores(scores)
    assert lattice.discrete
    assert lattice.n_cells == 400
    np.testing.assert_array_equal(lattice.values[lattice.cell(scores)], scores)
    assert lattice.first_cell(500.5) == lattice.cell([501.0])[0]


def test_the_order_of_scores_does_not_matter():
    scores = np.random.default_rng(0).normal(size=100_000)
    assert Lattice.from_scores(scores) == Lattice.from_scores(scores[::-1]) == Lattice.from_scores(np.sort(scores))


def test_distinct_values_found_late():
    scores = np.concatenate([np.zeros(200_000), np.linspace(0, 1, 600)])
    assert not Lattice.from_scores(scores).discrete
    assert Lattice.from_scores(scores[:200_100]).discrete


def test_logit_takes_zero_and_one():
    scores = np.concatenate([[0, 1], np.random.default_rng(0).beta(0.5, 20, 5000)])
    lattice = Lattice.from_scores(scores, scale="logit")
    assert lattice.cell([0.0, 1.0]).tolist() == [0, 511]
    assert np.isfinite(lattice.positions(np.append(0.0, np.full(511, 0.5)))).all()
    np.testing.assert_allclose(lattice.to_score(lattice.to_axis(scores[2:100])), scores[2:100])


def test_rank_has_equal_numbers_of_rows():
    scores = np.random.default_rng(0).beta(0.5, 20, 51_200)
    lattice = Lattice.from_scores(scores, scale="rank")
    counts = np.bincount(lattice.cell(scores), minlength=512)
    assert counts.min() > 90
    assert counts.max() < 110
    np.testing.assert_allclose(lattice.to_axis(np.quantile(scores, [0.25, 0.5])), [0.25, 0.5], atol=0.003)
    np.testing.assert_allclose(lattice.to_score(lattice.to_axis(scores[:50])), scores[:50])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Lattice(1, 0), "low < high"),
        (lambda: Lattice(0, np.inf), "finite"),
        (lambda: Lattice(0, 1, cells=0), "1 to 512"),
        (lambda: Lattice(0, 1, cells=1000), "1 to 512"),
        (lambda: Lattice(0, 5, scale="logit"), "between 0 and 1"),
        (lambda: Lattice(0, 1, scale="log"), "'score', 'logit', 'rank'"),
        (lambda: Lattice(0, 1, scale="rank"), "needs scores"),
        (lambda: Lattice(0, 1, cuts=[np.nan]), "finite"),
        (lambda: Lattice.from_scores([]), "no scores"),
        (lambda: Lattice.from_scores([np.nan, 1.0]), "finite"),
        (lambda: Lattice.from_scores([0.5, 2.0], scale="logit"), "run from 0.5 to 2"),
        (lambda: Lattice.from_values(np.arange(600)), "1 to 512"),
    ],
)
def test_what_cannot_be_a_lattice(call, message):
    with pytest.raises(es.EvenscoreError, match=message):
        call()


def test_a_lattice_does_not_change():
    lattice = Lattice(0, 1)
    with pytest.raises(AttributeError):
        lattice.low = 5
    with pytest.raises(ValueError, match="read-only"):
        lattice.edges[0] = 5


def test_scores_of_0_and_1_have_a_place_on_the_logit_axis():
    middle = np.log([0.25 / 0.75, 1.0, 3.0])
    step = np.log(3)
    data = {"s": np.tile([0, 0.25, 0.5, 0.75, 1], 40), "y": np.tile([0, 1], 100), "g": np.repeat(["a", "b"], 100)}
    lattice = es.tally(data, score="s", outcome="y", group="g", user=None, scale="logit").lattice
    np.testing.assert_allclose(lattice.positions(np.full(5, np.nan)), [middle[0] - step, *middle, middle[-1] + step])
    np.testing.assert_array_equal(end_values_inside(np.array([-np.inf, np.inf])), [-1, 1])
    np.testing.assert_array_equal(end_values_inside(np.array([-np.inf, 0.3])), [-0.7, 0.3])
