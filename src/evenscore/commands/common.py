"""What commands share: the options that describe data, reading it into a tally, progress, and JSON."""

from __future__ import annotations

import contextlib
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore._version import __version__
from evenscore.commands.outputs import write_text
from evenscore.errors import hush, visible

if TYPE_CHECKING:
    from evenscore.data.spec import TallySpec
    from evenscore.tallies.tally_state import Tally
    from evenscore.types import Progress

OF_DATA = ("score", "outcome", "groups", "user", "independent", "weight", "count", "nulls", "scale", "cells", "split")


def choice(name: str, choices: list[str], words: str) -> Callable[[Any], Any]:
    """An option with a few possible values, the first of them by default."""
    return click.option(name, type=click.Choice(choices), default=choices[0], show_default=True, help=words)


def join_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# The data that a command reads: files, or a saved tally.
data_argument = click.argument("data", metavar="FILE|FOLDER|GLOB|TALLY", nargs=-1, required=True)

# Which column is what, except for the score, of which some commands take several.
column_options = join_options(
    click.option("--outcome", metavar="COLUMN", help="What came true: 0/1, or any number."),
    click.option("--group", "groups", metavar="COLUMN", multiple=True, help="The group; give it twice for an intersection."),
    click.option("--user", metavar="COLUMN", help="Whose row it is; rows of one user are not independent."),
    click.option("--independent", is_flag=True, help="Declare that every row is a different, independent person."),
    click.option("--weight", metavar="COLUMN", help="A survey weight."),
    click.option("--count", metavar="COLUMN", help="How many times the row stands for itself."),
    choice("--nulls", ["error", "drop", "unlabelled"], "What to do with missing values."),
    choice("--scale", ["auto", "score", "logit", "rank"], "The axis to smooth on; auto takes what suits the scores."),
    click.option("--cells", type=click.IntRange(1, 512), default=512, show_default=True, help="How finely the axis is cut."),
)
data_options = join_options(click.option("--score", metavar="COLUMN", help="The score."), column_options)

# Where the result goes, and how much is said.
output_options = join_options(
    click.option("--json", "json_path", metavar="PATH|-", help="Write the result as JSON; with - stdout is JSON alone."),
    click.option("--quiet", is_flag=True, help="Print nothing but errors."),
    click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback when something crashes."),
)


def read_tally(
    context: click.Context,
    data: tuple[str, ...],
    options: dict[str, Any],
    notes: list[str],
    quiet: bool,
    cuts: tuple[float, ...] = (),
) -> Tally:
    """The tally of the data, with edges at the cuts, or the saved one."""
    from evenscore.tallies.archive import is_tally_file, load_tally

    if len(data) == 1 and is_tally_file(Path(data[0])):
        require_no_columns(context, data)
        return load_tally(Path(data[0]))
    require_columns(context, data, options)
    from evenscore.engines.files import tally_files

    show("reading", quiet)
    return tally_files(
        data,
        make_spec(options, cuts),
        memory_limit=options.get("memory_limit", "1GB"),
        progress=None if quiet else progress_bar(quiet),
        say=notes.append,
    )


def require_no_columns(context: click.Context, data: tuple[str, ...], more: tuple[str, ...] = ()) -> None:
    """A saved tally knows its columns."""
    sources = {name: context.get_parameter_source(name) for name in (*OF_DATA, *more)}
    given = [name for name, source in sources.items() if source is click.core.ParameterSource.COMMANDLINE]
    if given:
        needless = given[0].removesuffix("s") if given[0] in ("groups", "scores", "attributes") else given[0]
        raise click.UsageError(f"{data[0]} is a saved tally, made once and for all; leave out --{needless}", context)


def make_spec(options: dict[str, Any], cuts: tuple[float, ...] = ()) -> TallySpec:
    """What is asked of the data, from the options of a command; with edges at the cuts, unless there is an option for them."""
    from evenscore.data.spec import TallySpec

    same = {name: options[name] for name in ("score", "outcome", "user", "weight", "count", "cells", "scale", "nulls")}
    more = {name: options[name] for name in ("lattice", "cuts", "split") if name in options}
    groups = options["groups"]
    return TallySpec(**same, group=list(groups) if len(groups) > 1 else groups[0], **{"cuts": cuts, **more})


