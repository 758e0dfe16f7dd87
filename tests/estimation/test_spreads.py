"""How estimates of one side spread: on rows, user by user, and by enumeration."""

import numpy as np
import pytest
from oracle import row_weights
from scipy import stats

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.estimation.comparison import compare_groups
from evenscore.estimation.gaps import estimate_gaps
from evenscore.estimation.nulls import Null
from evenscore.estimation.one_side import side_law, user_correlation
from evenscore.estimation.scatters import BORROWED_DF, Scatter
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import BORROWED_EVENTS, Around, Dependence, RateLaw, effective_users, rate_law
from evenscore.tallies.view import GroupView
from support.looks import of_one

H = 0.15
POINTS = np.array([0.3, 0.5, 0.65])


@pytest.fixture(scope="module", params=["repeated", "spanning", "weights"])
def case(request):
    """0/1 outcomes on a hundred scores, so that cells are exact."""
    options = {"spanning": request.param == "spanning", "weights": request.param == "weights"}
    rows = repeated_users(4000, seed=12, **options)
    rows.score = np.round(rows.score, 2)
    tally = es.tally(as_dict(rows), **NAMES, weight="v" if options["weights"] else None, scale="score")
    assert tally.lattice.discrete
    return rows, tally


def spread_of_rows(rows, fit, weights):
    """base, between, potential, cubes and users of one estimate, in a loop over users."""
    base = between = potential = effective = 0.0
    third = (weights**3 * fit * (1 - fit) * (1 - 2 * fit)).sum()
    deviation, residual = np.sqrt(fit * (1 - fit)), rows.outcome - fit
    for user in np.unique(rows.user):
        mine = rows.user == user
        own = weights[mine]
        base += (own**2 * deviation[mine] ** 2).sum()
        between += (own * residual[mine]).sum() ** 2 - ((own * residual[mine]) ** 2).sum()
        potential += (own * deviation[mine]).sum() ** 2 - (own**2 * deviation[mine] ** 2).sum()
        effective += own.sum() ** 2
    n = 1 / effective
    return base, between * (n / (n - 1)) ** 2, potential, third, n


def kernel_weights(rows, x, weighting):
    """l_i of a local linear fit, and what multiplies the outcome sum of its cell."""
    w = row_weights(rows, weighting)
    u = (rows.score - x) / H
    k = np.exp(-(u**2) / 2)
    design = np.stack([np.ones_like(u), u], axis=1)
    return np.linalg.solve((design * (k * w)[:, None]).T @ design, design.T * (k * w))[0]


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_the_law_of_a_gap_of_rates_on_rows(case, weighting):
    rows, tally = case
    comparison = compare_groups(tally, 0, 1, weighting)
    null = Null.of(comparison, Smoothing(bandwidth=H))
    fit = dict(zip(np.round(comparison.position, 2).tolist(), np.clip(null.fit, 0, 1), strict=True))
    process = of_one(estimate_gaps, comparison, POINTS, Smoothing(bandwidth=H), null)
    for j, x in enumerate(POINTS):
        sides = []
        for group in (0, 1):
            mine = rows.only(group)
            at_rows = np.array([fit[score] for score in mine.score.tolist()])
            sides.append(spread_of_rows(mine, at_rows, kernel_weights(mine, x, weighting)))
        common = sum(n**2 * between for _, between, _, _, n in sides) / sum(n**2 * potential for _, _, potential, _, n in sides)
        common = np.clip(common, 0, 1)
        variance = third = 0.0
        for (base, between, potential, cubes, n), sign, group in zip(sides, (1, -1), (0, 1), strict=True):
            weights = kernel_weights(rows.only(group), x, weighting)
            events = 4 * n * base / (weights**2).sum()
            own = events / (events + BORROWED_EVENTS)
            within = max(own * between + (1 - own) * common * potential, 0)
            effect, rho = 1 + within / base, within / potential
            variance += base + within
            third += sign * cubes * effect * (1 + 2 * (effect - 1) / (1 + rho))
        shared = 0.0 if comparison.cross is None else process.law.variance[j] - variance  # tested by its own
        assert process.law.variance[j] == pytest.approx(variance + shared, rel=1e-9)
        assert process.law.third[j] == pytest.approx(third, rel=1e-9)
        assert (comparison.cross is None) == (abs(process.law.variance[j] / variance - 1) < 1e-9)


