import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import evenscore as es
from evenscore.simulation import Beta, Bump, Curve, Discrete, FixedRows, ParetoRows, PoissonRows
from evenscore.simulation.designs import ALTERNATIVES, DESIGNS

Z = 4.5  # a true statement about 20 bins fails with chance 1e-4
EXACT = 1e-9
TABLED = 2e-6  # quantiles of scores come from a fine table
GRID = np.linspace(0.02, 0.98, 49)
GAP = {"a": Curve(0.3, 0.7), "b": Curve(bump=Bump(-0.2, 0.6, 0.1))}


def deviations(spec, weighting="user", n_bins=20, seed=0):
    """By group and score bin: the weighted mean of outcome minus truth, in user-robust standard errors."""
    data = spec.data(seed)
    found = []
    for label in spec.groups:
        own = data["group"] == label
        score, outcome, user = (data[name][own] for name in ("score", "outcome", "user"))
        n_rows = np.bincount(user)
        weight = 1 / n_rows[user] if weighting == "user" else np.ones(len(user))
        residual = weight * (outcome - spec.truth.curve(score, label, weighting))
        for bin_ in np.array_split(np.argsort(score, kind="stable"), n_bins):
            by_user = np.bincount(user[bin_], residual[bin_])
            found.append(by_user.sum() / np.sqrt((by_user**2).sum()))
    return np.array(found)


SPECS = {
    "calibrated": es.simulate(50_000),
    "gap": es.simulate(50_000, curve=GAP),
    "dependent": es.simulate(50_000, curve=GAP, outcome_correlation=0.6, score_correlation=0.6, rows_per_user=PoissonRows(4)),
    "densities": es.simulate(50_000, curve=GAP, score={"a": Beta(2, 5), "b": (0.5, 0.5)}),
    "discrete": es.simulate(50_000, curve=GAP, score=Discrete((0.1, 0.2, 0.7, 0.9), (0.1, 0.2, 0.3, 0.4)), score_correlation=0.3),
    "informative": es.simulate(50_000, curve=GAP, informative=0.7, rows_per_user=PoissonRows(2), outcome_correlation=0.3),
    "informative whales": es.simulate(50_000, informative={"a": -0.5, "b": 0.0}, rows_per_user=ParetoRows(1.5, 50)),
    "spanning": es.simulate(
        {"x": 60_000, "y": 20_000}, curve={"x": (0.3, 0.7), "y": (0, 1)}, spanning=True, outcome_correlation=0.5
    ),
    "informative spanning": es.simulate(60_000, informative=0.8, rows_per_user=PoissonRows(1), spanning=True),
    "heavy-tailed": es.simulate(50_000, curve=GAP, outcome="heavy-tailed", scale=0.2, outcome_correlation=0.5),
}


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize("name", SPECS)
def test_truth_is_what_large_samples_show(name, weighting):
    assert np.abs(deviations(SPECS[name], weighting)).max() < Z


def test_deviations_would_show_a_wrong_truth():
    """The check above has power: per-row truth is not what users show."""
    spec = SPECS["informative spanning"]
    wrong = replace(spec, informative=(0.0, 0.0))
    data, label = spec.data(0), spec.groups[0]
    own = data["group"] == label
    weight = 1 / np.bincount(data["user"][own])[data["user"][own]]
    residual = weight * (data["outcome"][own] - wrong.truth.curve(data["score"][own], label))
    assert abs(residual.sum() / np.sqrt((residual**2).sum())) > Z


def test_curves_are_as_described():
    truth = es.simulate(curve=GAP).truth
    odds = np.exp(0.3) * (GRID / (1 - GRID)) ** 0.7
    np.testing.assert_allclose(truth.curve(GRID, "a"), odds / (1 + odds), rtol=EXACT)
    np.testing.assert_allclose(truth.curve(GRID, "b"), np.clip(GRID - 0.2 * np.exp(-50 * (GRID - 0.6) ** 2), 0, 1), rtol=EXACT)
    np.testing.assert_allclose(truth.gap(GRID, "a", "b"), truth.curve(GRID, "a") - truth.curve(GRID, "b"), rtol=EXACT)
    assert truth.marginal(0.5) == {"a": pytest.approx(1 / (1 + np.exp(-0.3))), "b": pytest.approx(0.5 - 0.2 * np.exp(-0.5))}
    np.testing.assert_allclose(es.simulate(curve=(-1, 0)).truth.curve([0.0, 0.5, 1.0], "a"), 1 / (1 + np.e))


@pytest.mark.parametrize("density", [(2, 5), (0.5, 0.5), (8, 1)])
def test_true_calibration_error_by_integration(density):
    spec = es.simulate(score=density, curve=GAP)
    for label in spec.groups:
        square, _ = integrate.quad(lambda s, label=label: (spec.truth.curve(s, label) - s) ** 2 * stats.beta.pdf(s, *density), 0, 1)
        assert spec.truth.tce(label) == pytest.approx(np.sqrt(square), rel=1e-5)


def test_true_calibration_errors_known_by_heart():
    assert es.simulate().truth.tce("a") == 0
    assert es.simulate(score=(1, 1), curve=(0, 0)).truth.tce("a") == pytest.approx(np.sqrt(1 / 12), rel=1e-6)
    discrete = es.simulate(score=Discrete((0.1, 0.5), (0.25, 0.75)), curve=(0, 0))
    assert discrete.truth.tce("b") == pytest.approx(np.sqrt(0.25 * 0.4**2))


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
    assert written["curves"][1] == {"kind": "Curve", "intercept": -0.2, "slope": 1.0, "bump": None}
    assert spec == es.simulate({"men": 1500, "women": 500}, curve={"men": (0, 1), "women": (-0.2, 1)}, rows_per_user=PoissonRows(3))


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
