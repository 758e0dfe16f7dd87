import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import evenscore as es
from evenscore.simulation import Beta, Bump, BusyBeta, BusyCurve, Curve, Discrete, FixedRows, ParetoRows, PoissonRows, PowerUsers
from evenscore.simulation.designs import ALTERNATIVES, DESIGNS

Z = 4.5  # a true statement about 20 bins fails with chance 1e-4
EXACT = 1e-9
TABLED = 2e-6  # quantiles of scores come from a fine table
GRID = np.linspace(0.02, 0.98, 49)
GAP = {"a": Curve(0.3, 0.7), "b": Curve(bump=Bump(-0.2, 0.6, 0.1))}


@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("density", [(2, 5), (0.5, 0.5), (30, 2)])
def test_scores_have_the_density(density, correlation):
    data = es.simulate(40_000, groups=["a"], score=density, score_correlation=correlation, rows_per_user=2).data(1)
    for row in (0, 1):
        assert stats.kstest(data["score"][row::2], stats.beta(*density).cdf).pvalue > 1e-4
    latent = stats.norm.ppf(stats.beta(*density).cdf(data["score"]))
    error = (1 - correlation**2) / np.sqrt(40_000)
    assert abs(np.corrcoef(latent[::2], latent[1::2])[0, 1] - correlation) < Z * error


def test_quantile_tables_are_fine_enough():
    latent = np.random.default_rng(0).normal(size=2000)
    for a, b in ((2, 5), (0.5, 0.5), (30, 2)):
        np.testing.assert_allclose(Beta(a, b).scores(latent), stats.beta.ppf(stats.norm.cdf(latent), a, b), atol=TABLED)


def test_discrete_scores_are_exact_and_as_frequent_as_asked():
    values, chances = (0.0, 0.1, 0.3, 1.0), (0.1, 0.2, 0.3, 0.4)
    data = es.simulate(50_000, score=Discrete(values, chances), rows_per_user=1).data()
    found, counts = np.unique(data["score"], return_counts=True)
    assert tuple(found) == values
    assert stats.chisquare(counts, np.array(chances) * counts.sum()).pvalue > 1e-4
    assert Discrete.spaced(4).values == (0.125, 0.375, 0.625, 0.875)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_binary_outcomes_have_the_latent_correlation(correlation):
    """At a rate of one half two outcomes of a user are both 1 with chance 1/4 + arcsin(correlation) / (2 pi)."""
    outcome = es.simulate(100_000, score=Discrete((0.5,)), rows_per_user=2, outcome_correlation=correlation).data()["outcome"]
    chance = 0.25 + np.arcsin(correlation) / (2 * np.pi)
    both = (outcome[::2] * outcome[1::2]).mean()
    assert abs(both - chance) < Z * np.sqrt(chance * (1 - chance) / 200_000)
    assert set(np.unique(outcome)) == {0, 1}


def test_real_outcomes_have_heavy_tails_and_user_effects():
    def residuals(correlation):
        data = es.simulate(20_000, outcome="heavy-tailed", scale=2, outcome_correlation=correlation, rows_per_user=2).data()
        return data["outcome"] - data["score"]

    alone = residuals(0.0)
    assert stats.kstest(alone / 2, stats.t(3).cdf).pvalue > 1e-4
    assert abs(stats.spearmanr(alone[::2], alone[1::2]).statistic) < Z / np.sqrt(40_000)
    alike = residuals(0.5)
    assert 0.4 < stats.spearmanr(alike[::2], alike[1::2]).statistic < 0.6
    assert stats.kurtosis(alike) > 5


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (FixedRows(3), {3: 1.0}),
        (PoissonRows(2.0), {n + 1: stats.poisson.pmf(n, 2) for n in range(6)}),
        (ParetoRows(1.2, 100), {1: 1 - 2**-1.2, 2: 2**-1.2 - 3**-1.2, 100: 100**-1.2}),
    ],
)
def test_rows_per_user(rows, expected):
    n_rows = np.bincount(es.simulate(100_000, rows_per_user=rows).data()["user"])
    assert len(n_rows) == 200_000 and n_rows.min() >= 1
    for n, chance in expected.items():
        assert abs((n_rows == n).mean() - chance) <= Z * np.sqrt(chance * (1 - chance) / 200_000)
    if isinstance(rows, ParetoRows):
        assert n_rows.max() == 100


