"""``evenscore simulate``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evenscore.commands.common import stop_if_interrupted, write_json
from evenscore.commands.outputs import check_outputs, overwrite_option, tell

if TYPE_CHECKING:
    from evenscore.simulation.catalogue import Known

COLUMNS = "--score score --outcome outcome --group group --user user"


@click.command(short_help="Write data with a known truth, for teaching and for testing tools.")
@click.argument("name", required=False)
@click.option("--output", "--out", "-o", metavar="FILE", help="Where the rows go: a name that ends in .csv or .parquet.")
@click.option("--users", type=click.IntRange(1), default=1000, show_default=True, help="Users of each group.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed gives the same file.")
@click.option("--spec", metavar="FILE", help="Instead of a name: a written simulation, such as a truth file.")
@click.option("--means", is_flag=True, help="Also write the expected outcome of each row.")
@click.option("--list", "listed", is_flag=True, help="List the names and end.")
@overwrite_option
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback when something crashes.")
@click.pass_context
def simulate(
    context: click.Context,
    /,
    name: str | None,
    output: str | None,
    users: int,
    seed: int,
    spec: str | None,
    means: bool,
    listed: bool,
    overwrite: bool,
    quiet: bool,
) -> int:
    """Write a data set whose truth is known, and the truth beside it.

    \b
    evenscore simulate shift --users 2000 --output shift.csv

    writes shift.csv and shift.truth.json, which holds the curves, the calibration errors and the whole simulation; --spec takes
    such a file, edited or not. --list names all simulations.
    """
    if listed:
        click.echo(_listing())
        return 0
    if (name is None) == (spec is None):
        raise click.UsageError("give the name of a simulation (--list shows them) or --spec, one of the two", context)
    if output is None:
        raise click.UsageError("missing: --output, a file whose name ends in .csv or .parquet", context)
    from evenscore.engines.writing import write_columns
    from evenscore.simulation.catalogue import make_simulation, true_means, truth_document

    path = Path(output)
    truth = Path(f"{output.removesuffix(path.suffix)}.truth.json")
    check_outputs({"--output": path, "the truth beside it,": truth}, [spec], data="--output", overwrite=overwrite)
    chosen = _read(Path(spec)) if spec is not None else make_simulation(str(name), users)
    data = chosen.data(seed)
    stop_if_interrupted(context)
    more = true_means(chosen, data) if means or "objectives" in chosen.to_dict() else {}
    write_columns(path, data | more, overwrite=overwrite)
    document = {"kind": type(chosen).__name__, "seed": seed, "simulation": chosen.to_dict(), "truth": truth_document(chosen)}
    write_json(str(truth), document)
    if not quiet:
        written = f"  {len(data['group']):,} rows, seed {seed}: {path}\n  the truth: {truth}"
        tell("\n".join([_wrapped(repr(chosen)), "", written, *_advice(path, data)]))
    return 0


def _listing() -> str:
    from evenscore.report.wrapping import terminal_width, wrap
    from evenscore.simulation.catalogue import CATALOGUE, summary

    return "\n".join(line for name in CATALOGUE for line in (f"  {name}", *wrap(summary(name), terminal_width(), " " * 6, " " * 6)))


def _wrapped(text: str) -> str:
    """Lines that fit the terminal; those that go on stand further in."""
    from evenscore.report.wrapping import terminal_width, wrap

    lines = (wrap(line.strip(), terminal_width(), " " * (len(line) - len(line.lstrip()))) for line in text.splitlines())
    return "\n".join(line for group in lines for line in group)


def _read(path: Path) -> Known:
    """A simulation that was written by itself or inside a truth file."""
    from evenscore.errors import FileError
    from evenscore.saving import read_whole
    from evenscore.simulation import Simulation

    try:
        written = json.loads(read_whole(path))
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} cannot be read as a written simulation: {error}") from error
    if isinstance(written, dict) and "simulation" in written:
        if written.get("kind", "Simulation") != "Simulation":
            raise FileError(f"{path} holds a {written['kind']}; --spec takes simulations that es.simulate made")
        written = written["simulation"]
    return Simulation.from_dict(written)


def _advice(path: Path, data: dict[str, Any]) -> list[str]:
    """The command that audits what was written, in lines that a shell takes for one."""
    if "score" not in data:
        return []
    import numpy as np

    withheld = np.issubdtype(data["outcome"].dtype, np.floating) and bool(np.isnan(data["outcome"]).any())
    return ["", f"  evenscore audit {shlex.quote(str(path))} \\", f"    {COLUMNS}{' --nulls unlabelled' if withheld else ''}"]
