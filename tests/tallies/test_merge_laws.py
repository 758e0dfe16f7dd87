"""What adding tallies must satisfy, by generated data."""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenscore as es
from data import as_dict, repeated_users
from evenscore.tallies.tally_state import WEIGHTINGS

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
CLOSE = {"rtol": 1e-8, "atol": 1e-9}
LATTICE = es.Lattice(0, 1, cells=8)
settings.register_profile("laws", max_examples=60, deadline=None, derandomize=True)
settings.load_profile("laws")


@st.composite
def frames(draw, min_rows=4, real=None):
    """Small frames with repeated users, who may span groups; outcomes 0/1 or real."""
    n = draw(st.integers(min_rows, 40))
    column = functools.partial(st.lists, min_size=n, max_size=n)
    score = st.floats(0, 1, allow_nan=False) | st.sampled_from([0.0, 0.125, 0.5, 1.0])
    real = draw(st.booleans()) if real is None else real
    outcome = st.floats(-100, 100) if real else st.integers(0, 1)
    return {
        "s": np.array(draw(column(score))),
        "y": np.array(draw(column(outcome))),
        "g": draw(column(st.sampled_from("abc"))),
        "u": np.array(draw(column(st.integers(0, 9)))),
    }


def rows_of(data, chosen):
    return {name: [value for value, keep in zip(column, chosen, strict=True) if keep] for name, column in data.items()}


def tally_of(data, **options):
    return es.tally(data, **NAMES, lattice=LATTICE, **options)


def split(data, n_parts):
    """Shards by user; empty ones are left out."""
    shards = [rows_of(data, data["u"] % n_parts == part) for part in range(n_parts)]
    return [tally_of(shard) for shard in shards if shard["u"]]


def assert_same(a, b, with_folds=True):
    assert a.groups == b.groups
    assert (a.n_users, a.n_rows, a.n_spanning) == (b.n_users, b.n_rows, b.n_spanning)
    for label in a.groups:
        for weighting in WEIGHTINGS:
            one, other = a.sums(label, weighting), b.sums(label, weighting)
            shift = b.centre - a.centre
            np.testing.assert_allclose(one.W, other.W, **CLOSE)
            np.testing.assert_allclose(one.Y, other.Y + shift * other.W, **CLOSE)
            np.testing.assert_allclose(one.X, other.X, **CLOSE)
            np.testing.assert_allclose(one.tilt, other.tilt, **CLOSE)
            np.testing.assert_allclose(one.Y2, other.Y2 + 2 * shift * other.Y + shift**2 * other.W, rtol=1e-7, atol=1e-6)
            np.testing.assert_allclose(one.N, other.N)
            if with_folds:
                np.testing.assert_allclose(a.folds(label, weighting).W, b.folds(label, weighting).W, **CLOSE)
        for partner in a.groups:
            one, other = a.pair_matrices(label, partner), b.pair_matrices(label, partner)
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(one.ww, other.ww, **CLOSE)
                np.testing.assert_allclose(
                    one.yy, other.yy + shift * (other.wy + other.yw) + shift**2 * other.ww, rtol=1e-6, atol=1e-6
                )


@given(frames(), st.integers(2, 4))
def test_split_by_user_equals_whole(data, n_parts):
    assert_same(functools.reduce(operator.add, split(data, n_parts)), tally_of(data))


@given(frames())
def test_commutative_and_associative(data):
    parts = split(data, 3)
    if len(parts) == 3:
        a, b, c = parts
        assert_same(a + b, b + a)
        assert_same((a + b) + c, a + (b + c))


@given(frames())
def test_zero_is_neutral(data):
    tally = tally_of(data)
    assert_same(tally + es.Tally.zero(LATTICE), tally)
    assert_same(es.Tally.zero(LATTICE) + tally, tally)
    assert_same(sum([tally]), tally)