def progress_bar(quiet: bool) -> Progress:
    """Tells rows and the time left, on a terminal."""
    started = time.monotonic()

    def tell(done: int, total: int) -> None:
        spent = time.monotonic() - started
        left = f", {spent * (total - done) / done:.0f} s left" if done and spent > 1 else ""
        filled = 20 * done // max(total, 1)
        show(f"[{'#' * filled}{'.' * (20 - filled)}] {done:,} of {total:,} rows{left}", quiet)

    return tell


def require_columns(context: click.Context, data: tuple[str, ...], options: dict[str, Any]) -> None:
    """All columns are named; else say which are missing and what the file has."""
    if options["user"] and options["independent"]:
        raise click.UsageError("--user and --independent contradict each other; give one", context)
    missing = [f"--{name.rstrip('s')}" for name in ("score", "outcome", "groups") if not options[name]]
    no_user = not options["user"] and not options["independent"]
    if not missing and not no_user:
        return
    lines = []
    if missing:
        lines.append(f"missing: {', '.join(missing)}")
    if no_user:
        lines.append(
            "missing: --user, the column that says whose row it is. Rows of one user are not independent, and a test that takes\n"
            "them so gives false alarms. If every row is a different person, say so with --independent."
        )
    raise click.UsageError("\n".join([*lines, f"the columns of {' '.join(data)}:", *_column_lines(data)]), context)


def _column_lines(data: tuple[str, ...], limit: int = 60) -> list[str]:
    from evenscore.engines.files import open_files
    from evenscore.tables import printable

    types = open_files(data, say=hush).types
    lines = [f"  {printable(name)}  ({kind.lower()})" for name, kind in list(types.items())[:limit]]
    return lines if len(types) <= limit else [*lines, f"  ... and {len(types) - limit:,} more"]


def find_group(tally: Tally, option: str, text: str | None) -> Any:
    """The group that an option names: labels need not be text."""
    if text is None:
        return None
    from evenscore.errors import OptionError, listing
    from evenscore.tables import label_text

    found = [label for label in tally.groups if label_text(label) == text]
    if len(found) != 1:
        known = listing(map(label_text, tally.groups))
        raise OptionError(f"{option} {text}: {'several groups are' if found else 'no group is'} called so; there are: {known}")
    return found[0]


def write_json(path: str, document: dict[str, Any]) -> None:
    """Write a document as JSON, whole or not at all; - is stdout."""
    from evenscore.tables import json_text

    write_text(path, json_text({"evenscore": __version__, **document}))


def show(message: str, quiet: bool) -> None:
    """One line of progress on a terminal; an empty message removes it."""
    if not quiet and sys.stderr.isatty():
        click.echo("\r\x1b[K" + visible(message), err=True, nl=False)


def stop_if_interrupted(context: click.Context) -> None:
    """An interrupt may have come while a library was not listening, as some do not while they are imported."""
    if context.obj:
        raise KeyboardInterrupt


@contextlib.contextmanager
def note_warnings(notes: list[str]) -> Iterator[None]:
    """What evenscore warns of becomes notes, in the words of the command line."""
    from evenscore.errors import EvenscoreWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    said = dict.fromkeys(use_option_names(str(w.message)) for w in caught if issubclass(w.category, EvenscoreWarning))
    notes += [note for note in said if note not in notes]


def use_option_names(message: str) -> str:
    """Advice such as nulls='drop' in the words of the command line."""
    message = re.sub(
        r"(?<![\w'\"])(nulls|scale|cells|alpha|tolerance|weighting|method|gate|reference|decide|threshold|positive|placebo|workers)='?([\w.+-]+)'?",
        r"--\1 \2",
        message,
    )
    message = re.sub(r"(?<![\w'\"])on_unknown='(\w+)'", r"--on-unknown \1", message)
    message = re.sub(r"\boverwrite=True\b", "--overwrite", message)
    message = re.sub(r"es\.tally\(\.\.\., cuts=\[([^\]]*)\]\)", r"evenscore tally ... --cut \1", message)
    message = re.sub(r"(?<![\w'\"])split='([^']*)'", r"--split \1", message)
    return re.sub(r"(?<![\w'\"])(weight|count|tolerance|threshold|placebo)=(?!\w)", r"--\1", message)
