"""What the benchmarks share: Markdown tables, and pages of results that the documentation shows as they were written."""

from __future__ import annotations

import argparse
import datetime
import platform
import shlex
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evenscore._version import __version__

RESULTS = Path(__file__).parent / "results"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, all but the first column to the right."""
    names = list(header)
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page_option(parser: argparse.ArgumentParser) -> None:
    """Whether the tables become the page of the documentation."""
    parser.add_argument("--page", action="store_true", help="also write the tables to results/, which the documentation shows")


def show(sections: Iterable[Callable[[], str]], title: str, page: bool, packages: Iterable[str] = (), part: str = "") -> None:
    """Print sections, each as soon as it is there; with ``page`` also write them, with the command that made them."""
    path = RESULTS / f"{Path(sys.argv[0]).stem}{part}.md"
    texts = [f"## {title}", made_by(packages)]
    for section in sections:
        texts.append(section())
        print(texts[-1] + "\n", flush=True)
        if page:
            RESULTS.mkdir(exist_ok=True)
            path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")


def made_by(packages: Iterable[str]) -> str:
    """The command, the day and the versions."""
    found = [f"evenscore {__version__}"]
    for name in ("numpy", "scipy", *packages):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    given = [argument for argument in sys.argv[1:] if argument != "--page"]
    words = ["FOLDER" if before in ("--resume", "--folder") else word for before, word in zip(["", *given], given, strict=False)]
    command = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])
    today = datetime.datetime.now(tz=datetime.UTC).date()
    return f"`{command}`, {today}, Python {platform.python_version()}, {', '.join(found)}"
