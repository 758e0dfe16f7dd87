"""Delta-PCC where outcomes are rare: what the map might have been although hardly anything happened."""

import json

import numpy as np
import pytest
from scipy import special

import evenscore as es
from data import NAMES


def people(score, outcome):
    return {"s": score, "y": outcome, "g": np.zeros(len(score), dtype=int), "u": np.arange(len(score))}


def test_a_knot_is_worth_the_outcomes_near_it():
    """Few scores, one row a user: as many trials as people, but for the factor n / (n - 1) of few."""
    sizes = np.array([50, 80, 120])
    score = np.repeat([0.1, 0.3, 0.6], sizes)
    rng = np.random.default_rng(0)
    for outcome in (rng.random(250) < score, np.zeros(250, dtype=bool)):
        trials = es.calibrate(es.tally(people(score, outcome.astype(int)), **NAMES)).maps[0].trials
        np.testing.assert_allclose(trials, (sizes - 1) ** 2 / sizes, rtol=1e-9)


def test_draws_are_score_limits():
    """Quantiles of the draws are Wilson's limits, also where nothing happened."""
    score = np.repeat([0.1, 0.6], [40, 200])
    outcome = np.concatenate([np.zeros(40, dtype=int), np.arange(200) < 60])
    found = es.calibrate(es.tally(people(score, outcome), **NAMES)).maps[0]
    drawn = found.draw(np.random.default_rng(0), 40_000)
    assert drawn.min() >= 0 and drawn.max() <= 1
    z = special.ndtri(0.975)
    for knot, rate in enumerate((0, 0.3)):
        doubt = 1 / found.trials[knot]
        reach = z * np.sqrt(rate * (1 - rate) * doubt + (z * doubt / 2) ** 2)
        low, high = ((rate + z**2 * doubt / 2 + side * reach) / (1 + z**2 * doubt) for side in (-1, 1))
        assert np.quantile(drawn[:, knot], [0.025, 0.975]) == pytest.approx([low, high], abs=0.004)


def test_knots_with_few_events_are_drawn_together():
    """An event at each of two scores says nothing about how they go together; a thousand say that they do not."""
    for size, together in ((40, (0.7, 0.95)), (4000, (-0.1, 0.1))):
        score, outcome = np.repeat([0.1, 0.6], size), np.tile(np.arange(size) % 40 == 0, 2)
        drawn = es.calibrate(es.tally(people(score, outcome), **NAMES)).maps[0].draw(np.random.default_rng(0), 4000)
        ranks = drawn.argsort(axis=0).argsort(axis=0)
        assert together[0] < np.corrcoef(ranks.T)[0, 1] < together[1]


def test_no_events_do_not_mean_a_rate_of_zero():
    """0 of 40 at a score of .06 allow 9 %: they may all fall below the threshold of .05, or all stay above it."""
    tally = es.tally(people(np.repeat([0.01, 0.06], 40), np.zeros(80, dtype=int)), **NAMES)
    found = es.classification_impact(tally, threshold=0.05).of(0)
    assert found["estimate"] == -0.5
    assert found["ci_low"] == pytest.approx(-0.5, abs=0.16)  # the shares of the scores vary, too
    assert found["ci_high"] >= 0


def test_files_keep_what_a_knot_is_worth(tmp_path):
    """And files that lack it are read."""
    rng = np.random.default_rng(0)
    score = rng.random(300)
    calibrator = es.calibrate(es.tally(people(score, (rng.random(300) < score).astype(int)), **NAMES))
    calibrator.save(tmp_path / "new.json")
    again = es.Calibrator.load(tmp_path / "new.json")
    np.testing.assert_array_equal(again.maps[0].trials, calibrator.maps[0].trials)
    real = es.calibrate(es.tally(people(score, score + rng.normal(size=300)), **NAMES))
    assert real.maps[0].trials is None
    assert "trials" not in json.dumps(real.to_dict())


@pytest.mark.parametrize("ratio", [1, 2])
def test_limits_cover_where_events_are_few(ratio):
    """100 users, five or ten events: at the median score .75 to .88 of the limits held the truth."""
    quantiles = special.betaincinv(2, 2, np.array([0.5, 0.8]))
    cuts, inside = 0.1 * quantiles, []
    for run in range(30):
        rng = np.random.default_rng(run)
        score = 0.1 * rng.beta(2, 2, 100)
        tally = es.tally(people(score, (rng.random(100) < ratio * score).astype(int)), **NAMES, cells=96, scale="rank", cuts=cuts)
        found = es.classification_impact(tally, threshold=cuts, seed=run)
        for cut in cuts:
            truth = special.betainc(2, 2, cut / 0.1) - special.betainc(2, 2, cut / 0.1 / ratio)
            row = found.of(0, float(cut))
            inside.append(row["ci_low"] <= truth <= row["ci_high"])
    assert np.mean(inside) > 0.88  # .92 less a Monte Carlo error