def test_informative_rows_keep_parity_per_user_only():
    spec = es.simulate(3000, informative=0.6, rows_per_user=PoissonRows(3))
    np.testing.assert_allclose(spec.truth.gap(GRID, "a", "b"), 0, atol=EXACT)
    assert spec.truth.gap(0.5, "a", "b", weighting="row") > 0.15
    tally = es.tally(spec.data(1), score="score", outcome="outcome", group="group", user="user")
    assert es.parity_test(tally, weighting="user").p_value > 0.05
    assert es.parity_test(tally, weighting="row").p_value < 1e-4


def test_power_users_are_added_and_change_nothing_else():
    power = PowerUsers("a", users=4, rows=500, lift=0.7)
    spec = es.simulate(300, power_users=power, curve=(-0.1, 1), rows_per_user=2)
    data, without = spec.data(3), replace(spec, power_users=()).data(3)
    for name, column in without.items():
        assert np.array_equal(data[name][: len(column)], column)
    added = {name: column[len(without["user"]) :] for name, column in data.items()}
    assert np.array_equal(added["user"], np.repeat(600 + np.arange(4), 500)) and set(added["group"]) == {"a"}
    scores = stats.beta.ppf([0.125, 0.375, 0.625, 0.875], 2, 2)
    np.testing.assert_allclose(added["score"][::500], scores, atol=TABLED)
    mean = np.minimum(1 / (1 + np.exp(0.1) * (1 - scores) / scores) + 0.7 * scores, 1)
    found = added["outcome"].reshape(4, 500).mean(axis=1)
    assert (np.abs(found - mean) <= Z * np.sqrt(mean * (1 - mean) / 500) + 1e-12).all()
    assert spec.truth.curve(0.5, "a") == replace(spec, power_users=()).truth.curve(0.5, "a")
    assert "4 power users with 500 rows" in repr(spec) and "power users are no part" in repr(spec.truth)


@pytest.mark.parametrize("positive", ["above", "below"])
def test_labels_are_withheld_by_a_threshold(positive):
    spec = es.simulate(300, threshold=0.4, positive=positive)
    data, whole = spec.data(2), replace(spec, threshold=None).data(2)
    known = data["score"] >= 0.4 if positive == "above" else data["score"] < 0.4
    assert np.array_equal(np.isnan(data["outcome"]), ~known) and np.array_equal(data["score"], whole["score"])
    assert np.array_equal(data["outcome"][known], whole["outcome"][known])
    assert spec.data(2, frame="polars")["outcome"].null_count() == (~known).sum()
    assert spec.data(2, frame="pyarrow")["outcome"].null_count == (~known).sum()
    tally = es.tally(spec.data(2, frame="pandas"), score="score", outcome="outcome", group="group", user="user", nulls="unlabelled")
    assert sum(tally.n_rows.values()) == known.sum()
    assert spec.truth.marginal(0.4) == {"a": 0.4, "b": 0.4}


def test_rows_per_user_by_group():
    spec = es.simulate(500, rows_per_user={"a": 3, "b": PoissonRows(2)})
    n_rows = np.bincount(spec.data()["user"])
    assert set(n_rows[:500]) == {3} and len(set(n_rows[500:])) > 3
    assert spec.name == "binary outcomes, 3 rows or 1 + Poisson(2) rows a user"


def test_spanning_users_are_in_several_groups():
    data = es.simulate({"x": 300, "y": 100}, spanning=True, rows_per_user=10).data()
    assert len(np.unique(data["user"])) == 400
    share = np.bincount(data["user"], data["group"] == "x") / 10
    assert 0.7 < share.mean() < 0.8
    assert ((share > 0) & (share < 1)).mean() > 0.8


