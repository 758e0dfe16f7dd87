"""The README: its Python blocks run, and what it shows is what the command prints."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_first_block_is_short_and_ends_in_an_audit():
    lines = blocks("bash")[0].strip().splitlines()
    assert len(lines) <= 5
    assert lines[-1].startswith(".venv/bin/evenscore audit examples/")


def test_the_audit_prints_what_is_shown():
    command = blocks("bash")[0].strip().splitlines()[-1].removeprefix(".venv/bin/evenscore ")
    done = subprocess.run(
        [sys.executable, "-m", "evenscore", *command.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == blocks("text")[0]
    assert len(done.stdout.splitlines()) <= 12


def test_the_python_blocks_run_one_after_the_other():
    program = "\n".join(blocks("python"))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    parity, repair = done.stdout.split("\n\n", 1)
    assert "inconclusive" in parity
    assert "before" in repair and "after" in repair


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target


def test_ci_runs_the_last_block():
    assert blocks("bash")[-1].strip() in (ROOT / ".ci" / "run").read_text()
