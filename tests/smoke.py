"""What an installation must do without any extra: tally, test, calibrate, thresholds, files, commands. Run by narrow.py."""

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import evenscore as es

COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def main():
    assert "site-packages" in es.__file__, f"not the installed package: {es.__file__}"
    data = es.simulate(600, curve={"a": (0, 1), "b": (-1.5, 1)}).data(seed=1)
    tally = es.tally(data, **COLUMNS, cuts=(0.5,))
    assert es.parity_test(tally).verdict == "disparity"
    calibrator = es.calibrate(tally)
    assert es.fair_thresholds(tally, threshold=0.5).rows() and es.marginal_test(tally, threshold=0.5).rows()
    assert es.calibration_error(tally).rows() and es.classification_impact(tally, threshold=0.5).rows()
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder), tally, calibrator)
    without_extras(tally)
    print("fine:", ", ".join(sorted(name for name in EXTRAS if importlib.util.find_spec(name))) or "no extras")


def files(folder, tally, calibrator):
    """Saved files, and the commands on CSV and Parquet."""
    tally.save(folder / "tally")
    assert es.Tally.load(folder / "tally").n_users == tally.n_users
    calibrator.save(folder / "map.json")
    names = [word for role, name in COLUMNS.items() for word in (f"--{role}", name)]
    for kind in ("csv", "parquet"):
        rows = str(folder / f"rows.{kind}")
        assert command("simulate", "shift", "--users", "300", "--output", rows).returncode == 0
        audited = command("audit", rows, *names, "--json", "-")
        assert audited.returncode in (0, 1), audited.stderr
        assert json.loads(audited.stdout)["verdict"] in ("disparity", "inconclusive")
        applied = command("apply", str(folder / "map.json"), rows, "--out", str(folder / f"out.{kind}"))
        assert applied.returncode == 0, applied.stderr


def command(*words):
    return subprocess.run([sys.executable, "-m", "evenscore", *words], capture_output=True, text=True, timeout=300, check=False)


EXTRAS = {"pandas": "frame", "matplotlib": "plot"}


def without_extras(tally):
    """What needs a library that is not there says so."""
    test = es.parity_test(tally, method="sup", both=False)
    for library, method in EXTRAS.items():
        missing = importlib.util.find_spec(library) is None
        if library == "pandas":
            missing = all(importlib.util.find_spec(name) is None for name in ("pandas", "polars", "pyarrow"))
        try:
            getattr(test, method)()
        except es.EvenscoreError as error:
            assert missing and library in str(error), error
        else:
            assert not missing


if __name__ == "__main__":
    main()
