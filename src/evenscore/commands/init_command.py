"""``evenscore init``."""

from __future__ import annotations

from pathlib import Path

import click

from evenscore.commands.outputs import check_outputs, tell


@click.command(short_help="Write a commented evenscore.toml to start from.")
@click.argument("data", metavar="[FILE|FOLDER|GLOB]", required=False)
@click.option("--score", metavar="COLUMN", help="The score.")
@click.option("--outcome", metavar="COLUMN", help="What came true.")
@click.option("--group", metavar="COLUMN", help="The group.")
@click.option("--user", metavar="COLUMN", help="Whose row it is.")
@click.option("--tolerance", type=float, default=0.02, show_default=True, metavar="GAP", help="A gap that does not matter.")
@click.option("--output", "--out", "-o", default="evenscore.toml", show_default=True, metavar="PATH", help="Where to write.")
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback when something crashes.")
def init(data: str | None, tolerance: float, output: str, force: bool, **columns: str | None) -> None:
    """Write a commented evenscore.toml, which `evenscore audit` reads.

    \b
    evenscore init forecasts.parquet --score score --outcome outcome --group bracket --user game_id
    """
    from evenscore.commands.configuration import template
    from evenscore.errors import FileError, require_gap
    from evenscore.saving import write_whole

    require_gap("tolerance", tolerance)
    path = Path(output)
    if path.exists() and not force:
        raise FileError(f"{path} is there already; --force overwrites it")
    check_outputs({"--output": output}, [data])
    if data is not None:
        _require_columns(data, columns)
    write_whole(path, template(tolerance=tolerance, path=data, **columns).encode())
    tell(f"{path} is written; edit it, then run: evenscore audit", err=True)


def _require_columns(data: str, columns: dict[str, str | None]) -> None:
    from evenscore.engines.files import open_files
    from evenscore.errors import DataError, hush, listing

    known = open_files(data, say=hush).types
    for role, name in columns.items():
        if name is not None and name not in known:
            raise DataError(f"no column {name!r} for {role}; {data} has: {listing(known)}")
