"""Processes that do the runs of studies; several studies can share them, so that they start once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from types import TracebackType
from typing import Any

from evenscore.errors import EvenscoreError, require_count

# One thread each: several processes share the cores, and sums do not depend on how many cores there are.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Workers:
    """So many processes, for ``es.study(..., workers=Workers(2))`` inside a ``with`` block.

    They are new processes rather than forks: a fork of a process with threads (frames, BLAS) can hang.
    """

    def __init__(self, processes: int) -> None:
        self.processes = require_count("workers", processes)
        self._pool: ProcessPoolExecutor | None = None
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> Workers:
        self._before = {name: os.environ.get(name) for name in ONE_THREAD}
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
        self._pool = ProcessPoolExecutor(self.processes, multiprocessing.get_context("spawn"), _start)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    def map(self, function: Callable[..., Any], common: Any, items: Iterable[Any]) -> Iterator[Any]:
        """``function(common, item)`` for every item, in order; all must be known to a new process."""
        if self._pool is None:
            raise EvenscoreError("workers are used inside a with block: with Workers(2) as workers: ...")
        sent = pickle.dumps((function, common))
        futures = [self._pool.submit(_call, sent, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        except BrokenProcessPool as error:
            raise EvenscoreError(
                "a worker process ended. A script asks for workers > 1 under `if __name__ == '__main__':`, and methods of a study "
                "must be importable in a new process; workers=1 does without"
            ) from error
        finally:
            for future in futures:
                future.cancel()


def _start() -> None:
    """A worker leaves interrupts to its parent, and ends when that is gone: killed, it cannot say goodbye."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@lru_cache(maxsize=4)
def _unpack(sent: bytes) -> tuple[Callable[..., Any], Any]:
    function, common = pickle.loads(sent)
    return function, common


def _call(sent: bytes, item: Any) -> Any:
    function, common = _unpack(sent)
    return function(common, item)
