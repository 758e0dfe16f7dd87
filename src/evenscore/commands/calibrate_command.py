"""``evenscore calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands.common import (
    choice,
    data_argument,
    data_options,
    find_group,
    note_warnings,
    output_options,
    read_tally,
    show,
    stop_if_interrupted,
    verbose_option,
    write_json,
)
from evenscore.commands.objectives_command import calibrate_pairs, pair_option
from evenscore.commands.outputs import check_outputs, tell, tell_written

if TYPE_CHECKING:
    from evenscore.calibration.calibrator import Calibrator
    from evenscore.calibration.verification import Verification


@click.command(short_help="Fit a map for each group that repairs its scores.")
@data_argument
@data_options
@click.option("--out", "--output", "-o", metavar="PATH", required=True, help="Where to write the calibrator, as JSON.")
@choice(
    "--method",
    ["kernel", "isotonic", "platt", "binning", "auto", "guided", "logistic", "linear"],
    "How to fit; with --joint: auto (then the default), kernel, guided, logistic or linear.",
)
@click.option("--joint", is_flag=True, help="With --pair: calibrate every score given all of them, so that every blend is fair.")
@pair_option
@choice("--weighting", ["user", "row"], "Whether every user or every row counts the same.")
@click.option("--monotone", is_flag=True, help="Maps that never fall.")
@click.option("--shrink", is_flag=True, help="Let small groups lean on the pooled map, where that helps users left out.")
@click.option("--reference", metavar="GROUP", help="Keep the scale of this group.")
@click.option("--split", metavar="1/2", help="Fit on a share of the users only, and verify on the rest.")
@click.option("--verify/--no-verify", default=None, help="Test parity before and after on the rest; by default with --split.")
@click.option("--tolerance", type=float, metavar="GAP", help="A gap that does not matter, when verifying.")
@verbose_option
@output_options
@click.pass_context
def calibrate(
    context: click.Context, /, data: tuple[str, ...], json_path: str | None, quiet: bool, verbose: bool, **options: Any
) -> None:
    """Fit a map for each group from its scores to the outcome that they stand for.

    \b
    evenscore calibrate people.parquet --score risk --outcome ill --group race --user id --split 1/2 --out map.json
    evenscore apply map.json new.parquet --out repaired.parquet
    evenscore calibrate feed.parquet --joint --pair p_like like --pair p_share share --group sex --user id --out joint.json

    With --split the repair is verified on the users that were left out: testing on the users it was fitted on always looks good.
    """
    check_outputs({"--out": options["out"], "--json": json_path}, data)
    if options["joint"] or options["pairs"]:
        calibrate_pairs(context, data, options | {"verbose": verbose}, json_path, quiet)
        return
    notes: list[str] = []
    with note_warnings(notes):
        tally = read_tally(context, data, options, notes, quiet)
        stop_if_interrupted(context)
        show("fitting", quiet)
        from evenscore.calibration import calibrate as fit

        calibrator = fit(
            tally,
            method=options["method"],
            weighting=options["weighting"],
            monotone=options["monotone"],
            shrink=options["shrink"],
            reference=find_group(tally, "--reference", options["reference"]),
        )
        calibrator.save(Path(options["out"]))
        verification = _verify(context, data, options, calibrator, quiet)
        show("", quiet)
    if verification is None:
        notes.append("not verified: fitted on all users; --split 1/2 with the data keeps half of them to verify on")
    if json_path is not None:
        document = {"data": list(data), "calibrator": options["out"], "maps": calibrator.summary(), "notes": notes}
        write_json(json_path, _ready(document | ({} if verification is None else {"verification": verification.to_dict()})))
    if not quiet and json_path != "-":
        from evenscore.report.wrapping import paragraphs, terminal_width

        width = terminal_width()
        results = [result for result in (calibrator, verification) if result is not None]
        tell("\n\n".join(result.text(verbose=verbose) for result in results))
        if notes:
            tell(paragraphs(notes, width))
        if not verbose:
            tell("Maps, groups and tests: -v")
        tell_written(options["out"], json_path)


def _verify(
    context: click.Context, data: tuple[str, ...], options: dict[str, Any], calibrator: Calibrator, quiet: bool
) -> Verification | None:
    """The verification on the users that were left out, if asked for or possible."""
    if options["verify"] is False or (options["verify"] is None and not options["split"]):
        return None
    if not options["split"]:
        raise click.UsageError("--verify needs users that were not fitted on: give --split 1/2 with it", context)
    stop_if_interrupted(context)
    show("verifying", quiet)
    from evenscore.calibration.verification import verify
    from evenscore.data.splits import Split

    rest = options | {"split": str(Split.parse(options["split"]).rest())}
    return verify(calibrator, read_tally(context, data, rest, [], quiet), tolerance=options["tolerance"])


def _ready(document: dict[str, Any]) -> dict[str, Any]:
    from evenscore.tables import json_ready

    return dict(json_ready(document))
