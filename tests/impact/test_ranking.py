"""Delta-RC against brute force on items and against known truth."""

import itertools
import json

import duckdb
import numpy as np
import pytest

import evenscore as es
from evenscore.impact.ranking import _cluster_covariance, _item_covariance
from evenscore.impact.ranks import places_of, starts_of
from evenscore.simulation import PoissonRows, simulate_ranking

EXACT = 1e-9
NAMES = {"query": "query", "score": "score", "group": "group"}
GAP = {"a": (0, 1), "b": (-0.6, 1)}


def fitted(users=3000, seed=5, **options):
    spec = es.simulate(users, curve=options.pop("curve", GAP), **options)
    return es.calibrate(es.tally(spec.data(seed), score="score", outcome="outcome", group="group", user="user", scale="score"))


@pytest.fixture(scope="module")
def calibrator():
    return fitted()


def all_orders(values):
    """Rank, exposure and chance to be first or second of each item, averaged over every order that the values allow."""
    found, count = np.zeros((len(values), 3)), 0
    for order in itertools.permutations(range(len(values))):
        if all(values[a] >= values[b] for a, b in itertools.pairwise(order)):
            count += 1
            for place, item in enumerate(order, start=1):
                found[item] += (place, 1 / np.log2(1 + place), place <= 2)
    return found / count


@pytest.mark.parametrize("values", [[0.5], [0.1, 0.9], [0.3, 0.3, 0.3], [0.2, 0.7, 0.2, 0.9, 0.7], [1, 1, 0, 0, 1, 0]])
def test_ties_are_averages_over_all_orders(values):
    values = np.array(values, dtype=float)
    places = places_of(np.zeros(len(values), dtype=np.int64), values)
    expected = all_orders(values)
    found = np.column_stack([places.rank, places.exposure(), places.among(2)])
    assert found == pytest.approx(expected, abs=EXACT)


def brute_force(data, calibrator, k):
    """Mean changes by group from a loop over queries, ties averaged over all their orders."""
    calibrated = calibrator.transform(data["score"], data["group"])
    changes = np.empty((len(calibrated), 4))
    for query in np.unique(data["query"]):
        rows = np.flatnonzero(data["query"] == query)
        before, after = (
            np.array([mean_place(values[rows], i, k) for i in range(len(rows))]) for values in (data["score"], calibrated)
        )
        change = after - before
        changes[rows] = np.column_stack([-change[:, 0], -change[:, 0] / len(rows), change[:, 1], change[:, 2]])
    return {label: changes[data["group"] == label].mean(axis=0) for label in np.unique(data["group"]).tolist()}


def mean_place(values, item, k):
    better, tied = (values > values[item]).sum(), (values == values[item]).sum()
    places = np.arange(better + 1, better + tied + 1)
    return places.mean(), (1 / np.log2(1 + places)).mean(), (places <= k).mean()


@pytest.mark.parametrize("rounded", [False, True])
def test_changes_are_those_of_items(calibrator, rounded):
    data = simulate_ranking(300, items=PoissonRows(4), curve=GAP).data(2)
    if rounded:
        data["score"] = np.round(data["score"], 1)
    expected = brute_force(data, calibrator, 2)
    shuffled = {name: column[np.random.default_rng(0).permutation(len(data["query"]))] for name, column in data.items()}
    for given in (data, shuffled):
        found = es.rank_impact(given, **NAMES, calibrator=calibrator, top_k=2)
        for label in "ab":
            row = found.of(label)
            changes = [row[name] for name in ("estimate", "relative", "exposure", "top")]
            assert changes == pytest.approx(expected[label], abs=EXACT)
            assert row["rank_before"] - row["rank_after"] == pytest.approx(row["estimate"], abs=EXACT)


def test_slots_hold_the_groups_that_are_in_them(calibrator):
    data = simulate_ranking(400, items=6, curve=GAP).data(4)
    found = es.rank_impact(data, **NAMES, calibrator=calibrator, top_k=3)
    assert {row["slot"] for row in found.slots} == set(range(1, 7))
    best = np.array([rows[np.argmax(data["score"][rows])] for rows in np.arange(2400).reshape(400, 6)])
    first = next(row for row in found.slots if row["group"] == "b" and row["slot"] == 1)
    assert first["share_before"] == pytest.approx((data["group"][best] == "b").mean(), abs=EXACT)
    assert first["share_after"] < first["share_before"]
    assert sum(row["share_after"] for row in found.slots if row["slot"] == 4) == pytest.approx(1)


