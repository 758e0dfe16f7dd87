"""Finished runs of a study in a file of JSON lines, so that an interrupted study goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenscore.errors import FileError
from evenscore.saving import read_whole, write_whole

Results = dict[str, dict[str, float]]

KIND = "evenscore study"
VERSION = 1


def fingerprint(simulation: Mapping[str, Any], methods: list[str], seed: int) -> str:
    """A short name for a study; methods are known by their names only."""
    whole = json.dumps([simulation, methods, seed], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def header(simulation: Mapping[str, Any], methods: list[str], seed: int) -> str:
    """The first line of the file: which study this is."""
    named = {"kind": KIND, "version": VERSION, "fingerprint": fingerprint(simulation, methods, seed)}
    return json.dumps(named | {"seed": seed, "methods": methods, "simulation": simulation}) + "\n"


def line(run: int, results: Results) -> str:
    """One finished run; JSON has no nan and no infinity, null and text stand for them."""
    plain = {name: {key: _number(value) for key, value in result.items()} for name, result in results.items()}
    return json.dumps({"run": run, "results": plain}) + "\n"


def _number(value: float) -> float | str | None:
    return value if math.isfinite(value) else None if math.isnan(value) else str(value)


def open_journal(path: Path, first: str) -> dict[int, Results]:
    """The runs that the file holds; a new file gets its first line, a cut last line is removed."""
    text = _read(path)
    end = text.rfind("\n") + 1
    if end == 0:
        if not first.startswith(text):
            raise FileError(f"{path} is not the record of a study; name another file in resume=")
        _write(path, first)
        return {}
    lines = text[:end].splitlines()
    _require_same(path, lines[0], json.loads(first))
    if end < len(text):
        _write(path, text[:end])
    return dict(_parse(path, number, written) for number, written in enumerate(lines[1:], start=2))


def _read(path: Path) -> str:
    try:
        return read_whole(path).decode() if os.path.exists(path) else ""  # noqa: PTH110 (a Path complains of names that are too long)
    except UnicodeDecodeError as error:
        raise FileError(f"{path} cannot be read as the record of a study: {error}") from error


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode())


def _require_same(path: Path, written: str, own: dict[str, Any]) -> None:
    try:
        began = json.loads(written)
    except (ValueError, RecursionError):
        began = None
    if not isinstance(began, dict) or began.get("kind") != KIND:
        raise FileError(f"{path} is not the record of a study; name another file in resume=")
    if began.get("version") != VERSION:
        raise FileError(f"{path} is the record of a study in version {began.get('version')}; this is version {VERSION}")
    if began.get("fingerprint") != own["fingerprint"]:
        differs = [name for name in ("simulation", "methods", "seed") if began.get(name) != own[name]]
        raise FileError(f"{path} holds another study (other {' and '.join(differs) or 'contents'}); name another file in resume=")


def _parse(path: Path, number: int, written: str) -> tuple[int, Results]:
    try:
        record = json.loads(written)
        results = {
            name: {key: math.nan if value is None else float(value) for key, value in result.items()}
            for name, result in record["results"].items()
        }
        return int(record["run"]), results
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise FileError(f"{path}, line {number} is not a run of a study; remove the line and the run is done again") from error
