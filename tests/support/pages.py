"""Running the Python of a page of the documentation, block after block, as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return [body for name, body in FENCE.findall(path.read_text(encoding="utf-8")) if name == language]


def run_page(path: Path, folder: Path) -> str:
    """What the page's blocks print in a folder that has the examples; warnings are errors."""
    (folder / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks(path, "python"))],
        cwd=folder,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{path.name}: {done.stderr}"
    return done.stdout


def shown(path: Path) -> list[str]:
    """The lines of its ``text`` blocks, which are what Python printed; ``...`` stands for lines left out."""
    return [line for body in blocks(path, "text") for line in body.splitlines() if line.strip() not in ("", "...")]
