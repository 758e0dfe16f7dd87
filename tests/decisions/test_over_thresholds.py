"""Impact ratios, scoring rates, curves over thresholds and areas, each against rows or by simulation."""

import itertools

import numpy as np
import pytest

import evenscore as es

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}


def make(seed=0, n_users=120, rows=5, groups=2, spanning=False):
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(n_users * groups), rows)
    group = rng.integers(0, groups, len(user)) if spanning else user % groups
    score = np.round(rng.beta(2, 2 + group), 2)
    outcome = (rng.random(len(user)) < 0.2 + 0.6 * score).astype(int)
    return {"s": score, "y": outcome, "g": group, "u": user}


def user_weights(data, mine):
    counts = np.bincount(data["u"][mine], minlength=data["u"].max() + 1)
    return 1 / counts[data["u"][mine]]


def pairwise_area(data, group):
    """The share of pairs of a positive and a negative in the right order, ties one half, by a full table; and each user's part."""
    mine = np.flatnonzero(data["g"] == group)
    w, s, y, u = user_weights(data, mine), data["s"][mine], data["y"][mine] == 1, data["u"][mine]
    wins = (s[y][:, None] > s[~y][None, :]) + 0.5 * (s[y][:, None] == s[~y][None, :])
    p, q = w[y] / w[y].sum(), w[~y] / w[~y].sum()
    value = p @ wins @ q
    n_users = data["u"].max() + 1
    parts = np.bincount(u[y], p * (wins @ q - value), minlength=n_users)
    return value, parts + np.bincount(u[~y], q * (p @ wins - value), minlength=n_users)


@pytest.mark.parametrize("spanning", [False, True])
def test_areas_are_pairwise_and_their_variance_is_the_users(spanning):
    data = make(spanning=spanning)
    found = es.decision_curves(data, **NAMES)
    (a, part_a), (b, part_b) = (pairwise_area(data, g) for g in (0, 1))
    assert [row["estimate"] for row in found.areas] == pytest.approx([a, b], rel=1e-12)
    assert [row["cell_error"] for row in found.areas] == [0, 0]  # every value is a cell
    row = found.area_differences[0]
    se = np.sqrt(((part_a - part_b) ** 2).sum())
    assert row["difference"] == pytest.approx(a - b, abs=1e-12)
    assert (row["ci_high"] - row["ci_low"]) / 2 == pytest.approx(1.96 * se, rel=0.03)
    below = es.decision_curves(data, **NAMES, positive="below")
    assert below.areas[0]["estimate"] == pytest.approx(1 - a)


def test_coarse_cells_state_the_areas_error():
    data = make()
    exact = es.decision_curves(data, **NAMES).areas
    coarse = es.decision_curves(data, **NAMES, lattice=es.Lattice(0, 1, cells=8)).areas
    for fine, rough in zip(exact, coarse, strict=True):
        assert abs(fine["estimate"] - rough["estimate"]) <= rough["cell_error"] and rough["cell_error"] > 0.01


def test_curves_are_the_metrics_at_each_threshold():
    tally = es.tally(make(), **NAMES)
    found = es.decision_curves(tally, thresholds=[0.3, 0.5], metrics=["tpr", "npv"])
    for row in found.rows():
        single = es.decision_metrics(tally, threshold=row["threshold"]).of(row["group"], row["metric"])
        for name in ("estimate", "ci_low", "ci_high"):
            assert row[name] == pytest.approx(single[name], rel=1e-9)
        assert row["band_low"] <= row["ci_low"] and row["ci_high"] <= row["band_high"]
    everywhere = es.decision_curves(tally)
    assert len({row["threshold"] for row in everywhere.rows()}) <= 33
    points = [point for point in everywhere.roc if point["group"] == 0]
    assert all(a["tpr"] >= b["tpr"] and a["fpr"] >= b["fpr"] for a, b in itertools.pairwise(points))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"thresholds": []}, "1 to 512"),
        ({"thresholds": [5.0]}, "outside the scores"),
        ({"metrics": ["recall"]}, "'tpr'"),
        ({"positive": "up"}, "'above'"),
    ],
)
def test_bad_curves(options, words):
    with pytest.raises(es.EvenscoreError, match=words):
        es.decision_curves(make(n_users=20), **NAMES, **options)


