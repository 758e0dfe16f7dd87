"""``evenscore audit``."""

from __future__ import annotations

from typing import Any

import click

from evenscore.commands import DISPARITY
from evenscore.commands.common import (
    choice,
    data_argument,
    data_options,
    group_named,
    noted_warnings,
    output_options,
    read_tally,
    show,
    stop_if_interrupted,
    write_json,
)
from evenscore.commands.objectives import audit_pairs, blend_options

METHODS = ("auto", "sup", "multiscale", "l2", "cumulative", "combined", "bonferroni", "holm", "bh")


@click.command(short_help="Test whether the same score means the same outcome in every group.")
@data_argument
@data_options
@choice("--weighting", ["user", "row"], "Whether every user or every row counts the same.")
@choice("--method", list(METHODS), "The test.")
@click.option("--reference", metavar="GROUP", help="Compare each group with this one only.")
@click.option("--tolerance", type=float, metavar="GAP", help="A gap that does not matter; parity can be shown only with one.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="The level of the test.")
@blend_options
@output_options
@click.pass_context
def audit(context: click.Context, /, data: tuple[str, ...], json_path: str | None, quiet: bool, **options: Any) -> int:
    """Test whether people with the same score have the same expected outcome in every group.

    \b
    evenscore audit forecasts.parquet --score score --outcome outcome --group bracket --user game_id
    evenscore audit feed.parquet --pair p_like like --pair p_share share --blend 1,3 --group sex --user id

    Ends with 0 when no disparity is shown, 1 on a disparity, 2 on bad usage or data.
    """
    if options["pairs"]:
        return audit_pairs(context, data, options, json_path, quiet)
    notes: list[str] = []
    with noted_warnings(notes):
        tally = read_tally(context, data, options, notes, quiet)
        stop_if_interrupted(context)
        show("testing", quiet)
        from evenscore.parity import parity_test

        test = parity_test(
            tally,
            method=options["method"],
            alpha=options["alpha"],
            tolerance=options["tolerance"],
            reference=group_named(tally, "--reference", options["reference"]),
            weighting=options["weighting"],
        )
        stop_if_interrupted(context)
        show("", quiet)
    if json_path is not None:
        write_json(json_path, {"data": list(data), "tally": tally.to_dict(), "parity_test": test.to_dict(), "notes": notes})
    if not quiet and json_path != "-":
        from evenscore.report.text import audit_text

        click.echo(audit_text(tally, test, notes))
    return DISPARITY if test.verdict == "disparity" else 0
