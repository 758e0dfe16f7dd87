"""The page on simulation: its block runs, and it names what there is."""

import re
import subprocess
import sys
from pathlib import Path

from evenscore import simulation
from evenscore.simulation.package_methods import OWN

TEXT = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text(encoding="utf-8")


def test_the_block_runs():
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "rejected is the power" in done.stdout


def test_every_part_is_named():
    parts = ("Beta", "BusyBeta", "BusyCurve", "Curve", "Discrete", "ParetoRows", "PoissonRows", "PowerUsers", "Workers")
    for name in (*parts, "simulate_ranking", "simulate_objectives"):
        assert hasattr(simulation, name) and f"{name}" in TEXT
    assert all(f'"{name}"' in TEXT for name in OWN[-3:])
