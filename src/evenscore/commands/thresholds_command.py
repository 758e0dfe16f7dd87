"""``evenscore thresholds``."""

from __future__ import annotations

from typing import Any

import click

from evenscore.commands import DISPARITY
from evenscore.commands.common import (
    choice,
    data_argument,
    data_options,
    note_warnings,
    output_options,
    read_tally,
    show,
    stop_if_interrupted,
    verbose_option,
    write_json,
)
from evenscore.commands.outputs import check_outputs, tell, tell_written


@click.command(short_help="Test whether a decision threshold is equally high for all groups, and find the ones that are.")
@data_argument
@data_options
@click.option("--threshold", type=float, required=True, metavar="SCORE", help="The score at which decisions change.")
@choice("--positive", ["above", "below"], "Which side of the threshold gets the positive decision.")
@choice(
    "--strategy", ["rate", "raise", "lower", "target"], "Keep the overall rate, only raise or lower the bar, or reach --target."
)
@click.option("--target", type=float, metavar="OUTCOME", help="The outcome at the thresholds, with --strategy target.")
@choice("--weighting", ["user", "row"], "Whether every user or every row counts the same.")
@click.option("--tolerance", type=float, metavar="GAP", help="A gap that does not matter; parity can be shown only with one.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="The level of the test and of intervals.")
@click.option("--plot", "plot_path", metavar="PATH", help="Draw the curves near the thresholds (png, svg or pdf).")
@verbose_option
@output_options
@click.pass_context
def thresholds(
    context: click.Context,
    /,
    data: tuple[str, ...],
    json_path: str | None,
    plot_path: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Test whether people at a decision threshold have the same expected outcome in every group, and find thresholds at which
    they have.

    \b
    evenscore thresholds risk.csv --score risk --outcome ill --group race --user id --threshold 0.05

    Only outcomes of people with the positive decision are needed for the test; say --nulls unlabelled when others have none. Ends
    with 0 when no disparity is shown at the threshold, 1 on a disparity, 2 on bad usage or data.
    """
    if (options["strategy"] == "target") != (options["target"] is not None):
        raise click.UsageError("--strategy target and --target belong together", context)
    check_outputs({"--plot": plot_path, "--json": json_path}, data)
    notes: list[str] = []
    with note_warnings(notes):
        tally = read_tally(context, data, options, notes, quiet, cuts=(options["threshold"],))
        stop_if_interrupted(context)
        show("testing", quiet)
        from evenscore.marginal import marginal_test
        from evenscore.thresholds import fair_thresholds

        shared = {name: options[name] for name in ("threshold", "positive", "weighting", "alpha")}
        test = marginal_test(tally, tolerance=options["tolerance"], **shared)
        fair = fair_thresholds(tally, strategy=options["strategy"], target=options["target"], **shared)
        stop_if_interrupted(context)
        show("", quiet)
    if plot_path is not None:
        from evenscore.report.plots import save_plot

        save_plot(fair, plot_path)
    if json_path is not None:
        results = {"marginal_test": test.to_dict(), "thresholds": fair.to_dict()}
        write_json(json_path, {"data": list(data), "tally": tally.to_dict(), **results, "notes": notes})
    if not quiet and json_path != "-":
        from evenscore.report.threshold_text import thresholds_text
        from evenscore.report.wrapping import terminal_width

        tell(thresholds_text(tally, test, fair, notes, width=terminal_width(), verbose=verbose))
        tell_written(plot_path, json_path)
    return DISPARITY if test.verdict == "disparity" else 0
