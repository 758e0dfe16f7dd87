"""What a threshold trial remembers from look to look, and the JSON that it is saved as."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from evenscore._version import __version__
from evenscore.errors import EvenscoreError, FileError
from evenscore.saving import pack_label, read_whole, unpack_label, write_whole

FORMAT, VERSION = "evenscore threshold trial", 1


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a trial was started with."""

    strategy: str
    max_step: float
    tolerance: float | None
    positive: str
    target: float | None
    explore: float | None
    alpha: float
    weighting: str


@dataclass(frozen=True, slots=True)
class Step:
    """What is proposed for one group: from its threshold now to the next one, on the way to the solution with its limits.

    explore_to: the threshold for the exposed share of people only, or None.
    """

    group: Any
    now: float
    proposed: float
    solution: float
    ci_low: float
    ci_high: float
    suggestive: bool
    explore_to: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One look: the thresholds in force, the outcomes at them by group, and what the marginal test said."""

    thresholds: dict[Any, float]
    outcomes: dict[Any, float]
    max_gap: float
    p_value: float
    verdict: str
    positive_rate: float
    n_users: int


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    now: float
    proposed: float
    solution: float
    ci_low: float | None
    ci_high: float | None
    suggestive: bool
    explore_to: float | None


class _Round(msgspec.Struct, forbid_unknown_fields=True):
    thresholds: list[float]
    outcomes: list[float | None]
    max_gap: float | None
    p_value: float | None
    verdict: str
    positive_rate: float
    n_users: int


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    made_with: str
    groups: list[Any]
    settings: Settings
    steps: list[_Step]
    rounds: list[_Round]


# Saving


def save_trial(path: Path, settings: Settings, steps: Sequence[Step], rounds: Sequence[Round]) -> None:
    """Write a trial, whole or not at all."""
    labels = list(rounds[-1].thresholds)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "made_with": __version__,
        "groups": [pack_label(label) for label in labels],
        "settings": settings,
        "steps": [_numbers(step) for step in steps],
        "rounds": [
            _numbers(one) | {name: [_number(getattr(one, name)[label]) for label in labels] for name in ("thresholds", "outcomes")}
            for one in rounds
        ],
    }
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError as error:
        raise EvenscoreError(f"the trial's groups cannot be saved: {error}") from None
    write_whole(path, msgspec.json.format(encoded, indent=2) + b"\n")


def _number(value: Any) -> Any:
    """None stands for a number that JSON cannot say."""
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


def _numbers(part: Step | Round) -> dict[str, Any]:
    return {name: _number(getattr(part, name)) for name in part.__slots__ if name != "group"}


# Loading


def load_trial(path: Path) -> tuple[Settings, tuple[Step, ...], tuple[Round, ...]]:
    """What a trial remembered, or what is wrong with the file."""
    try:
        document = msgspec.json.decode(read_whole(path), type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(f"{path} is not a saved threshold trial: {error}") from error
    if document.format != FORMAT or document.version > VERSION:
        raise FileError(f"{path} is not a threshold trial that this version reads: {document.format} {document.version}")
    try:
        labels = [unpack_label(packed) for packed in document.groups]
        hash(tuple(labels))
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise FileError(f"{path} does not hold a valid threshold trial: {error}") from None
    sizes = {len(document.steps), *(len(values) for one in document.rounds for values in (one.thresholds, one.outcomes))}
    if sizes != {len(labels)} or not document.rounds:
        raise FileError(f"{path} is damaged: its groups, steps and rounds do not fit together")
    steps = tuple(_step(label, step) for label, step in zip(labels, document.steps, strict=True))
    return document.settings, steps, tuple(_round(labels, one) for one in document.rounds)


def _step(label: Any, step: _Step) -> Step:
    limits = _known(step.ci_low), _known(step.ci_high)
    return Step(label, step.now, step.proposed, step.solution, *limits, step.suggestive, step.explore_to)


def _round(labels: list[Any], one: _Round) -> Round:
    return Round(
        dict(zip(labels, one.thresholds, strict=True)),
        dict(zip(labels, map(_known, one.outcomes), strict=True)),
        _known(one.max_gap),
        _known(one.p_value),
        one.verdict,
        one.positive_rate,
        one.n_users,
    )


def _known(value: Any) -> Any:
    return math.nan if value is None else value
