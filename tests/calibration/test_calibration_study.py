"""The benchmark of calibration: it runs, and a small study of it says what the large one says."""

import importlib.util
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import evenscore as es

PATH = Path(__file__).parents[2] / "benchmarks" / "calibration.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("calibration_benchmark", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PATH.parent)  # as if it were run
        spec.loader.exec_module(module)
    return module


def test_a_page_holds_the_command_without_folders_and_each_table_as_soon_as_it_is_there(benchmark, tmp_path, monkeypatch, capsys):
    writing = sys.modules["writing"]
    monkeypatch.setattr(writing, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["somewhere/calibration.py", "--resume", "/home/me", "--runs", "3", "--page"])
    pages = []

    def second():
        pages.append((tmp_path / "results" / "calibration.md").read_text())
        return "last"

    writing.show([lambda: writing.table(["a", "b"], [["x", "1"]]), second], "Title", page=True)
    whole = (tmp_path / "results" / "calibration.md").read_text()
    assert whole.startswith("## Title\n\n`python benchmarks/calibration.py --resume FOLDER --runs 3`, 20")
    assert whole == pages[0] + "\nlast\n" and "| x | 1 |" in capsys.readouterr().out
    assert f"evenscore {es.__version__}" in whole


def test_errors_and_gaps_of_known_maps(benchmark):
    """The truth has no error and leaves no gap; the scores as they are leave the gap that there is."""
    truth = {"a": lambda s: s, "b": benchmark.CURVES["logit"].at}
    assert benchmark.true_error("logit", lambda scores, group: truth[group](scores)) == 0
    assert benchmark.true_violation("logit", lambda scores, group: truth[group](scores)) < 2e-3
    gap = benchmark.NODES - benchmark.CURVES["logit"].at(benchmark.NODES)
    expected = np.sqrt(benchmark.NODE_WEIGHTS @ gap**2)
    assert benchmark.true_violation("logit", lambda scores, group: scores) == pytest.approx(expected, rel=0.02)
    shifted = benchmark.true_error("logit", lambda scores, group: truth[group](scores) + 0.1)
    assert shifted == pytest.approx(0.1)


def test_the_repair_closes_most_of_the_gap(benchmark):
    """4 runs at 4000 users a group, the kernel alone: the gap falls by 80 % wherever it was .1 or more."""
    for name in benchmark.CURVES:
        before = benchmark.true_violation(name, lambda scores, group: scores)
        assert before >= 0.1
        method = {"own": partial(benchmark.errors, name=name, methods=("kernel",))}
        rows = {row["method"]: row for row in es.study(benchmark.simulation(name, 4000), method, runs=4, truth=0.0).rows()}
        assert rows["gap left: kernel"]["rmse"] < 0.2 * before
        assert rows["kernel"]["rmse"] < 0.025
