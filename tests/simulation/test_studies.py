import functools
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from study_methods import coin, dies, family, interval, t_test

import evenscore as es
from evenscore.simulation import Workers
from evenscore.simulation.study_result import MethodRuns, share_error

SPEC = es.simulate(60, curve={"a": (0, 1), "b": (-0.5, 1)}, outcome_correlation=0.5)
EVEN = es.simulate(60, outcome_correlation=0.5)
METHODS = {"t": t_test, "interval": interval, "coin": coin}


def half(data, seed):
    return 0.5


def mean_gap(spec):
    """The true difference of mean outcomes."""
    means = [
        spec.scores[place].mean(spec.truth.curve(spec.scores[place].nodes(), label)) for place, label in enumerate(spec.groups)
    ]
    return {"interval": means[0] - means[1]}


def row(study, name):
    return next(row for row in study.rows() if row["method"] == name)


def same(a, b):
    return a.to_dict() == b.to_dict()


def test_size_and_power():
    null, gap = (es.study(spec, {"t": t_test}, runs=400) for spec in (EVEN, SPEC))
    size, power = row(null, "t"), row(gap, "t")
    assert abs(size["rejected"] - 0.05) < 4 * size["rejected_error"]
    assert power["rejected"] > 0.4
    p_value = null.method("t").p_value
    assert size["rejected"] == (p_value <= 0.05).mean() and size["judged"] == 400
    assert row(es.study(EVEN, {"t": t_test}, runs=400, alpha=0.5), "t")["rejected"] == (p_value <= 0.5).mean()


def test_bias_error_and_coverage():
    study = es.study(SPEC, {"interval": interval}, runs=400, truth=mean_gap)
    found, truth = row(study, "interval"), mean_gap(SPEC)["interval"]
    estimate = study.method("interval").estimate
    assert found["truth"] == truth
    assert found["bias"] == pytest.approx(estimate.mean() - truth) and abs(found["bias"]) < 4 * found["bias_error"]
    assert found["bias_error"] == pytest.approx(estimate.std(ddof=1) / 20)
    assert found["rmse"] == pytest.approx(np.sqrt(((estimate - truth) ** 2).mean()))
    assert abs(found["coverage"] - 0.95) < 4 * found["coverage_error"]
    assert found["width"] == pytest.approx((study.method("interval").high - study.method("interval").low).mean())


def test_monte_carlo_error_of_rmse_is_what_repetition_shows():
    rng = np.random.default_rng(0)
    draws = rng.normal(0.3, 1, (2000, 100))
    found = [es.Study(SPEC, (MethodRuns("m", 0.0, estimate=draw),), 100, 0, 0.05).rows()[0] for draw in draws]
    assert np.std([one["rmse"] for one in found]) == pytest.approx(np.mean([one["rmse_error"] for one in found]), rel=0.05)


def test_one_callable_may_serve_many_methods():
    study = es.study(SPEC, {"evenscore": family, "t": t_test}, runs=5)
    assert [method.name for method in study.methods] == ["sup", "l2", "t"]
    with pytest.raises(es.OptionError, match="two methods give results called sup"):
        es.study(SPEC, {"evenscore": family, "sup": t_test}, runs=1)


def test_named_results_of_several_kinds_in_one_table():
    study = es.study(SPEC, METHODS, runs=10, truth={"interval": 0.1})
    rows = study.rows()
    assert [list(one) for one in rows] == [list(rows[0])] * 3
    assert math.isnan(row(study, "interval")["rejected"]) and math.isnan(row(study, "t")["bias"])
    assert row(study, "t")["runs"] == 10
    assert study.frame("pandas").shape == (3, len(rows[0]))
    assert json.loads(json.dumps(study.to_dict()))["methods"]["coin"]["p_value"] == list(study.method("coin").p_value)
    for words in ("Study of", "10 runs", "seed 0", "interval", "coverage"):
        assert words in repr(study)


def test_bands_may_say_themselves_what_they_cover():
    study = es.study(SPEC, {"band": lambda data, seed: {"covered": seed % 4 > 0}}, runs=40)
    assert row(study, "band")["coverage"] == study.method("band").covered.mean()