def test_the_same_seed_gives_the_same_data():
    spec = es.simulate(100, outcome_correlation=0.5, rows_per_user=PoissonRows(3))
    first, again, other = spec.data((3, 1)), spec.data([3, 1]), spec.data((3, 2))
    assert list(first) == ["score", "outcome", "group", "user"]
    for name, column in first.items():
        assert np.array_equal(column, again[name])
    assert len(first["score"]) != len(other["score"]) or not np.array_equal(first["score"], other["score"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_hold_the_same_rows(kind):
    library = pytest.importorskip(kind)
    spec = es.simulate(20)
    frame, columns = spec.data(4, frame=kind), spec.data(4)
    assert isinstance(frame, library.Table if kind == "pyarrow" else library.DataFrame)
    for name, column in columns.items():
        assert list(frame[name].to_numpy()) == list(column)


def test_group_labels_keep_their_type():
    assert es.simulate(groups=[1, 2]).data()["group"].dtype.kind == "i"
    mixed = es.simulate({"a": 2, 3: 4}).data()["group"]
    assert {type(label) for label in mixed} == {str, int}
    assert es.simulate({"a": 2, 3: 4}).truth.gap(0.5, "a", 3) == 0


def test_a_specification_names_itself():
    spec = es.simulate({"men": 1500, "women": 500}, curve={"men": (0, 1), "women": (-0.2, 1)}, rows_per_user=PoissonRows(3))
    assert spec.name == "binary outcomes, 1 + Poisson(3) rows a user"
    for words in ("men: 1,500 users", "women: 500 users", "Beta(2, 2)", "expit(-0.2 + 1 logit s)", "correlation"):
        assert words in repr(spec)
    assert es.simulate(name="mine").name == "mine"
    written = json.loads(json.dumps(spec.to_dict()))
    assert written["curves"][1] == {
        "kind": "Curve",
        "intercept": -0.2,
        "slope": 1.0,
        "bump": None,
        "link": "logit",
        "transform": None,
    }
    assert spec == es.simulate({"men": 1500, "women": 500}, curve={"men": (0, 1), "women": (-0.2, 1)}, rows_per_user=PoissonRows(3))


EVERYTHING = es.simulate(
    {"x": 30, 2: 20},
    score={"x": BusyBeta(4), 2: Discrete((0.1, 0.5))},
    curve={"x": BusyCurve(), 2: Curve(0.1, 0.5, Bump(0.1), "identity", "log")},
    rows_per_user={"x": PoissonRows(3), 2: ParetoRows()},
    power_users=[PowerUsers("x"), PowerUsers(2, 3, 4, -0.1)],
    threshold=0.3,
    positive="below",
)


@pytest.mark.parametrize(
    "spec", [EVERYTHING, es.simulate(), *(design(50) for design in DESIGNS.values())], ids=lambda spec: spec.name
)
def test_a_specification_survives_being_written(spec):
    again = es.Simulation.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec and hash(again) == hash(spec)
    assert all(np.array_equal(column, again.data(1)[name], equal_nan=name == "outcome") for name, column in spec.data(1).items())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"users": None, "user": [1]}, "no users, unknown user"),
        ({"scores": [{"kind": "Gamma"}, {"kind": "Gamma"}]}, "kind='Gamma' is not known; choose one of 'Beta'"),
        ({"scores": [{"a": 1, "b": 2}] * 2}, "kind=None is not known"),
        ({"scores": [{"kind": "Beta", "c": 2}] * 2}, "a written Beta cannot be read"),
    ],
)
def test_other_writings_are_refused(change, words):
    written = {
        name: value for name, value in (es.simulate().to_dict() | change).items() if value is not None or name == "threshold"
    }
    with pytest.raises(es.OptionError, match=words):
        es.Simulation.from_dict(written)


