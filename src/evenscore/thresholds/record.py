"""What a threshold trial remembers from look to look, and the JSON that it is saved as."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from evenscore._version import __version__
from evenscore.codec import NUMBER, NUMBER_OR_NAN, Codec, record_codec, refuse_invalid, tuple_of
from evenscore.errors import EvenscoreError, FileError
from evenscore.saving import read_whole, write_whole

FORMAT, VERSION = "evenscore threshold trial", 1


@dataclass(frozen=True, slots=True)
class Settings:
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


@dataclass(frozen=True, slots=True)
class Record:
    """All of a trial, by its groups in order."""

    groups: tuple[Any, ...]
    settings: Settings
    steps: tuple[Step, ...]
    rounds: tuple[Round, ...]


def _by_place(codec: Codec[float]) -> Codec[dict[Any, float]]:
    """Values of the groups in order; what is read is by the group's place."""
    values = tuple_of(codec)
    return Codec(
        values.stored, lambda by_group: values.pack(tuple(by_group.values())), lambda stored: dict(enumerate(values.unpack(stored)))
    )


_CODEC = record_codec(
    Record,
    constants={"format": FORMAT, "version": VERSION, "made_with": __version__},
    steps=tuple_of(record_codec(Step, group=None, ci_low=NUMBER_OR_NAN, ci_high=NUMBER_OR_NAN)),
    rounds=tuple_of(
        record_codec(
            Round,
            thresholds=_by_place(NUMBER),
            outcomes=_by_place(NUMBER_OR_NAN),
            max_gap=NUMBER_OR_NAN,
            p_value=NUMBER_OR_NAN,
        )
    ),
)


def save_trial(path: Path, settings: Settings, steps: tuple[Step, ...], rounds: tuple[Round, ...]) -> None:
    """Write a trial, whole or not at all."""
    labels = {step.group: step.group for step in steps}
    record = Record(tuple(labels), settings, steps, tuple(_relabelled(look, labels) for look in rounds))
    try:
        encoded = msgspec.json.encode(_CODEC.pack(record))
    except UnicodeEncodeError as error:
        raise EvenscoreError(f"the trial's groups cannot be saved: {error}") from None
    write_whole(path, msgspec.json.format(encoded, indent=2) + b"\n")


def load_trial(path: Path) -> Record:
    """What a trial remembered, or what is wrong with the file."""
    content = read_whole(path)
    with refuse_invalid(f"{path} is not a saved threshold trial"):
        document = msgspec.json.decode(content, type=_CODEC.stored)
    if document.format != FORMAT or document.version > VERSION:
        raise FileError(f"{path} is not a threshold trial that this version reads: {document.format} {document.version}")
    with refuse_invalid(f"{path} does not hold a valid threshold trial"):
        record = _CODEC.unpack(document)
        places = {label: place for place, label in enumerate(record.groups)}
    sizes = {len(record.steps), *(len(values) for look in record.rounds for values in (look.thresholds, look.outcomes))}
    if sizes != {len(places)} or not record.rounds:
        raise FileError(f"{path} is damaged: its groups, steps and rounds do not fit together")
    steps = tuple(replace(step, group=label) for label, step in zip(record.groups, record.steps, strict=True))
    return replace(record, steps=steps, rounds=tuple(_relabelled(look, places) for look in record.rounds))


def _relabelled(look: Round, keys: dict[Any, Any]) -> Round:
    """The same look with its groups in the order of ``keys``, found under what ``keys`` says."""
    thresholds, outcomes = ({label: values[key] for label, key in keys.items()} for values in (look.thresholds, look.outcomes))
    return replace(look, thresholds=thresholds, outcomes=outcomes)
