"""Commands, as processes or inside this one, and the rows that they are given."""

import contextlib
import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd

COLUMNS = ["--score", "s", "--outcome", "y", "--group", "g"]
FULL = [*COLUMNS, "--user", "u"]


def run(*arguments, cwd=None):
    """A command inside this process, which takes a third of the time of a process of its own: code, stdout and stderr."""
    from evenscore.cli import main

    words = list(map(str, arguments))
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    code = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(cwd or os.curdir):
        try:
            main(words)
        except SystemExit as ended:
            code = ended.code
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode("utf-8"))
    return subprocess.CompletedProcess(words, code, *said)


def run_process(*arguments, encoding="utf-8", **options):
    """A command as users run it."""
    command = [sys.executable, "-m", "evenscore", *map(str, arguments)]
    given = options.pop("env", None)
    env = {**(os.environ if given is None else given), "PYTHONWARNINGS": "error::RuntimeWarning"}  # NumPy's never reach a user
    return subprocess.run(command, capture_output=True, text=True, encoding=encoding, timeout=120, env=env, **options)


def parity(result):
    """The parity test of the only score and attribute."""
    (subject,) = result["subjects"]
    return subject["tests"]["parity"]


def make_frame(gap, n_rows=4_000):
    rng = np.random.default_rng(0)
    user = rng.integers(0, n_rows // 4, n_rows)
    score = rng.random(n_rows).round(6)
    outcome = (rng.random(n_rows) < np.clip(0.1 + 0.6 * score + gap * (user % 2), 0, 1)).astype(int)
    return pd.DataFrame({"s": score, "y": outcome, "g": np.array(["a", "b"])[user % 2], "u": user})


def read_until(terminal, word):
    """What the terminal shows until a word comes, or until the other end is closed."""
    seen = b""
    with contextlib.suppress(OSError):
        while word not in seen:
            seen += os.read(terminal, 1_000)
    return seen
