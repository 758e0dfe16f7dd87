"""Narrow installations: the wheel in fresh environments, with the lowest allowed versions and with each extra alone.

python tests/narrow.py [FOLDER]     builds the wheel and the source distribution, then runs smoke.py in one environment a case
"""

import itertools
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
EXTRAS = [name for name in PROJECT["optional-dependencies"] if name not in ("all", "spark", "mlflow")]  # too large for a smoke test


def lowest(requirements):
    """Each lower bound as the version to install."""
    return [requirement.replace(">=", "==") for requirement in requirements]


def cases():
    """Names, and what is installed beside the wheel."""
    yield "core, newest versions", []
    yield "core, lowest versions", lowest(PROJECT["dependencies"])
    for extra in EXTRAS:
        yield f"{extra}, lowest versions", lowest([*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]])


def run(*words):
    subprocess.run(list(map(str, words)), check=True, cwd=ROOT)


def installed(python, *requirements):
    """Whether wheels of these versions exist for this Python; the lowest are often older than it."""
    words = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *requirements]
    return subprocess.run(list(map(str, words)), cwd=ROOT, check=False).returncode == 0


def main(folder):
    run(sys.executable, "-m", "pip", "install", "--quiet", "build")
    run(sys.executable, "-m", "build", "--outdir", folder / "dist")
    (wheel,) = (folder / "dist").glob("*.whl")
    for number, (name, requirements) in zip(itertools.count(), cases(), strict=False):
        place = folder / f"environment-{number}"
        venv.create(place, with_pip=True)
        python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        if not installed(python, wheel, *requirements):
            if sys.version_info[:2] == OLDEST or not requirements:
                raise SystemExit(f"{name}: cannot be installed")
            print(f"{name}: no wheels for this Python, left out", flush=True)
            continue
        print(name, flush=True)
        run(python, ROOT / "tests" / "smoke.py")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
