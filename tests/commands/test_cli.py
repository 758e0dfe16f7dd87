"""The command line as people and pipelines meet it: a process with two streams and an exit code."""

import importlib.metadata
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes import COLUMNS, FULL, make_frame, parity, read_until, run, run_process

import evenscore as es
from evenscore.cli import record_interrupts
from evenscore.commands.audit_command import METHODS
from evenscore.parity import methods

NCAA = Path(__file__).parents[2] / "examples" / "ncaa" / "ncaa_in_game.parquet"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_frame(0.0).to_csv(folder / "even.csv", index=False)
    make_frame(0.2).to_csv(folder / "uneven.csv", index=False)
    make_frame(0.2).to_csv(folder / "comma.csv", index=False, sep=";", decimal=",")
    nulls = make_frame(0.2)
    nulls.loc[[3, 5, 8], "s"] = None
    nulls.to_csv(folder / "nulls.csv", index=False)
    es.tally(make_frame(0.2), score="s", outcome="y", group="g", user="u").save(folder / "saved.tally")
    return folder


# What the exit code says


def test_no_disparity_ends_with_0(folder):
    done = run_process("audit", folder / "even.csv", *FULL)
    assert done.returncode == 0 and done.stderr == ""
    shown = " ".join(done.stdout.split())
    assert "INCONCLUSIVE" in shown and "not proof that there is none" in shown and "987 users" in shown
    assert "DISPARITY" not in done.stdout


def test_a_disparity_ends_with_1(folder):
    done = run_process("audit", folder / "uneven.csv", *FULL)
    assert done.returncode == 1 and done.stderr == ""
    assert "DISPARITY" in done.stdout and "b - a" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines()) and len(done.stdout.splitlines()) <= 12


