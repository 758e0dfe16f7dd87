"""``evenscore merge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands.common import note_warnings, output_options, show, stop_if_interrupted
from evenscore.commands.outputs import check_outputs, overwrite_option
from evenscore.commands.tally_command import save_tally, tell_by_user, tell_result

if TYPE_CHECKING:
    from evenscore.tallies.tally_state import Tally


@click.command(short_help="Add up tallies of shards, or user-level files of days.")
@click.argument("files", metavar="TALLY|USERS...", nargs=-1, required=True)
@click.option("--output", "--out", "-o", metavar="PATH", required=True, help="Where the result goes.")
@click.option("--by-user", is_flag=True, help="Keep user-level rows, so that more days can be added later.")
@click.option("--release", "min_users", type=int, metavar="USERS", help="Thin and round it: every sum stands for so many users.")
@click.option("--memory-limit", default="1GB", show_default=True, metavar="SIZE", help="Beyond it, users are sorted out on disk.")
@overwrite_option
@output_options
@click.pass_context
def merge(context: click.Context, /, files: tuple[str, ...], json_path: str | None, quiet: bool, **options: Any) -> int:
    """Add up the tallies of shards that do not split users, or the user-level files of days in which users come again.

    \b
    evenscore merge shard-*.tally -o all.tally
    evenscore merge day-*.users.parquet -o week.tally
    """
    from evenscore.engines.by_user import is_by_user, merge_by_user, unite_by_user
    from evenscore.engines.spill import parse_memory_limit
    from evenscore.errors import FileError, OptionError

    output = Path(options["output"])
    paths = [Path(name) for name in files]
    for path in paths:
        if not path.is_file():
            raise FileError(f"no file {path}")
    _require_different(paths)
    data = "--output" if options["by_user"] else None
    check_outputs({"--output": output, "--json": json_path}, paths, data=data, overwrite=options["overwrite"])
    user_level = [is_by_user(path) for path in paths]
    if any(user_level) and not all(user_level):
        odd = paths[user_level.index(False)]
        raise FileError(f"{odd} holds no user-level rows, other files do; tallies and user-level rows cannot be merged")
    if options["by_user"] and (options["min_users"] or not all(user_level)):
        raise OptionError("--by-user merges user-level files into one, which is neither a tally nor released")
    notes: list[str] = []
    with note_warnings(notes):
        limit = parse_memory_limit(options["memory_limit"])
        if options["by_user"]:
            united = unite_by_user(paths, limit, output, overwrite=options["overwrite"])
            tell_by_user(united, output, notes, json_path, quiet)
            return 0
        total = merge_by_user(paths, limit) if all(user_level) else _add_up(paths, quiet)
        stop_if_interrupted(context)
        total = save_tally(total, output, options["min_users"])
        show("", quiet)
    tell_result(total, output, notes, json_path, quiet)
    return 0


def _require_different(paths: list[Path]) -> None:
    """A file that is added to itself counts everybody twice."""
    from evenscore.errors import MergeError
    from evenscore.saving import file_identity, named

    seen: dict[Any, Path] = {}
    for path in paths:
        first = seen.setdefault(file_identity(path), path)
        if first is not path:
            raise MergeError(f"{named(first)} and {named(path)} are the same file; everybody in it would count twice")


def _add_up(paths: list[Path], quiet: bool) -> Tally:
    """The sum of saved tallies, two at a time in memory; an error names the file that does not fit."""
    from evenscore.errors import MergeError
    from evenscore.tallies.archive import load_tally

    total = load_tally(paths[0])
    for number, path in enumerate(paths[1:], start=2):
        show(f"adding {number} of {len(paths)} tallies", quiet)
        try:
            total = total + load_tally(path)
        except MergeError as error:
            raise MergeError(f"{path}: {error}") from None
    return total
