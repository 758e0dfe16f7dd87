"""The three verdicts, and how what many tests show makes one result. "Not rejected" is never called fair."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from evenscore.tables import Table
from evenscore.wording import p_short

DISPARITY = "disparity"
PARITY = "parity"
INCONCLUSIVE = "inconclusive"


def combine(verdicts: Iterable[str]) -> str:
    """Any disparity makes the whole a disparity; parity needs every verdict.

    >>> combine(["parity", "inconclusive", "disparity"]), combine(["parity", "inconclusive"]), combine(["parity", "parity"])
    ('disparity', 'inconclusive', 'parity')
    """
    known = set(verdicts)
    if DISPARITY in known:
        return DISPARITY
    return PARITY if known == {PARITY} else INCONCLUSIVE


def smallest(values: Iterable[float]) -> float:
    """The smallest value that is known, such as the p-value of the whole; nan when none is."""
    return min(filter(math.isfinite, values), default=math.nan)


def largest(values: Iterable[float], key: Callable[[float], float] | None = None) -> float:
    """The largest value that is known, such as the largest gap; nan when none is."""
    return max(filter(math.isfinite, values), key=key, default=math.nan)


def join_reasons(judged: Iterable[Any], verdict: str) -> str:
    """The reasons of those with this verdict, once each."""
    return "; ".join(dict.fromkeys(item.reason for item in judged if item.verdict == verdict))


class Judgement:
    """One test among several: of a pair, an objective, a set of weights."""

    __slots__ = ()

    p_adjusted: float
    verdict: str


class VerdictTable(Table):
    """A result that several judgements make: the one home of its p-value, verdict and title."""

    __slots__ = ()

    @abstractmethod
    def _judgements(self) -> Sequence[Judgement]:
        """What makes the verdict."""

    @abstractmethod
    def _heading(self) -> str:
        """What was tested, for the title."""

    @property
    @abstractmethod
    def null(self) -> str:
        """What is tested, in words."""

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value; nan when nothing could be judged."""
        return smallest(item.p_adjusted for item in self._judgements())

    @property
    def verdict(self) -> str:
        """ "disparity", "parity" (with a tolerance only) or "inconclusive"."""
        return combine(item.verdict for item in self._judgements())

    @property
    @abstractmethod
    def reason(self) -> str:
        """Why the verdict is what it is."""

    def _title(self) -> str:
        return f"{self._heading()}: {', '.join(filter(None, (self.verdict, p_short(self.p_value))))}"

    def _notes(self) -> list[str]:
        return [f"null hypothesis: {self.null}", f"verdict: {self.verdict}, because {self.reason}"]
