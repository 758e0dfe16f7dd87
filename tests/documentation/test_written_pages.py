"""Pages that scripts write are what the scripts would write: the command line, and the notebooks."""

import importlib.util
import json
from pathlib import Path

import pytest
from pages import ROOT, blocks

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_command_line_is_current():
    written = load("write_commands")
    text = written.PAGE.read_text(encoding="utf-8")
    assert text == written.rewritten(text), "run: python docs/write_commands.py"
    assert text.count("\n### evenscore ") == 11


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_its_page(path):
    """The page is run by test_docs.py, which compares what it prints; so the notebook holds what came out, too."""
    written = load("write_notebooks")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    page = written.PAGES / f"{path.stem}.md"
    assert page.read_text(encoding="utf-8") == written.as_page(notebook, path.stem), "run: python docs/write_notebooks.py"
    drawn = [picture for cell in notebook["cells"] for picture in written.pictures(cell)]
    kept = [picture.read_bytes() for picture in sorted(page.parent.glob(f"{path.stem}-*.png"))]
    assert drawn == kept and len(drawn) >= 1
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) == len(blocks(page, "python")) <= 10
    assert Path(path).stat().st_size < 400_000


def test_a_notebook_runs_as_notebooks_do():
    written = load("write_notebooks")
    cells = ["x = 2\nprint(x)", "import matplotlib.pyplot as plt\nplt.plot([x, 3])\nprint(x + 1)"]
    notebook = {"cells": [{"cell_type": "code", "metadata": {"alt": "a line"}, "source": [cell]} for cell in cells]}
    notebook["cells"].insert(0, {"cell_type": "markdown", "metadata": {}, "source": ["# Two", "\n"]})
    written.run_notebook(notebook)
    assert [written.printed(cell) for cell in notebook["cells"]] == ["", "2\n", "3\n"]
    assert written.pictures(notebook["cells"][2])[0].startswith(b"\x89PNG")
    assert "![a line](two-1.png)" in written.as_page(notebook, "two")