@given(frames(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(data, random):
    order = list(range(len(data["u"])))
    random.shuffle(order)
    shuffled = {name: [column[i] for i in order] for name, column in data.items()}
    assert_same(tally_of(shuffled), tally_of(data))


@given(frames(), st.permutations(range(10)))
def test_names_of_users_do_not_matter(data, names):
    renamed = data | {"u": [f"user {names[user]}" for user in data["u"]]}
    assert_same(tally_of(renamed), tally_of(data), with_folds=False)


@given(frames(), st.integers(0, 9), st.integers(2, 5))
def test_repeating_a_user_changes_nothing_per_user(data, user, times):
    """A user weighs 1 in each group, however often all of the user's rows are repeated."""
    repeat = np.where(data["u"] == user, times, 1)
    longer = {name: np.repeat(np.asarray(column, dtype=object if name == "g" else None), repeat) for name, column in data.items()}
    one, other = tally_of(data), tally_of(longer)
    shift = other.centre - one.centre
    for label in one.groups:
        a, b = one.sums(label), other.sums(label)
        np.testing.assert_allclose(a.W, b.W, **CLOSE)
        np.testing.assert_allclose(a.Y, b.Y + shift * b.W, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(one.pair_matrices(label, label).ww, other.pair_matrices(label, label).ww, **CLOSE)


@given(frames(min_rows=12, real=True), st.floats(-1e6, 1e6))
def test_outcome_shift_moves_the_curve(data, shift):
    settings = {"lattice": es.Lattice(0, 1, cells=8, scale="score")}  # on which a bandwidth of 0.5 is wide
    fit = functools.partial(es.curves, bandwidth=0.5, grid=[0.3, 0.6], degree=0)
    curve, moved = (fit(es.tally(data | {"y": data["y"] + by}, **NAMES, **settings)) for by in (0, shift))
    for a, b in zip(curve.curves, moved.curves, strict=True):
        tolerance = 1e-9 * (1 + abs(shift) + np.abs(data["y"]).max())
        np.testing.assert_allclose(b.estimate, a.estimate + shift, rtol=0, atol=tolerance)
        np.testing.assert_allclose(b.se, a.se, rtol=1e-4, atol=1e-4)


def test_offset_of_a_billion_does_no_harm():
    rng = np.random.default_rng(0)
    data = {"s": rng.random(4000), "y": rng.normal(size=4000), "g": rng.integers(0, 2, 4000), "u": rng.integers(0, 900, 4000)}
    fine = es.Lattice(0, 1)
    plain = es.parity_test(es.tally(data, **NAMES, lattice=fine))
    far = data | {"y": data["y"] + 1e9}
    parts = [es.tally(rows_of(far, data["u"] % 2 == part), **NAMES, lattice=fine) for part in (0, 1)]
    offset = es.parity_test(parts[0] + parts[1])
    assert offset.p_value == pytest.approx(plain.p_value, rel=1e-3)
    np.testing.assert_allclose([p["gap"] for p in offset.points], [p["gap"] for p in plain.points], atol=1e-5)


def test_discrete_lattices_unite():
    data = {"s": [0.1, 0.2, 0.2, 0.4], "y": [0, 1, 1, 0], "g": list("aabb"), "u": [1, 2, 3, 4]}
    low, high = rows_of(data, [1, 1, 0, 0]), rows_of(data, [0, 0, 1, 1])
    together = es.tally(low, **NAMES) + es.tally(high, **NAMES)
    whole = es.tally(data, **NAMES)
    assert together.lattice == whole.lattice
    assert_same(together, whole)


def test_the_same_users_twice_are_refused():
    rng = np.random.default_rng(0)
    monday, tuesday = (
        tally_of({"s": rng.random(500), "y": rng.integers(0, 2, 500), "g": ["a"] * 500, "u": rng.integers(0, 200, 500)})
        for _ in "ab"
    )
    with pytest.raises(es.MergeError, match="same users"):
        monday + tuesday
    with pytest.raises(es.MergeError, match="itself"):
        monday + monday


def test_few_shared_users_among_many_are_seen():
    """A tenth of the users recur: the sketch of 1,024 hashes cannot miss them all."""
    one = {"s": np.full(20000, 0.5), "y": np.zeros(20000), "g": ["a"] * 20000, "u": np.arange(20000)}
    other = one | {"u": np.arange(20000) + 18000}
    with pytest.raises(es.MergeError, match="same users"):
        tally_of(one) + tally_of(other)


def test_another_lattice_is_refused():
    data = {"s": np.linspace(0, 1, 50), "y": [0, 1] * 25, "g": ["a"] * 50, "u": range(50)}
    other = es.tally(data | {"u": range(50, 100)}, **NAMES, lattice=es.Lattice(0, 1, cells=16))
    with pytest.raises(es.MergeError, match="lattice=first"):
        tally_of(data) + other


def test_labels_of_another_type_are_refused():
    data = {"s": [0.1, 0.9], "y": [0, 1], "g": [1, 0], "u": [1, 2]}
    with pytest.raises(es.MergeError, match="type only"):
        tally_of(data) + tally_of(data | {"g": [True, False], "u": [3, 4]})


def test_independent_and_users_do_not_mix():
    data = {"s": [0.1, 0.9], "y": [0, 1], "g": [1, 0], "u": [1, 2]}
    independent = es.tally(data, score="s", outcome="y", group="g", user=None, lattice=LATTICE)
    with pytest.raises(es.MergeError, match="independent"):
        tally_of(data) + independent


def test_groups_missing_on_one_side_are_zero():
    data = {"s": [0.1, 0.9, 0.4], "y": [0, 1, 1], "g": ["a", "a", "b"], "u": [1, 2, 3]}
    together = tally_of(rows_of(data, [1, 1, 0])) + tally_of(rows_of(data, [0, 0, 1]))
    assert_same(together, tally_of(data))
    assert together.n_users == {"a": 2, "b": 1}


def test_rows_without_an_outcome_are_counted_once_when_splits_are_added():
    """They are left out before the users are split: each half says so, and both together have them once."""
    data = as_dict(repeated_users(400, seed=3, n_groups=2, rows_per_user=3))
    data["y"] = np.where(np.arange(len(data["y"])) % 50 == 0, np.nan, data["y"])
    whole = es.tally(data, **NAMES, nulls="drop")
    first, second = (es.tally(data, **NAMES, nulls="drop", split=half, lattice=whole) for half in ("1/2", "2/2"))
    n_null = int(np.isnan(data["y"]).sum())
    assert whole.dropped == (first + second).dropped == {"y": n_null}
    assert f"{n_null} rows left out: y is null" in repr(first + second)
    assert f"{n_null} rows left out before the split: y is null" in repr(first)
