"""What a gap would do to a process, as far as simple cases tell."""

import numpy as np
import pytest

import evenscore as es
from evenscore.estimation.comparison import compare_groups
from evenscore.estimation.inference import CommonNormals
from evenscore.estimation.shifted import RowsAlike, Shifted
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity.methods import components_of, draw, gather, seen, shifted_by_gaps
from evenscore.parity.pair_tests import gaps_under_null, look_at

ROUGH = 0.03  # normal quantiles, on average: parabolas, whose far ends may be further off


def evidence_of(rate, users=(3000, 3000), rows=1, alike=0.0, seed=1):
    """Two groups with a rate that rises with the score; a share of users have one outcome for all of their rows."""
    rng = np.random.default_rng(seed)
    n_users = sum(users)
    user = np.repeat(np.arange(n_users), rows)
    score = rng.beta(2, 2, len(user))
    number = np.where(rng.random(n_users)[user] < alike, rng.random(n_users)[user], rng.random(len(user)))
    data = {"s": score, "y": number < 2 * rate * score, "g": (user >= users[0]).astype(int), "u": user}
    tally = es.tally(data, score="s", outcome="y", group="g", user="u", cells=128)
    comparison = compare_groups(tally, 0, 1, "user")
    smoothing = comparison.settle(Smoothing(bandwidth="test"))
    comparison = comparison.joined(smoothing.h)
    (found,) = gaps_under_null([look_at(comparison, smoothing)], components_of("combined"))
    return gather(components_of("combined"), [found.judged])[0]


def gap_of(evidence):
    """What a gap does to the gap itself."""
    return Shifted.of([evidence.first], [RowsAlike.of(evidence.first, evidence.null)], [evidence.share])


@pytest.mark.parametrize("rate, gap", [(0.3, 0.05), (0.05, 0.03), (0.01, 0.02)])
def test_parabolas_see_what_the_test_sees(rate, gap):
    evidence = evidence_of(rate, users=(3000, 600))
    noise, gap = draw(evidence, CommonNormals(0), 500).noise, gap * evidence.signs[0]
    shifted = shifted_by_gaps([evidence])
    exact, rough = shifted.z_of_gap(gap, noise), seen(shifted.parabolas(gap), noise)
    assert np.abs(exact - rough).mean() < ROUGH
    expected, found = evidence.statistics(exact), evidence.statistics(rough)
    shares = (found > np.median(expected, axis=0)).mean(axis=0)
    assert shares == pytest.approx(0.5, abs=0.01)


def test_without_a_gap_the_test_sees_noise():
    evidence = evidence_of(0.3)
    shifted = gap_of(evidence)
    own = draw(evidence, CommonNormals(0), 500).noise[:, : len(shifted.shift)]
    assert shifted.z_of_gap(0.0, own) == pytest.approx(own, abs=0.2)
    assert shifted.z_of_gap(0.0, own).std() == pytest.approx(own.std(), rel=0.03)


def test_what_is_found_of_rare_outcomes_varies_with_itself():
    """Of two equal groups the one with the gap varies more: a high value comes with a high pooled rate, which takes from it."""
    evidence = evidence_of(0.01)
    shifted = gap_of(evidence)
    gap = 0.02 * evidence.signs[0]
    z = shifted.z_of_gap(gap, np.array([[-1.0], [0.0], [1.0]]) * np.ones(len(shifted.shift)))
    apart = np.abs(z[2] - z[0])  # about 2 if the null were the same for all
    assert (apart < 2).all() and np.median(apart) < 1.8
    assert (np.sign(z[1]) == evidence.signs[0]).all()


def test_users_with_many_rows_need_a_larger_gap_than_a_few_events_show():
    """At low rates hardly any user has two events, so that no dependence is seen there; a gap would bring it to light."""
    evidence = evidence_of(0.01, users=(600, 600), rows=12, alike=0.4)
    process, shifted = evidence.first, gap_of(evidence)
    own = process.side_a.moved(0.0).variance
    assert (shifted.a.moved(0.0).variance >= own * (1 - 1e-9)).all()
    rarest = int(np.argmin(process.side_a.rate))
    higher = shifted.a.moved(0.05).variance[rarest] / process.side_a.moved(0.05).variance[rarest]
    assert higher > 1.02
