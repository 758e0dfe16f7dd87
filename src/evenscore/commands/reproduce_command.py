"""``evenscore reproduce``."""

from __future__ import annotations

import os
import time

import click

from evenscore.commands.common import show, stop_if_interrupted
from evenscore.commands.outputs import tell

FAILED = 1
WIDTH = 28


@click.command(short_help="Run the paper's experiments and check its findings.")
@click.option(
    "--output", "--out", "-o", metavar="FOLDER", default="reproduction", show_default=True, help="Where the page and figures go."
)
@click.option("--fast", is_flag=True, help="Few draws: under a minute, with wide Monte Carlo errors.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed gives the same files.")
@click.option("--workers", type=click.IntRange(1), help="Processes; by default one for each core.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors and findings that fail.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback when something crashes.")
@click.pass_context
def reproduce(context: click.Context, /, output: str, fast: bool, seed: int, workers: int | None, quiet: bool) -> int:
    """Run the three experiments of the paper's Section 8 again, and check its findings.

    Writes index.md, index.html, figures as PNG and SVG and numbers.json to the folder. A run that was interrupted goes on where it
    stopped. Ends with 0 when every finding holds, and with 1 when one does not.
    """
    show("starting", quiet)
    from evenscore import reproduction

    found = reproduction.reproduce(
        output, fast=fast, seed=seed, workers=workers or _cores(), progress=None if quiet else Bar(time.monotonic())
    )
    show("", quiet)
    stop_if_interrupted(context)
    if not quiet:
        for finding in found.findings:
            click.echo(f"  {'holds' if finding.holds else 'FAILS'}  {finding.key}  {finding.says}\n             {finding.figures}")
        tell(f"\n  {output}/index.md, index.html, figure-1 to figure-3 (PNG, SVG), numbers.json")
    for finding in found.failed:
        click.echo(f"finding {finding.key} does not hold: {finding.says} ({finding.figures})", err=True)
    return FAILED if found.failed else 0


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Bar:
    """A bar of progress on a terminal, with the time that is left."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.first: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that so many of all draws are done."""
        if self.first is None:
            self.first = done - 1  # what an earlier run had done says nothing about speed
        filled = WIDTH * done // total
        left = (time.monotonic() - self.began) * (total - done) / max(1, done - self.first)
        show(f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done:,} of {total:,} draws, {_clock(left)} left", False)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
