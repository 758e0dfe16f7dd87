import json

import numpy as np
import pytest

import evenscore as es

SIMULATED = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
SPEC = es.simulate(12_000, curve={"a": (0, 1.3), "b": (-0.8, 1.3)}, rows_per_user=2, outcome_correlation=0.5)


def collected(seed, decided, cuts, spec=SPEC):
    """New people; outcomes are known for positive decisions only."""
    data = spec.data(seed=seed)
    known = decided(data)
    seen = data | {"outcome": np.where(known, data["outcome"], np.nan)}
    return es.tally(seen, **SIMULATED, cuts=cuts, nulls="unlabelled", scale="score")  # on which these draws end as is said below


def start(spec=SPEC, positive="above", **options):
    def first(data):
        return data["score"] >= 0.5 if positive == "above" else data["score"] < 0.5

    return es.ThresholdTrial(collected((9, 0), first, [0.5], spec), threshold=0.5, positive=positive, **options)


def run(trial, tmp_path=None, spec=SPEC, most=15):
    """Rounds until done; between rounds the trial may be saved and loaded."""
    for number in range(1, most):
        if trial.done:
            break
        if tmp_path is not None:
            trial.save(tmp_path / "trial.json")
            trial = es.ThresholdTrial.load(tmp_path / "trial.json")
        trial.update(collected((9, number), lambda d, t=trial: t.decide(d["score"], d["group"], d["user"]), trial.cuts, spec))
    return trial


def true_gap(trial, spec=SPEC):
    outcomes = [float(spec.truth.curve(t, group)) for group, t in trial.thresholds.items()]
    return abs(outcomes[0] - outcomes[1])


@pytest.mark.parametrize("strategy", ["raise", "lower", "rate"])
def test_rounds_converge_on_censored_labels(strategy, tmp_path):
    trial = start(strategy=strategy, max_step=0.08, tolerance=0.06)
    assert not trial.done and true_gap(trial) > 0.15 and trial.rounds[0].verdict == "disparity"
    rates = [trial.rounds[0].positive_rate]
    trial = run(trial, tmp_path)
    assert trial.done and 2 < len(trial.rounds) < 12
    assert true_gap(trial) < 0.05
    moves = np.diff([list(one.thresholds.values()) for one in trial.rounds], axis=0)
    assert np.abs(moves).max() <= 0.08 + 1e-12
    rates += [one.positive_rate for one in trial.rounds[1:]]
    if strategy == "rate":
        assert abs(rates[-1] - rates[0]) < 0.02
    else:
        assert np.all(moves[:, 0 if strategy == "raise" else 1] == 0)
    kept = trial.propose()
    assert kept.done and kept.by_group == trial.thresholds


def test_below_converges_too():
    trial = run(start(strategy="lower", max_step=0.1, tolerance=0.06, positive="below"))
    assert trial.done and true_gap(trial) < 0.05
    assert trial.thresholds["a"] == 0.5 < trial.thresholds["b"]


def test_exploring_lowers_the_bar_for_a_share_of_people_only():
    trial = start(strategy="lower", max_step=0.3, tolerance=0.06, explore=0.2)
    proposal = trial.propose()
    step = proposal.steps[0]
    assert step.suggestive and step.proposed == 0.5 and step.explore_to < 0.45
    assert "20.0% of people" in repr(proposal)
    data = SPEC.data(seed=4)
    decided = trial.decide(data["score"], data["group"], data["user"])
    exposed = trial.exposed(data["user"])
    assert 0.18 < exposed.mean() < 0.22
    usual = data["score"] >= 0.5
    assert (decided[~exposed] == usual[~exposed]).all()
    assert (decided[data["group"] == "b"] == usual[data["group"] == "b"]).all()
    mine = exposed & (data["group"] == "a")
    assert (decided[mine] == (data["score"][mine] >= step.explore_to)).all()
    assert abs(trial.exposed(data["user"].astype(str)).mean() - 0.2) < 0.02
    with pytest.raises(es.OptionError, match="give users="):
        trial.decide(data["score"], data["group"])
    labels = collected((9, 1), lambda d: trial.decide(d["score"], d["group"], d["user"]), trial.cuts)
    known = trial.update(labels).propose().steps[0]
    assert not known.suggestive and known.explore_to is None  # real labels tell now
    assert known.now == 0.5 and known.proposed < 0.42
    trial = run(trial)
    assert trial.done and true_gap(trial) < 0.05