@pytest.mark.parametrize(
    ("curve", "formula"),
    [
        (Curve(0.1, 0.5, link="identity"), lambda s: 0.1 + 0.5 * s),
        (Curve(0.3, 0.9, link="identity"), lambda s: np.minimum(0.3 + 0.9 * s, 1)),
        (Curve(-0.4, 2, link="log"), lambda s: np.exp(-0.4) * s**2),
        (Curve(0.2, 0.5, link="log"), lambda s: np.minimum(np.exp(0.2) * np.sqrt(s), 1)),
        (Curve(-0.1, 1.5, link="flip"), lambda s: 1 - np.exp(-0.1) * (1 - s) ** 1.5),
        (Curve(0.2, 0.5, link="flip"), lambda s: np.maximum(1 - np.exp(0.2) * np.sqrt(1 - s), 0)),
        (Curve(-0.5, -1, link="logit", transform="flip"), lambda s: 1 / (1 + np.exp(0.5) * (1 - s))),
        (Curve(0.2, 0.3, link="identity", transform="logit"), lambda s: np.clip(0.2 + 0.3 * np.log(s / (1 - s)), 0, 1)),
        (BusyCurve(-1, 0.6, 8).of(2), lambda s: 1 / (1 + np.exp(0.75 - 0.7 * np.log(s / (1 - s))))),
        (BusyCurve(-1, 0.6, 8).of(30), lambda s: s),
    ],
    ids=lambda value: "formula" if hasattr(value, "__code__") else str(value),
)
def test_links(curve, formula):
    np.testing.assert_allclose(curve.at(GRID), formula(GRID), rtol=EXACT, atol=EXACT)
    ends = curve.at([0.0, 1.0])
    assert np.isfinite(ends).all() and ends.min() >= 0 and ends.max() <= 1
    assert np.array_equal(Curve(link=curve.link).at(GRID), GRID)


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_have_no_gap(name):
    spec = DESIGNS[name](200)
    np.testing.assert_allclose(spec.truth.gap(GRID, "a", "b"), 0, atol=EXACT)
    assert es.tally(spec.data(), score="score", outcome="outcome", group="group", user="user").groups == ("a", "b")


def test_designs_are_what_their_names_say():
    assert len({design(200).name for design in DESIGNS.values()}) == len(DESIGNS)
    assert DESIGNS["unequal-groups"](200).users == (200, 40)
    assert np.bincount(DESIGNS["heavy-users"](5000).data()["user"]).max() > 1000
    rare = DESIGNS["rare-outcomes"](200)
    assert np.all((rare.truth.curve([0.06, 0.94], "a") > 0.009) & (rare.truth.curve([0.06, 0.94], "a") < 0.065))
    assert len(np.unique(DESIGNS["discrete-10"](200).data()["score"])) == 10
    assert len(np.unique(DESIGNS["discrete-100"](1000).data()["score"])) == 100
    users = es.tally(DESIGNS["spanning-users"](200).data(), score="score", outcome="outcome", group="group", user="user").n_users
    assert 180 < users["a"] <= 200 and 180 < users["b"] <= 200