def test_no_positives_has_no_area():
    data = make()
    data["y"][data["g"] == 1] = 0
    found = es.decision_curves(data, **NAMES)
    assert np.isnan(found.areas[1]["estimate"]) and "no positives" in found.areas[1]["reason"] and not found.area_differences


def equal_groups(rng, n_groups=5, users=200, rate=0.3):
    n = n_groups * users
    return {"s": (rng.random(n) < rate).astype(float), "y": rng.integers(0, 2, n), "g": np.arange(n) % n_groups}


@pytest.mark.slow
def test_who_is_best_is_uncertain():
    """Five equal groups of 200: ratios to the group that happens to be best exclude 1 in 30 % of data sets, these do not."""
    rng = np.random.default_rng(0)
    below, excluded, told = 0, 0, []
    lattice = es.Lattice.from_values([0.0, 1.0])
    runs = 40
    for _ in range(runs):
        tally = es.tally(equal_groups(rng), score="s", outcome="y", group="g", user=None, lattice=lattice)
        found = es.decision_metrics(tally, threshold=1.0)
        below += min(row["ratio"] for row in found.impact_ratios) < 0.8
        excluded += any(row["ci_high"] < 1 for row in found.impact_ratios)
        told.append(found.equal_below)
    assert 0.35 < below / runs < 0.85  # 59 % in the long run
    assert excluded <= 6
    assert np.mean(told) == pytest.approx(0.59, abs=0.05)


def test_median_of_rows():
    data = make(groups=3)
    found = es.decision_metrics(data, threshold="median", weighting="row", **NAMES)
    median = np.median(data["s"])
    assert set(found.thresholds.values()) == {median}
    for g in range(3):
        assert found.by_group[g]["selection_rate"] == pytest.approx((data["s"][data["g"] == g] > median).mean(), rel=1e-12)


def test_equal_groups_often_fall_below_four_fifths():
    """Five equal groups of 200 at rate .3: 59 %, by counting draws of binomials."""
    data = {"s": np.tile(np.repeat([1.0, 0.0], [60, 140]), 5), "y": np.tile([0, 1], 500), "g": np.repeat(np.arange(5), 200)}
    found = es.decision_metrics(data, threshold=1.0, score="s", outcome="y", group="g", user=None)
    drawn = np.random.default_rng(0).binomial(200, 0.3, (20_000, 5))
    assert found.equal_below == pytest.approx((drawn.min(axis=1) < 0.8 * drawn.max(axis=1)).mean(), abs=0.03)
    assert all(row["ratio"] == 1 and row["ci_low"] < 0.75 and row["ci_high"] == 1 for row in found.impact_ratios)


@pytest.mark.slow
def test_median_error_enters():
    """Limits of scoring rates follow their spread over data sets, which is smaller than with a fixed threshold."""
    rng = np.random.default_rng(1)
    rates, widths, fixed = [], [], []
    for _ in range(60):
        n = 400
        data = {"s": np.round(rng.normal(size=n), 2), "y": rng.integers(0, 2, n), "g": (np.arange(n) % 4 == 0).astype(int)}
        tally = es.tally(data, score="s", outcome="y", group="g", user=None)
        row = es.decision_metrics(tally, threshold="median").of(0, "selection_rate")
        rates.append(row["estimate"])
        widths.append((row["ci_high"] - row["ci_low"]) / 2 / 1.96)
        fixed.append(np.sqrt(0.25 / 300))
    assert np.mean(widths) == pytest.approx(np.std(rates), rel=0.3)
    assert np.mean(widths) < 0.7 * np.mean(fixed)
