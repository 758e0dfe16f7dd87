"""The GitHub action: its shell steps run as they stand there, on an example and on what can go wrong."""

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from processes import make_frame

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"] if "id" in step}
COLUMNS = "--score s --outcome y\n--group g --user u"


@pytest.fixture
def audit(tmp_path):
    """Run the step with inputs, where the first step would have installed the evenscore under test."""
    command = tmp_path / "runner" / "evenscore" / "bin" / "evenscore"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m evenscore "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    (command.parent / "python").symlink_to(sys.executable)
    work = tmp_path / "work"
    work.mkdir()

    def run(**inputs):
        given = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()} | inputs
        words = {f"INPUT_{name.upper()}": value for name, value in given.items()}
        files = {"GITHUB_STEP_SUMMARY": tmp_path / "summary.md", "GITHUB_OUTPUT": tmp_path / "output"}
        for path in files.values():
            path.write_text("")
        places = {name: str(path) for name, path in files.items()} | {
            "RUNNER_TEMP": str(tmp_path / "runner"),
            "ACTION_PATH": str(ROOT),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["audit"]["run"]],  # as GitHub runs `shell: bash`
            cwd=work,
            env=os.environ | words | places,
            capture_output=True,
            text=True,
            timeout=300,
        )
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        return done, files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8"), outputs

    return work, run


def test_what_the_steps_are_given_are_inputs():
    for step in STEPS.values():
        for name, value in step["env"].items():
            assert name == "ACTION_PATH" or value == f"${{{{ inputs.{name.removeprefix('INPUT_').lower()} }}}}"
        assert "${{" not in step["run"], "text of a script must not come from inputs"
    assert {value.split("steps.audit.outputs.")[1].split(" ")[0] for value in (o["value"] for o in ACTION["outputs"].values())} == {
        "verdict",
        "code",
    }


def test_a_disparity_fails_the_step_and_is_drawn(audit):
    work, run = audit
    make_frame(0.3).replace({"g": {"a": "men <b>", "b": "wo|men"}}).to_csv(work / "two words.csv", index=False)
    done, summary, outputs = run(data="two words.csv", options=COLUMNS + " --no-repair --title 'two words'")
    assert done.returncode == 1, done.stderr
    assert outputs == {"code": "1", "verdict": "disparity"}
    assert "disparity" in summary.splitlines()[0].lower()
    chart = summary.split("```mermaid\n")[1].split("```")[0]
    assert chart.splitlines()[1] == "xychart-beta"
    lines = [json.loads(line.split("line ")[1]) for line in chart.splitlines() if "line [" in line]
    assert len(lines) == 2 and {len(line) for line in lines} == {25}
    assert sum(b - a for a, b in zip(*lines)) / 25 == pytest.approx(0.3, abs=0.08)  # the gap that was put there
    assert "blue: men &#60;b&#62;, orange: wo&#124;men." in summary
    assert {path.name for path in (work / "evenscore-audit").iterdir()} == {"audit.html", "audit.json", "audit.xml"}


def test_no_disparity_passes_with_settings_alone(audit):
    work, run = audit
    make_frame(0.0).to_csv(work / "a.csv", index=False)
    (work / "evenscore.toml").write_text('[data]\npath = "a.csv"\nscore = "s"\noutcome = "y"\ngroup = "g"\nuser = "u"\n')
    done, _, outputs = run(folder="out")
    assert (done.returncode, outputs) == (0, {"code": "0", "verdict": "inconclusive"}), done.stderr


def test_what_cannot_run_says_so(audit):
    work, run = audit
    marker = work / "marker"
    done, summary, outputs = run(data="no.csv", options=f"--score s $(touch {shlex.quote(str(marker))}) ; touch {marker}")
    assert done.returncode == 2 and outputs == {"code": "2"} and not marker.exists()
    assert "did not run: it ended with 2" in summary


def test_the_workflow_runs_the_command_of_the_tests():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    tests = workflow["jobs"]["tests"]
    assert tests["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert tests["steps"][-1]["run"] == "bash .ci/run"
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(path.read_text(encoding="utf-8"))