def coverage(spec, tally_of, runs, user=None):
    """How often limits hold the truth, over groups and measures."""
    truths = {"estimate": spec.truth.rank_change(), "exposure": spec.truth.exposure_change(), "top": spec.truth.top_change(3)}
    ends = {"estimate": ("ci_low", "ci_high"), "exposure": ("exposure_low", "exposure_high"), "top": ("top_low", "top_high")}
    inside = []
    for run in range(runs):
        found = es.rank_impact(spec.data(run), **NAMES, calibrator=tally_of(run), user=user, top_k=3, seed=run)
        for name, truth in truths.items():
            row = found.of("a")
            inside.append(row[ends[name][0]] <= truth["a"] <= row[ends[name][1]])
    return np.mean(inside)


@pytest.mark.slow
def test_limits_know_that_the_calibrator_is_uncertain():
    """A calibrator of 500 users a group and 1500 queries: its error is most of what there is."""
    spec = simulate_ranking(1500, items=8, curve=GAP)
    assert coverage(spec, lambda run: fitted(500, run + 1000), 25) > 0.86


@pytest.mark.slow
def test_limits_know_that_creators_have_many_items():
    """50 creators a group whose scores are alike: respecting queries alone is not enough."""
    spec = simulate_ranking(1500, items=8, users=50, user_correlation=0.7, curve={"a": (0, 1), "b": (-0.6, 1.6)})
    exact = fitted(200_000, curve={"a": (0, 1), "b": (-0.6, 1.6)}, rows_per_user=1)
    by_user = coverage(spec, lambda run: exact, 25, user="user")
    by_query = coverage(spec, lambda run: exact, 25)
    assert by_user > 0.85
    assert by_query < by_user - 0.1


def test_differences_between_groups(calibrator):
    data = simulate_ranking(2000, items=6, groups=("a", "b"), curve=GAP).data(1)
    found = es.rank_impact(data, **NAMES, calibrator=calibrator)
    pair = found.differences()[0]
    a, b = found.of("a"), found.of("b")
    assert pair["estimate"] == pytest.approx(a["estimate"] - b["estimate"])
    # What one group gains the other loses, so the difference is twice as uncertain.
    assert pair["ci_high"] - pair["ci_low"] == pytest.approx(2 * (a["ci_high"] - a["ci_low"]), rel=0.1)


def test_files_streams_and_frames(calibrator, tmp_path):
    spec = simulate_ranking(200, items=PoissonRows(5), curve=GAP)
    data, frame = spec.data(3), spec.data(3, frame="polars")
    expected = es.rank_impact(data, **NAMES, calibrator=calibrator, user="user").rows()
    frame.write_parquet(tmp_path / "items.parquet")
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    pieces = [shuffled[start : start + 100] for start in range(0, len(shuffled), 100)]
    relation = duckdb.from_arrow(frame.to_arrow())
    for given in (frame, frame.lazy(), relation, frame.to_pandas(), frame.to_arrow(), tmp_path / "items.parquet", iter(pieces)):
        found = es.rank_impact(given, **NAMES, calibrator=calibrator, user="user").rows()
        for row, other in zip(found, expected, strict=True):
            assert row["group"] == other["group"]
            for name in ("estimate", "ci_low", "ci_high", "exposure"):
                assert row[name] == pytest.approx(other[name], rel=1e-5, abs=1e-6)
    text = frame.with_columns(query=frame["query"].cast(str) + "q")
    assert es.rank_impact(text, **NAMES, calibrator=calibrator).of("a")["estimate"] == pytest.approx(expected[0]["estimate"])
    arrays = es.rank_impact(None, query=data["query"], score=data["score"], group=data["group"], calibrator=calibrator)
    assert arrays.of("a")["estimate"] == pytest.approx(expected[0]["estimate"])


def test_queries_of_one_item_change_nothing_and_are_counted(calibrator):
    data = {"query": np.arange(50), "score": np.linspace(0.1, 0.9, 50), "group": np.array(["a", "b"] * 25)}
    found = es.rank_impact(data, **NAMES, calibrator=calibrator, top_k=1)
    for row in found.rows():
        assert row["estimate"] == row["ci_low"] == row["ci_high"] == 0
        assert row["top"] == 0
    assert any("50 queries have one item" in note for note in found.notes)


