"""``evenscore apply``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands.common import choice, output_options, show, stop_if_interrupted, write_json
from evenscore.commands.objectives_command import blend_weights
from evenscore.commands.outputs import check_outputs, overwrite_option, tell, tell_written
from evenscore.commands.steps import Steps

if TYPE_CHECKING:
    from evenscore.calibration.calibrator import Counted
    from evenscore.multiobjective.calibrator import JointApplied


@click.command(short_help="Add calibrated scores to files of any size.")
@click.argument("calibrator", metavar="CALIBRATOR")
@click.argument("data", metavar="FILE|FOLDER|GLOB", nargs=-1, required=True)
@click.option(
    "--out",
    "--output",
    "-o",
    metavar="PATH",
    required=True,
    help="The file to write: .parquet or .csv, with all columns and one more.",
)
@click.option("--score", "scores", metavar="COLUMN", multiple=True, help="The score; by default called as in the data fitted on.")
@click.option("--group", "groups", metavar="COLUMN", multiple=True, help="The group; likewise, and twice for an intersection.")
@click.option("--name", metavar="COLUMN", default="calibrated", show_default=True, help="What to call the new column.")
@click.option("--blend", metavar="W1,W2,...", help="With a joint calibrator: also add the blend with these weights.")
@choice("--on-unknown", ["error", "pooled", "keep"], "For unknown or missing groups: stop, take the pooled map, or keep the score.")
@choice("--nulls", ["error", "keep"], "For missing scores: stop, or leave them missing.")
@overwrite_option
@output_options
@click.pass_context
def apply(
    context: click.Context, /, calibrator: str, data: tuple[str, ...], out: str, json_path: str | None, quiet: bool, **options: Any
) -> None:
    """Add calibrated scores to CSV or Parquet files, in a stream: they need not fit into memory.

    \b
    evenscore apply map.json new.parquet --out repaired.parquet
    evenscore apply joint.json feed.parquet --blend 1,2 --out repaired.parquet

    A joint calibrator (of evenscore calibrate --joint) adds a column for each score, such as calibrated_p_like, and with --blend
    their blend, calibrated_blend. It holds the scores and groups in memory.
    """
    from evenscore.multiobjective.calibrator import JointCalibrator
    from evenscore.multiobjective.storage import load_any

    check_outputs({"--out": out, "--json": json_path}, [calibrator, *data], data="--out", overwrite=options["overwrite"])
    notes: list[str] = []
    chosen = {name: options[name] for name in ("name", "on_unknown", "nulls", "overwrite")} | {
        "progress": None if quiet else Steps(quiet).share("writing"),
        "say": notes.append,
    }
    loaded = load_any(Path(calibrator))
    step = _apply_jointly if isinstance(loaded, JointCalibrator) else _apply_one
    written = step(context, loaded, list(data), Path(out), options, chosen)
    show("", quiet)
    stop_if_interrupted(context)
    if json_path is not None:
        write_json(json_path, {"data": list(data), "calibrator": calibrator, "out": out, **written.to_dict(), "notes": notes})
    if not quiet and json_path != "-":
        _print(written, notes, out)


def _apply_one(
    context: click.Context, calibrator: Any, data: list[str], out: Path, options: dict[str, Any], chosen: dict[str, Any]
) -> Counted:
    from evenscore.calibration.applying import apply_files

    if options["blend"] or len(options["scores"]) > 1:
        raise click.UsageError("this calibrator has one score: name one --score and no --blend", context)
    score = options["scores"][0] if options["scores"] else None
    return apply_files(calibrator, data, out, score=score, group=list(options["groups"]) or None, **chosen)


def _apply_jointly(
    context: click.Context, joint: Any, data: list[str], out: Path, options: dict[str, Any], chosen: dict[str, Any]
) -> JointApplied:
    from evenscore.multiobjective.applying import apply_files_jointly

    weights = blend_weights(context, options)
    return apply_files_jointly(joint, data, out, scores=options["scores"], group=options["groups"], weights=weights, **chosen)


def _print(written: Counted | JointApplied, notes: list[str], out: str) -> None:
    tell("\n".join([str(written), *(f"  {note}" for note in notes)]))
    tell_written(out)