def test_alternatives_have_the_gap_they_are_named_after():
    logit = np.log(GRID / (1 - GRID))
    shift, slope, bump = (ALTERNATIVES[name](1000).truth for name in ("shift", "slope", "bump"))
    np.testing.assert_allclose(shift.curve(GRID, "b"), 1 / (1 + np.exp(0.15 - logit)), rtol=EXACT)
    np.testing.assert_allclose(slope.curve(GRID, "b"), 1 / (1 + np.exp(-1.25 * logit)), rtol=EXACT)
    assert bump.gap(0.7, "b", "a") == pytest.approx(0.08) and abs(bump.gap(0.4, "b", "a")) < 1e-6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"users": 0}, "users of group 'a'=0 must be a whole number, at least 1"),
        ({"users": -5}, "at least 1"),
        ({"users": 2.5}, "whole number"),
        ({"users": {}}, "at least one label"),
        ({"users": {"a": 5}, "groups": ["a", "b"]}, "users is given for 'a'; the groups are 'a', 'b'"),
        ({"groups": ["a", "a"]}, "each named once"),
        ({"groups": [("a", 1), "b"]}, "must be text or a number"),
        ({"score": (0, 1)}, r"Beta parameter a=0 must be a number above 0"),
        ({"score": (1, float("nan"))}, "Beta parameter b"),
        ({"score": "beta"}, "give .a, b. for a Beta density"),
        ({"score": {"a": (1, 1)}}, "score is given for 'a'"),
        ({"curve": 3}, "give .intercept, slope."),
        ({"curve": (float("inf"), 1)}, "intercept of a curve=inf must be a number"),
        ({"rows_per_user": 0}, "rows per user=0"),
        ({"rows_per_user": 2.5}, "rows per user=2.5"),
        ({"outcome": "real"}, "'binary', 'heavy-tailed'"),
        ({"scale": -1}, "scale=-1"),
        ({"outcome_correlation": 1}, r"outcome_correlation=1 must be a number in \[0, 1\)"),
        ({"outcome_correlation": -0.1}, "outcome_correlation"),
        ({"score_correlation": 1.5}, "score_correlation"),
        ({"informative": 2, "rows_per_user": PoissonRows(3)}, r"informative=2 must be a number in \[-1, 1\]"),
        ({"informative": 0.5}, "different numbers of rows"),
        ({"informative": 0.5, "rows_per_user": PoissonRows(3), "score": BusyBeta()}, "leave out informative"),
        ({"spanning": True, "rows_per_user": {"a": 1, "b": 2}}, "one rows_per_user"),
        ({"rows_per_user": {"a": 1}}, "rows_per_user is given for 'a'"),
        ({"threshold": 1.5}, r"threshold=1.5 must be a number in \[0, 1\]"),
        ({"threshold": 0.5, "positive": "up"}, "positive='up'"),
        ({"threshold": 0.5, "score_correlation": 0.5, "score": BusyBeta()}, "leave out score_correlation"),
        ({"threshold": 0.0, "positive": "below"}, "leaves group 'a' no known outcome: no score is below 0"),
        ({"threshold": 0.9, "score": Discrete((0.1, 0.5))}, "no score is 0.9 or more"),
        ({"power_users": PowerUsers("c")}, "no group 'c'"),
    ],
)
def test_impossible_parameters(options, words):
    with pytest.raises(es.OptionError, match=words):
        es.simulate(**options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Discrete(()), "at least one value"),
        (lambda: Discrete((0.5, 0.2)), "rising order"),
        (lambda: Discrete((0.5, 1.2)), r"discrete score=1.2"),
        (lambda: Discrete((0.2, 0.5), (0.5, 0.2)), "add up to 1"),
        (lambda: PoissonRows(0), "above 0|in .0, 100000"),
        (lambda: ParetoRows(0, 10), "Pareto shape"),
        (lambda: ParetoRows(1, 0), "cap of the rows"),
        (lambda: Bump(2), "height"),
        (lambda: Curve(link="probit"), "link='probit' is not known; choose one of 'logit', 'identity', 'log', 'flip'"),
        (lambda: Curve(transform="square"), "transform='square'"),
        (lambda: BusyCurve(limit=0), "limit of a BusyCurve=0"),
        (lambda: BusyCurve(slope=float("nan")), "slope of a curve"),
        (lambda: BusyBeta(1000), "from 1 to 200"),
        (lambda: PowerUsers("a", users=0), "power users=0"),
        (lambda: PowerUsers("a", rows=0), "rows of a power user=0"),
        (lambda: PowerUsers("a", lift=2), "lift of power users=2"),
        (lambda: es.simulate().truth.positive_rate(0.5, "people"), "weighting='people'"),
        (lambda: Bump(0.1, 0.5, 0), "width"),
        (lambda: es.simulate().data(-1), "seed=-1"),
        (lambda: es.simulate().data(1.5), "seed"),
        (lambda: es.simulate().data(frame="spark"), "'pandas', 'polars', 'pyarrow'"),
        (lambda: es.simulate().truth.curve(0.5, "c"), "no group 'c'; the simulation has: 'a', 'b'"),
        (lambda: es.simulate().truth.curve(1.5, "a"), "lie in"),
        (lambda: es.simulate().truth.curve(0.5, "a", weighting="people"), "weighting='people'"),
        (lambda: replace(es.simulate(), users=(1,)), "users has 1 entries for 2 groups"),
    ],
)
def test_impossible_parts(call, words):
    with pytest.raises(es.OptionError, match=words):
        call()
