"""Several score and outcome pairs: what ``evenscore audit`` and ``evenscore calibrate --joint`` do with ``--pair``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from evenscore.commands import DISPARITY
from evenscore.commands.common import join_options, note_warnings, require_columns, show, stop_if_interrupted, write_json
from evenscore.commands.outputs import tell, tell_written
from evenscore.commands.steps import Steps

# The pairs of a score and its outcome.
pair_option = click.option(
    "--pair",
    "pairs",
    nargs=2,
    multiple=True,
    metavar="SCORE OUTCOME",
    help="Instead of --score and --outcome: several scores, each with its outcome.",
)

# How pairs are blended, and what repairs them.
blend_options = join_options(
    pair_option,
    click.option("--blend", metavar="W1,W2,...", help="With --pair: the weights of the outcomes; 1 for each if not given."),
    click.option("--calibrator", metavar="PATH", help="With --pair: a joint calibrator, for an audit before and after."),
    click.option("--sweep", is_flag=True, help="With --pair: test the blends of many weights."),
    click.option("--split", metavar="2/2", help="Only this share of the users, such as those a calibrator was not fitted on."),
)


# Options of an audit that its other kind does not know.
OF_PAIRS = ("blend", "calibrator", "sweep")
OF_ONE = (
    *("attributes", "threshold", "positive", "gate", "require_power", "decide", "weighting", "reference", "repair", "seed"),
    *("same_scale", "min_users", "left_out", "labels", "placebo", "workers", "title", "report", "junit", "summary"),
)


def refuse_unheeded(context: click.Context, options: dict[str, Any]) -> None:
    """Options that would be given for nothing."""
    for name in OF_ONE if options["pairs"] else OF_PAIRS:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            words = "is not possible with --pair" if options["pairs"] else "needs --pair SCORE OUTCOME"
            raise click.UsageError(f"--{name.replace('_', '-').replace('labels', 'label')} {words}", context)


def audit_pairs(context: click.Context, data: tuple[str, ...], options: dict[str, Any], json_path: str | None, quiet: bool) -> int:
    """Audit each pair and their blend; returns the exit code."""
    columns = _columns(context, data, options)
    notes: list[str] = []
    with note_warnings(notes):
        show("reading", quiet)
        from evenscore.multiobjective.auditing import audit_objectives
        from evenscore.multiobjective.calibrator import JointCalibrator
        from evenscore.multiobjective.sweep import sweep_weights

        chosen = {name: options[name] for name in ("alpha", "tolerance", "method", "split")} | columns
        chosen["calibrator"] = JointCalibrator.load(options["calibrator"]) if options["calibrator"] else None
        stop_if_interrupted(context)
        judged = audit_objectives(list(data), weights=blend_weights(context, options), progress=notes.append, **chosen)
        stop_if_interrupted(context)
        swept = None
        if options["sweep"]:
            swept = sweep_weights(list(data), progress=Steps(quiet).count("testing blends"), **chosen)
        stop_if_interrupted(context)
        show("", quiet)
    results = [result for result in (judged, swept) if result is not None]
    if json_path is not None:
        names = ("audit", "sweep")
        write_json(json_path, {"data": list(data), "notes": notes} | {n: r.to_dict() for n, r in zip(names, results, strict=False)})
    if not quiet and json_path != "-":
        tell_results(results, notes, options["verbose"])
        tell_written(json_path)
    return DISPARITY if any(result.verdict == "disparity" for result in results) else 0


def calibrate_pairs(
    context: click.Context, data: tuple[str, ...], options: dict[str, Any], json_path: str | None, quiet: bool
) -> None:
    """Fit a joint calibrator and write it."""
    if not options["joint"] or not options["pairs"]:
        raise click.UsageError("--joint and --pair SCORE OUTCOME belong together: give --joint and at least one pair", context)
    _refuse_single(context)
    columns = _columns(context, data, options)
    notes: list[str] = []
    with note_warnings(notes):
        show("fitting", quiet)
        from evenscore.multiobjective import calibrate_jointly

        joint = calibrate_jointly(
            list(data),
            method=_joint_method(context, options),
            weighting=options["weighting"],
            split=options.get("split"),
            progress=notes.append,
            **columns,
        )
        stop_if_interrupted(context)
        joint.save(Path(options["out"]))
        show("", quiet)
    if json_path is not None:
        from evenscore.tables import json_ready

        write_json(json_path, {"data": list(data), "calibrator": options["out"], "maps": json_ready(joint.rows()), "notes": notes})
    if not quiet and json_path != "-":
        tell_results([joint], notes, options["verbose"])
        tell_written(options["out"], json_path)


def tell_results(results: list[Any], notes: list[str], verbose: bool) -> None:
    """Print results one below the other, and what was noted on the way."""
    from evenscore.report.wrapping import paragraphs, terminal_width

    tell("\n\n".join(result.text(verbose=verbose) for result in results))
    if notes:
        tell(paragraphs(notes, terminal_width()))
    if not verbose:
        tell("More: -v")


def _refuse_single(context: click.Context) -> None:
    """Options that only the calibration of one score has."""
    for name in ("monotone", "shrink", "reference", "verify", "tolerance", "labels"):
        if context.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            raise click.UsageError(
                f"--{name.removesuffix('s')} is not possible with --joint; audit with --pair and --calibrator instead", context
            )


def _columns(context: click.Context, data: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The column arguments; an outcome that is missing is not labelled, unless something else was asked for."""
    if options["score"] or options["outcome"]:
        raise click.UsageError("--pair and --score or --outcome contradict each other; name every score with its outcome", context)
    if options.get("item"):
        raise click.UsageError("--item is not possible with --pair yet; audit each score by itself", context)
    if options.get("count"):
        raise click.UsageError("--count is not possible with --pair; repeat the rows, or give a --weight", context)
    require_columns(context, data, options | {"score": True, "outcome": True})
    given = context.get_parameter_source("nulls") is not click.core.ParameterSource.DEFAULT
    return {
        "scores": [score for score, _ in options["pairs"]],
        "outcomes": [outcome for _, outcome in options["pairs"]],
        "group": list(options["groups"]) if len(options["groups"]) > 1 else options["groups"][0],
        "user": options["user"],
        "weight": options["weight"],
        "nulls": options["nulls"] if given else "unlabelled",
    }


def blend_weights(context: click.Context, options: dict[str, Any]) -> list[float] | None:
    """The weights that --blend gives."""
    if not options["blend"]:
        return None
    try:
        return [float(part) for part in options["blend"].split(",")]
    except ValueError:
        raise click.UsageError(
            f"--blend {options['blend']}: give numbers with commas between them, such as 1,2,0.5", context
        ) from None


def _joint_method(context: click.Context, options: dict[str, Any]) -> str:
    """The method in the words of a joint fit; "auto" when none was asked for."""
    if context.get_parameter_source("method") is click.core.ParameterSource.DEFAULT:
        return "auto"
    return {"platt": "logistic"}.get(options["method"], options["method"])
