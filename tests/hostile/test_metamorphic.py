"""What must not change when rows are shuffled, relabelled, moved, split and merged, or weighed in other units."""

import numpy as np
import pyarrow as pa
import pytest
from black_box import CONTAINERS, NAMES, assert_alike, time_limit

import evenscore as es
from evenscore.tallies.reshaping import recentre
from hostile import THOROUGH

FRAMES = 500 if THOROUGH else 12
WEIGHED = NAMES | {"weight": "v"}


def generated(seed):
    """A frame of a random shape: sizes, ties, whales, spanning users, real or binary outcomes, few or many groups."""
    rng = np.random.default_rng([17, seed])
    n = int(rng.choice([12, 60, 300, 1_200]))
    n_users = int(rng.integers(2, n + 1))
    user = rng.integers(0, n_users, n)
    if rng.random() < 0.3:
        user[: n // 3] = 0
    n_groups = int(rng.integers(1, 5))
    group = rng.integers(0, n_groups, n) if rng.random() < 0.4 else user % n_groups
    score = rng.random(n) if rng.random() < 0.6 else rng.choice([0, 0.25, 0.5, 1], n)
    if rng.random() < 0.2:
        score = 1e6 * rng.normal(size=n)
    rate = np.clip(0.5 + 0.3 * np.sin(3 * np.argsort(np.argsort(score)) / n) + 0.1 * (group == 0), 0, 1)
    outcome = (rng.random(n) < rate).astype(float)
    if rng.random() < 0.4:
        outcome = rng.normal(size=n) * 10 ** float(rng.integers(-3, 4)) + float(rng.choice([0, 1e6]))
    weight = rng.gamma(2, 1, n) * (rng.random(n) < 0.95)
    weight[0] = 1.0
    return {"s": score, "y": outcome, "g": group, "u": user, "v": weight}, rng


def tallied(data, lattice=None, **options):
    names = {name: data[column] for name, column in WEIGHED.items()}
    return es.tally(None, **names, lattice=lattice, **options)


def lattice_of(data):
    return tallied(data).lattice


def taken(data, rows):
    return {name: column[rows] for name, column in data.items()}


def verdict_of(tally):
    """What a user reads: verdict and p-value, or the reason why not."""
    try:
        found = es.parity_test(tally, method="bonferroni")
    except es.EvenscoreError as error:
        return type(error).__name__, None
    return found.verdict, found.p_value


def assert_same_verdict(one, other, rel=1e-4):
    first, second = verdict_of(one), verdict_of(other)
    assert first[0] == second[0]
    if first[1] is not None:
        assert first[1] == pytest.approx(second[1], rel=rel, abs=1e-8, nan_ok=True)


def assert_same_sums(tally, wanted):
    """The same people, weights, scores and outcomes by cell; outcomes may be deviations from another centre."""
    for label in wanted.groups:
        assert tally.n_users[label] == wanted.n_users[label] and tally.n_rows[label] == wanted.n_rows[label]
        for weighting in ("user", "row"):
            one, other = tally.sums(label, weighting), wanted.sums(label, weighting)
            pairs = [(getattr(one, vector), getattr(other, vector)) for vector in ("W", "X", "N")]
            pairs.append((one.Y + tally.centre * one.W, other.Y + wanted.centre * other.W))
            for left, right in pairs:
                np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-8 * np.abs(right).max(initial=0) + 1e-12)


@pytest.mark.parametrize("seed", range(FRAMES))
def test_shuffled_rows(seed):
    data, rng = generated(seed)
    with time_limit():
        one, other = tallied(data), tallied(taken(data, rng.permutation(len(data["s"]))))
        assert_alike(other, one, rtol=1e-8)
        assert_same_verdict(one, other)


