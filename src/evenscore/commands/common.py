"""What commands share: the options that describe data, reading it into a tally, progress, and JSON."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore._version import __version__
from evenscore.commands.outputs import write_text
from evenscore.commands.steps import Steps
from evenscore.commands.steps import show as show
from evenscore.errors import hush

if TYPE_CHECKING:
    from evenscore.data.spec import TallySpec
    from evenscore.tallies.tally_state import Tally

OF_DATA = ("score", "outcome", "groups", "user", "item", "independent", "weight", "count", "nulls", "scale", "cells", "split")


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
    click.option("--item", metavar="COLUMN", help="What else rows share, such as the job shown; variances allow for both."),
    click.option("--independent", is_flag=True, help="Declare that every row is a different, independent person."),
    click.option("--weight", metavar="COLUMN", help="A survey weight."),
    click.option("--count", metavar="COLUMN", help="How many times the row stands for itself."),
    choice("--nulls", ["error", "drop", "unlabelled"], "What to do with missing values."),
    click.option(
        "--label",
        "labels",
        metavar="COLUMN=VALUE=TEXT",
        multiple=True,
        help="What to call a group in text and pictures, such as --label 'sex=1=men'; may be given several times.",
    ),
    choice("--scale", ["auto", "score", "logit", "rank"], "The axis to smooth on; auto takes what suits the scores."),
    click.option("--cells", type=click.IntRange(1, 512), default=512, show_default=True, help="How finely the axis is cut."),
)
data_options = join_options(click.option("--score", metavar="COLUMN", help="The score."), column_options)

# For commands that print what matters most, and have more to say.
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Print everything, not only what matters most.")

# Where the result goes, and how much is said.
output_options = join_options(
    click.option("--json", "json_path", metavar="PATH|-", help="Write the result as JSON; with - stdout is JSON alone."),
    click.option("--quiet", is_flag=True, help="Print nothing but errors."),
    click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback when something crashes."),
)


def label_texts(context: click.Context, given: Any) -> dict[str, dict[str, str]]:
    """Words for groups by column and value: from the settings, or as COLUMN=VALUE=TEXT."""
    if isinstance(given, dict):
        return given
    texts: dict[str, dict[str, str]] = {}
    for text in given:
        column, value, words = (*text.split("=", 2), "", "")[:3]
        if not (column and value and words.strip()):
            raise click.UsageError(f"--label {text!r} must be COLUMN=VALUE=TEXT, such as --label sex=1=men", context)
        texts.setdefault(column, {})[value] = words
    return texts


def name_groups(context: click.Context, tally: Tally, options: dict[str, Any]) -> Tally:
    """Groups are called as --label has it, from here on."""
    from evenscore.naming import read_labels, require_meant, use_texts

    columns = tally.columns.group if tally.columns else ("group",)
    labels = label_texts(context, options.get("labels", ()))
    asked = set(options.get("groups", ())) - set(columns)  # of another attribute of the same command
    texts = read_labels({column: words for column, words in labels.items() if column not in asked})
    require_meant(texts, {columns: list(tally.groups)})
    use_texts(texts)
    return tally


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
        return name_groups(context, load_tally(Path(data[0])), options)
    require_columns(context, data, options)
    from evenscore.engines.files import tally_files

    show("reading", quiet)
    read = tally_files(
        data,
        make_spec(options, cuts),
        memory_limit=options.get("memory_limit", "1GB"),
        progress=None if quiet else Steps(quiet).count("counting", "rows"),
        say=notes.append,
    )
    return name_groups(context, read, options)


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

    same = {name: options[name] for name in ("score", "outcome", "user", "item", "weight", "count", "cells", "scale", "nulls")}
    more = {name: options[name] for name in ("lattice", "cuts", "split") if name in options}
    groups = options["groups"]
    return TallySpec(**same, group=list(groups) if len(groups) > 1 else groups[0], **{"cuts": cuts, **more})


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
    guess = [f"evenscore init {data[0]} guesses them, and writes settings"] if len(data) == 1 else []
    raise click.UsageError("\n".join([*lines, f"the columns of {' '.join(data)}:", *_column_lines(data), *guess]), context)


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
    from evenscore.naming import find_label

    return find_label(tally.groups, f"{option} {text}", text)


def write_json(path: str, document: dict[str, Any]) -> None:
    """Write a document as JSON, whole or not at all; - is stdout."""
    from evenscore.tables import json_text

    write_text(path, json_text({"evenscore": __version__, **document}))


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
    messages = dict.fromkeys(use_option_names(str(w.message)) for w in caught if issubclass(w.category, EvenscoreWarning))
    notes += [note for note in messages if note not in notes]


def use_option_names(message: str) -> str:
    """Advice such as nulls='drop' in the words of the command line."""
    message = re.sub(
        r"(?<![\w'\"])(nulls|scale|cells|alpha|tolerance|weighting|method|gate|reference|decide|threshold|positive|placebo|workers|labels)='?([\w.+-]+)'?",
        r"--\1 \2",
        message,
    )
    message = re.sub(r"(?<![\w'\"])on_unknown='(\w+)'", r"--on-unknown \1", message)
    message = re.sub(r"\boverwrite=True\b", "--overwrite", message)
    message = re.sub(r"es\.tally\(\.\.\., cuts=\[([^\]]*)\]\)", r"evenscore tally ... --cut \1", message)
    message = re.sub(r"(?<![\w'\"])split='([^']*)'", r"--split \1", message)
    return re.sub(r"(?<![\w'\"])(weight|count|tolerance|threshold|placebo)=(?!\w)", r"--\1", message)
