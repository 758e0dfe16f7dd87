"""``evenscore audit``, ``compare`` and ``init`` as processes: gates and exit codes, what is written, settings, manners."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pandas as pd
import pytest
from processes import FULL, make_frame, parity, read_until, run

import evenscore as es

SCHEMA = json.loads((Path(es.__file__).parent / "report" / "schema" / "audit-1.1.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, gap in (("even", 0.0), ("uneven", 0.2)):
        frame = make_frame(gap)
        frame["h"] = np.array(["x", "y", "z"])[frame["u"] % 3]
        frame["t"] = 1 - frame["s"]
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


# Gates


@pytest.mark.parametrize(
    ("data", "options", "code", "outcome"),
    [
        ("even", [], 0, "passed"),
        ("uneven", [], 1, "failed"),
        ("even", ["--require-power", "0.001"], 3, "unshown"),
        ("even", ["--gate", "equivalence", "--tolerance", "0.9"], 0, "passed"),
        ("even", ["--gate", "equivalence", "--tolerance", "0.01"], 3, "unshown"),
        ("uneven", ["--gate", "equivalence"], 2, None),
    ],
)
def test_the_gate_is_the_exit_code(folder, data, options, code, outcome):
    done = run("audit", folder / f"{data}.csv", *FULL, *options, "--no-repair", "--json", "-")
    assert done.returncode == code
    if outcome is None:
        assert done.stdout == "" and "Error: " in done.stderr and "Traceback" not in done.stderr
    else:
        assert json.loads(done.stdout)["gate"]["outcome"] == outcome


# What is written


def test_everything_at_once(folder, tmp_path):
    endings = {"report": "html", "json": "json", "junit": "xml", "summary": "md"}
    paths = {name: tmp_path / f"audit.{ending}" for name, ending in endings.items()}
    options = [word for name, path in paths.items() for word in (f"--{name}", path)]
    done = run("audit", folder / "uneven.csv", *FULL, "--threshold", "0.5", "--title", "Loans & <more>", *options)
    assert done.returncode == 1 and done.stderr == "" and "DISPARITY" in done.stdout
    document = json.loads(paths["json"].read_text())
    jsonschema.validate(document, SCHEMA)
    assert document["subjects"][0]["threshold"] == 0.5 and document["subjects"][0]["repair"]["state"] != "untested"
    page = paths["report"].read_text()
    assert "Loans &amp; &lt;more&gt;" in page and page.rstrip().endswith("</html>")
    suite = ElementTree.parse(paths["junit"]).getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1") and suite.find("testcase/failure") is not None
    assert paths["summary"].read_text().startswith("## ❌ Loans \\& &lt;more&gt;: disparity")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in paths.values())
    written = "".join(done.stdout[done.stdout.index("Written: ") :].split())
    assert all(str(path) in written for path in paths.values())


def test_a_passed_gate_a_summary_that_is_appended_and_a_report_that_is_replaced(folder, tmp_path):
    summary, report, junit = tmp_path / "summary.md", tmp_path / "report.html", tmp_path / "a.xml"
    summary.write_text("before\n")
    report.write_text("old")
    run("audit", folder / "even.csv", *FULL, "--summary", summary, "--report", report, "--junit", junit, "--quiet")
    assert summary.read_text().startswith("before\n## ⚪ ") and report.read_text().startswith("<!DOCTYPE html>")
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert suite.get("failures") == "0" and "inconclusive" in suite.find("testcase/system-out").text


@pytest.mark.parametrize("option", ["--report", "--json", "--junit", "--summary"])
def test_a_place_that_cannot_be_written_to(folder, tmp_path, option):
    for place, words in ((tmp_path / "no" / "a", "No such file"), (tmp_path, "Is a directory")):
        done = run("audit", folder / "uneven.csv", *FULL, option, place)
        assert done.returncode == 2 and done.stdout == "" and f"Error: cannot write {place}: {words}" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_several_attributes_and_scores(folder):
    options = ["--outcome", "y", "--user", "u", "--attribute", "g", "--attribute", "h", "--attribute", "g,h", "--no-repair"]
    done = run("audit", folder / "uneven.csv", "--score", "s", *options, "--json", "-")
    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert [subject["attribute"] for subject in result["subjects"]] == [["g"], ["h"], ["g", "h"]]
    done = run("audit", folder / "uneven.csv", "--score", "s", "--score", "t", *FULL[2:], "--no-repair")
    assert "s by g: disparity (p < 0.0001)" in done.stdout and "t by g: disparity" in done.stdout
    assert len(done.stdout.splitlines()) <= 12
    done = run("audit", folder / "uneven.csv", *FULL, "--attribute", "h")
    assert done.returncode == 2 and "--group and --attribute contradict each other" in done.stderr


def test_several_saved_tallies(folder, tmp_path):
    for group in "gh":
        es.tally(folder / "even.csv", score="s", outcome="y", group=group, user="u").save(tmp_path / f"{group}.tally")
    done = run("audit", tmp_path / "g.tally", tmp_path / "h.tally", "--json", "-")
    assert done.returncode == 0 and [s["attribute"] for s in json.loads(done.stdout)["subjects"]] == [["g"], ["h"]]


# Bad data


def test_bad_data_end_with_2_and_leave_nothing(folder, tmp_path):
    out, bad = tmp_path / "out", tmp_path / "bad"
    for place in (out, bad, bad / "empty", bad / "other"):
        place.mkdir()
    (bad / "other" / "notes.md").write_text("hello")
    (bad / "nothing.csv").write_text("")
    (bad / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    (bad / "header.csv").write_text("s,y,g,u\n")
    pd.DataFrame({"s": np.linspace(0, 1, 900), "y": 1, "g": np.arange(900), "u": 1}).to_csv(bad / "groups.csv", index=False)
    make_frame(0.0)[lambda frame: frame["g"] == "a"].to_csv(bad / "one.csv", index=False)
    messages = {
        "no.csv": "no file",
        "empty": "holds no CSV or Parquet files",
        "other": "holds no CSV or Parquet files",
        "nothing.csv": "nothing.csv",
        "torn.parquet": "torn.parquet",
        "header.csv": "rows",
        "groups.csv": "more than the 200 groups",
        "one.csv": "comparing needs at least 2 groups",
    }
    for name, words in messages.items():
        done = run("audit", bad / name, *FULL, "--report", out / "a.html", "--json", out / "a.json")
        assert (done.returncode, done.stdout) == (2, ""), (name, done)
        assert done.stderr.startswith(("Error: ", "Usage: ")) and words in done.stderr and "Traceback" not in done.stderr
        assert list(out.iterdir()) == []


# Settings


def settings(tmp_path, text):
    (tmp_path / "evenscore.toml").write_text(text)


GOOD = """
[data]
path = "{data}"
score = "s"
outcome = "y"
group = "g"
user = "u"
[test]
tolerance = 0.9
[gate]
rule = "equivalence"
[output]
json = "out.json"
"""


def test_settings_are_read_and_flags_override(folder, tmp_path):
    settings(tmp_path, GOOD.format(data=folder / "uneven.csv"))
    assert run("audit", "--quiet", cwd=tmp_path).returncode == 0
    assert parity(json.loads((tmp_path / "out.json").read_text()))["tolerance"] == 0.9
    done = run("audit", "--tolerance", "0.02", "--json", "-", cwd=tmp_path)
    assert done.returncode == 1 and parity(json.loads(done.stdout))["tolerance"] == 0.02
    done = run("audit", folder / "even.csv", "--group", "h", "--json", "-", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["subjects"][0]["attribute"] == ["h"]
    done = run("audit", "--attribute", "g", "--attribute", "h", "--json", "-", cwd=tmp_path)
    assert [s["attribute"] for s in json.loads(done.stdout)["subjects"]] == [["g"], ["h"]]
    elsewhere = tmp_path / "deeper"
    elsewhere.mkdir()
    assert run("audit", "--config", "../evenscore.toml", "--quiet", cwd=elsewhere).returncode == 0
    done = run("audit", "--independent", "--json", "-", cwd=tmp_path)
    assert "independent rows" in " ".join(json.loads(done.stdout)["summary"])


def test_bad_settings_end_with_2(folder, tmp_path):
    settings(tmp_path, "[data]\nscor = 's'\n")
    done = run("audit", folder / "even.csv", *FULL, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and "unknown key 'scor'; did you mean score?" in done.stderr


def test_missing_settings_end_with_2(folder, tmp_path):
    done = run("audit", folder / "even.csv", *FULL, "--config", tmp_path / "no.toml")
    assert done.returncode == 2 and "Error: cannot read" in done.stderr


def test_init_writes_settings_that_work(folder, tmp_path):
    done = run("init", folder / "uneven.csv", "--score", "s", "--outcome", "y", "--group", "g", "--user", "u", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "" and "evenscore.toml is written" in done.stderr
    assert "tolerance = 0.02 " in (tmp_path / "evenscore.toml").read_text()
    assert run("audit", "--quiet", cwd=tmp_path).returncode == 1
    assert {"audit.html", "audit.json"} <= {path.name for path in tmp_path.iterdir()}
    again = run("init", cwd=tmp_path)
    assert again.returncode == 2 and "--force overwrites it" in again.stderr
    assert run("init", "--force", "--tolerance", "0.1", cwd=tmp_path).returncode == 0
    text = (tmp_path / "evenscore.toml").read_text()
    assert "tolerance = 0.1 " in text and '# score = "score"' in text
    done = run("init", folder / "uneven.csv", "--score", "z", "--output", "b.toml", cwd=tmp_path)
    assert done.returncode == 2 and "no column 'z' for score" in done.stderr and not (tmp_path / "b.toml").exists()


# Comparing


@pytest.fixture(scope="module")
def audits(folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("audits")
    for name in ("even", "uneven"):
        es.audit(folder / f"{name}.csv", score="s", outcome="y", group="g", user="u", repair=False).to_json(place / f"{name}.json")
    return place


def test_compare(audits):
    worse = run("compare", audits / "even.json", audits / "uneven.json")
    assert worse.returncode == 1 and "new disparity" in worse.stdout
    better = run("compare", audits / "uneven.json", audits / "even.json", "--json", "-")
    change = json.loads(better.stdout)["changes"][0]
    assert better.returncode == 0 and change["change"] == "no longer shown" and change["gap_after"] < change["gap_before"]
    same = [audits / "uneven.json"] * 2
    assert run("compare", *same).returncode == 0
    assert run("compare", *same, "--fail-on", "any").returncode == 1
    assert run("compare", audits / "even.json", audits / "uneven.json", "--fail-on", "never").returncode == 0


def test_a_repaired_score_is_compared_with_the_old_one(audits):
    old = json.loads((audits / "uneven.json").read_text())
    new = json.loads((audits / "even.json").read_text())
    new["subjects"][0]["score"] = "s_repaired"
    (change,) = es.compare_audits(old, new).changes
    assert (change.score, change.change) == ("s → s_repaired", "no longer shown")
    new["subjects"][0]["tests"]["parity"] |= {"p_value": None, "pairs": []}
    found = es.compare_audits(old, new)
    assert found.changes[0].change == "could not be judged" and "may still be there" in repr(found)
    new["subjects"][0]["verdict"] = "parity"
    assert es.compare_audits(old, new).changes[0].change == "disparity gone"
    new["subjects"][0]["attribute"] = ["h"]
    assert [change.change for change in es.compare_audits(old, new).changes] == ["only before", "only after"]


def test_compare_what_is_no_audit(audits, tmp_path):
    document = json.loads((audits / "even.json").read_text())
    bad = {
        "text.json": ("hello", "is not JSON"),
        "other.json": ("{}", "is not an audit"),
        "newer.json": (json.dumps(document | {"schema_version": "2.0"}), "has schema version 2.0; this evenscore reads 1.x"),
        "torn.json": (json.dumps({k: v for k, v in document.items() if k != "subjects"}), "is damaged: it lacks subjects"),
    }
    for name, (text, words) in bad.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(es.FileError, match=re.escape(words)):
            es.compare_audits(audits / "even.json", tmp_path / name)
    done = run("compare", audits / "even.json", tmp_path / "none.json")
    assert done.returncode == 2 and "Error: cannot read" in done.stderr and done.stdout == ""


# Manners


def on_a_terminal(*arguments, **environment):
    """What a command shows on a terminal: stdout and stderr together."""
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-m", "evenscore", *map(str, arguments)]
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    with subprocess.Popen(command, stdout=other_end, stderr=other_end, env=clean | {"TERM": "xterm"} | environment):
        os.close(other_end)
        shown = read_until(terminal, b"\x00never")
    os.close(terminal)
    return shown.decode()


def test_colour_on_a_terminal_only_and_not_when_unwanted(folder):
    data = [folder / "uneven.csv", *FULL, "--no-repair"]
    shown = on_a_terminal("audit", *data)
    assert "\x1b[31;1mDISPARITY\x1b[0m" in shown and "reading" in shown
    plain = on_a_terminal("audit", *data, NO_COLOR="1")
    assert "DISPARITY" in plain and "\x1b[31" not in plain
    assert "\x1b" not in run("audit", *data).stdout
    assert on_a_terminal("audit", *data, "--quiet") == ""


def test_completion():
    environment = os.environ | {"_EVENSCORE_COMPLETE": "bash_source"}
    done = subprocess.run([sys.executable, "-m", "evenscore"], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0 and "complete" in done.stdout and "evenscore" in done.stdout
    asked = {"_EVENSCORE_COMPLETE": "bash_complete", "COMP_WORDS": "evenscore audit --require", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-m", "evenscore"], capture_output=True, text=True, env=os.environ | asked, timeout=60)
    assert "--require-power" in done.stdout


@pytest.mark.parametrize("command", ["compare", "init"])
def test_commands_explain_themselves_without_numpy(command):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "evenscore", command, "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and not re.search(r"\| +(numpy|jinja2|duckdb|scipy)\b", done.stderr)
