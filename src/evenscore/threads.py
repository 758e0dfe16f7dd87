"""Linear algebra in one thread.

The matrices here are small: handing them round between threads takes longer than multiplying them, many times as long on a busy
machine. And sums whose order depends on the number of cores would differ between machines in their last digits.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Limit:
    """How many calls are inside; the first one sets the limit and the last one restores what was before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls = 0
        self.limits: Any = None

    def enter(self) -> None:
        from threadpoolctl import threadpool_limits

        with self.lock:
            if self.calls == 0:
                self.limits = threadpool_limits(limits=1, user_api="blas")
            self.calls += 1

    def leave(self) -> None:
        with self.lock:
            self.calls -= 1
            if self.calls == 0:
                self.limits.restore_original_limits()


_LIMIT = _Limit()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra in one thread, in the whole process, until the last of the calls that asked for it is done."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


def in_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """A function that does its linear algebra in one thread."""

    @functools.wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        with one_thread():
            return function(*args, **kwargs)

    return limited