def test_nothing_to_do_where_thresholds_are_fair():
    fair = es.simulate(4000, score={"a": (2, 3), "b": (3, 2)})
    trial = start(fair, strategy="rate", max_step=0.05)
    assert trial.done and trial.propose().by_group == {"a": 0.5, "b": 0.5}
    assert "smaller than their intervals" in trial.reason
    with_tolerance = start(fair, strategy="rate", max_step=0.05, tolerance=0.2)
    assert with_tolerance.done and "within 0.2" in with_tolerance.reason


def test_a_saved_trial_is_the_same_trial(tmp_path):
    spec = es.simulate({1: 3000, 2: 3000}, curve={1: (0, 1), 2: (-0.8, 1)})
    trial = start(spec, strategy="lower", max_step=0.05, tolerance=0.03, explore=0.1)
    trial.save(tmp_path / "t.json")
    again = es.ThresholdTrial.load(tmp_path / "t.json")
    assert again.to_dict() == trial.to_dict() and repr(again) == repr(trial)
    assert [type(group) for group in again.thresholds] == [int, int]
    assert again.propose() == trial.propose() and again.settings == trial.settings
    text = (tmp_path / "t.json").read_text()
    json.loads(text)
    for damage, words in (
        (text.replace("threshold trial", "calibrator"), "not a threshold trial"),
        (text[:-40], "not a saved threshold trial"),
        (text.replace('"steps": [', '"steps": [], "more": ['), "not a saved threshold trial"),
    ):
        (tmp_path / "bad.json").write_text(damage)
        with pytest.raises(es.FileError, match=words):
            es.ThresholdTrial.load(tmp_path / "bad.json")
    with pytest.raises(es.FileError, match="cannot read"):
        es.ThresholdTrial.load(tmp_path / "none.json")


def test_a_saved_trial_keeps_the_steps_of_each_group_in_any_order_of_thresholds(tmp_path):
    spec = es.simulate(3000, curve={"a": (0, 1), "b": (-0.8, 1)})
    tally = es.tally(spec.data(seed=1), **SIMULATED, cuts=[0.5])
    trial = es.ThresholdTrial(tally, strategy="lower", max_step=0.05, threshold={"b": 0.5, "a": 0.5})
    trial.save(tmp_path / "t.json")
    again = es.ThresholdTrial.load(tmp_path / "t.json")
    assert again.propose() == trial.propose() and again.thresholds == trial.thresholds


def test_bad_input_is_named():
    for options, words in (
        ({"max_step": 0}, "max_step=0"),
        ({"max_step": 0.1, "explore": 2}, "explore=2"),
        ({"max_step": 0.1, "strategy": "up"}, "strategy='up'"),
        ({"max_step": 0.1, "tolerance": "x"}, "tolerance='x'"),
    ):
        with pytest.raises(es.OptionError, match=words):
            start(**options)
    trial = start(strategy="raise", max_step=0.05)
    with pytest.raises(es.DataError, match=r"cuts=\[0.55\]"):
        trial.update(collected((9, 1), lambda d: d["score"] >= 0.5, [0.5]))
    only = SPEC.data(seed=1)
    other = es.tally(only | {"group": np.where(only["group"] == "a", "a", "c")}, **SIMULATED, cuts=trial.cuts)
    with pytest.raises(es.DataError, match="no group 'b'"):
        trial.update(other)
    assert len(trial.rounds) == 1  # a failed update changes nothing
