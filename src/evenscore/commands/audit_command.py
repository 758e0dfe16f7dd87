"""``evenscore audit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands.common import (
    choice,
    column_options,
    label_texts,
    output_options,
    require_columns,
    require_no_columns,
    show,
    stop_if_interrupted,
    verbose_option,
)
from evenscore.commands.objectives_command import audit_pairs, blend_options, refuse_unheeded
from evenscore.commands.outputs import check_outputs, require_ending, use_colour, write_text
from evenscore.commands.settings import merge_settings
from evenscore.commands.steps import Steps

if TYPE_CHECKING:
    from evenscore.auditing.audit_result import Audit

METHODS = ("auto", "sup", "multiscale", "l2", "cumulative", "combined", "bonferroni", "holm", "bh")


@click.command(short_help="Test whether the same score means the same outcome in every group.")
@click.argument("data", metavar="FILE|FOLDER|GLOB|TALLY", nargs=-1)
@click.option("--score", "scores", metavar="COLUMN", multiple=True, help="The score; give it twice to audit two.")
@column_options
@click.option(
    "--attribute",
    "attributes",
    metavar="COLUMN[,COLUMN]",
    multiple=True,
    help="Instead of --group: audit several attributes; a comma makes an intersection.",
)
@click.option("--threshold", type=float, metavar="SCORE", help="The score at which a decision is made.")
@choice("--positive", ["above", "below"], "On which side of the threshold the decision is positive.")
@click.option("--tolerance", type=float, metavar="GAP", help="A gap that does not matter; parity can be shown only with one.")
@choice("--gate", ["difference", "equivalence"], "Fail on a disparity, or unless parity is shown.")
@click.option("--require-power", type=float, metavar="GAP", help="Fail too when a gap of this size would be missed too often.")
@click.option(
    "--decide",
    type=click.Choice(["auto", "parity", "ordering", "marginal"]),
    multiple=True,
    default=("auto",),
    show_default=True,
    help="The tests that make the verdict; auto: parity where groups have scores in common, ordering where they have none.",
)
@choice("--weighting", ["user", "row"], "Whether every user or every row counts the same.")
@choice("--method", list(METHODS), "The test.")
@click.option("--reference", metavar="GROUP", help="Compare each group with this one only.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="The chance of any false alarm.")
@click.option("--repair/--no-repair", default=True, help="Whether to look for a repair when a disparity is shown.")
@click.option(
    "--same-scale/--no-same-scale", default=None, help="Whether score and outcome are on one scale; by default the data tell."
)
@click.option("--min-users", type=int, default=10, show_default=True, help="Groups of fewer users are counted, not judged.")
@click.option(
    "--left-out", metavar="GROUP=REASON", multiple=True, help="Do not judge this group, and say why; may be given several times."
)
@click.option("--placebo", type=int, metavar="RUNS", help="Deal groups out anew so often, and count false alarms; 200 is usual.")
@click.option("--workers", type=int, default=1, show_default=True, help="Processes for --placebo.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draws behind p-values and bands.")
@click.option("--title", default="Audit of predictive parity", metavar="TEXT", help="The title of the report.")
@click.option("--report", metavar="PATH", help="Write the report, one HTML page.")
@click.option("--junit", metavar="PATH", help="Write the tests as JUnit XML.")
@click.option("--summary", metavar="PATH", help="Append a summary in Markdown, such as to $GITHUB_STEP_SUMMARY.")
@blend_options
@click.option("--config", metavar="PATH", help="Settings; evenscore.toml is read when it is there.")
@click.option("--no-config", is_flag=True, help="Read no settings, whatever is there.")
@verbose_option
@output_options
@click.pass_context
def audit(context: click.Context, /, data: tuple[str, ...], quiet: bool, verbose: bool, **options: Any) -> int:
    """Test whether people with the same score have the same expected outcome in every group.

    \b
    evenscore audit forecasts.parquet --score score --outcome outcome --group bracket --user game_id
    evenscore audit feed.parquet --pair p_like like --pair p_share share --blend 1,3 --group sex --user id

    Ends with 0 when the gate is passed, 1 on a disparity, 2 on bad usage or data, 3 when parity or power is asked for
    and not shown.
    """
    data, settings = merge_settings(context, data, options, quiet)
    if not data:
        named = "`evenscore init FILE` writes settings that name it"
        raise click.UsageError(f"Missing argument 'FILE|FOLDER|GLOB|TALLY'; {named}.", context)
    refuse_unheeded(context, options)
    outputs = {name: options.pop(name) for name in ("report", "json_path", "junit", "summary")}
    writes = {f"--{name.removesuffix('_path')}": path for name, path in outputs.items()}
    require_ending("--report", outputs["report"], (".html", ".htm"), "an HTML page, which a browser prints to PDF")
    check_outputs(writes, [*data, settings, options["calibrator"]])
    if options["pairs"]:
        return audit_pairs(context, data, options | {"score": options["scores"], "verbose": verbose}, outputs["json_path"], quiet)
    for name in ("pairs", "blend", "calibrator", "sweep"):
        options.pop(name)
    result = _audit(context, data, options, quiet)
    stop_if_interrupted(context)
    texts = _render_outputs(result, outputs, quiet)
    stop_if_interrupted(context)
    show("", quiet)
    for path, text in texts:
        write_text(path, text)
    if not quiet and outputs["json_path"] != "-":
        click.echo(_text(result, [path for path, _ in texts], verbose))
    return result.check().code


def _text(result: Audit, written: list[str], verbose: bool) -> str:
    """What is printed, and at its end each file that was written."""
    from evenscore.report.short_text import short_text
    from evenscore.report.text import full_text
    from evenscore.report.wrapping import terminal_width, wrap

    width = terminal_width()
    ending = f"Written: {', '.join(written)}" if written else "Next: --report audit.html writes the report, -v prints the rest."
    if verbose:
        return "\n".join([full_text(result, width, use_colour()), *(["", *wrap(ending, width, "")] if written else [])])
    return short_text(result, width, use_colour(), "-v", ending)


def _audit(context: click.Context, data: tuple[str, ...], options: dict[str, Any], quiet: bool) -> Audit:
    from evenscore.auditing import audit as run_audit
    from evenscore.engines.data_or_tally import UNSAID
    from evenscore.tallies.archive import is_tally_file

    attributes = [_split_attribute(attribute) for attribute in options.pop("attributes")]
    scores, groups, user = (options.pop(name) for name in ("scores", "groups", "user"))
    independent = options.pop("independent")
    if all(is_tally_file(Path(path)) for path in data):
        require_no_columns(context, data, ("scores", "attributes"))
        columns: dict[str, Any] = {"user": UNSAID, "outcome": None, "weight": None, "count": None, "item": None}
    else:
        known = options | {"score": scores, "groups": groups or attributes, "user": user, "independent": independent}
        require_columns(context, data, known)
        if groups and attributes:
            raise click.UsageError("--group and --attribute contradict each other; give one", context)
        columns = {
            "user": None if independent else user,
            "score": scores[0] if len(scores) == 1 else list(scores),
            "group": None if attributes else groups[0] if len(groups) == 1 else list(groups),
            "attributes": attributes or None,
        }

    options["left_out"] = _justifications(context, options["left_out"])
    options["labels"] = label_texts(context, options["labels"])

    steps = Steps(quiet)

    def say(words: str) -> None:
        stop_if_interrupted(context)
        steps.say(words)

    return run_audit(list(data), progress=say, **(options | columns))


def _justifications(context: click.Context, given: Any) -> dict[str, str]:
    """Groups and why they are left out: from the settings, or as GROUP=REASON."""
    if isinstance(given, dict):
        return given
    reasons = {}
    for text in given:
        group, _, reason = text.partition("=")
        if not (group and reason.strip()):
            raise click.UsageError(f"--left-out {text!r} must be GROUP=REASON, such as --left-out 'other=fewer than 2 %'", context)
        reasons[group] = reason
    return reasons


def _split_attribute(attribute: Any) -> Any:
    """An attribute as it is given: text with commas, or a list from the settings."""
    parts = attribute.split(",") if isinstance(attribute, str) else list(attribute)
    return parts[0] if len(parts) == 1 else parts


def _render_outputs(result: Audit, outputs: dict[str, str | None], quiet: bool) -> list[tuple[str, str]]:
    """Everything that was asked for as text, before any of it is written."""
    show("writing", quiet)
    makers = {"report": result.to_html, "json_path": result.to_json, "junit": result.to_junit}
    texts = [(path, make()) for name, make in makers.items() if (path := outputs[name]) is not None]
    summary = outputs["summary"]
    if summary is not None:
        texts.append((summary, _text_in(Path(summary)) + result.to_markdown()))
    return texts


def _text_in(path: Path) -> str:
    """What a file holds that is added to."""
    from evenscore.errors import FileError
    from evenscore.saving import named, read_whole

    try:
        return read_whole(path).decode() if path.is_file() else ""
    except UnicodeDecodeError:
        raise FileError(f"{named(path)} is not text in UTF-8, so no summary can be added to it") from None
