"""The guide to calibration: its Python runs, and the figures it quotes are those that come out."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")


def test_the_guide_runs_and_quotes_what_comes_out(tmp_path):
    block = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)[0]
    block = block.replace('"map.json"', repr(str(tmp_path / "map.json")))
    done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "map.json").exists()
    quoted = " ".join(TEXT.split())
    shown = " ".join(done.stdout.split())
    gap = re.search(r"gap ([\d.]+) before", shown)[1]
    p_value = re.search(r"p = ([\d.]+),", shown)[1]
    assert f"{float(gap):.2f}"[1:] + " in root mean square" in quoted
    assert abs(float(re.search(r"no gap is shown \(p = ([\d.]+)\)", quoted)[1]) - float(p_value)) < 0.03
    assert "inconclusive" in done.stdout
