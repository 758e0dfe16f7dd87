"""``evenscore.toml``: the options of an audit in a file. Unknown keys are errors, so that a typing mistake never goes unnoticed."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenscore.errors import FileError, OptionError, listing, shortened
from evenscore.saving import named, read_whole

NAME = "evenscore.toml"

TEXT, NUMBER, WHOLE, FLAG, TEXTS, NESTED = "text", "a number", "a whole number", "true or false", "text or a list of text", "a list"
WORDS = 'a table of columns, each a table of values with text, such as { sex = { 1 = "men" } }'
REASONS = "a table of groups, each with the reason in text"

OUTPUTS = ("report", "json", "junit", "summary")

# Each key with the kind of its value; the option of the command line has the same name unless OPTIONS says otherwise.
KEYS: dict[str, dict[str, str]] = {
    "data": {
        **dict.fromkeys(("path", "score", "group"), TEXTS),
        **dict.fromkeys(("outcome", "user", "item", "weight", "count", "nulls", "scale"), TEXT),
        "attributes": NESTED,
        "independent": FLAG,
        "cells": WHOLE,
    },
    "test": {
        **dict.fromkeys(("tolerance", "threshold", "alpha"), NUMBER),
        **dict.fromkeys(("positive", "method", "weighting", "reference"), TEXT),
        "decide": TEXTS,
        **dict.fromkeys(("repair", "same_scale"), FLAG),
        **dict.fromkeys(("seed", "placebo", "min_users"), WHOLE),
        "left_out": REASONS,
    },
    "gate": {"rule": TEXT, "require_power": NUMBER},
    "output": {**dict.fromkeys(("title", *OUTPUTS), TEXT), "labels": WORDS},
}

COMMENTS = 29  # where they begin, if what stands before is not longer
TEMPLATE = """\
# Settings of `evenscore audit`. Options on the command line override them; unknown keys are errors.

[data]
{path} # a file, folder, glob or list of these; paths are relative to this file
{score} # the score; a list audits several
{outcome} # what came true: 0/1, or any number
{group} # the group; a list is an intersection
# attributes = ["gender", ["gender", "age_band"]]   # instead of group: audit several, lists inside are intersections
{user} # whose row it is: rows of one user are not independent
{independent} # instead of user: every row is a different person
{item}{weight} # a survey weight
{nulls} # leave out rows with missing values, and say how many; default: an error

[test]
{tolerance} # a gap in outcomes that does not matter; parity can be shown only with one
# threshold = 0.5             # the score at which a decision is made
# positive = "above"          # or "below", when the decision goes to scores below it
# alpha = 0.05                # the chance of any false alarm
# weighting = "user"          # or "row"
# decide = ["auto"]           # the tests that make the verdict
# same_scale = true           # score and outcome are on one scale; by default the data tell
# min_users = 10              # groups of fewer users are counted, not judged
# left_out = {{ other = "fewer than 2 % of applicants" }}   # groups not to judge, and why: the report says so
# placebo = 200               # deal groups out anew so often, and say how often that gave a false alarm

[gate]
rule = "difference"           # fail on a disparity; "equivalence" passes only when parity is shown within the tolerance
# require_power = 0.05        # also fail when a gap of this size would be missed too often

[output]
report = "audit.html"
json = "audit.json"
# junit = "audit.xml"
# labels = {{ sex = {{ 1 = "men", 2 = "women" }} }}   # what groups are called in text and pictures
"""


def read_settings(path: Path) -> dict[str, dict[str, Any]]:
    """The settings of a file by section, checked; paths of data and outputs are made relative to the file's folder."""
    try:
        written = tomllib.loads(read_whole(path).decode())
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not valid TOML: {error}") from None
    for section, entries in written.items():
        _require_known(path, section, KEYS, "")
        if not isinstance(entries, dict):
            raise OptionError(f"{path}: {section} must be a section, written [{section}]")
        for key, value in entries.items():
            _require_known(path, key, KEYS[section], f"[{section}] ")
            _require_kind(path, f"[{section}] {key}", value, KEYS[section][key])
    settings = _relative(written, path.parent)
    for key in OUTPUTS:
        _require_inside(path, key, settings.get("output", {}).get(key))
    return settings


def _require_known(path: Path, name: str, known: dict[str, Any], where: str) -> None:
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise OptionError(f"{path}: {where}unknown key {shortened(name)}{hint} (known: {listing(known)})")


def _require_kind(path: Path, name: str, value: Any, kind: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        TEXT: isinstance(value, str),
        NUMBER: number,
        WHOLE: number and isinstance(value, int),
        FLAG: isinstance(value, bool),
        TEXTS: isinstance(value, str) or _all_text(value),
        REASONS: isinstance(value, dict) and all(isinstance(reason, str) for reason in value.values()),
        WORDS: isinstance(value, dict)
        and all(isinstance(words, dict) and all(isinstance(text, str) for text in words.values()) for words in value.values()),
        NESTED: isinstance(value, list) and bool(value) and all(isinstance(item, str) or _all_text(item) for item in value),
    }
    if not fits[kind]:
        raise OptionError(f"{path}: {name} must be {kind}, not {shortened(value)}")


def _all_text(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _require_inside(path: Path, key: str, output: str | None) -> None:
    """Settings may come with a folder that somebody else made: they write nowhere else."""
    if output is None or output == "-":
        return
    folder = os.path.realpath(path.parent)
    try:
        inside = os.path.commonpath([folder, os.path.realpath(output)]) == folder
    except ValueError:  # another drive, or no path at all
        inside = False
    if not inside:
        raise OptionError(
            f"{named(path)}: [output] {key} = {shortened(output)} is outside of the folder of the settings, where they may write; "
            f"say --{key} on the command line instead"
        )


def _relative(settings: dict[str, dict[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    def moved(value: Any) -> Any:
        return [moved(item) for item in value] if isinstance(value, list) else str(folder / value) if value != "-" else value

    places = {"data": ("path",), "output": OUTPUTS}
    return {
        section: {key: moved(value) if key in places.get(section, ()) else value for key, value in entries.items()}
        for section, entries in settings.items()
    }


EXAMPLES = {
    "path": "predictions.parquet",
    "score": "score",
    "outcome": "outcome",
    "group": "group",
    "user": "user_id",
    "independent": True,
    "weight": "weight",
    "nulls": "drop",
    "tolerance": 0.02,
}
ITEM = " # what rows of several users have in common, such as a job or a post"


def template(
    *, item: str | None = None, item_named: bool = False, suggested: Mapping[str, str] | None = None, **values: Any
) -> str:
    """A commented file to start from; what is not known yet stands as a comment, with a suggestion or an example.

    item: a column that may make rows dependent, too; unless it was named, it is left to whoever reads the file to say so.
    """

    def line(name: str, value: Any) -> str:
        written = quoted(value) if isinstance(value, str) else "true" if value is True else f"{value:g}"
        return f"{name} = {written}"

    lines = {}
    for name, example in EXAMPLES.items():
        value = values.get(name)
        shown = line(name, value) if value is not None else "# " + line(name, (suggested or {}).get(name, example))
        lines[name] = shown.ljust(COMMENTS)
    lines["item"] = ""
    if item is not None:
        lines["item"] = f"{'' if item_named else '# '}{line('item', item)}".ljust(COMMENTS) + ITEM + "\n"
    return TEMPLATE.format(**lines)


def quoted(text: str) -> str:
    """A TOML string, whatever it holds."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'
