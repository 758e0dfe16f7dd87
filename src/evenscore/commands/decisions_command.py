"""``evenscore decisions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands import DISPARITY
from evenscore.commands.common import (
    choice,
    data_argument,
    data_options,
    find_group,
    note_warnings,
    output_options,
    read_tally,
    require_columns,
    show,
    stop_if_interrupted,
    verbose_option,
    write_json,
)
from evenscore.commands.outputs import check_outputs, require_ending, tell, tell_written, write_text

if TYPE_CHECKING:
    from evenscore.decisions.scoring import KnownMedian
    from evenscore.tallies.tally_state import Tally

METRICS = ("selection_rate", "prevalence", "tpr", "fpr", "fnr", "tnr", "ppv", "npv", "accuracy")
PACKS = ("ll144", "model-card")
MEDIAN = "median"


@click.command(short_help="Selection rates, error rates and impact ratios of decisions by a threshold.")
@data_argument
@data_options
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    required=True,
    metavar="SCORE|GROUP=SCORE|median",
    help="The score at which decisions change; GROUP=SCORE for each group, or median for the scoring rate.",
)
@choice("--positive", ["above", "below"], "Which side of the threshold gets the positive decision.")
@click.option("--reference", metavar="GROUP", help="Compare each group with this one only.")
@click.option(
    "--metric", "metrics", type=click.Choice(METRICS), multiple=True, help="Show these only, and end with 1 on a disparity."
)
@choice("--weighting", ["user", "row"], "Whether every user or every row counts the same.")
@click.option("--tolerance", type=float, metavar="GAP", help="A difference that does not matter.")
@click.option(
    "--min-share", type=float, default=0.0, metavar="SHARE", help="Do not compare groups with a smaller share of the sample."
)
@click.option("--alpha", type=float, default=0.05, show_default=True, help="The level of tests and limits.")
@click.option("--pack", type=click.Choice(PACKS), help="Write the tables of New York City's Local Law 144, or a model card.")
@click.option("--report", metavar="PATH", help="Where the pack goes, in Markdown; by default to stdout.")
@verbose_option
@output_options
@click.pass_context
def decisions(
    context: click.Context,
    /,
    data: tuple[str, ...],
    json_path: str | None,
    report: str | None,
    pack: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Selection rates, error rates and impact ratios by group, with limits that respect users.

    \b
    evenscore decisions risk.csv --score risk --outcome ill --group race --user id --threshold 0.05
    evenscore decisions risk.csv ... --threshold men=0.05 --threshold women=0.04
    evenscore decisions hired.csv --score fit --group sex --group race --independent --threshold 0.7 --pack ll144

    Metrics cannot all be equal where groups differ in outcomes, so it ends with 1 only when --metric names some and one of
    them shows a disparity; otherwise with 0, or 2 on bad usage or data.
    """
    if report is not None and pack is None:
        raise click.UsageError("--report is where a pack goes; name one with --pack", context)
    require_ending("--report", report, (".md", ".markdown", ".txt"), "Markdown")
    check_outputs({"--report": report, "--json": json_path}, data)
    numbers = _read_thresholds(context, options["thresholds"])
    if pack == "ll144" and not options["outcome"]:
        options["outcome"] = options["score"]  # selection rates need none
    notes: list[str] = []
    with note_warnings(notes):
        by_attribute = {}
        middle = _full_median(context, data, options) if pack == "ll144" and numbers == {"": None} else None
        for columns in _attributes(options["groups"], pack):
            stop_if_interrupted(context)
            cuts = tuple(value for value in numbers.values() if value is not None)
            if middle is not None:
                cuts = (middle.cut if options["positive"] == "above" else float(middle),)
            tally = read_tally(context, data, options | {"groups": columns}, notes, quiet, cuts=cuts)
            show("counting decisions", quiet)
            by_attribute[columns] = tally, _decide(tally, numbers, middle, options, pack)
        show("", quiet)
    first = next(iter(by_attribute.values()))[1]
    if json_path is not None:
        results = {" × ".join(columns) or "group": result.to_dict() for columns, (_, result) in by_attribute.items()}
        body = {"decisions": first.to_dict()} if len(by_attribute) == 1 else {"decisions": results}
        write_json(json_path, {"data": list(data), **body, "notes": notes})
    if pack is not None:
        _write_pack(pack, by_attribute, report, data, notes, quiet)
    elif not quiet and json_path != "-":
        from evenscore.report.decision_text import decision_text
        from evenscore.report.wrapping import terminal_width

        tell(decision_text(first, options["metrics"], notes, width=terminal_width(), verbose=verbose))
        tell_written(json_path)
    shown = [row for _, result in by_attribute.values() for row in result.comparisons if row["metric"] in options["metrics"]]
    return DISPARITY if any(row["verdict"] == "disparity" for row in shown) else 0


def _read_thresholds(context: click.Context, given: tuple[str, ...]) -> dict[str, float | None]:
    """Thresholds by the group's name, "" for all of them; None is the median."""
    thresholds: dict[str, float | None] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        if not name and number == MEDIAN:
            thresholds[""] = None
            continue
        try:
            thresholds[name] = float(number)
        except ValueError:
            raise click.UsageError(f"--threshold {text}: give a score such as 0.5, GROUP=0.5, or median", context) from None
    if len(thresholds) < len(given) or ("" in thresholds and len(thresholds) > 1):
        raise click.UsageError("--threshold takes one score, or GROUP=SCORE once for each group", context)
    return thresholds


def _attributes(groups: tuple[str, ...], pack: str | None) -> list[tuple[str, ...]]:
    """What to group by: the intersection, and for Local Law 144 each column by itself as well."""
    if pack != "ll144" or len(groups) < 2:
        return [groups]
    return [*((name,) for name in groups), groups]


def _full_median(context: click.Context, data: tuple[str, ...], options: dict[str, Any]) -> KnownMedian | None:
    """The median score of all applicants, also of those whose category is not known; None where it cannot be told from rows."""
    from evenscore.decisions.scoring import KnownMedian
    from evenscore.engines.column_facts import find_median
    from evenscore.tallies.archive import is_tally_file

    if (len(data) == 1 and is_tally_file(Path(data[0]))) or options["weight"] or options["count"]:
        return None
    require_columns(context, data, options)
    median = find_median(data, options["score"])
    return None if median is None else KnownMedian(median)


def _decide(
    tally: Tally, numbers: dict[str, float | None], middle: KnownMedian | None, options: dict[str, Any], pack: str | None
) -> Any:
    from evenscore.decisions import decision_metrics

    threshold: Any = numbers.get("")
    if "" in numbers and threshold is None:
        threshold = MEDIAN if middle is None else middle
    elif "" not in numbers:
        threshold = {find_group(tally, "--threshold", name): value for name, value in numbers.items()}
    return decision_metrics(
        tally,
        threshold=threshold,
        positive=options["positive"],
        reference=find_group(tally, "--reference", options["reference"]),
        weighting="row" if pack == "ll144" else options["weighting"],
        alpha=options["alpha"],
        tolerance=options["tolerance"],
        min_share=options["min_share"],
    )


def _write_pack(
    pack: str, results: dict[tuple[str, ...], Any], report: str | None, data: tuple[str, ...], notes: list[str], quiet: bool
) -> None:
    from evenscore.report.packs import ll144, model_card

    tally, result = next(iter(results.values()))
    text = ll144(results, data, notes) if pack == "ll144" else model_card(tally, result, data, notes)
    if report is None:
        click.echo(text, nl=False)
    else:
        write_text(report, text)
        if not quiet:
            tell_written(report)
