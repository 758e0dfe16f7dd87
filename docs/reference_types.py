"""The types of arguments, beside each of them in the reference: from the annotations, and in words where anything duck-typed goes."""

from __future__ import annotations

import inspect
import re
from typing import Any

# What ``Any`` means in a public function: containers and labels have no common type that Python could name.
IN_WORDS = {
    "data": "pandas, polars or pyarrow frame, dict of arrays, path(s), DuckDB, Ibis, Dask or Spark table",
    "tally": "Tally, path of a saved one, or data",
    **dict.fromkeys(("score", "outcome", "user", "item", "weight", "count", "query"), "column name or array"),
    "group": "column name, list of names, or array",
    "reference": "label of a group",
    "threshold": "float, or dict of floats by group",
    "weights": "list of floats, one for each objective",
    "calibrator": "JointCalibrator, or dict of them by name",
    "columns": "columns of data, by keyword",
    "options": "keywords of parity_test",
    **dict.fromkeys(("before", "after"), "Audit, path of its JSON, or dict"),
    "rows_per_user": "int, or distribution",
    "intercept": "float, or dict by group",
    "slopes": "list of lists of floats, or dict by group",
    "curve": "tuple of floats, or dict by group",
}
MORE = {
    ("plan", "score"): "column name, array, or distribution",
    ("plan", "threshold"): "float",
    ("simulate_ranking", "score"): "distribution, or dict by group",
    ("audit", "score"): "column name, or list of names",
    ("user",): "column name, array, or None",
}


def type_text(function: Any, name: str) -> str:
    """The type of an argument of a public function."""
    parameter = inspect.signature(function).parameters.get(name)
    if parameter is None:
        return ""
    annotation = parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "Any")
    if annotation == "Any" or annotation.startswith("Unpack["):
        return MORE.get((function.__name__, name)) or MORE.get((name,)) or IN_WORDS.get(name, "")
    return re.sub(r"\s*\|\s*None$", " or None", annotation).replace(" | ", " or ")


def add_types(_app: Any, what: str, _name: str, thing: Any, _options: Any, lines: list[str]) -> None:
    """Lines of "Parameters" that are names alone get the types of what they name."""
    if what not in ("function", "method", "class") or "Parameters" not in lines:
        return
    function = thing.__init__ if what == "class" else thing
    start = lines.index("Parameters") + 2
    for place in range(start, len(lines)):
        if set(lines[place]) == {"-"}:
            break
        if re.fullmatch(r"\*{0,2}\w+(, \w+)*", lines[place]):
            types = [type_text(function, name.strip("* ")) for name in lines[place].split(",")]
            if all(types):
                lines[place] += " : " + ", ".join(dict.fromkeys(types))


def plain_signature(_app: Any, what: str, _name: str, thing: Any, _options: Any, signature: str | None, returns: Any) -> Any:
    """Of functions the names and defaults, whose types stand below; of results nothing, since readers never make one themselves."""
    if what == "class":
        if "Parameters" not in (thing.__doc__ or ""):
            return "", None
        return without_types(thing), None
    if what == "function" and signature:
        return without_types(thing), None
    return signature, returns


def without_types(thing: Any) -> str:
    """The signature with names and defaults alone."""
    found = inspect.signature(thing)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values() if each.name != "self"]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("autodoc-process-docstring", add_types, priority=400)  # before numpydoc reads them
    app.connect("autodoc-process-signature", plain_signature)
    return {"parallel_read_safe": True}
