"""``evenscore apply``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands.common import choice, output_options, show, stop_if_interrupted, write_json

if TYPE_CHECKING:
    from evenscore.calibration.calibrator import Counted

BAR = 30


@click.command(short_help="Add calibrated scores to files of any size.")
@click.argument("calibrator", metavar="CALIBRATOR")
@click.argument("data", metavar="FILE|FOLDER|GLOB", nargs=-1, required=True)
@click.option("--out", metavar="PATH", required=True, help="The file to write: .parquet or .csv, with all columns and one more.")
@click.option("--score", metavar="COLUMN", help="The score; by default called as when the calibrator was fitted.")
@click.option("--group", "groups", metavar="COLUMN", multiple=True, help="The group; likewise, and twice for an intersection.")
@click.option("--name", metavar="COLUMN", default="calibrated", show_default=True, help="What to call the new column.")
@choice(
    "--on-unknown", ["error", "pooled", "keep"], "For unknown or missing groups: stop, take everybody's map, or keep the score."
)
@choice("--nulls", ["error", "keep"], "For missing scores: stop, or leave them missing.")
@output_options
@click.pass_context
def apply(
    context: click.Context, /, calibrator: str, data: tuple[str, ...], out: str, json_path: str | None, quiet: bool, **options: Any
) -> None:
    """Add calibrated scores to CSV or Parquet files, in a stream: they need not fit into memory.

    \b
    evenscore apply map.json new.parquet --out repaired.parquet
    """
    from evenscore.calibration.applying import apply_files
    from evenscore.calibration.calibrator import Calibrator

    notes: list[str] = []
    written = apply_files(
        Calibrator.load(calibrator),
        list(data),
        Path(out),
        score=options["score"],
        group=list(options["groups"]) or None,
        name=options["name"],
        on_unknown=options["on_unknown"],
        nulls=options["nulls"],
        progress=None if quiet else lambda share: show(_bar(share), quiet),
        say=notes.append,
    )
    show("", quiet)
    stop_if_interrupted(context)
    if json_path is not None:
        write_json(json_path, {"data": list(data), "calibrator": calibrator, "out": out, **written.to_dict(), "notes": notes})
    if not quiet and json_path != "-":
        _print(written, notes, out)


def _bar(share: float) -> str:
    """Progress for one line of a terminal."""
    done = round(BAR * min(share, 1.0))
    return f"writing [{'#' * done}{'.' * (BAR - done)}] {share:.0%}"


def _print(written: Counted, notes: list[str], out: str) -> None:
    click.echo(str(written))
    for note in notes:
        click.echo(f"  {note}")
    click.echo(f"\n  written to {out}")