def test_one_long_query_and_many_groups(calibrator):
    rng = np.random.default_rng(0)
    n = 400_000  # more than a block
    data = {"query": np.zeros(n, dtype=int), "score": rng.random(n), "group": np.array(["a", "b"])[rng.integers(0, 2, n)]}
    found = es.rank_impact(data, **NAMES, calibrator=calibrator)
    assert found.of("a")["estimate"] > 10_000
    data = {"query": np.arange(4000) // 8, "score": rng.random(4000), "group": rng.integers(0, 20, 4000)}
    found = es.rank_impact(data, **NAMES, calibrator=calibrator, on_unknown="pooled")
    assert len(found.rows()) == 20
    assert found.differences() == []
    assert all(abs(row["estimate"]) < 1e-9 for row in found.rows())  # one rising map for all changes no order


def test_items_alone_are_clusters_of_one():
    """The shortcut for the two-way formula is what single items would give."""
    rng = np.random.default_rng(0)
    group, residual = rng.integers(0, 3, 500).astype(np.uint8), rng.normal(size=(500, 4)).astype(np.float32)
    counts = np.bincount(group).astype(float)
    one_by_one = _cluster_covariance(np.arange(500), group, residual, counts, spill=True) * 499 / 500
    assert _item_covariance(group, residual, counts) == pytest.approx(one_by_one, rel=1e-4, abs=1e-9)


def test_starts():
    assert starts_of(np.array([4, 4, 7, 9, 9, 9])).tolist() == [0, 0, 2, 3, 3, 3]


def broken(name, place, value):
    data = {"query": np.arange(12) // 3 * 1.0, "score": np.linspace(0.1, 0.9, 12), "group": np.array(["a", "b"] * 6)}
    data[name] = data[name].astype(object) if name == "group" else data[name]
    data[name][place] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (broken("query", 3, np.nan), r"column 'query' \(query\) is null"),
        (broken("score", 3, np.nan), r"column 'score' \(score\) is null"),
        (broken("score", 3, np.inf), r"column 'score' \(score\) is not finite"),
        (broken("group", 3, None), r"column 'group' \(group\) is null"),
        ({"score": [0.1], "group": ["a"]}, "no column 'query' for query"),
        ({"query": [], "score": [], "group": []}, "no rows"),
        ({"query": [1, 2], "score": [0.1], "group": ["a"]}, "same number of rows"),
    ],
)
def test_bad_data(calibrator, data, message):
    with pytest.raises(es.EvenscoreError, match=message):
        es.rank_impact(data, **NAMES, calibrator=calibrator)


def test_nulls_may_be_dropped_and_are_counted(calibrator):
    found = es.rank_impact(broken("query", 3, np.nan), **NAMES, calibrator=calibrator, nulls="drop")
    assert sum(row["items"] for row in found.rows()) == 11
    assert any("1 item left out: query is null" in note for note in found.notes)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"top_k": 0}, "top_k=0"),
        ({"top_k": 2.5}, "top_k=2.5"),
        ({"alpha": 2}, "alpha=2"),
        ({"nulls": "keep"}, "nulls='keep'"),
        ({"on_unknown": "keep"}, "on_unknown='keep'"),
        ({"calibrator": None}, "must be a calibrator"),
    ],
)
def test_bad_options(calibrator, bad, message):
    data = simulate_ranking(5).data(0)
    with pytest.raises(es.OptionError, match=message):
        es.rank_impact(data, **NAMES | {"calibrator": calibrator} | bad)


def test_groups_that_the_calibrator_does_not_know(calibrator):
    data = simulate_ranking(50, groups=("a", "c")).data(0)
    with pytest.raises(es.OptionError, match="no group 'c'"):
        es.rank_impact(data, **NAMES, calibrator=calibrator)
    assert es.rank_impact(data, **NAMES, calibrator=calibrator, on_unknown="pooled").groups == ("a", "c")


def test_the_result_shows_itself(calibrator):
    found = es.rank_impact(simulate_ranking(50, curve=GAP).data(0, frame="pandas"), **NAMES, calibrator=calibrator, top_k=3)
    assert "positions moved up" in " ".join(repr(found).split())
    assert type(found.frame()).__module__.startswith("pandas")
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["kind"] == "rank"
