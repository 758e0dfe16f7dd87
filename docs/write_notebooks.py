"""Run the notebooks in ``examples/notebooks``, keep what they print and draw in them, and write them as pages of the documentation.

    python docs/write_notebooks.py [NAME ...]

A notebook is what its cells say; run this after changing one. Tests run the pages and compare them with the notebooks.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "examples" / "notebooks"
PAGES = ROOT / "docs" / "notebooks"
DPI = 80


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def printed(cell: dict[str, Any]) -> str:
    """What a cell printed when it was last run."""
    return "".join("".join(output["text"]) for output in cell.get("outputs", ()) if output["output_type"] == "stream")


def pictures(cell: dict[str, Any]) -> list[bytes]:
    """What it drew."""
    drawn = [output["data"] for output in cell.get("outputs", ()) if output["output_type"] == "display_data"]
    return [base64.b64decode(data["image/png"]) for data in drawn]


def run_cell(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell as a notebook would, and give its outputs."""
    import matplotlib.pyplot as plt

    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        exec(compile(code, "cell", "exec"), names)
    outputs: list[dict[str, Any]] = []
    if heard.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": heard.getvalue().splitlines(keepends=True)})
    for number in plt.get_fignums():
        drawn = io.BytesIO()
        plt.figure(number).savefig(drawn, dpi=DPI, bbox_inches="tight")
        outputs.append(
            {"output_type": "display_data", "metadata": {}, "data": {"image/png": base64.b64encode(drawn.getvalue()).decode()}}
        )
    plt.close("all")
    return outputs


def run_notebook(notebook: dict[str, Any]) -> None:
    """Run all cells, one after the other, and keep their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    code_cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(code_cells, 1):
        cell["outputs"], cell["execution_count"] = run_cell(source(cell), names), count


def as_page(notebook: dict[str, Any], name: str) -> str:
    """The notebook as Markdown, its pictures beside the page."""
    parts, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(source(cell))
            continue
        parts.append(f"```python\n{source(cell)}\n```")
        if printed(cell):
            parts.append(f"```text\n{printed(cell)}```")
        for _ in pictures(cell):
            count += 1
            parts.append(f"![{cell['metadata']['alt']}]({name}-{count}.png)")
    parts.insert(1, f"*This page is `examples/notebooks/{name}.ipynb`, which runs from the root of the source.*")
    return "\n\n".join(parts) + "\n"


def write(path: Path) -> None:
    """Run a notebook and write it, its page and its pictures."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    run_notebook(notebook)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for old in PAGES.glob(f"{path.stem}-*.png"):
        old.unlink()
    drawn = [picture for cell in notebook["cells"] for picture in pictures(cell)]
    for count, picture in enumerate(drawn, 1):
        (PAGES / f"{path.stem}-{count}.png").write_bytes(picture)
    (PAGES / f"{path.stem}.md").write_text(as_page(notebook, path.stem), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.path.insert(0, str(ROOT / "src"))
    os.chdir(tempfile.mkdtemp())  # notebooks write reports and maps where they run
    Path("examples").symlink_to(ROOT / "examples")
    for notebook_path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not sys.argv[1:] or notebook_path.stem in sys.argv[1:]:
            write(notebook_path)
