"""The recipes of docs/ci.md, run as they stand there: they fail a build on a disparity, and only then."""

import os
import re
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from processes import make_frame

TEXT = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
SHELL = [block for block in re.findall(r"```bash\n(.*?)```", TEXT, flags=re.DOTALL) if "audit holdout.csv" in block]
ACTIONS = textwrap.dedent(re.search(r"run: \|\n(.*?)\n      - if", TEXT, flags=re.DOTALL)[1])


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A folder for each kind of data, and an evenscore on the path that is the one under test."""
    folder = tmp_path_factory.mktemp("ci")
    command = folder / "bin" / "evenscore"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m evenscore "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    for name, gap in (("even", 0.0), ("uneven", 0.3)):
        (folder / name).mkdir()
        frame = make_frame(gap).rename(columns={"s": "score", "y": "repaid", "g": "gender", "u": "customer"})
        frame.to_csv(folder / name / "holdout.csv", index=False)

    def run(script, name):
        place = folder / name
        environment = os.environ | {
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
        }
        return subprocess.run(["bash", "-e", "-c", script], cwd=place, env=environment, capture_output=True, text=True, timeout=120)

    return folder, run


def test_shell_scripts_fail_on_a_disparity_only(build):
    _, run = build
    assert len(SHELL) == 3
    for script in SHELL:
        assert run(script, "uneven").returncode == 1
    assert run(SHELL[0], "even").returncode == 0
    done = run(SHELL[1], "even")
    assert (done.returncode, done.stdout) == (0, "no disparity is shown\n")


def test_the_github_step_fails_and_says_why(build):
    folder, run = build
    assert run(ACTIONS, "uneven").returncode == 1
    assert "disparity" in (folder / "uneven" / "summary.md").read_text(encoding="utf-8").splitlines()[0]
    assert {"audit.html", "audit.json", "audit.xml"} <= {path.name for path in (folder / "uneven").iterdir()}
