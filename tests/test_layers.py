"""The layout holds: a module imports only what stands above it, a library only where it belongs, and nothing heavy unasked."""

import ast
import collections
import graphlib
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import evenscore as es

SOURCE = Path(es.__file__).parent

# From the top down. Inside a folder modules may import each other, as long as none is in a circle.
LAYERS = (
    *(
        "_version",
        "types",
        "errors",
        "naming",
        "threads",
        "ratios",
        "saving",
        "wording",
        "tables",
        "data",
        "codec",
        "tallies",
        "data.spec",
        "engines",
        "estimation",
        "parity",
        "ordering",
        "marginal",
        "decisions",
    ),
    *("simulation", "planning", "calibration", "thresholds", "multiobjective", "miscalibration", "impact", "reproduction"),
    *("false_alarms", "auditing", "report", "sklearn", "testing", "commands", "cli", "__main__"),
)

# What may be imported downwards, but only inside a function: a result draws itself.
DOWNWARDS = {(layer, "report") for layer in LAYERS}

# Frame libraries come with the caller's data, so no module names them; the others have one home each.
HOMES = {
    **dict.fromkeys(("pandas", "polars", "numba"), None),
    "sklearn": "sklearn.py",
    "duckdb": "engines/duck.py",
    "jinja2": "report/html.py",
    "dask": "engines/dask.py",
    "ibis": "engines/ibis.py",
    "pyarrow": "engines/spark.py",
    "pyspark": "engines/spark",
    "matplotlib": "report/",
    "mlflow": "report/tracking.py",
}

FILES = sorted(path for path in SOURCE.rglob("*.py") if path.name not in ("_moved.py",) and path != SOURCE / "__init__.py")


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imports(path):
    """Each module that a file imports, and whether it does so inside a function; what only type checkers read is left out."""

    def walk(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno} imports relatively"
                yield from ((f"{child.module}.{alias.name}", inside) for alias in child.names)
            yield from walk(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    return list(walk(ast.parse(path.read_text(encoding="utf-8")), False))


def imported_modules(path):
    """The modules of this package that a file imports, and whether inside a function."""
    for name, inside in imports(path):
        if name.startswith("evenscore."):
            inner = name.removeprefix("evenscore.")
            yield (inner if inner in MODULES else inner.rpartition(".")[0]), inside


def layer_of(module):
    """The folder, or the module itself where it has a place of its own."""
    return module if module in LAYERS else module.split(".")[0]


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120).stdout.split()


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_stands_above_it(module):
    own = layer_of(module)
    assert own in LAYERS, f"{own} has no place among the layers yet"
    for other, inside in imported_modules(MODULES[module]):
        assert other in MODULES, f"{module} imports {other}, which is no module"
        upwards = LAYERS.index(layer_of(other)) <= LAYERS.index(own)
        assert upwards or (inside and (own, layer_of(other)) in DOWNWARDS), f"{module} imports {other}, which stands below it"


def test_modules_are_not_in_circles():
    graph = {module: {other for other, inside in imported_modules(path) if not inside} for module, path in MODULES.items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_library_is_imported_only_where_it_belongs_and_when_it_is_needed(module):
    path = MODULES[module]
    for name, inside in imports(path):
        library = name.split(".")[0]
        if library in HOMES:
            home = HOMES[library]
            assert home is not None and str(path.relative_to(SOURCE)).startswith(home), f"{library} has no business here"
            assert inside or path.name == home, f"{library} is imported before anybody needs it"


def test_the_walk_sees_imports():
    seen = {(name, inside) for path in FILES for name, inside in imports(path)}
    assert {("numpy", False), ("duckdb", True), ("evenscore.tallies.archive.save_tally", True)} <= seen
    assert ("report.plots", True) in set(imported_modules(MODULES["tables"]))


def test_names_say_which_module_is_meant():
    public = {name for name in es.__all__ if name[0].islower()}
    basenames = collections.Counter(module.rsplit(".", 1)[-1] for module in MODULES)
    assert not public & set(basenames), "a module shares the name of a public function"
    assert [name for name, n in basenames.items() if n > 2] == []


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


def test_an_audit_with_its_report_loads_of_scipy_the_special_functions_only():
    loaded = run(
        "import sys, evenscore as es\n"
        "people = es.simulate({'a': 300, 'b': 300}, curve={'a': (0, 1), 'b': (-0.8, 1)}, rows_per_user=2).data(seed=1)\n"
        "audit = es.audit(people, score='score', outcome='outcome', group='group', user='user', threshold=0.5)\n"
        "assert audit.subjects[0].repair and audit.to_html() and audit.to_json()\n"
        "print(*(name for name in sys.modules if name.count('.') == 1))"
    )
    assert not {f"scipy.{part}" for part in ("interpolate", "optimize", "stats", "sparse")} & set(loaded)
    assert "evenscore.multiobjective" not in loaded


def test_public_names_are_there():
    assert set(es.__all__) <= set(dir(es))
    for name in es.__all__:
        assert getattr(es, name).__module__.startswith("evenscore")
    with pytest.raises(AttributeError, match="no attribute 'tallly'"):
        es.tallly  # noqa: B018


@pytest.mark.parametrize("module", MODULES)
def test_importing_a_module_never_replaces_a_function(module):
    if module not in ("__main__", "sklearn"):
        importlib.import_module(f"evenscore.{module}")
    assert callable(es.tally) and callable(es.curves) and callable(es.audit) and callable(es.calibration_error)


# What documentation, examples and benchmarks of 0.1.0 import, and the modules whose names are functions' today.
OLD_PATHS = {
    "calibration.carrying": "calibrated_tally",
    "calibration.fitting": "calibrate",
    "calibration_error": "calibration_error",
    "multiobjective.fitting": "calibrate_jointly",
    "coding": "encode",
    "splits": "Split",
    "parity": "parity_family",
    "curves": "curves",
    "tally": "Tally",
    "audit": "audit",
    "audit.gate": "Gate",
    "tally.pairs": "PairSums",
}


@pytest.mark.parametrize(("path", "name"), OLD_PATHS.items())
def test_old_import_paths_lead_to_the_new_ones(path, name):
    program = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        f"    from evenscore.{path} import {name}\n"
        "import evenscore as es\n"
        f"print({name}.__module__, callable(es.curves))\n"
        "print(*{warning.category.__name__ + '@' + warning.filename for warning in caught})"
    )
    module, functions_stay, *warned = run(program)
    assert module.removeprefix("evenscore.") in MODULES and functions_stay == "True"
    assert warned == ([] if path in MODULES else ["DeprecationWarning@<string>"])
