"""The same rows in everything that data comes in."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import evenscore as es

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
N_ROWS = 1_500
CONNECTION = duckdb.connect()


def make_rows(seed=0):
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 100, N_ROWS)
    score = rng.random(N_ROWS)
    return {
        "s": score,
        "y": (rng.random(N_ROWS) < score).astype(np.int64),
        "g": np.array(["b", "c", "a"])[user % 3],
        "u": user,
        "v": rng.gamma(2, 1, N_ROWS),
        "k": rng.integers(0, 4, N_ROWS),
    }


ROWS = make_rows()
PLAIN = es.tally(ROWS, **NAMES)
BAD_ROWS = [5, 9, 100, 200]


def change(rows=BAD_ROWS, to=np.nan, **columns):
    """The data with some values of a column replaced."""
    changed = dict(ROWS)
    for name, values in columns.items():
        changed[name] = np.array(values, dtype=object if to is None else float)
        changed[name][rows] = to
    return changed


def arrow_in_chunks(rows):
    """Chunks of which each has a dictionary of its own, and some entries that no row has."""
    parts = [slice(0, 10), slice(10, 700), slice(700, None)]
    groups = [pa.DictionaryArray.from_arrays(*_dictionary(rows["g"][part])) for part in parts]
    rest = {name: pa.chunked_array([values[part] for part in parts]) for name, values in rows.items() if name != "g"}
    return pa.table(rest | {"g": pa.chunked_array(groups)})


def _dictionary(labels):
    known = ["unused", *dict.fromkeys(labels.tolist())]
    return pa.array([known.index(label) for label in labels.tolist()], pa.int8()), pa.array(known)


CONTAINERS = {
    "dict of arrays": dict,
    "dict of lists": lambda rows: {name: values.tolist() for name, values in rows.items()},
    "dict of objects": lambda rows: {name: values.astype(object) for name, values in rows.items()},
    "dict of series": lambda rows: {name: pl.Series(values) for name, values in rows.items()},
    "pandas": pd.DataFrame,
    "pandas with an odd index": lambda rows: pd.DataFrame(rows, index=np.arange(len(rows["s"]))[::-1]),
    "pandas nullable": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "pandas on arrow": lambda rows: pd.DataFrame(rows).convert_dtypes(dtype_backend="pyarrow"),
    "pandas categories": lambda rows: pd.DataFrame(rows).astype({"g": "category"}),
    "pandas objects": lambda rows: pd.DataFrame(rows).astype({"g": object}),
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "polars categories": lambda rows: pl.DataFrame(rows).with_columns(pl.col("g").cast(pl.Categorical)),
    "polars enum": lambda rows: pl.DataFrame(rows).with_columns(pl.col("g").cast(pl.Enum(["unused", "c", "b", "a"]))),
    "pyarrow": pa.table,
    "pyarrow chunks": arrow_in_chunks,
    "duckdb": lambda rows: CONNECTION.from_arrow(pa.table(rows)),
}