@pytest.mark.parametrize("seed", range(FRAMES))
def test_relabelled_groups_and_users(seed):
    """Groups in the same order, users under other ids: the same sums, but for the folds."""
    data, rng = generated(seed)
    labels = np.array(["a", "b's", 'c"', "d\\é"])
    names = rng.permutation(10**6)[: data["u"].max() + 1]
    with time_limit():
        one = tallied(data)
        other = tallied(data | {"g": labels[data["g"]], "u": np.char.add("u-", names[data["u"]].astype(str))})
        assert [str(labels[label]) for label in one.groups] == list(other.groups)
        for label in one.groups:
            mine, theirs = one.sums(label), recentre(other, one.centre).sums(str(labels[label]))
            for vector in ("W", "Y", "X", "Y2", "N"):
                left, right = getattr(mine, vector), getattr(theirs, vector)
                np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8 * np.abs(left).max(initial=0))
        assert_same_verdict(one, other)


@pytest.mark.parametrize("seed", range(FRAMES))
def test_other_containers_and_engines(seed, tmp_path):
    data, rng = generated(seed)
    table = pa.table(data)
    names = [name for name in CONTAINERS if name != "dask" or seed % 5 == 0]
    chosen = rng.choice(names, 2 if not THOROUGH else 4, replace=False)
    wanted = es.tally(table, **WEIGHED)
    for container in chosen:
        with time_limit():
            found = es.tally(CONTAINERS[str(container)](table, tmp_path), **WEIGHED)
        assert_alike(found, wanted, rtol=1e-8)


@pytest.mark.parametrize("seed", range(FRAMES))
def test_split_and_merged(seed):
    """Parts of the users on one lattice add up, whoever deals them; also in the other order."""
    data, rng = generated(seed)
    lattice = lattice_of(data)
    part = rng.integers(0, 3, data["u"].max() + 1)[data["u"]]
    whole = tallied(data, lattice)
    parts = []
    for number in range(3):
        rows = np.flatnonzero(part == number)
        if len(rows) and data["v"][rows].max() > 0:
            parts.append(tallied(taken(data, rows), lattice))
    if sum((part == number).any() and data["v"][part == number].max() == 0 for number in range(3)):
        return  # a part that weighs nothing is refused
    forwards, backwards = sum(parts[1:], parts[0]), sum(parts[::-1][1:], parts[-1])
    assert_alike(forwards, backwards, rtol=1e-8)
    assert_same_sums(forwards, whole)


@pytest.mark.parametrize("seed", range(FRAMES))
def test_splits_by_hash_add_up(seed):
    data, _ = generated(seed)
    lattice = lattice_of(data)
    whole = tallied(data, lattice)
    halves = []
    for split in ("1/2", "2/2"):
        try:
            halves.append(tallied(data, lattice, split=split))
        except es.DataError:
            return  # nobody is in it, or nobody who weighs anything
    rows = [sum(half.n_rows.get(label, 0) for half in halves) for label in whole.groups]
    assert all(
        n == whole.n_rows[label] or 0 in (half.n_rows.get(label, 0) for half in halves)
        for n, label in zip(rows, whole.groups, strict=True)
    )


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("seed", range(FRAMES))
def test_weights_in_other_units(seed, scale):
    data, _ = generated(seed)
    one, other = tallied(data), tallied(data | {"v": data["v"] * scale})
    assert one.n_users == other.n_users
    assert_same_verdict(one, other)


@pytest.mark.parametrize("seed", range(FRAMES))
def test_doubled_rows_and_counts(seed):
    """A count of 2 is the row twice."""
    data, rng = generated(seed)
    count = rng.integers(0, 4, len(data["s"]))
    count[0] = 2
    rows = np.repeat(np.arange(len(count)), count)
    names = {name: data[column] for name, column in NAMES.items()}
    repeated = {name: column[rows] for name, column in names.items()}
    lattice = es.tally(None, **names).lattice
    counted, rowed = es.tally(None, **names, count=count, lattice=lattice), es.tally(None, **repeated, lattice=lattice)
    absent = [label for label in counted.groups if label not in rowed.groups]
    assert all(counted.n_rows[label] == 0 for label in absent)  # a group of which nobody is left may be listed
    assert_same_sums(counted, rowed)
