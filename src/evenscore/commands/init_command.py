"""``evenscore init``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands.outputs import check_outputs, tell

if TYPE_CHECKING:
    from evenscore.commands.guessing import Guess
    from evenscore.engines.column_facts import ColumnFacts

ROLES = ("score", "outcome", "group", "user")
MOST_LISTED = 60  # columns


@click.command(short_help="Guess the columns of a file, and write an evenscore.toml that runs.")
@click.argument("data", metavar="[FILE|FOLDER|GLOB|TALLY]", required=False)
@click.option("--score", metavar="COLUMN", help="The score.")
@click.option("--outcome", metavar="COLUMN", help="What came true.")
@click.option("--group", metavar="COLUMN", help="The group.")
@click.option("--user", metavar="COLUMN", help="Whose row it is.")
@click.option("--item", metavar="COLUMN", help="What else rows share, such as the job shown.")
@click.option("--tolerance", type=float, default=0.02, show_default=True, metavar="GAP", help="A gap that does not matter.")
@click.option("--output", "--out", "-o", default="evenscore.toml", show_default=True, metavar="PATH", help="Where to write.")
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback when something crashes.")
@click.pass_context
def init(context: click.Context, /, data: str | None, tolerance: float, output: str, force: bool, **given: str | None) -> None:
    """Write a commented evenscore.toml, which `evenscore audit` reads.

    Columns that are not named are guessed from what they are called and what they hold; the guesses are listed, to be
    checked before anything is believed.

    \b
    evenscore init forecasts.parquet && evenscore audit
    evenscore init forecasts.parquet --score score --outcome outcome --group bracket --user game_id
    """
    from evenscore.commands.configuration import template
    from evenscore.errors import FileError, require_gap
    from evenscore.report.wrapping import TABBED, terminal_width, wrap
    from evenscore.saving import write_whole
    from evenscore.tallies.archive import is_tally_file

    require_gap("tolerance", tolerance)
    path = Path(output)
    if path.exists() and not force:
        raise FileError(f"{path} is there already; --force overwrites it")
    check_outputs({"--output": output}, [data])
    settings: dict[str, Any] = {"tolerance": tolerance, **given, "item_named": given["item"] is not None}
    notes: list[str] = []
    if data is not None:
        settings["path"] = _path_from(data, path)
        if not is_tally_file(Path(data)):  # which knows its columns
            settings |= _guess_settings(context, data, given, notes)
    write_whole(path, template(**settings).encode())
    for note in notes:
        tell("\n".join(wrap(note, terminal_width(), "", TABBED)), err=True)
    tell(f"{path} is written; edit it, then run: evenscore audit" + _config_option(output), err=True)


def _config_option(output: str) -> str:
    from evenscore.commands.configuration import NAME

    return "" if output == NAME else f" --config {output}"


def _path_from(data: str, settings: Path) -> str:
    """The data as the settings name them: paths in a file are relative to its folder."""
    return data if Path(data).is_absolute() else Path(os.path.relpath(data, settings.parent)).as_posix()


def _guess_settings(context: click.Context, data: str, given: dict[str, str | None], notes: list[str]) -> dict[str, Any]:
    """What the file says about itself; the guesses are listed, and what they leave open is noted."""
    from evenscore.commands.guessing import HINTS, guess_item, guess_roles, may_be_items, words_of
    from evenscore.engines.column_facts import count_pairs, find_facts
    from evenscore.errors import DataError, listing

    columns = find_facts(data)
    facts = {column.name: column for column in columns}
    for role, name in given.items():
        if name is not None and name not in facts:
            raise DataError(f"no column {name!r} for {role}; {data} has: {listing(facts)}")
    guesses = guess_roles(columns, given)
    if "user" in guesses and "item" not in guesses:
        user = guesses["user"].name
        item = guess_item(columns, user, count_pairs(data, user, may_be_items(columns, guesses)))
        guesses |= {} if item is None else {"item": item}
    if any(given[role] is None for role in ROLES):
        tell(_listing(columns, guesses))
    settings: dict[str, Any] = {role: guess.name for role, guess in guesses.items()}
    notes += _doubts(guesses, columns)
    if "user" not in guesses:
        settings["independent"] = True
    holed = [facts[guesses[role].name] for role in ROLES if role in guesses and facts[guesses[role].name].n_nulls]
    if holed:
        settings["nulls"] = "drop"
        missing = ", ".join(f"{column.name} in {column.n_nulls:,}" for column in holed)
        notes.append(f'values are missing ({missing} of {columns[0].n_rows:,} rows): nulls = "drop" leaves these rows out')
    asked = context.get_parameter_source("tolerance") is click.core.ParameterSource.COMMANDLINE
    if not asked and "outcome" in guesses and not facts[guesses["outcome"].name].is_binary:
        settings["tolerance"] = None  # two points mean something for shares only
    weights = [column.name for column in columns if words_of(column.name) & HINTS["weight"] and column.is_numeric]
    return settings | {"suggested": {"weight": weights[0]} if weights else {}}


def _doubts(guesses: dict[str, Guess], columns: list[ColumnFacts]) -> list[str]:
    """What was guessed without good reason, and what could not be."""
    from evenscore.commands.guessing import may_be_users

    notes = []
    missing = [role for role in ("score", "outcome", "group") if role not in guesses]
    if missing:
        notes.append(f"nothing looks like: {', '.join(missing)}; fill in what is missing before the audit")
    unsure = [f"{role} = {guesses[role].name}" for role in ROLES if role in guesses and not guesses[role].sure]
    if unsure:
        notes.append(f"hardly more than a guess: {', '.join(unsure)}")
    if "user" not in guesses:
        keys = [f"{column.name}, {column.n_distinct:,} values" for column in may_be_users(columns, guesses)]
        asked = f" (is it one of these: {'; '.join(keys)}?)" if keys else ""
        notes.append(
            f"no column is known to say whose row it is{asked}, so the settings say independent = true; if people come more than"
            " once, name the column that tells them apart: taking rows for people gives false alarms"
        )
    return notes


def _listing(columns: list[ColumnFacts], guesses: dict[str, Guess]) -> str:
    """The columns of the file with what they look like."""
    from evenscore.commands.configuration import KEYS
    from evenscore.tables import text_table

    roles = {}
    for role, guess in guesses.items():
        if role in KEYS["data"]:
            roles[guess.name] = role if guess.sure else f"{role} ?"
            for name in guess.also:
                roles.setdefault(name, f"(or {role})")
    rows = [
        {
            "column": column.name,
            "holds": _holds(column),
            "distinct": column.n_distinct,
            "missing": column.n_nulls,
            "taken for": roles.get(column.name, ""),
        }
        for column in columns[:MOST_LISTED]
    ]
    shown = text_table(rows, limit=MOST_LISTED)
    more = len(columns) - len(rows)
    return shown + (f"\n  ... and {more:,} more" if more > 0 else "")


def _holds(column: ColumnFacts) -> str:
    """What a column holds, in a few words."""
    if column.kind == "truth value" or column.is_binary:
        return "0 and 1" if column.kind == "number" else "true and false"
    if column.kind != "number":
        return column.kind
    low, high = (f"{bound:,.0f}" if abs(bound) >= 1000 or column.whole else f"{bound:.2g}" for bound in (column.low, column.high))
    return f"{'whole ' if column.whole else ''}numbers {low} to {high}"
