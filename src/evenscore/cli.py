"""The command line: parse, call, print, exit code. Results go to stdout, everything else to stderr.

Exit codes: 0 no disparity shown, 1 disparity, 2 bad usage or bad data, 70 a crash, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from evenscore import __version__

if TYPE_CHECKING:
    from evenscore.tally import Tally

METHODS = ("auto", "sup", "multiscale", "l2", "cumulative", "combined", "bonferroni", "holm", "bh")
DISPARITY, BAD, CRASH, INTERRUPTED, UNREAD = 1, 2, 70, 130, 141


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="evenscore")
def cli() -> None:
    """Does a score mean the same thing for everyone?"""


def _choice(name: str, choices: list[str], words: str) -> Callable[[Any], Any]:
    """An option with a few possible values, the first of them by default."""
    return click.option(name, type=click.Choice(choices), default=choices[0], show_default=True, help=words)


@cli.command(short_help="Test whether the same score means the same outcome in every group.")
@click.argument("data", metavar="FILE|FOLDER|GLOB|TALLY", nargs=-1, required=True)
@click.option("--score", metavar="COLUMN", help="The score.")
@click.option("--outcome", metavar="COLUMN", help="What came true: 0/1, or any number.")
@click.option("--group", "groups", metavar="COLUMN", multiple=True, help="The group; give it twice for an intersection.")
@click.option("--user", metavar="COLUMN", help="Whose row it is; rows of one user are not independent.")
@click.option("--independent", is_flag=True, help="Declare that every row is a different, independent person.")
@click.option("--weight", metavar="COLUMN", help="A survey weight.")
@click.option("--count", metavar="COLUMN", help="How many times the row stands for itself.")
@_choice("--nulls", ["error", "drop", "unlabelled"], "What to do with missing values.")
@_choice("--scale", ["score", "logit", "rank"], "The axis to smooth on; logit or rank suit skewed scores.")
@click.option("--cells", type=click.IntRange(1, 512), default=512, show_default=True, help="How finely the axis is cut.")
@_choice("--weighting", ["user", "row"], "Whether every user or every row counts the same.")
@_choice("--method", list(METHODS), "The test.")
@click.option("--reference", metavar="GROUP", help="Compare each group with this one only.")
@click.option("--tolerance", type=float, metavar="GAP", help="A gap that does not matter; parity can be shown only with one.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="The level of the test.")
@click.option("--json", "json_path", metavar="PATH|-", help="Write the result as JSON; with - stdout is JSON alone.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--debug", is_flag=True, help="Show a traceback when something crashes.")
@click.pass_context
def audit(context: click.Context, /, data: tuple[str, ...], json_path: str | None, quiet: bool, debug: bool, **options: Any) -> int:
    """Test whether people with the same score have the same expected outcome in every group.

    \b
    evenscore audit forecasts.parquet --score score --outcome outcome --group bracket --user game_id

    Ends with 0 when no disparity is shown, 1 on a disparity, 2 on bad usage or data.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tally = _tally(context, data, options, notes, quiet)
        _stop_if_interrupted(context)
        _show("testing", quiet)
        from evenscore.parity import parity_test

        test = parity_test(
            tally,
            method=options["method"],
            alpha=options["alpha"],
            tolerance=options["tolerance"],
            reference=_reference(tally, options["reference"]),
            weighting=options["weighting"],
        )
        _stop_if_interrupted(context)
        _show("", quiet)
    from evenscore.errors import EvenscoreWarning

    notes += dict.fromkeys(_in_options(str(w.message)) for w in caught if issubclass(w.category, EvenscoreWarning))
    if json_path is not None:
        _write_json(json_path, {"data": list(data), "tally": tally.to_dict(), "parity_test": test.to_dict(), "notes": notes})
    if not quiet and json_path != "-":
        from evenscore.report.text import audit_text

        click.echo(audit_text(tally, test, notes))
    return DISPARITY if test.verdict == "disparity" else 0


def _tally(context: click.Context, data: tuple[str, ...], options: dict[str, Any], notes: list[str], quiet: bool) -> Tally:
    """The tally of the data, or the saved one."""
    from evenscore.archive import is_tally_file, load_tally

    if len(data) == 1 and is_tally_file(Path(data[0])):
        of_data = ("score", "outcome", "groups", "user", "independent", "weight", "count", "nulls", "scale", "cells")
        given = [name for name in of_data if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT]
        if given:
            needless = "group" if given[0] == "groups" else given[0]
            raise click.UsageError(f"{data[0]} is a saved tally, made once and for all; leave out --{needless}", context)
        return load_tally(Path(data[0]))
    _require_columns(context, data, options)
    from evenscore.engines.files import tally_files

    _show("reading", quiet)
    return tally_files(
        data,
        score=options["score"],
        outcome=options["outcome"],
        group=list(options["groups"]) if len(options["groups"]) > 1 else options["groups"][0],
        user=options["user"],
        weight=options["weight"],
        count=options["count"],
        lattice=None,
        cuts=(),
        cells=options["cells"],
        scale=options["scale"],
        nulls=options["nulls"],
        progress=None if quiet else lambda done, total: _show(f"counting {done:,} of {total:,} rows", quiet),
        say=notes.append,
    )


