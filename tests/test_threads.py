"""Linear algebra takes one thread inside the library, and afterwards as many as before."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.threads import one_thread

DATA = as_dict(repeated_users(1500, 1, n_groups=3))
TALLY = es.tally(DATA, **NAMES)


def threads():
    """Threads of NumPy's linear algebra."""
    return next(library["num_threads"] for library in threadpool_info() if "numpy" in library["filepath"])


@pytest.fixture
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if threads() != 2:
            pytest.skip("this NumPy's linear algebra does not take two threads")
        yield


def observing(seen):
    return lambda *_: seen.append(threads())


CALLS = {
    "parity_test": lambda seen: es.parity_test(TALLY, progress=observing(seen)),
    "parity_test of data": lambda seen: es.parity_test(DATA, **NAMES, progress=observing(seen)),
    "tally": lambda seen: es.tally(DATA, **NAMES, progress=observing(seen)),
    "audit": lambda seen: es.audit(DATA, **NAMES, progress=observing(seen)),
    "sweep_weights": lambda seen: es.sweep_weights(
        es.simulate_objectives(60).data(1), **es.simulate_objectives(60).columns, method="bonferroni", progress=observing(seen)
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_takes_one_thread_and_gives_the_others_back(call, two_threads):
    seen = []
    CALLS[call](seen)
    assert seen and set(seen) == {1}
    assert threads() == 2


def test_an_error_gives_them_back_too(two_threads):
    def fail(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        es.parity_test(TALLY, progress=fail)
    with pytest.raises(es.OptionError):
        es.parity_test(TALLY, alpha=7)
    assert threads() == 2


def test_the_last_of_overlapping_calls_gives_them_back(two_threads):
    inside, leave = threading.Event(), threading.Event()

    def other():
        with one_thread():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        inside.wait(60)
        assert threads() == 1
    assert threads() == 1, "the other call is not done yet"
    leave.set()
    thread.join()
    assert threads() == 2


def test_parallel_calls_give_what_one_gives(two_threads):
    wanted = es.parity_test(TALLY, seed=3).rows()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: es.parity_test(TALLY, seed=3).rows(), range(8)))
    assert all(rows == wanted for rows in found)
    assert threads() == 2
