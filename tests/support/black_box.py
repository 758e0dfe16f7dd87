"""What hostile tests see from outside: numbers of a tally, the command line, the same rows in every container, and a time limit."""

from __future__ import annotations

import contextlib
import gzip
import os
import signal
import subprocess
import sys
import threading

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenscore.tallies.reshaping import recentre

LIMIT = 60  # seconds after which a case is taken to be endless; nothing here takes a tenth of it
NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
COLUMNS = ["--score", "s", "--outcome", "y", "--group", "g", "--user", "u"]


# It ends


class EndlessError(AssertionError):
    """A case did not end."""


@contextlib.contextmanager
def time_limit(seconds: float = LIMIT):
    """Stop a case that does not end; a guard, not a measurement."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        raise EndlessError(f"it did not end within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    outer, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    if 0 < outer < seconds:  # a limit around this one is nearer
        signal.setitimer(signal.ITIMER_REAL, outer)
    try:
        yield
    finally:
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            signal.setitimer(signal.ITIMER_REAL, max(outer - (min(seconds, outer) - left), 1e-6))


# The command line


def start(*words, cwd=None, environment=None):
    """A command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "evenscore", *map(str, words)],
        cwd=cwd,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
    )


def run(*words, cwd=None, environment=None, limit=LIMIT):
    """Run a command as a process to its end: its code, stdout and stderr."""
    process = start(*words, cwd=cwd, environment=environment)
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise EndlessError(f"evenscore {' '.join(map(str, words))[:200]} did not end within {limit} seconds") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def ended(*words):
    """Run a command inside this process, which is quicker: its exit code."""
    from evenscore.cli import main

    with pytest.raises(SystemExit) as caught, time_limit():
        main([str(word) for word in words])
    return caught.value.code


# Numbers of a tally


def numbers(tally, *, folds=True):
    """Everything that a tally counts, as a dict of plain arrays."""
    found = {}
    for label in tally.groups:
        name = repr(label)
        found[name, "users"] = np.array([tally.n_users[label], tally.n_rows[label], tally.n_unlabelled[label]], dtype=float)
        for weighting in ("user", "row"):
            sums = tally.sums(label, weighting)
            found |= {(name, weighting, vector): getattr(sums, vector) for vector in ("W", "Y", "X", "Y2", "N")}
            if folds:
                found[name, weighting, "folds"] = tally.folds(label, weighting).W
            pairs = tally.pair_matrices(label, label, weighting)
            found |= {(name, weighting, part): getattr(pairs, part) for part in ("ww", "wy", "yy")}
    return found


def assert_alike(tally, wanted, *, rtol=1e-9, folds=True):
    """Two tallies count the same people in the same groups, cells and folds."""
    assert [(type(label), label) for label in tally.groups] == [(type(label), label) for label in wanted.groups]
    tally = recentre(tally, wanted.centre)  # the last digit of a mean depends on the order of the rows
    one, other = numbers(tally, folds=folds), numbers(wanted, folds=folds)
    for key, expected in other.items():
        scale = np.abs(expected).max(initial=0)
        np.testing.assert_allclose(one[key], expected, rtol=rtol, atol=rtol * scale, err_msg=str(key))


def differ(tally, wanted):
    """Whether two tallies do not count the same."""
    try:
        assert_alike(tally, wanted)
    except AssertionError:
        return True
    return False


# The same rows everywhere


def csv_text(table):
    """CSV with every value as Python writes it."""
    lines = [",".join(table.column_names)]
    lines += [",".join(map(_cell, row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return "\n".join(lines) + "\n"


def _cell(value):
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


def in_csv(table, folder):
    path = folder / "rows.csv"
    path.write_text(csv_text(table), encoding="utf-8")
    return path


def in_gzip(table, folder):
    path = folder / "rows.csv.gz"
    path.write_bytes(gzip.compress(csv_text(table).encode(), 1))
    return path


def in_spilled_csv(table, folder):
    """CSV with a wide column that nobody asks for, so that the file is larger than the smallest memory limit takes at once."""
    path = folder / "wide.csv"
    pad = "x" * (34_000_000 // table.num_rows + 1)
    header, *lines = csv_text(table).splitlines()
    path.write_text("\n".join([f"{header},pad", *(f"{line},{pad}" for line in lines)]) + "\n", encoding="utf-8")
    return path


def in_parquet(table, folder):
    path = folder / "rows.parquet"
    pq.write_table(table, path)
    return path


def in_many_files(table, folder):
    third = table.num_rows // 3
    place = folder / "many"
    place.mkdir(exist_ok=True)
    for number in range(3):
        end = table.num_rows if number == 2 else (number + 1) * third
        pq.write_table(table.slice(number * third, end - number * third), place / f"{number}.parquet")
    return place


def in_pandas(table, folder):
    return table.to_pandas()


def in_polars(table, folder):
    import polars as pl

    return pl.from_arrow(table)


def in_duckdb(table, folder):
    return duckdb.connect().from_arrow(table)


def in_ibis(table, folder):
    import ibis

    return ibis.memtable(table)


def in_dask(table, folder):
    import dask
    import dask.dataframe as dd

    with dask.config.set({"dataframe.convert-string": False}):  # else Dask makes text of decimals and bytes by itself
        return dd.from_pandas(table.to_pandas(), npartitions=2)


CONTAINERS = {
    "dict": lambda table, folder: {name: table[name].to_pylist() for name in table.column_names},
    "pandas": in_pandas,
    "polars": in_polars,
    "pyarrow": lambda table, folder: table,
    "duckdb": in_duckdb,
    "csv": in_csv,
    "csv.gz": in_gzip,
    "parquet": in_parquet,
    "parquet files": in_many_files,
    "ibis": in_ibis,
    "dask": in_dask,
}


def people(n_rows=400, seed=0, n_users=None, gap=0.2):
    """Rows of repeated users in an Arrow table: s, y, g, u."""
    rng = np.random.default_rng(seed)
    n_users = n_users or max(4, n_rows // 4)
    user = np.sort(rng.integers(0, n_users, n_rows))
    score = rng.random(n_rows).round(6)
    outcome = (rng.random(n_rows) < np.clip(0.1 + 0.6 * score + gap * (user % 2), 0, 1)).astype(np.int64)
    return pa.table({"s": score, "y": outcome, "g": np.array(["a", "b"])[user % 2], "u": user})


def some(cases, n):
    """The first n cases, or all of them with EVENSCORE_FUZZ=thorough."""
    return list(cases) if os.environ.get("EVENSCORE_FUZZ") == "thorough" else list(cases)[:n]