def test_independent_rows_have_the_variance_of_the_rate_alone():
    """One row a user: nothing is estimated but the rate, and there are no degrees of freedom to lose."""
    rng = np.random.default_rng(0)
    data = {"s": rng.choice([0.2, 0.8], 500), "y": rng.random(500) < 0.1, "g": np.arange(500) % 2, "u": np.arange(500)}
    comparison = compare_groups(es.tally(data, **NAMES), 0, 1, "user")
    process = of_one(
        estimate_gaps, comparison, np.array([0.2]), Smoothing(bandwidth=1.0), Null.of(comparison, Smoothing(bandwidth=1.0))
    )
    at = data["s"] == 0.2
    counts = np.bincount(data["g"][at])
    rate = data["y"][at].mean()
    assert process.law.variance[0] == pytest.approx(rate * (1 - rate) * (1 / counts).sum(), rel=1e-12)
    wanted = rate * (1 - rate) * (1 - 2 * rate) * (1 / counts[0] ** 2 - 1 / counts[1] ** 2)
    assert process.law.third[0] == pytest.approx(wanted, rel=1e-9, abs=1e-15)
    assert process.law.pull[0] == 0 and np.isinf(process.law.df[0])


def test_users_whose_rows_are_copies_count_once():
    """Thirty copies of every row: the variance is that of one row a user."""
    rng = np.random.default_rng(1)
    n = 2000
    score, outcome = rng.choice([0.2, 0.8], n), (rng.random(n) < 0.3).astype(float)
    data = {"s": score, "y": outcome, "g": np.arange(n) % 2, "u": np.arange(n)}
    many = {name: np.repeat(values, 30) for name, values in data.items()}
    laws = []
    for one in (data, many):
        comparison = compare_groups(es.tally(one, **NAMES), 0, 1, "user")
        null = Null.of(comparison, Smoothing(bandwidth=1.0))
        laws.append(of_one(estimate_gaps, comparison, np.array([0.2]), Smoothing(bandwidth=1.0), null).law)
    assert laws[1].variance[0] == pytest.approx(laws[0].variance[0], rel=0.03)
    assert laws[1].third[0] == pytest.approx(laws[0].third[0], rel=0.1, abs=1e-7)


def test_the_third_cumulant_of_beta_binomial_users():
    """Simulated: users with ten rows, a tenth of them events, correlation .3."""
    rng = np.random.default_rng(2)
    users, rows, rate, rho = 40, 10, 0.1, 0.3
    size = 1 / rho - 1
    chance = rng.beta(rate * size, (1 - rate) * size, (50_000, users))
    means = rng.binomial(rows, chance).mean(axis=1) / rows
    effect = 1 + (rows - 1) * rho
    base = rate * (1 - rate) / (users * rows)
    assert means.var() == pytest.approx(base * effect, rel=0.02)
    cumulant = base * (1 - 2 * rate) / (users * rows) * effect * (1 + 2 * (effect - 1) / (1 + rho))
    assert ((means - rate) ** 3).mean() == pytest.approx(cumulant, rel=0.1)


# Limits of a rate


def rate_law_of(n, size=1):
    flat = np.zeros(size)
    one = np.full(size, 1 / n)
    return RateLaw(None, flat, one, one**2, flat, flat)


