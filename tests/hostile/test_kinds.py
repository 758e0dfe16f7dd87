"""Columns of every kind that pandas, polars, pyarrow and NumPy have, in every role: a result or a reason."""

import array
import datetime
import decimal
import enum
import fractions
import uuid
import warnings

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evenscore as es
from hostile import show, survives

N = 40
RNG = np.random.default_rng(0)
SCORES = RNG.random(N)
BASE = {"s": SCORES, "y": (RNG.random(N) < SCORES).astype(int), "g": np.array(["a", "b"])[np.arange(N) % 2], "u": np.arange(N) // 2}
ROLES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
NULLS = ("error", "drop", "unlabelled")
DECIMALS = [decimal.Decimal(i).scaleb(-2) for i in range(N)]
DATES = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]


def two(a, b):
    """A column of two values."""
    return [a, b] * (N // 2)


class Fails:
    """An object whose methods all fail."""

    def __repr__(self):
        raise RuntimeError("no text")

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    def __hash__(self):
        return 1

    def __array__(self, *arguments, **options):
        raise RuntimeError("no array")

    def __len__(self):
        return N


class OddFloat(float):
    def __float__(self):
        raise RuntimeError("no number")


def arrow(values, kind):
    return pd.array(values, dtype=pd.ArrowDtype(kind))


PANDAS = {
    "Float64 with a null": lambda: pd.array([None, *SCORES[1:]], dtype="Float64"),
    "Int64 with a null": lambda: pd.array([None, *range(1, N)], dtype="Int64"),
    "boolean with a null": lambda: pd.array([None, *(SCORES[1:] > 0.5)], dtype="boolean"),
    "string": lambda: pd.array(two("0.5", "x"), dtype="string"),
    "categories of numbers": lambda: pd.Categorical([None, *SCORES[1:].round(1)]),
    "categories that are not used": lambda: pd.Categorical(two("0", "1"), categories=["1", "0", "never"], ordered=True),
    "categories of mixed types": lambda: pd.Categorical(two("1", 1)),
    "cut into intervals": lambda: pd.cut(SCORES, 4),
    "intervals": lambda: pd.arrays.IntervalArray.from_arrays(two(0, 1), two(1, 2)),
    "periods": lambda: pd.PeriodIndex(two("2020", "2021"), freq="Y"),
    "sparse": lambda: pd.arrays.SparseArray(np.where(SCORES > 0.5, np.nan, SCORES)),
    "moments with a zone": lambda: pd.DatetimeIndex(two("2020-01-01", "2021-01-01"), tz="America/New_York"),
    "nanoseconds": lambda: pd.DatetimeIndex(two("2020-01-01T00:00:00.000000001", "2020-01-01T00:00:00.000000002")),
    "spans of time": lambda: pd.TimedeltaIndex(two(None, 2), unit="D"),
    "arrow decimals": lambda: arrow(DECIMALS, pa.decimal128(9, 3)),
    "arrow lists": lambda: arrow(two([1], [2]), pa.list_(pa.int64())),
    "arrow structs": lambda: arrow(two({"a": 1}, {"a": 2}), pa.struct([("a", pa.int64())])),
    "arrow nulls": lambda: arrow([None] * N, pa.null()),
    "objects with NA": lambda: two(pd.NA, 1),
    "objects with NaT": lambda: two(pd.NaT, 1),
    "arrays inside": lambda: pd.Series([np.array([1, 2])] * N),
}
POLARS = {
    "structs": lambda: two({"a": 1}, {"a": 2}),
    "lists": lambda: two([1], [2]),
    "arrays": lambda: pl.Series(two([1], [2]), dtype=pl.Array(pl.Int64, 1)),
    "decimals": lambda: pl.Series([None, *DECIMALS[1:]], dtype=pl.Decimal(38, 3)),
    "categories": lambda: pl.Series(two(None, "y"), dtype=pl.Categorical),
    "enum": lambda: pl.Series(two("x", "y"), dtype=pl.Enum(["y", "x", "never"])),
    "objects": lambda: pl.Series([1, "a", None, 2.5] * (N // 4), dtype=pl.Object),
    "nulls": lambda: pl.Series([None] * N),
    "128 bits": lambda: pl.Series(two(None, 2**100), dtype=pl.Int128),
    "moments with a zone": lambda: pl.Series(two(*DATES)).cast(pl.Datetime("us", "Asia/Tokyo")),
    "nanoseconds": lambda: pl.Series(two(1, 2)).cast(pl.Datetime("ns")),
    "times": lambda: pl.Series(two(datetime.time(1), datetime.time(2))),
    "bytes": lambda: pl.Series(two(b"\x00", b"\xff")),
    "NaN and null": lambda: pl.Series(two(None, float("nan"))),
    "no fields": lambda: pl.Series([{}] * N, dtype=pl.Struct([])),
}
ARROW = {
    "dictionary": lambda: pa.array(two(None, "y")).dictionary_encode(),
    "dictionary that holds a null": lambda: pa.DictionaryArray.from_arrays(pa.array(two(0, 1)), pa.array(["x", None])),
    "dictionary that says it twice": lambda: pa.DictionaryArray.from_arrays(pa.array(two(0, 1)), pa.array(["x", "x"])),
    "decimals of 256 bits": lambda: pa.array(DECIMALS, pa.decimal256(76, 3)),
    "runs": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([N // 2, N], pa.int32()), pa.array([0.25, 0.5])),
    "chunks of dictionaries": lambda: pa.chunked_array([pa.array([word] * 20).dictionary_encode() for word in "xy"]),
    "no chunks": lambda: pa.chunked_array([], type=pa.float64()),
    "text views": lambda: pa.array(two("x", "y"), pa.string_view()),
    "lists": lambda: pa.array(two([1], [2])),
    "maps": lambda: pa.array(two([("a", 1)], [("a", 2)]), pa.map_(pa.string(), pa.int64())),
    "structs": lambda: pa.array(two({"a": 1}, {"a": 2})),
    "unions": lambda: pa.UnionArray.from_sparse(pa.array(two(0, 1), pa.int8()), [pa.array(range(N)), pa.array(["x"] * N)]),
    "times of a nanosecond": lambda: pa.array(two(1, 2), pa.time64("ns")),
    "months, days and nanoseconds": lambda: pa.array(two((1, 2, 3), (1, 2, 4)), pa.month_day_nano_interval()),
    "an extension": lambda: pa.ExtensionArray.from_storage(pa.opaque(pa.float64(), "x", "y"), pa.array(SCORES)),
    "ids": lambda: pa.array([uuid.UUID(int=i % 2).bytes for i in range(N)], pa.uuid()),
    "half floats": lambda: pa.array(SCORES.astype("f2")),
    "nulls": lambda: pa.nulls(N),
}
OTHERS = {
    "masked": lambda: np.ma.array(SCORES, mask=two(0, 1)),
    "masked all": lambda: np.ma.array(SCORES, mask=True),
    "masked objects": lambda: np.ma.array(np.array(two(1, None), dtype=object), mask=two(0, 1)),
    "masked records": lambda: np.ma.array(two((1, 2.0), (3, 4.0)), dtype=[("a", "i4"), ("b", "f8")]),
    "records": lambda: np.array(two((1, 2.0), (3, 4.0)), dtype=[("a", "i4"), ("b", "f8")]),
    "void": lambda: np.zeros(N, dtype="V4"),
    "half floats": lambda: SCORES.astype("f2"),
    "long doubles": lambda: np.full(N, np.longdouble("1e4000")),
    "text of length 0": lambda: np.zeros(N, dtype="U0"),
    "text with nulls": lambda: np.array(two("x", None), dtype=np.dtypes.StringDType(na_object=None)),
    "other byte order": lambda: SCORES.astype(">f8"),
    "one value seen often": lambda: np.broadcast_to(0.5, N),
    "moments": lambda: np.array(two("2020", "NaT"), dtype="M8[ns]"),
    "years without end": lambda: np.array(two(2**62, -(2**62)), dtype="M8[Y]"),
    "spans without a unit": lambda: np.array(two(1, 2), dtype="m8"),
    "complex": lambda: SCORES * 1j,
    "memoryview": lambda: memoryview(SCORES),
    "memoryview of two dimensions": lambda: memoryview(SCORES.reshape(-1, 1)),
    "array.array": lambda: array.array("d", SCORES),
    "bytes": lambda: b"x" * N,
    "a generator": lambda: (x for x in SCORES),
    "a set": lambda: set(SCORES.tolist()),
    "a dict": lambda: dict(enumerate(SCORES)),
    "a matrix": lambda: np.asmatrix(SCORES),
    "no dimension": lambda: np.array(0.5),
    "ragged": lambda: [[1], [1, 2]] * (N // 2),
    "too short": lambda: SCORES[:-1],
    "objects that fail": lambda: [Fails(), *range(1, N)],
    "an array that fails": Fails,
    "numbers that fail": lambda: np.array([OddFloat(0.1)] * N, dtype=object),
    "integers of 400 digits": lambda: two(10**400, 10**399),
    "integers of 5,000 digits": lambda: two(10**5000, 10**4999),
    "decimals that signal": lambda: two(decimal.Decimal("sNaN"), decimal.Decimal("0.5")),
    "decimals without end": lambda: two(decimal.Decimal("1e999999"), decimal.Decimal("0.5")),
    "fractions": lambda: two(fractions.Fraction(1, 3), fractions.Fraction(1, 2)),
    "1, True, 1.0 and '1'": lambda: [1, True, 1.0, "1"] * (N // 4),
    "halves of a character": lambda: two("\ud800", "\udfff"),
    "null bytes": lambda: two("\x00", "a\x00"),
    "an enum": lambda: list(enum.Enum("Letter", "A B")) * (N // 2),
    "tuples with NaN": lambda: two((float("nan"),), (1,)),
    "types": lambda: two(int, str),
    "a frame": lambda: pd.DataFrame({"a": SCORES}),
    "an expression": lambda: pl.col("s"),
    "a relation": lambda: duckdb.sql("SELECT 1"),
    "the smallest number": lambda: np.full(N, 5e-324),
    "the largest numbers": lambda: np.array(two(1.7e308, -1.7e308)),
    "limits of 64 bits": lambda: np.array(two(2**63 - 1, -(2**63))),
}
MAKERS = {"pandas": pd.DataFrame, "polars": lambda data: pl.DataFrame(data, strict=False), "pyarrow": pa.table, "dict": dict}
KINDS = [
    pytest.param(frame, make, id=f"{frame}-{name}")
    for frame, kinds in (("pandas", PANDAS), ("polars", POLARS), ("pyarrow", ARROW), ("dict", OTHERS))
    for name, make in kinds.items()
]


def flow(data, roles, **options):
    tally = es.tally(data, **roles, **options)
    show(tally)
    if len(tally.groups) <= 4:
        survives(es.parity_test, tally, method="bonferroni", both=False)
        survives(es.calibrate, tally, method="isotonic")


@pytest.mark.parametrize(("frame", "make"), KINDS)
def test_a_column_of_any_kind_in_any_role(frame, make):
    for role in ("score", "outcome", "group", "user", "item", "weight", "count"):
        try:
            data = MAKERS[frame](BASE | {ROLES.get(role, "extra"): make()})
        except Exception:  # the library itself refuses
            continue
        for nulls in NULLS:
            survives(flow, data, ROLES | {role: ROLES.get(role, "extra")}, nulls=nulls)


def test_the_base_is_accepted():
    for make in MAKERS.values():
        assert survives(flow, make(BASE), ROLES)


# What generated and collected columns have found


def refused(data, message, **roles):
    with pytest.raises(es.EvenscoreError, match=message):
        es.tally(data, **ROLES | roles)


def test_a_column_without_an_order_is_refused():
    """A set gave its values in any order, a dict its keys."""
    refused(BASE | {"s": set(SCORES.tolist())}, r"column 's' \(score\) must be a column name or an array, not {.*\(set\)")
    refused(BASE | {"s": dict(enumerate(SCORES))}, r"not {0: .*\(dict\)")


def test_text_of_numpy_may_be_null():
    refused(BASE | {"g": OTHERS["text with nulls"]()}, "is null or NaN in 20 of 40 rows")


def test_moments_of_numpy_stay_moments():
    """NumPy says nanoseconds as integers, and so said the labels."""
    tally = es.tally(BASE | {"g": np.array(two("2020", "2021"), dtype="M8[ns]")}, **ROLES)
    assert tally.groups == (datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1))


def test_names_of_pyarrow_that_come_twice_are_named():
    """The message showed the values of a column in place of its name."""
    table = pa.table([pa.array(SCORES), pa.array(SCORES)], names=["s", "s"])
    refused(table, "more than one column called 's'; rename")


@pytest.mark.parametrize("weight", [5e-324, 1e-310, 1e-160])
def test_weights_too_small_to_divide_by_are_refused(weight):
    """1 / W was infinite, and an eigenvalue routine failed."""
    data = BASE | {"w": np.where(BASE["u"] == 3, weight, 1.0)}
    message = r"column 'w' \(weight\) is below 1e-75 and not 0 in 2 of 40 rows .*; give all weights larger units, or make it 0"
    refused(data, message, weight="w")
    refused(duckdb.from_df(pd.DataFrame(data)), message, weight="w")
    refused(dd.from_pandas(pd.DataFrame(data), npartitions=3), "is below 1e-75 and not 0 in 2 of 40 rows", weight="w")


@pytest.mark.parametrize("labelled", [True, False])
def test_a_group_that_weighs_nothing_has_nobody(labelled):
    """Its users counted, so that it was taken for one that can be judged, smoothed and calibrated."""
    data = BASE | {"w": (BASE["g"] == "b") * 1.0}
    if not labelled:
        data["y"] = np.where(BASE["g"] == "a", BASE["y"], np.nan)
    tally = es.tally(data, **ROLES, weight="w", nulls="unlabelled")
    assert tally.n_users == {"a": 0, "b": 20 * labelled}
    steps = (
        es.parity_test,
        es.curves,
        es.calibrate,
        es.calibration_error,
        es.ordering_test,
        lambda tally: es.plan(tally, users=500, method="bonferroni"),
        lambda tally: es.classification_impact(tally, threshold=0.5),
        lambda tally: es.audit(tally, threshold=0.5),
    )
    for step in steps:
        survives(step, tally)


@pytest.mark.parametrize("weight", [2.0**50, 2.0**70, 1e75])
def test_large_weights_do_not_drown_the_prior(weight):
    """One score of a large weight left nothing to solve for. Weights have no units, and the prior has the weight of one row."""
    tally = es.tally(BASE | {"s": np.zeros(N), "w": np.full(N, weight)}, **ROLES, weight="w")
    found = es.calibrate(tally, method="platt").transform([0.0, 0.0], ["a", "b"])
    plain = es.calibrate(es.tally(BASE | {"s": np.zeros(N)}, **ROLES), method="platt").transform([0.0, 0.0], ["a", "b"])
    assert found == pytest.approx(plain, rel=1e-9)
    assert found == pytest.approx([BASE["y"][::2].mean(), BASE["y"][1::2].mean()], abs=1e-3)


def test_a_plan_that_fails_is_explained():
    lazy = pl.LazyFrame(BASE)
    refused(lazy.with_columns(s=pl.col("gone")), 'the lazy frame cannot be collected: ColumnNotFoundError: .*"gone"')
    refused(pl.scan_parquet("nowhere.parquet"), "the lazy frame cannot be collected: FileNotFoundError")
    frame = pd.DataFrame(BASE)
    parts = dd.from_pandas(frame, npartitions=2)
    refused(parts.map_partitions(lambda part: 1 / 0, meta=frame), "Dask could not finish: ZeroDivisionError")
    refused(dd.from_pandas(frame.iloc[:0], npartitions=1), "the data has no rows")
    connection = duckdb.connect()
    closed = connection.sql("SELECT 0.5 AS s, 1 AS y, 'a' AS g, 1 AS u")
    connection.close()
    refused(closed, "cannot read the relation: .*closed")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.DataFrame({("a", name): values for name, values in BASE.items()}), "no column 's' for score; the data has"),
        (pd.DataFrame(BASE).set_index("u"), "no column 'u' for user"),
        (pd.DataFrame({f"c{i}": SCORES for i in range(10_000)}), r"\(9970 more\)"),
        (BASE | {"y": BASE["y"][:0]}, "the same number of rows"),
        ({name: np.tile(values, 500) for name, values in BASE.items()} | {"g": np.arange(20_000) // 2}, "10,000 different values"),
        (pd.DataFrame(BASE).iloc[:0], "the data has no rows"),
        (pd.DataFrame(), "no columns"),
        ("", "names no file"),
        (pd.DataFrame(BASE).groupby("g"), "data is of type DataFrameGroupBy"),
    ],
    ids=range(9),
)
def test_frames_of_odd_shapes_are_refused(data, message):
    refused(data, message)


def test_frames_of_odd_shapes_that_are_fine():
    frame = pd.DataFrame(BASE)
    fine = [
        frame.set_axis([0] * N),
        frame.set_index(pd.MultiIndex.from_product([[0, 1], range(N // 2)])),
        pd.DataFrame(BASE | {f"c{i}": SCORES for i in range(10_000)}),
        frame.assign(u=7),
        pl.LazyFrame(BASE),
        duckdb.from_df(frame),
        pa.table(BASE),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.EvenscoreWarning)
        assert [sum(es.tally(data, **ROLES).n_rows.values()) for data in fine] == [N] * len(fine)
