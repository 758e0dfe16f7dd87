"""What a command writes, checked before work starts: never what it reads, nor one result over another, and data only if told so."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from evenscore.errors import FileError, OptionError, visible
from evenscore.saving import file_identity, named, refuse_data, refuse_existing

STDOUT = "-"

# For commands that write data, which people do not expect to be replaced.
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the data file if it is there already.")


def check_outputs(
    writes: Mapping[str, str | Path | None], reads: Iterable[str | Path | None], *, data: str | None = None, overwrite: bool = False
) -> None:
    """Refuse outputs (by option) that are an input, the same as another one, or cannot be written.

    Existing files are replaced, except for data; ``data`` is the option that writes data itself, and does so with ``overwrite``.
    """
    outputs = {option: os.fspath(path) for option, path in writes.items() if path is not None}
    if not outputs:
        return
    named_inputs = [os.fspath(path_read) for path_read in reads if path_read is not None]
    inputs = {file_identity(name): name for path_read in named_inputs for name in _files(path_read)}
    taken: dict[Any, str] = {}
    for option, path in outputs.items():
        identity = _stdout_identity() if path == STDOUT else file_identity(path)
        if identity is None:
            continue
        if identity in inputs:
            raise OptionError(f"{option} {named(path)} would be written over {named(inputs[identity])}, which is read")
        if identity in taken:
            raise OptionError(f"{taken[identity]} and {option} {named(path)} are the same file; give each a name of its own")
        taken[identity] = option
        if path != STDOUT:
            require_place(path)
            _refuse_taken_in(option, path, named_inputs)
            if option == data:
                refuse_existing(Path(path), overwrite)
            else:
                refuse_data(path)


def _files(name: str) -> tuple[str, ...]:
    """The files that an argument stands for; what is wrong with them is said when they are read."""
    from evenscore.engines.paths import find_files

    if Path(name).is_file():
        return (name,)
    try:
        return find_files(name)
    except FileError:
        return (name,)


def _refuse_taken_in(option: str, path: str, reads: list[str]) -> None:
    """An output that a folder or pattern which is read would take in."""
    from evenscore.engines.paths import TAKEN_IN, is_taken_in

    if is_taken_in(Path(path), reads):
        raise OptionError(f"{option} {named(path)} {TAKEN_IN}")


def _stdout_identity() -> tuple[Any, ...]:
    """Of the file that stdout goes to, if it does."""
    try:
        about = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return (STDOUT,)
    return (STDOUT,) if stat.S_ISCHR(about.st_mode) else (about.st_dev, about.st_ino)


def require_place(path: str) -> None:
    """Refuse a place that cannot be written to before any work is done."""
    try:
        reason = _why_not(Path(path))
    except OSError as error:
        reason = error.strerror
    if reason:
        raise FileError(f"cannot write {named(path)}: {reason}")


def _why_not(path: Path) -> str | None:
    """Why a file cannot be written, if so, in the words of the system."""
    folder = path.absolute().parent
    if path.is_dir():
        return "Is a directory"
    if not folder.is_dir():
        return "No such file or directory"
    return "Permission denied" if not os.access(folder, os.W_OK) and not path.exists() else None


def require_ending(option: str, path: str | None, endings: tuple[str, ...], what: str) -> None:
    """Refuse a name that promises another kind of file. what: what is written, and how to get something else."""
    suffix = "" if path is None else Path(path).suffix.lower()
    if suffix and suffix not in endings:
        raise OptionError(f"{option} {named(str(path))}: let the name end in {endings[0]}; the report is {what}")


def use_colour() -> bool:
    """Whether stdout is a terminal with colours that nobody minds."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def tell_written(*paths: str | Path | None) -> None:
    """Name each file that was written."""
    for path in paths:
        if path is not None and path != STDOUT:
            tell(f"Written: {path}")


def write_text(path: str, text: str) -> None:
    """Write text whole or not at all; - is stdout, which a terminal may be behind."""
    if path == STDOUT:
        shown = visible(text) if sys.stdout.isatty() else text
        sys.stdout.buffer.write(shown.encode("utf-8", "backslashreplace"))
        return
    from evenscore.saving import write_whole

    write_whole(Path(path), text.encode("utf-8", "backslashreplace"))


def tell(text: str, *, err: bool = False) -> None:
    """Print lines that may hold names of columns, groups and files."""
    click.echo(visible(text), err=err)