BAD = {
    "no such file": (["{folder}/no.csv", *FULL], "Error: no file {folder}/no.csv\n"),
    "no such column": (["{folder}/even.csv", *FULL, "--score", "t"], "Error: no column 't' for score; the file has: s, y, g, u\n"),
    "nulls": (
        ["{folder}/nulls.csv", *FULL],
        "Error: column 's' (score) is null or NaN in 3 of 4,000 rows (first rows, from 0: 3, 5, 8); --nulls drop leaves such",
    ),
    "a level that is none": (["{folder}/even.csv", *FULL, "--alpha", "3"], "Error: --alpha 3.0 must be a number between 0 and 1"),
    "fractional counts": (["{folder}/even.csv", *FULL, "--count", "s"], "; for survey weights use --weight\n"),
    "a word for a number": (["{folder}/even.csv", *FULL, "--alpha", "high"], "Invalid value for '--alpha'"),
    "an unknown option": (["{folder}/even.csv", *FULL, "--speed", "high"], "No such option"),
    "an unknown choice": (["{folder}/even.csv", *FULL, "--nulls", "skip"], "'skip' is not one of 'error', 'drop', 'unlabelled'"),
    "user or not": (
        ["{folder}/even.csv", *FULL, "--independent"],
        "Error: --user and --independent contradict each other; give one",
    ),
    "no such group": (
        ["{folder}/even.csv", *FULL, "--reference", "z"],
        "Error: --reference z: no group 'z'; there are: a, b\n",
    ),
    "an id for a group": (["{folder}/even.csv", *FULL, "--group", "s"], "more than the 200 groups that are possible"),
    "a tally that knows": (
        ["{folder}/saved.tally", "--nulls", "drop"],
        "saved.tally is a saved tally, made once and for all; leave out --nulls",
    ),
    "a place that is none": (
        ["{folder}/even.csv", *FULL, "--json", "{folder}/no/a.json"],
        "Error: cannot write {folder}/no/a.json: No such file",
    ),
    "no file": ([], "Missing argument 'FILE|FOLDER|GLOB|TALLY'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage_and_bad_data_end_with_2(name, folder):
    arguments, message = BAD[name]
    done = run("audit", *(argument.format(folder=folder) for argument in arguments))
    assert done.returncode == 2 and done.stdout == ""
    assert message.format(folder=folder) in done.stderr
    assert "Traceback" not in done.stderr and "nulls=" not in done.stderr


def test_no_command_and_an_unknown_one_end_with_2():
    for arguments in ([], ["audits"]):
        done = run_process(*arguments)
        assert done.returncode == 2 and done.stdout == "" and "Usage: evenscore" in done.stderr


CRASH = """
import sys
import evenscore.parity
from evenscore.cli import main

def crash(*_, **__):
    raise ZeroDivisionError("of course")

evenscore.parity.parity_test = crash
main(sys.argv[1:])
"""


@pytest.mark.parametrize("debug", [False, True])
def test_a_crash_ends_with_70(folder, debug):
    arguments = ["audit", str(folder / "even.csv"), *FULL, *(["--debug"] if debug else [])]
    done = subprocess.run([sys.executable, "-c", CRASH, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 70 and done.stdout == ""
    assert "evenscore crashed: ZeroDivisionError: of course\nThis is a bug; --debug shows where.\n" in done.stderr
    assert ("Traceback" in done.stderr) == debug


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_is_no_bug_of_ours(folder):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "evenscore", "audit", folder / "even.csv", *FULL],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode == 70
    assert done.stderr == "evenscore could not finish: [Errno 28] No space left on device\n"


class Deaf:
    """Interrupts itself where Python cannot raise."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass


class Broken:
    def __del__(self):
        raise ValueError("of course")


@pytest.fixture
def own_interrupts():
    """Python's own way with Ctrl-C, whatever the tests before have left there: a Spark session has another."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_python_cannot_raise_is_remembered_without_a_traceback(monkeypatch, own_interrupts):
    said, interrupts = [], []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with record_interrupts(interrupts):
        Deaf()
        assert interrupts == [signal.SIGINT] and said == []
        Broken()
    assert [found.exc_type for found in said] == [ValueError] and sys.unraisablehook == said.append


def test_an_interrupt_ends_with_130(folder, tmp_path):
    # Big enough that reading goes on for a while after it has begun, which the terminal tells.
    pd.concat([make_frame(0.0, 100_000)] * 10).to_csv(tmp_path / "long.csv", index=False)
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-m", "evenscore", "audit", str(tmp_path / "long.csv"), *FULL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=other_end) as process:
        os.close(other_end)
        read_until(terminal, b"reading")
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=120)
    said = read_until(terminal, b"interrupted")
    os.close(terminal)
    assert process.returncode == 130 and stdout == b""
    assert said.endswith(b"interrupted\r\n") and b"Traceback" not in said


@pytest.mark.parametrize("arguments", [[], ["--json", "-"]])
def test_a_closed_pipe_ends_with_141(folder, arguments):
    command = [sys.executable, "-m", "evenscore", "audit", str(folder / "uneven.csv"), *FULL, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
        process.wait(timeout=120)
    assert process.returncode == 141 and said == b""


def test_help_into_a_closed_pipe_ends_with_141():
    with subprocess.Popen([sys.executable, "-m", "evenscore", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
        process.wait(timeout=120)
    assert process.returncode == 141 and said == b""


# What is missing


def test_a_missing_user_is_explained(folder):
    done = run("audit", folder / "even.csv", *COLUMNS)
    assert done.returncode == 2 and done.stdout == ""
    assert "missing: --user, the column that says whose row it is" in done.stderr and "--independent" in done.stderr
    assert "  u  (bigint)\n" in done.stderr
    assert run("audit", folder / "even.csv", *COLUMNS, "--independent").returncode == 0


def test_missing_options_list_the_columns(folder):
    done = run("audit", folder / "even.csv", "--independent")
    assert done.returncode == 2 and done.stdout == ""
    assert "missing: --score, --outcome, --group\n" in done.stderr
    assert f"the columns of {folder / 'even.csv'}:\n  s  (double)\n  y  (bigint)\n  g  (varchar)\n  u  (bigint)\n" in done.stderr


# What comes out


def test_json_alone_on_stdout(folder):
    done = run("audit", folder / "uneven.csv", *FULL, "--json", "-")
    result = json.loads(done.stdout)
    assert done.returncode == 1 and done.stderr == ""
    assert result["evenscore"] == es.__version__
    assert [source["name"] for source in result["provenance"]["sources"]] == [str(folder / "uneven.csv")]
    assert parity(result)["verdict"] == "disparity" and parity(result)["p_value"] < 0.001
    assert [row["group"] for row in result["subjects"][0]["groups"]] == ["a", "b"]
    assert sum(row["rows"] for row in result["subjects"][0]["groups"]) == 4_000


def test_json_into_a_file_beside_the_text(folder, tmp_path):
    shown = run("audit", folder / "uneven.csv", *FULL, "--json", tmp_path / "a.json")
    silent = run("audit", folder / "uneven.csv", *FULL, "--json", tmp_path / "b.json", "--quiet")
    assert shown.returncode == silent.returncode == 1
    assert "DISPARITY" in shown.stdout and silent.stdout == silent.stderr == shown.stderr == ""
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert first["subjects"] == second["subjects"] and first["provenance"]["sources"] == second["provenance"]["sources"]


def test_a_saved_tally_can_be_audited(folder):
    of_tally, of_file = (run("audit", *data, "--json", "-") for data in ([folder / "saved.tally"], [folder / "uneven.csv", *FULL]))
    assert of_tally.returncode == of_file.returncode == 1
    assert parity(json.loads(of_tally.stdout)) == parity(json.loads(of_file.stdout))


def test_several_files_are_one_data_set(folder, tmp_path):
    frame = make_frame(0.2)
    for place in range(3):
        frame[frame["u"] % 3 == place].to_csv(tmp_path / f"{place}.csv", index=False)
    several = run("audit", *sorted(tmp_path.glob("*.csv")), *FULL, "--json", "-")
    pattern = run("audit", tmp_path / "*.csv", *FULL, "--json", "-")
    whole = run("audit", folder / "uneven.csv", *FULL, "--json", "-")
    results = [parity(json.loads(done.stdout)) for done in (several, pattern, whole)]
    assert [result["p_value"] for result in results] == pytest.approx([results[0]["p_value"]] * 3)


def test_nulls_are_dropped_and_counted(folder):
    done = run("audit", folder / "nulls.csv", *FULL, "--nulls", "drop")
    assert done.returncode == 1 and "3 rows left out: s is null" in done.stdout and "3,997 rows" in done.stdout


def test_assumptions_are_printed(folder):
    done = run("audit", folder / "comma.csv", *FULL)
    assert done.returncode == 1
    assert "Assumed: columns are separated by semicolons" in done.stdout
    assert "Assumed: column 's' has a decimal comma: '" in done.stdout
    notes = json.loads(run("audit", folder / "comma.csv", *FULL, "--json", "-").stdout)["notes"]
    assert len(notes) == 3 and notes[0].startswith("scale: ") and notes[1] == "assumed: columns are separated by semicolons"
    written, read = re.fullmatch(r"assumed: column 's' has a decimal comma: '(.*)' is read as (.*)", notes[2]).groups()
    assert written == read.replace(".", ",")


def test_options_reach_the_test(folder):
    done = run("audit", folder / "uneven.csv", *FULL, "--reference", "b", "--method", "l2", "--weighting", "row", "--alpha", "0.01",
               "--scale", "rank", "--cells", "64", "--json", "-")  # fmt: skip
    result = json.loads(done.stdout)
    assert (parity(result)["method"], parity(result)["alpha"]) == ("l2", 0.01)
    tally = result["subjects"][0]["tally"]
    assert "64 cells" in tally["title"] and "scale='rank'" in tally["title"]


def test_parity_within_a_tolerance_ends_with_0(folder):
    done = run("audit", folder / "uneven.csv", *FULL, "--tolerance", "0.9", "--method", "sup", "--json", "-")
    assert done.returncode == 0 and parity(json.loads(done.stdout))["verdict"] == "parity"
    shown = run("audit", folder / "uneven.csv", *FULL, "--tolerance", "0.9", "--method", "sup").stdout
    assert "PARITY" in shown and "DISPARITY" not in shown and "to within 90 points" in " ".join(shown.split())


def test_every_method_is_on_offer():
    assert set(METHODS) == {"auto", *methods.METHODS}


def test_an_intersection_of_odd_labels_on_a_terminal_without_unicode(tmp_path):
    frame = make_frame(0.0)
    frame["h"] = np.where(frame["g"] == "a", "🦔", "<b>\x1b[31m")
    frame.to_csv(tmp_path / "odd.csv", index=False)
    plain = {"env": os.environ | {"PYTHONIOENCODING": "latin-1"}, "encoding": "latin-1"}
    done = run_process("audit", tmp_path / "odd.csv", *FULL, "--group", "h", "--json", tmp_path / "odd.json", **plain)
    assert done.returncode == 0 and done.stderr == ""
    assert "a × \\U0001f994" in done.stdout and "\x1b" not in done.stdout
    rows = json.loads((tmp_path / "odd.json").read_text(encoding="utf-8"))["subjects"][0]["groups"]
    assert [row["group"] for row in rows] == [["a", "🦔"], ["b", "<b>\x1b[31m"]]


# The shipped data


def audit_ncaa(*who):
    done = run("audit", NCAA, "--score", "score", "--outcome", "outcome", "--group", "bracket", *who, "--json", "-")
    return done.returncode, parity(json.loads(done.stdout))


def test_the_shipped_forecasts_show_no_disparity_between_games():
    code, test = audit_ncaa("--user", "game_id")
    assert code == 0 and test["verdict"] == "inconclusive" and test["p_value"] > 0.2


def test_the_shipped_forecasts_cry_wolf_when_rows_pass_for_people():
    code, test = audit_ncaa("--independent")
    assert code == 1 and test["verdict"] == "disparity" and test["p_value"] < 1e-6


# Getting started quickly


@pytest.mark.parametrize("arguments", [["--help"], ["audit", "--help"], ["--version"]])
def test_help_does_not_wait_for_numpy(arguments):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "evenscore", *arguments], capture_output=True, text=True, timeout=120
    )
    loaded = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert done.returncode == 0 and "evenscore" in done.stdout and "click" in loaded
    assert not loaded & {"numpy", "scipy", "pandas", "polars", "pyarrow", "duckdb", "narwhals", "matplotlib"}


def test_the_command_is_installed():
    scripts = importlib.metadata.entry_points(group="console_scripts", name="evenscore")
    assert [script.value for script in scripts] == ["evenscore.cli:main"]


THREADS = """
import os
from evenscore.cli import main
try:
    main(["--version"])
except SystemExit:
    print(os.environ["OPENBLAS_NUM_THREADS"])
"""


@pytest.mark.parametrize("given", [None, "3"])
def test_linear_algebra_has_one_thread_unless_said_otherwise(given):
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment = others | ({} if given is None else {"OPENBLAS_NUM_THREADS": given})
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1] == (given or "1")
