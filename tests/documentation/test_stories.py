"""The example that goes from data to a decision runs, and says what the data say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stories_are_told(tmp_path):
    command = [sys.executable, ROOT / "examples" / "stories.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and "fair" not in done.stdout
    first, second = done.stdout.split("2. Screening for diabetes")
    assert "INCONCLUSIVE" in first and "that alarm is false" in first
    assert "DISPARITY" in second and "Asian - White" in second
    assert "score_blind → score_aware" in second
    for name in ("ncaa", "nhanes"):
        page = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert page.rstrip().endswith("</html>") and len(page.encode()) < 300_000
