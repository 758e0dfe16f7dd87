"""Linear algebra in one thread.

The matrices here are small: handing them round between threads takes longer than multiplying them, many times as long on a busy
machine. And sums whose order depends on the number of cores would differ between machines in their last digits.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from evenscore.naming import own_names

P = ParamSpec("P")
T = TypeVar("T")

_LOCK = threading.Lock()
_BEFORE: dict[str, int] = {}  # threads of each library before the first of the calls that are inside now
_INSIDE: set[int] = set()  # threads of Python in such a call
_OWN_LIMITS = "openmp"  # a library of this kind has a limit for each thread, others have one for the process


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra in one thread, in the whole process, until the last of the calls that asked for it is done."""
    caller = threading.get_ident()
    if caller in _INSIDE:
        yield
        return
    libraries = _blas()
    with _LOCK:
        if not _INSIDE:
            _BEFORE.update({library.filepath: library.num_threads for library in libraries})
        _INSIDE.add(caller)
        for library in libraries:
            _set_threads(library, 1)
    try:
        yield
    finally:
        with _LOCK:
            _INSIDE.discard(caller)
            for library in libraries:
                if not _INSIDE or getattr(library, "threading_layer", None) == _OWN_LIMITS:
                    _set_threads(library, _BEFORE.get(library.filepath, 1))


def in_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """A public function: it does its linear algebra in one thread, and the names of its groups end with it."""

    @functools.wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        with one_thread(), own_names():
            return function(*args, **kwargs)

    return limited


def _blas() -> list[Any]:
    """The libraries of linear algebra that are loaded now."""
    return _blas_of(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _blas_of(_modules: int) -> list[Any]:
    """To look for them takes as long as a test of small data; a further one comes with a module."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(library: Any, threads: int) -> None:
    """Limit a library, whichever thread asks.

    Newer versions of threadpoolctl heed only the first thread that ever set a limit, as long as it lives; who leaves last is often
    another.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)
