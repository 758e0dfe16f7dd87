"""The layout holds: a module imports only what stands above it, a library only where it belongs, and nothing heavy unasked."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import evenscore as es

SOURCE = Path(es.__file__).parent

# From the top down; a folder is one layer.
LAYERS = (
    *("errors", "tables", "coding", "splits", "columns", "saving", "axis", "lattice", "observations", "tally", "counting"),
    *("engines", "kernels", "bandwidth", "inference", "curves", "multiplicity", "comparison", "gaps", "verdict", "parity"),
    *("ordering", "marginal", "simulation", "planning", "calibration", "thresholds", "multiobjective", "calibration_error"),
    *("impact", "reproduction", "audit", "report", "configuration", "sklearn", "testing", "commands", "cli", "__main__"),
)

# What may be imported downwards, but only inside a function: a result draws itself.
DOWNWARDS = {(layer, "report") for layer in LAYERS}

# Frame libraries come with the caller's data, so no module names them; the others have one home each.
HOMES = {
    **dict.fromkeys(("pandas", "polars", "numba"), None),
    "sklearn": "sklearn.py",
    "duckdb": "engines/",
    "jinja2": "report/html.py",
    "dask": "engines/dask.py",
    "ibis": "engines/ibis.py",
    "pyarrow": "engines/spark.py",
    "pyspark": "engines/spark",
    "matplotlib": "report/",
    "mlflow": "report/tracking.py",
}

FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imports(path):
    """Each module that a file imports, and whether it does so inside a function."""

    def walk(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno} imports relatively"
                yield from ((f"{child.module}.{alias.name}", inside) for alias in child.names)
            yield from walk(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    return list(walk(ast.parse(path.read_text(encoding="utf-8")), False))


def layer_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_layers(path):
    """The layers of this package that a file imports; a plain name of the package itself, such as its version, is none."""
    for name, inside in imports(path):
        parts = name.split(".")
        if parts[0] == "evenscore" and (len(parts) > 2 or parts[-1] in LAYERS):
            yield parts[1], inside


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120).stdout.split()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_stands_above_it(path):
    own = layer_of(path)
    assert own in LAYERS, f"{own} has no place among the layers yet"
    for other, inside in imported_layers(path):
        upwards = LAYERS.index(other) <= LAYERS.index(own)
        assert upwards or (inside and (own, other) in DOWNWARDS), f"{own} imports {other}, which stands below it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_library_is_imported_only_where_it_belongs_and_when_it_is_needed(path):
    for name, inside in imports(path):
        library = name.split(".")[0]
        if library in HOMES:
            home = HOMES[library]
            assert home is not None and str(path.relative_to(SOURCE)).startswith(home), f"{library} has no business here"
            assert inside or path.name == home, f"{library} is imported before anybody needs it"


def test_the_walk_sees_imports():
    seen = {(name, inside) for path in FILES for name, inside in imports(path)}
    assert {("numpy", False), ("duckdb", True), ("evenscore.tally.archive.save_tally", True)} <= seen
    assert ("report", True) in set(imported_layers(SOURCE / "curves.py"))


def test_importing_the_package_imports_nothing_heavy():
    loaded = run("import sys, evenscore; print(*{name.split('.')[0] for name in sys.modules})")
    assert "evenscore" in loaded and not {"numpy", "scipy", "narwhals", "click", *HOMES} & set(loaded)


def test_plain_arrays_need_no_frame_library():
    loaded = run(
        "import sys, evenscore as es\n"
        "data = {'s': [0.1, 0.2, 0.6, 0.7] * 50, 'y': [0, 1, 1, 0] * 50, 'g': ['a', 'b'] * 100, 'u': list(range(100)) * 2}\n"
        "tally = es.tally(data, score='s', outcome='y', group='g', user='u')\n"
        "repr(es.parity_test(tally)), es.curves(tally).rows()\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    assert {"numpy", "narwhals"} <= set(loaded) and not set(HOMES) & set(loaded)


def test_public_names_are_there():
    assert set(es.__all__) <= set(dir(es))
    for name in es.__all__:
        assert getattr(es, name).__module__.startswith("evenscore")
    with pytest.raises(AttributeError, match="no attribute 'tallly'"):
        es.tallly  # noqa: B018
