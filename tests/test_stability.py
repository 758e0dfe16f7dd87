"""The same answer whatever the threads; large offsets and weights of every size; many threads at once; a budget of memory."""

import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users

PROGRAM = """
import hashlib, json, sys
sys.path[:0] = [{tests!r}]
import evenscore as es
from data import NAMES, as_dict, repeated_users
tally = es.tally(as_dict(repeated_users(3000, 1, n_groups=3, weights=True)), **NAMES, weight="v")
test = es.parity_test(tally, seed=5)
print([f"{{row['p_value']:.9g}} {{row['max_gap']:.9g}}" for row in test.rows()], test.verdict)
"""


def test_the_number_of_threads_changes_nothing():
    program = PROGRAM.format(tests=str(Path(__file__).parent / "support"))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(outputs) == 1


def test_outcomes_far_from_zero_lose_nothing():
    rows = repeated_users(2000, 3, real=True)
    near = es.parity_test(es.tally(as_dict(rows), **NAMES), method="sup", both=False)
    far = es.parity_test(es.tally(as_dict(replace(rows, outcome=rows.outcome + 1e9)), **NAMES), method="sup", both=False)
    assert far.max_gap == pytest.approx(near.max_gap, rel=1e-5)
    assert far.p_value == pytest.approx(near.p_value, rel=1e-3)


def test_weights_over_twelve_orders_of_magnitude():
    rows = repeated_users(2000, 4)
    weight = 10.0 ** np.random.default_rng(0).uniform(-6, 6, 2000)
    found = [
        es.parity_test(es.tally(as_dict(replace(rows, weight=weight * scale)), **NAMES, weight="v"), method="sup", both=False)
        for scale in (1.0, 1e-6, 1e6)
    ]
    for other in found[1:]:
        assert other.max_gap == pytest.approx(found[0].max_gap, rel=1e-8, nan_ok=True)
        assert other.verdict == found[0].verdict


def test_threads_at_once_give_what_one_gives():
    data = as_dict(repeated_users(2000, 5, n_groups=3))

    def work(seed):
        tally = es.tally(data, **NAMES)
        return es.parity_test(tally, seed=seed, method="sup").rows(), es.calibrate(tally, method="isotonic").rows()

    alone = [work(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, range(4)))
    assert repr(together) == repr(alone)


def test_a_scan_stays_within_its_budget_of_memory():
    """A million rows are 40 MB of columns; the scan may hold no more than a few copies of them beside the sums."""
    data = as_dict(repeated_users(1_000_000, 6, rows_per_user=10))
    data.pop("v")
    tracemalloc.start()
    tally = es.tally(data, **NAMES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    columns = sum(column.nbytes for column in data.values())
    assert peak < 4 * columns + 6 * tally.nbytes