def test_a_run_without_p_value_rejects_nothing():
    study = es.study(SPEC, {"m": lambda data, seed: math.nan if seed % 2 else 0.001}, runs=40)
    found = row(study, "m")
    assert 0 < found["judged"] < 40 and found["rejected"] == found["judged"] / 40


def test_a_share_of_none_is_not_taken_for_certain():
    assert share_error(0.0, 100) > 0 and share_error(1.0, 100) > 0
    assert share_error(0.05, 10_000) == pytest.approx(np.sqrt(0.05 * 0.95 / 10_000), rel=0.01)


def test_the_same_for_a_seed_and_any_number_of_workers():
    one = es.study(SPEC, METHODS, runs=12, seed=5)
    assert same(one, es.study(SPEC, METHODS, runs=12, seed=5))
    assert same(one, es.study(SPEC, METHODS, runs=12, seed=5, workers=2))
    assert not same(one, es.study(SPEC, METHODS, runs=12, seed=6))
    longer = es.study(SPEC, METHODS, runs=15, seed=5)
    assert np.array_equal(longer.method("coin").p_value[:12], one.method("coin").p_value)


def test_studies_share_workers():
    before = dict(os.environ)
    with Workers(2) as workers:
        for seed in (5, 6):
            shared = es.study(SPEC, METHODS, runs=6, seed=seed, workers=workers)
            assert same(shared, es.study(SPEC, METHODS, runs=6, seed=seed))
        assert same(es.study(SPEC, "l2", runs=2, workers=workers), es.study(SPEC, "l2", runs=2))
    assert dict(os.environ) == before
    with pytest.raises(es.EvenscoreError, match="inside a with block"):
        es.study(SPEC, METHODS, runs=2, workers=workers)
    with pytest.raises(es.OptionError, match="cannot be sent"), Workers(1) as workers:
        es.study(SPEC, {"m": lambda data, seed: 0.5}, runs=2, workers=workers)


def test_a_worker_that_ends_is_reported():
    with pytest.raises(es.EvenscoreError, match="a worker process ended"):
        es.study(SPEC, {"dies": dies}, runs=4, workers=2)