@pytest.mark.parametrize("n", [30, 100, 400])
@pytest.mark.parametrize("rate", [0.01, 0.03, 0.1, 0.3, 0.5])
def test_limits_of_a_rate_cover_by_enumeration(n, rate):
    counts = np.arange(n + 1)
    low, high = rate_law_of(n, n + 1).limits(counts / n, 1.96)
    coverage = float(stats.binom(n, rate).pmf(counts) @ ((low <= rate) & (rate <= high)))
    assert coverage > 0.93
    if n * rate >= 10:
        assert coverage < 0.98


def test_no_event_at_all_still_allows_some():
    """0 of 30: the exact one-sided 97.5 % limit is .116; and 30 of 30 is its mirror image."""
    low, high = rate_law_of(30).limits(np.zeros(1), 1.96)
    assert low[0] == 0 and 0.08 < high[0] < 0.15
    mirrored = rate_law_of(30).limits(np.ones(1), 1.96)
    assert mirrored[0][0] == pytest.approx(1 - high[0], abs=1e-9) and mirrored[1][0] == 1


def test_limits_of_many_events_are_the_usual_ones():
    low, high = rate_law_of(100_000).limits(np.array([0.3]), 1.96)
    assert (high[0] - low[0]) / 2 == pytest.approx(1.96 * np.sqrt(0.21 / 100_000), rel=1e-3)


def test_a_side_without_events_takes_the_correlation_of_all():
    """Users with five rows each and no event: limits of users when all rows of a user are alike, of rows when none are."""
    data = {"s": np.full(300, 0.5), "y": np.zeros(300), "g": np.zeros(300, dtype=int), "u": np.repeat(np.arange(60), 5)}
    view = GroupView.of(es.tally(data, **NAMES), 0, "user")
    matrix = np.full((1, 1), 1 / 60)
    alike, apart = (side_law(view, matrix, np.zeros(1), rho).limits(np.zeros(1), 1.96)[1][0] for rho in (1.0, 0.0))
    assert alike == pytest.approx(rate_law_of(60).limits(np.zeros(1), 1.96)[1][0], rel=0.25)
    assert apart == pytest.approx(rate_law_of(300).limits(np.zeros(1), 1.96)[1][0], rel=1e-6)
    assert user_correlation([view], [np.zeros(1)]) == 1.0


# Other outcomes


def test_few_users_who_agree_borrow_from_both_and_more_the_heavier_the_tails():
    rng = np.random.default_rng(3)
    outcome = np.r_[rng.exponential(size=1000), np.full(15, 1.0)]
    data = {"s": np.full(1015, 0.1), "y": outcome, "g": np.r_[np.zeros(1000), np.ones(15)], "u": np.arange(1015)}
    comparison = compare_groups(es.tally(data, **NAMES), 0.0, 1.0, "user")
    null = Null.of(comparison, Smoothing(bandwidth=0.1))
    law = of_one(estimate_gaps, comparison, np.array([0.1]), Smoothing(bandwidth=0.1), null).law
    mean = outcome.mean()
    sizes, users = np.array([1000, 15]), []
    kurtosis = skewness = 0.0
    for n, own in zip(sizes, (outcome[:1000], outcome[1000:]), strict=True):
        residual = own - mean
        users.append((residual**2).mean() * (n / (n - 1)) ** 2)
        square = (residual**2).mean()
        kurtosis += n * (residual**4).mean() / square**2 / 1015
        skewness += n * (residual**3).mean() / square**1.5 / 1015
    users = np.array(users)
    df = 2 / np.maximum(2 / (sizes - 1), (kurtosis - 1) / sizes)
    share = df / (df + BORROWED_DF)
    common = (df * users).sum() / df.sum()
    variance = np.maximum(share * users + (1 - share) * common, users) / sizes
    assert law.variance[0] == pytest.approx(variance.sum(), rel=1e-9)
    spread = np.array([(outcome[:1000] - mean).var() + (outcome[:1000].mean() - mean) ** 2, (1 - mean) ** 2])
    third = skewness * (spread * variance * sizes / users) ** 1.5 / sizes**2
    assert law.third[0] == pytest.approx(third[0] - third[1], rel=1e-9)