def _require_columns(context: click.Context, data: tuple[str, ...], options: dict[str, Any]) -> None:
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
            "them so cries wolf. If every row is a different person, say so with --independent."
        )
    raise click.UsageError("\n".join([*lines, f"the columns of {' '.join(data)}:", *_column_lines(data)]), context)


def _column_lines(data: tuple[str, ...], limit: int = 60) -> list[str]:
    from evenscore.engines.files import open_files
    from evenscore.tables import printable

    types = open_files(data).types
    lines = [f"  {printable(name)}  ({kind.lower()})" for name, kind in list(types.items())[:limit]]
    return lines if len(types) <= limit else [*lines, f"  ... and {len(types) - limit:,} more"]


def _reference(tally: Tally, text: str | None) -> Any:
    """The group that an option names: labels need not be text."""
    if text is None:
        return None
    from evenscore.errors import OptionError, listing
    from evenscore.tables import label_text

    found = [label for label in tally.groups if label_text(label) == text]
    if len(found) != 1:
        known = listing(map(label_text, tally.groups))
        raise OptionError(f"--reference {text}: {'several groups are' if found else 'no group is'} called so; there are: {known}")
    return found[0]


def _write_json(path: str, document: dict[str, Any]) -> None:
    text = json.dumps({"evenscore": __version__, **document}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    encoded = text.encode("utf-8", "backslashreplace")  # what is not Unicode becomes an escape, as JSON has them
    if path == "-":
        sys.stdout.buffer.write(encoded)
        return
    from evenscore.archive import write_whole

    write_whole(Path(path), encoded)


def _show(message: str, quiet: bool) -> None:
    """One line of progress on a terminal; an empty message removes it."""
    if not quiet and sys.stderr.isatty():
        click.echo("\r\x1b[K" + message, err=True, nl=False)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code that says what happened."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without emoji is no reason to fail
    interrupts: list[int] = []
    with _noticed(interrupts):
        try:
            code = _run(words, interrupts)
            sys.stdout.flush()
        except click.ClickException as error:
            _end_line("")
            error.show()
            code = BAD
        except BrokenPipeError:
            _forget_stdout()
            code = UNREAD
        except (Exception, KeyboardInterrupt) as error:
            # A library that is interrupted may raise anything.
            by_hand = interrupts or isinstance(error, KeyboardInterrupt | click.Abort)
            code = INTERRUPTED if by_hand else _failed(error, "--debug" in words)
    if code == INTERRUPTED:
        _end_line("interrupted\n")
        if interrupts:
            os._exit(code)  # else Python may end itself by the signal once more
    sys.exit(code)


def _stop_if_interrupted(context: click.Context) -> None:
    """An interrupt may have come while a library was not listening, as some do not while they are imported."""
    if context.obj:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _noticed(interrupts: list[int]) -> Iterator[None]:
    """Keep a record of Ctrl-C, which then does what it always does."""

    def handle(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run(words: list[str], interrupts: list[int]) -> int:
    """Not click's own main, which ends with 1 when nobody reads the output."""
    if "_EVENSCORE_COMPLETE" in os.environ:
        cli.main(words, prog_name="evenscore")
    if not words:
        click.echo(cli.get_help(click.Context(cli, info_name="evenscore")), err=True)
        return BAD
    try:
        with cli.make_context("evenscore", words, obj=interrupts) as context:
            code = cli.invoke(context)
    except click.exceptions.Exit as finished:
        code = finished.exit_code
    return code if isinstance(code, int) else 0


def _failed(error: BaseException, debug: bool) -> int:
    from evenscore.errors import EvenscoreError

    if debug:
        traceback.print_exc()
    if isinstance(error, EvenscoreError):
        _end_line(f"Error: {_in_options(str(error))}\n")
        return BAD
    if isinstance(error, OSError | MemoryError):
        _forget_stdout()
        _end_line(f"evenscore could not finish: {error or 'out of memory'}\n")
    else:
        _end_line(f"evenscore crashed: {type(error).__name__}: {error}\nThis is a bug; --debug shows where.\n")
    return CRASH


def _in_options(message: str) -> str:
    """Advice such as nulls='drop' in the words of the command line."""
    message = re.sub(r"(?<![\w'\"])(nulls|scale|cells|alpha|tolerance|weighting|method)='?([\w.+-]+)'?", r"--\1 \2", message)
    return re.sub(r"(?<![\w'\"])(weight|count)=(?!\w)", r"--\1", message)


def _forget_stdout() -> None:
    """Keep the interpreter from complaining once more, while it ends, that it cannot write."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_line(message: str) -> None:
    """A last message on stderr, in place of the progress."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    visible = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in message)
    click.echo(clear + visible, err=True, nl=False)