KILLED = """
import evenscore as es, study_methods
from evenscore.simulation import Workers

def tell(done, runs):
    print(done, flush=True)

if __name__ == "__main__":
    with Workers(1) as workers:
        es.study(es.simulate(20), {"slow": study_methods.slow}, runs=50, workers=workers, progress=tell)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    paths = os.pathsep.join([str(Path(__file__).parents[1] / "support"), str(Path(es.__file__).parent.parent)])
    running = subprocess.Popen(
        [sys.executable, str(tmp_path / "killed.py")],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    running.stdout.readline()
    running.kill()
    running.wait()
    deadline = time.monotonic() + 60
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(running.pid, 0)
            time.sleep(0.05)
    running.stdout.close()


def test_ours_by_name():
    study = es.study(SPEC, ["auto", "sup", "paper", "naive", "band"], runs=3, seed=4)
    assert [method.name for method in study.methods] == ["auto", "sup", "paper", "naive", "band"]
    for run in range(3):
        own_seed = int(np.random.SeedSequence((4, run, 1)).generate_state(1)[0])
        data, names = SPEC.data((4, run)), {"score": "score", "outcome": "outcome", "group": "group"}
        tally = es.tally(data, user="user", **names)
        users = es.parity_test(tally, method="sup", seed=own_seed)
        assert study.method("sup").p_value[run] == pytest.approx(users.p_value, abs=0.02)
        paper = es.parity_test(tally, method="bonferroni", degree=0, bandwidth="theorem")
        assert study.method("paper").p_value[run] == pytest.approx(paper.p_value)
        rows = es.parity_test(es.tally(data, user=None, **names), method="sup", seed=own_seed)
        assert study.method("naive").p_value[run] == pytest.approx(rows.p_value, abs=0.02)
        inside = [p["band_low"] <= SPEC.truth.gap(p["score"], "a", "b") <= p["band_high"] for p in users.points]
        assert study.method("band").covered[run] == all(inside)
    assert [method.name for method in es.study(SPEC, "l2", runs=1).methods] == ["l2"]
    three = es.simulate(60, groups=["a", "b", "c"], threshold=0.3)
    assert 0 < es.study(three, "l2", runs=1).method("l2").p_value[0] <= 1


def test_our_band_covers_what_it_says():
    spec = es.simulate(300, curve={"a": (0, 1), "b": (-0.5, 1)}, outcome_correlation=0.5)
    found = row(es.study(spec, "band", runs=60), "band")
    assert abs(found["coverage"] - 0.95) < 4 * found["coverage_error"]


def test_size_or_power_is_said():
    assert "no true gap: rejected is the size" in repr(es.study(EVEN, {"t": t_test}, runs=2))
    assert "largest true gap is 0.124: rejected is the power" in repr(es.study(SPEC, {"t": t_test}, runs=2))
    assert "rejected is" not in repr(es.study(SPEC, {"interval": interval}, runs=2))


class Dice:
    """A simulation of somebody else."""

    name = "dice"

    def data(self, seed=0):
        return np.random.default_rng(seed).integers(1, 7, 100)

    def to_dict(self):
        return {"sides": 6}


def test_other_simulations_are_welcome(tmp_path):
    found = es.study(Dice(), {"mean": lambda data, seed: {"estimate": data.mean()}}, runs=20, truth=3.5, resume=tmp_path / "dice")
    assert abs(row(found, "mean")["bias"]) < 4 * row(found, "mean")["bias_error"]
    assert "Study of dice" in repr(found)


def test_data_of_a_run_can_be_drawn_again():
    seen = []
    es.study(SPEC, {"look": lambda data, seed: seen.append(data) or 0.5}, runs=3, seed=7)
    for run, data in enumerate(seen):
        assert all(np.array_equal(data[name], column) for name, column in SPEC.data((7, run)).items())


class InterruptionError(Exception):
    pass


def stop_after(runs):
    def progress(done, of):
        if done == runs:
            raise InterruptionError

    return progress


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_an_interrupted_study_goes_on(tmp_path, cut):
    path = tmp_path / "study.jsonl"
    whole = es.study(SPEC, METHODS, runs=10, truth={"interval": 0.1})
    with pytest.raises(InterruptionError):
        es.study(SPEC, METHODS, runs=10, resume=path, progress=stop_after(6))
    text = path.read_text()
    assert len(text.splitlines()) == 7
    path.write_text(text[: len(text) - cut])  # as a crash while writing leaves it
    seen = []
    again = es.study(
        SPEC, METHODS, runs=10, resume=path, truth={"interval": 0.1}, progress=lambda done, of: seen.append((done, of))
    )
    assert same(again, whole)
    assert seen == [(done, 10) for done in range(7 if cut == 0 else 6, 11)]
    assert len(path.read_text().splitlines()) == 11
    assert same(es.study(SPEC, METHODS, runs=10, resume=path, truth={"interval": 0.1}), whole)


def test_a_finished_study_is_read_extended_and_shortened(tmp_path):
    path = tmp_path / "study.jsonl"
    es.study(SPEC, METHODS, runs=5, resume=path, workers=2)
    for runs in (3, 8):
        assert same(es.study(SPEC, METHODS, runs=runs, resume=path), es.study(SPEC, METHODS, runs=runs))


def test_missing_and_endless_limits_survive_the_file(tmp_path):
    methods = {"m": lambda data, seed: {"estimate": math.nan, "low": -math.inf, "high": seed}}
    path = tmp_path / "study.jsonl"
    first = es.study(SPEC, methods, runs=4, resume=path, truth=1.0)
    assert np.all(first.method("m").low == -np.inf) and row(first, "m")["coverage"] == 1
    again = es.study(SPEC, methods, runs=4, resume=path, truth=1.0)
    assert np.array_equal(again.method("m").low, first.method("m").low) and np.isnan(again.method("m").estimate).all()


def test_a_cut_first_line_is_written_again(tmp_path):
    path = tmp_path / "study.jsonl"
    es.study(SPEC, {"half": half}, runs=1, resume=path)
    path.write_text(path.read_text()[:20])
    assert row(es.study(SPEC, {"half": half}, runs=2, resume=path), "half")["judged"] == 2


@pytest.mark.parametrize(
    ("spec", "methods", "seed", "differs"),
    [(EVEN, {"half": half}, 0, "simulation"), (SPEC, {"other": half}, 0, "methods"), (SPEC, {"half": half}, 1, "seed")],
)
def test_the_file_of_another_study_is_refused(tmp_path, spec, methods, seed, differs):
    path = tmp_path / "study.jsonl"
    es.study(SPEC, {"half": half}, runs=2, resume=path)
    before = path.read_bytes()
    with pytest.raises(es.FileError, match=f"another study .other {differs}."):
        es.study(spec, methods, runs=2, seed=seed, resume=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["notes of mine", "notes\nof mine\n", '{"kind": "other"}\n', "[1]\n", b"\xff\xfe\n"])
def test_other_files_are_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "notes"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = path.read_bytes()
    with pytest.raises(es.FileError, match="record of a study"):
        es.study(SPEC, {"half": half}, runs=2, resume=path)
    assert path.read_bytes() == before


def test_a_spoilt_line_is_named(tmp_path):
    path = tmp_path / "study.jsonl"
    es.study(SPEC, {"half": half}, runs=3, resume=path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], "{}\n", *lines[3:]]))
    with pytest.raises(es.FileError, match="line 3 is not a run"):
        es.study(SPEC, {"half": half}, runs=3, resume=path)


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(es.FileError, match="cannot write"):
        es.study(SPEC, {"half": half}, runs=1, resume=tmp_path / "missing" / "study.jsonl")
    with pytest.raises(es.FileError, match="cannot read"):
        es.study(SPEC, {"half": half}, runs=1, resume=tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"runs": 0}, "runs=0 must be a whole number, at least 1"),
        ({"runs": 1.5}, "runs=1.5"),
        ({"workers": 0}, "workers=0"),
        ({"seed": -1}, "seed=-1"),
        ({"alpha": 2}, "alpha=2"),
        ({"methods": {}}, "at least one name"),
        ({"methods": half}, "dict"),
        ({"methods": "supp"}, "methods 'supp': names of ours are 'auto', 'sup'"),
        ({"methods": []}, "none.: names of ours"),
        ({"methods": "sup", "simulation": es.simulate(groups=["a"])}, "with two or more"),
        ({"methods": {"half": 0.5}}, "'half' is 0.5"),
        ({"methods": {1: half}}, "1 is"),
        ({"simulation": {"score": [1]}}, "made by es.simulate, not a dict"),
        ({"truth": {"hlaf": 1.0}}, "truth names hlaf; the methods are half"),
        ({"workers": 2, "methods": {"half": lambda data, seed: 0.5}}, "method 'half' cannot be sent to another process.*workers=1"),
        ({"methods": {"m": lambda data, seed: {"estimte": 1.0, "low": 0.0}}}, "'m' returned estimte; known are p_value"),
        ({"methods": {"m": lambda data, seed: {"x": {"estimte": 1.0}}}}, "'x' returned estimte; known are p_value, estimate"),
        ({"methods": {"m": lambda data, seed: {}}}, "empty dict"),
        ({"methods": {"m": lambda data, seed: "small"}}, "must return a number"),
        ({"methods": {"m": lambda data, seed: None}}, "must return a number"),
        ({"methods": {"m": lambda data, seed: 1.5}}, "1.5, which is not a p-value"),
    ],
)
def test_bad_input(options, words):
    given = {"simulation": SPEC, "methods": {"half": half}, "runs": 2} | options
    with pytest.raises(es.OptionError, match=words):
        es.study(given.pop("simulation"), given.pop("methods"), **given)


def test_no_such_method():
    with pytest.raises(es.OptionError, match="no method 'x'; the study has: 'half'"):
        es.study(SPEC, {"half": half}, runs=1).method("x")


def fail(data, seed, kind=ZeroDivisionError):
    raise kind("as ordered")


@pytest.mark.parametrize("kind", [ZeroDivisionError, es.DataError])
def test_an_error_says_which_run(kind):
    with pytest.raises(kind, match="as ordered") as caught:
        es.study(SPEC, {"broken": functools.partial(fail, kind=kind)}, runs=3, seed=2)
    assert "in method 'broken', run 0" in caught.value.__notes__[0] and "data(seed=(2, 0))" in caught.value.__notes__[0]
