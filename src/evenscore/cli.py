"""The command line: parse, call, print, exit code. Results go to stdout, everything else to stderr.

Exit codes: 0 no disparity shown, 1 disparity, 2 bad usage or bad data, 70 a crash, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from evenscore import __version__

if TYPE_CHECKING:
    from evenscore.tally import Tally

DISPARITY, BAD, CRASH, INTERRUPTED, UNREAD = 1, 2, 70, 130, 141


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="evenscore")
def cli() -> None:
    """Does a score mean the same thing for everyone?"""


@cli.command(short_help="Test whether the same score means the same outcome in every group.")
@click.argument("data", metavar="FILE|FOLDER|GLOB|TALLY")
@click.option("--score", metavar="COLUMN", help="The score.")
@click.option("--outcome", metavar="COLUMN", help="What came true: 0/1, or any number.")
@click.option("--group", "groups", metavar="COLUMN", multiple=True, help="The group; give it twice for an intersection.")
@click.option("--user", metavar="COLUMN", help="Whose row it is; rows of one user are not independent.")
@click.option("--independent", is_flag=True, help="Declare that every row is a different, independent person.")
@click.option("--weight", metavar="COLUMN", help="A survey weight.")
@click.option("--count", metavar="COLUMN", help="How many times the row stands for itself.")
@click.option("--nulls", type=click.Choice(["error", "drop", "unlabelled"]), default="error", show_default=True,
              help="What to do with missing values.")
@click.option("--scale", type=click.Choice(["score", "logit", "rank"]), default="score", show_default=True,
              help="The axis to smooth on; logit or rank suit skewed scores.")
@click.option("--weighting", type=click.Choice(["user", "row"]), default="user", show_default=True,
              help="Whether every user or every row counts the same.")
@click.option("--method", type=click.Choice(["auto", "sup", "l2"]), default="auto", show_default=True, help="The test.")
@click.option("--reference", metavar="GROUP", help="Compare each group with this one only.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="The level of the test.")
@click.option("--json", "json_path", metavar="PATH|-", help="Write the result as JSON; with - stdout is JSON alone.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--debug", is_flag=True, help="Show a traceback when something crashes.")
def audit(data: str, json_path: str | None, quiet: bool, debug: bool, **options: Any) -> int:
    """Test whether people with the same score have the same expected outcome in every group.

    \b
    evenscore audit forecasts.parquet --score score --outcome outcome --group bracket --user game_id

    Ends with 0 when no disparity is shown, 1 on a disparity, 2 on bad usage or data.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tally = _tally(data, options, notes, quiet)
        _show("testing", quiet)
        from evenscore.parity import parity_test

        test = parity_test(
            tally,
            method=options["method"],
            alpha=options["alpha"],
            reference=_reference(tally, options["reference"]),
            weighting=options["weighting"],
        )
        _show("", quiet)
    notes += dict.fromkeys(str(warning.message) for warning in caught)
    if json_path is not None:
        _write_json(json_path, {"data": data, "tally": tally.to_dict(), "parity_test": test.to_dict(), "notes": notes})
    if not quiet and json_path != "-":
        from evenscore.report.text import audit_text

        click.echo(audit_text(tally, test, notes))
    return DISPARITY if test.verdict == "disparity" else 0


def _tally(data: str, options: dict[str, Any], notes: list[str], quiet: bool) -> Tally:
    """The tally of the data, or the saved one."""
    from evenscore.archive import is_tally_file, load_tally

    if is_tally_file(Path(data)):
        named = [name for name in ("score", "outcome", "groups", "user", "independent", "weight", "count") if options[name]]
        if named:
            raise click.UsageError(f"{data} is a saved tally, which knows its columns already; leave out --{named[0].rstrip('s')}")
        return load_tally(Path(data))
    _require_columns(data, options)
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
        cells=512,
        scale=options["scale"],
        nulls=options["nulls"],
        progress=None if quiet else lambda done, total: _show(f"counting {done:,} of {total:,} rows", quiet),
        say=notes.append,
    )


def _require_columns(data: str, options: dict[str, Any]) -> None:
    """All columns are named; else say which are missing and what the file has."""
    missing = [f"--{name.rstrip('s')}" for name in ("score", "outcome", "groups") if not options[name]]
    if options["user"] and options["independent"]:
        raise click.UsageError("--user and --independent contradict each other; give one")
    no_user = not options["user"] and not options["independent"]
    if not missing and not no_user:
        return
    from evenscore.engines.files import open_files

    columns = "\n".join(f"  {name}  ({kind.lower()})" for name, kind in list(open_files(data).types.items())[:60])
    lines = []
    if missing:
        lines.append(f"missing: {', '.join(missing)}")
    if no_user:
        lines.append(
            "missing: --user, the column that says whose row it is. Rows of one user are not independent, and a test that takes\n"
            "them so cries wolf. If every row is a different person, say so with --independent."
        )
    raise click.UsageError("\n".join([*lines, f"the columns of {data}:", columns]))


def _reference(tally: Tally, text: str | None) -> Any:
    """The group that an option names: labels need not be text."""
    if text is None:
        return None
    from evenscore.errors import OptionError
    from evenscore.tables import label_text

    found = [label for label in tally.groups if label_text(label) == text]
    if len(found) != 1:
        known = ", ".join(label_text(label) for label in tally.groups)
        raise OptionError(f"--reference {text}: {'several groups are' if found else 'no group is'} called so; there are: {known}")
    return found[0]


def _write_json(path: str, document: dict[str, Any]) -> None:
    import msgspec

    encoded = msgspec.json.format(msgspec.json.encode({"evenscore": __version__, **document}), indent=2) + b"\n"
    if path == "-":
        click.get_binary_stream("stdout").write(encoded)
        return
    from evenscore.archive import write_whole

    write_whole(Path(path), encoded)


def _show(message: str, quiet: bool) -> None:
    """One line of progress on a terminal; an empty message removes it."""
    if not quiet and sys.stderr.isatty():
        click.echo("\r\x1b[K" + message, err=True, nl=False)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code that says what happened."""
    try:
        code = cli.main(arguments, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = BAD
    except (click.Abort, KeyboardInterrupt):
        _end_line("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader went away; keep the interpreter from complaining about it once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = UNREAD
    except Exception as error:
        code = _failed(error)
    sys.exit(code if isinstance(code, int) else 0)


def _failed(error: Exception) -> int:
    from evenscore.errors import EvenscoreError

    if "--debug" in sys.argv:
        traceback.print_exc()
    if isinstance(error, EvenscoreError):
        _end_line(f"Error: {error}")
        return BAD
    _end_line(f"evenscore crashed: {type(error).__name__}: {error}\nThis is a bug; --debug shows where.")
    return CRASH


def _end_line(message: str) -> None:
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    click.echo(clear + message, err=True)