def test_tails_of_a_side_are_those_of_all_its_rows():
    """tail, spread and doubt against the rows themselves, around one level, with rows of unequal weight."""
    rng, level = np.random.default_rng(5), 0.7
    score, outcome, weight = rng.random(400), rng.lognormal(0, 1.5, 400), rng.uniform(0.5, 2, 400)
    data = {"u": np.arange(400), "g": np.repeat(["a", "b"], 200), "s": score, "y": outcome, "w": weight}
    tally = es.tally(data, user="u", group="g", score="s", outcome="y", weight="w")
    view = compare_groups(tally, "a", "b", "row").a  # outcomes are deviations from the centre
    scatter = Scatter.of(
        Around.of(view, np.full(len(view.sums.W), level - tally.centre)), np.ones((1, len(view.sums.W))), np.array([200.0])
    )
    w, deviation = weight[:200] / weight[:200].mean(), outcome[:200] - level
    variance = np.average(deviation**2, weights=w**2)
    np.testing.assert_allclose(scatter.spread, variance, rtol=1e-9)
    np.testing.assert_allclose(scatter.tail, np.average(deviation**3, weights=w**3) / variance**1.5, rtol=1e-9)
    kurtosis = np.average(deviation**4, weights=w**4) / variance**2
    np.testing.assert_allclose(scatter.doubt, (kurtosis - 1) * (w**4).sum() / (w**2).sum() ** 2 * scatter.effect, rtol=1e-9)


def shared_luck(users, rows, rate, correlation, rng):
    """0/1 outcomes whose users' rows at one rate have this correlation: a row has the user's number or one of its own."""
    rates = np.broadcast_to(rate, (users, rows))
    shared = rng.random((users, rows)) < np.sqrt(correlation)
    outcome = np.where(shared, rng.random((users, 1)), rng.random((users, rows))) < rates
    return {"u": np.repeat(np.arange(users), rows), "y": outcome.ravel().astype(float), "g": np.zeros(users * rows)}


def test_rows_of_a_user_are_as_alike_as_they_are_at_one_score():
    rng = np.random.default_rng(1)
    score = rng.random((16_000, 5)).round(2)
    curve = 0.004 * np.exp(4 * np.linspace(0, 1, 101))  # from .4 to 22 %
    data = shared_luck(16_000, 5, 0.004 * np.exp(4 * score), 0.4, rng) | {"s": score.ravel()}
    tally = es.tally(data, **NAMES, scale="score")
    (view,) = GroupView.each(tally, "user")
    fit = curve[np.round(view.score * 100).astype(int)]
    # Whoever takes rows at all rates to be equally correlated finds .24.
    assert user_correlation([view], [fit]) == pytest.approx(0.4, abs=0.06)


def test_the_variance_follows_an_estimate_around_its_own_fit():
    rate, estimates, variances, pulls = 0.1, [], [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        data = shared_luck(150, 8, rate, 0.5, rng) | {"s": np.full(1200, 0.5)}
        (view,) = GroupView.each(es.tally(data, **NAMES, scale="score", cells=8), "user")
        matrix = np.full((1, len(view.sums.W)), 1 / view.sums.W.sum())
        mean = float((matrix @ view.sums.Y)[0])
        depend = Dependence.of(Around.of(view, np.full(len(view.sums.W), mean)), matrix, effective_users(view, matrix))
        law, _ = rate_law(depend, np.zeros(1), 0.0, own_fit=True)
        estimates.append(mean)
        variances.append(rate * (1 - rate) * law.squares[0])
        pulls.append(law.with_rate(np.array([rate])).pull[0])
    together = np.cov(estimates, variances)[0, 1]
    # Without the fit of its own it would be 3.6 times as much.
    assert np.mean(pulls) == pytest.approx(together, rel=0.4)
