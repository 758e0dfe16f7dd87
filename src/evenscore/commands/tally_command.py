"""``evenscore tally``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands.common import (
    data_argument,
    data_options,
    make_spec,
    note_warnings,
    output_options,
    read_tally,
    require_columns,
    show,
    stop_if_interrupted,
    write_json,
)
from evenscore.commands.outputs import check_outputs, overwrite_option, tell, tell_written

if TYPE_CHECKING:
    from evenscore.engines.by_user import ByUser
    from evenscore.tallies.lattice import Lattice
    from evenscore.tallies.tally_state import Tally

BY_USER = "holds user-level rows: what each user put into each cell, under the id or a hash of it. Treat it like the data itself"


@click.command(short_help="Scan data once into a tally that can be merged, kept and audited later.")
@data_argument
@data_options
@click.option("--output", "--out", "-o", metavar="PATH", help="Where the tally goes.")
@click.option(
    "--lattice",
    "reference",
    metavar="TALLY|LOW:HIGH",
    help="Cells to reuse, so that tallies can be merged: those of a saved tally or user-level file, or from LOW to HIGH.",
)
@click.option("--cut", "cuts", type=float, multiple=True, metavar="SCORE", help="A score that must be an edge of cells.")
@click.option("--split", metavar="SHARE", help="Only a share of the users, such as 1/4; a hash of the id decides.")
@click.option("--memory-limit", default="1GB", show_default=True, metavar="SIZE", help="Beyond it, users are sorted out on disk.")
@click.option("--by-user", is_flag=True, help="Keep what each user put into each cell, for data in which users come again.")
@click.option("--release", "min_users", type=int, metavar="USERS", help="Thin and round it: every sum stands for so many users.")
@click.option("--explain", is_flag=True, help="Say what would be done, and do nothing.")
@overwrite_option
@output_options
@click.pass_context
def tally(context: click.Context, /, data: tuple[str, ...], json_path: str | None, quiet: bool, **options: Any) -> int:
    """Scan data once into a tally: a few megabytes that hold no rows and answer everything later.

    \b
    evenscore tally "shard-1/*.parquet" --score s --outcome y --group g --user id -o shard-1.tally
    evenscore merge shard-*.tally -o all.tally
    evenscore audit all.tally

    Shards must not split users. Scores outside [0, 1], or a --scale of your own, need the same --lattice for every shard. Where
    users come again, as in daily data, keep user-level files (--by-user) and merge those.
    """
    from evenscore.errors import OptionError

    if options["by_user"] and (options["min_users"] or options["split"]):
        raise OptionError("--by-user keeps all users as they are; use --release or --split with merge, or on a tally")
    check_outputs(
        {"--output": None if options["explain"] else options["output"], "--json": json_path},
        [*data, options["reference"]],
        data="--output" if options["by_user"] else None,
        overwrite=options["overwrite"],
    )
    notes: list[str] = []
    options["lattice"] = reference_lattice(options.pop("reference"), options["cells"], options["cuts"], options["scale"])
    if options["explain"]:
        return _explain(context, data, options, json_path)
    if options["output"] is None:
        raise click.UsageError("missing: --output, where the tally goes", context)
    output = Path(options["output"])
    with note_warnings(notes):
        if options["by_user"]:
            written = _write_by_user(context, data, options, output, notes)
            tell_by_user(written, output, notes, json_path, quiet)
            return 0
        counted = read_tally(context, data, options, notes, quiet)
        stop_if_interrupted(context)
        counted = save_tally(counted, output, options["min_users"], options["cuts"])
        show("", quiet)
    tell_result(counted, output, notes, json_path, quiet)
    return 0


def reference_lattice(reference: str | None, cells: int, cuts: tuple[float, ...], scale: str) -> Lattice | None:
    """The lattice that --lattice names."""
    if reference is None:
        return None
    from evenscore.engines.by_user import is_by_user, open_by_user
    from evenscore.errors import OptionError
    from evenscore.tallies.archive import is_tally_file, load_tally
    from evenscore.tallies.lattice import Lattice

    path = Path(reference)
    if path.is_file():
        if is_tally_file(path):
            return load_tally(path).lattice
        if is_by_user(path):
            return open_by_user(path).recipe.lattice
        raise OptionError(f"--lattice {reference}: the file is no saved tally")
    low, colon, high = reference.partition(":")
    try:
        limits = float(low), float(high)
    except ValueError:
        colon = ""
    if not colon:
        raise OptionError(f"--lattice {reference}: there is no such file, and it is not LOW:HIGH, such as 0:1")
    return Lattice(*limits, cells=cells, cuts=cuts, scale=scale)


def _explain(context: click.Context, data: tuple[str, ...], options: dict[str, Any], json_path: str | None) -> int:
    from evenscore.engines.files import plan_files

    require_columns(context, data, options)
    notes: list[str] = []
    with note_warnings(notes):
        plan = plan_files(list(data), make_spec(options), memory_limit=options["memory_limit"])
    if json_path is not None:
        write_json(json_path, {"plan": plan.to_dict(), "notes": notes})
    if json_path != "-":
        tell("\n".join([repr(plan), *notes]))
    return 0


def _write_by_user(
    context: click.Context, data: tuple[str, ...], options: dict[str, Any], output: Path, notes: list[str]
) -> ByUser:
    from evenscore.engines.files import write_by_user
    from evenscore.errors import OptionError

    if output.suffix.lower() not in (".parquet", ".pq"):
        raise OptionError(f"--output {output}: a user-level file is Parquet; let its name end in .parquet")
    require_columns(context, data, options)
    settings = {name: options[name] for name in ("memory_limit", "overwrite")}
    written = write_by_user(data, output, make_spec(options), say=notes.append, **settings)
    stop_if_interrupted(context)
    return written


def tell_by_user(written: ByUser, output: Path, notes: list[str], json_path: str | None, quiet: bool) -> None:
    """Say what user-level file was made, as text or JSON."""
    recipe = written.recipe
    if json_path is not None:
        write_json(json_path, {"output": str(output), "user_level": True, "rows": recipe.n_rows, "notes": [BY_USER, *notes]})
    if not quiet and json_path != "-":
        tell("\n".join(_lines([f"{recipe.n_rows:,} rows on {recipe.lattice!r}", f"{output} {BY_USER}", *notes])))
        tell_written(output, json_path)


def save_tally(counted: Tally, output: Path, min_users: int | None, cuts: Iterable[float] = ()) -> Tally:
    """The tally as it was written, thinned if asked."""
    if min_users is not None:
        counted = counted.release(min_users=min_users, cuts=cuts)
    counted.save(output)
    return counted


def tell_result(result: Tally, output: Path, notes: list[str], json_path: str | None, quiet: bool) -> None:
    """Say what was made, as text or JSON."""
    if json_path is not None:
        write_json(json_path, {"output": str(output), "tally": result.to_dict(), "notes": notes})
    if not quiet and json_path != "-":
        tell("\n".join([repr(result), *_lines(notes)]))
        tell_written(output, json_path)


def _lines(texts: list[str]) -> list[str]:
    """Paragraphs that fit the terminal."""
    from evenscore.report.wrapping import terminal_width, wrap

    return [line for text in texts for line in wrap(text, terminal_width(), "")]
