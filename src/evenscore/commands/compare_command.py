"""``evenscore compare``."""

from __future__ import annotations

import click

from evenscore.commands import DISPARITY
from evenscore.commands.common import choice, output_options, verbose_option, write_json
from evenscore.commands.outputs import check_outputs, tell, tell_written


@click.command(short_help="Compare two audits: before and after, or release to release.")
@click.argument("before", metavar="BEFORE.json")
@click.argument("after", metavar="AFTER.json")
@choice("--fail-on", ["new", "any", "never"], "End with 1 on a new disparity, on any in the second audit, or never.")
@verbose_option
@output_options
def compare(before: str, after: str, fail_on: str, json_path: str | None, quiet: bool, verbose: bool) -> int:
    """Compare two audits that `evenscore audit --json` wrote.

    \b
    evenscore compare last-release.json this-release.json

    Ends with 1 when the second shows a disparity that the first did not.
    """
    from evenscore.auditing.audit_comparison import compare_audits

    check_outputs({"--json": json_path}, [before, after])
    comparison = compare_audits(before, after)
    if json_path is not None:
        write_json(json_path, comparison.to_dict())
    if not quiet and json_path != "-":
        tell(comparison.text(verbose=verbose))
        tell_written(json_path)
    failed = {"new": bool(comparison.new_disparities), "any": comparison.verdict_after == "disparity", "never": False}[fail_on]
    return DISPARITY if failed else 0
