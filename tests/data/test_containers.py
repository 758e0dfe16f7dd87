"""The border: whatever the data comes in, and whatever groups and users are called, the tally is the same."""

import datetime
import enum
import json
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from compare import assert_same
from containers import CONTAINERS, N_ROWS, NAMES, PLAIN, ROWS, change

import evenscore as es

# The same tally, whatever the data comes in


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_tally(container):
    assert_same(es.tally(CONTAINERS[container](ROWS), **NAMES), PLAIN)


@pytest.mark.parametrize("container", ["dict of arrays", "dict of lists", "pandas", "polars", "polars lazy", "pyarrow", "duckdb"])
def test_every_container_gives_the_same_weighted_tally(container):
    options = NAMES | {"weight": "v", "count": "k", "group": ["g", "k"]}
    assert_same(es.tally(CONTAINERS[container](ROWS), **options), es.tally(ROWS, **options))


@pytest.mark.parametrize("make", [np.asarray, list, pd.Series, pd.Index, pl.Series, pa.array, lambda v: pa.chunked_array([v])])
def test_columns_may_be_arrays(make):
    given = {"score": make(ROWS["s"]), "outcome": make(ROWS["y"]), "user": make(ROWS["u"])}
    group = np.array(ROWS["g"]) if make is list else make(ROWS["g"])
    assert_same(es.tally(None, **given, group=group), PLAIN)
    assert_same(es.tally(pd.DataFrame(ROWS), **given, group="g"), PLAIN)


@pytest.mark.parametrize("container", ["dict of arrays", "pandas", "polars", "pyarrow"])
def test_the_input_is_neither_changed_nor_sorted(container):
    changed = change(y=ROWS["y"], v=ROWS["v"])
    original = {name: values.copy() for name, values in changed.items()}
    for values in changed.values():
        values.setflags(write=False)
    data = CONTAINERS[container](changed)
    for nulls in ("drop", "unlabelled"):
        es.tally(data, **NAMES, nulls=nulls)
    es.tally(data, **NAMES, weight="v", count="k", nulls="drop")
    assert list(data.column_names if container == "pyarrow" else data if container.startswith("dict") else data.columns) == list(
        original
    )
    for name, values in original.items():
        assert np.array_equal(np.asarray(data[name]), values, equal_nan=name != "g")


# Labels


LABELS = {
    "text": ["b", "a", "10", "9"],
    "integers": [10, -1, 9],
    "booleans": [True, False],
    "floats": [1.5, -0.5, 10.0],
    "dates": [datetime.date(2024, 2, 1), datetime.date(2023, 12, 1)],
    "moments": [datetime.datetime(2024, 2, 1, 12), datetime.datetime(2023, 12, 1)],
    "decimals": [Decimal("2.50"), Decimal("10.00")],
    "bytes": [b"b", b"a"],
    "uuids": [uuid.UUID(int=2), uuid.UUID(int=1)],
}


def skip_uuids(kind, container):
    if kind == "uuids" and container in ("pyarrow", "duckdb") and not hasattr(pa, "uuid"):
        pytest.skip("this pyarrow knows no UUIDs")


def label_data(labels, container):
    given = [labels[code % len(labels)] for code in ROWS["u"].tolist()]
    if container == "polars" and isinstance(labels[0], uuid.UUID):
        given = pl.Series(given, dtype=pl.Object)
    return CONTAINERS[container](ROWS | {"g": given}) if container != "array" else ROWS | {"g": np.array(given)}


@pytest.mark.parametrize("container", ["array", "dict of arrays", "pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_their_type(kind, container):
    skip_uuids(kind, container)
    labels = LABELS[kind]
    tally = es.tally(label_data(labels, container), **NAMES)
    assert tally.groups == tuple(sorted(labels))
    assert {type(label) for label in tally.groups} == {type(labels[0])}
    assert tally.n_rows == {label: int((ROWS["u"] % len(labels) == i).sum()) for i, label in enumerate(labels)}


def test_labels_of_several_types_stay_apart():
    tally = es.tally(label_data([1, "1", "b", 2], "dict of arrays"), **NAMES)
    assert tally.groups == (1, 2, "1", "b")


def test_blank_labels_are_labels():
    assert es.tally(label_data(["", " ", "nan", "None"], "pandas"), **NAMES).groups == ("", " ", "None", "nan")


def test_labels_without_an_order_are_fine():
    colour = enum.Enum("colour", ["red", "green"])
    assert set(es.tally(label_data(list(colour), "dict of arrays"), **NAMES).groups) == set(colour)


@pytest.mark.parametrize("labels", [[1, True], [0.0, False, 2], ["a", 1.0, True]])
def test_labels_that_python_takes_for_equal_are_refused(labels):
    with pytest.raises(es.DataError, match="are equal in Python; turn the column into text first"):
        es.tally(label_data(labels, "dict of arrays"), **NAMES)


@pytest.mark.parametrize("container", ["dict of arrays", "pandas", "polars", "pyarrow", "duckdb"])
def test_a_list_of_columns_is_their_intersection(container):
    data = ROWS | {"h": ROWS["u"] % 2 == 0}
    tally = es.tally(CONTAINERS[container](data), **NAMES | {"group": ["g", "h", "k"]})
    expected = {}
    for label in zip(data["g"].tolist(), data["h"].tolist(), data["k"].tolist(), strict=True):
        expected[label] = expected.get(label, 0) + 1
    assert tally.n_rows == expected
    assert all([type(part) for part in label] == [str, bool, int] for label in tally.groups)
    assert tally.columns.group == ("g", "h", "k")


def test_an_intersection_of_arrays_and_one_of_a_single_column():
    both = es.tally(ROWS, **NAMES | {"group": [ROWS["g"], "k"]})
    assert_same(both, es.tally(ROWS, **NAMES | {"group": ["g", "k"]}))
    assert both.columns.group == ("group 1", "k")
    assert_same(es.tally(ROWS, **NAMES | {"group": ["g"]}), PLAIN)


ODD_LABELS = ['it\'s "quoted" 🦔', "<script>alert(1)</script>", "x" * 10_000, "a\nb\x1b[31m"]


def test_odd_labels_are_kept_and_shown_safely():
    tally = es.tally(label_data(ODD_LABELS, "dict of arrays"), **NAMES)
    assert set(tally.groups) == set(ODD_LABELS)
    for result in (tally, es.parity_test(tally, method="l2")):
        assert "<script>" not in result._repr_html_() and "&lt;script&gt;" in result._repr_html_()
        assert "\x1b" not in repr(result) and max(map(len, repr(result).splitlines())) < 1_000
        assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert set(tally.frame("polars")["group"]) == set(ODD_LABELS)


# Users


def as_numbers(dtype, offset=0):
    return lambda user: user.astype(dtype) + np.dtype(dtype).type(offset)


USERS = {
    "text": lambda user: [f"user {number}" for number in user.tolist()],
    "digits": lambda user: user.astype(str),
    **{f"int{bits}": as_numbers(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": as_numbers(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "above 2^63": as_numbers(np.uint64, 2**63 + 5),
    "negative": lambda user: -user - 1,
    "int8 from end to end": lambda user: (user * 2 - 100).astype(np.int8),
    "sparse": lambda user: user * (2**62 // 100) - 2**61,
    "both ends": lambda user: np.where(user % 2, np.iinfo(np.int64).max - user, np.iinfo(np.int64).min + user),
    "floats": as_numbers(np.float64),
    "float32": as_numbers(np.float32),
    "uuids": lambda user: [uuid.UUID(int=number) for number in user.tolist()],
    "bytes": lambda user: [b"%d" % number for number in user.tolist()],
    "dates": lambda user: np.datetime64("2024-01-01", "D") + user,
}


@pytest.mark.parametrize("container", ["dict of arrays", "pandas", "polars", "pyarrow", "duckdb"])
@pytest.mark.parametrize("kind", USERS)
def test_users_may_be_called_anything(kind, container):
    skip_uuids(kind, container)
    ids = USERS[kind](ROWS["u"])
    if container == "polars" and kind == "uuids":
        ids = pl.Series(ids, dtype=pl.Object)
    tally = es.tally(CONTAINERS[container](ROWS | {"u": ids}), **NAMES)
    assert_same(tally, PLAIN, exact=False, folds=False)
    if kind != "dates":  # a date is a moment in pandas, and called otherwise
        assert np.array_equal(tally.sketch, es.tally(ROWS | {"u": ids}, **NAMES).sketch)


@pytest.mark.parametrize(
    "ids",
    [
        lambda user: [int(number) * 10**30 for number in user],
        lambda user: [2**63 + int(number) for number in user],
        lambda user: [-int(number) if number % 2 else 2**64 - int(number) for number in user],
        lambda user: [int(number) if number % 2 else f"x{number}" for number in user],
        lambda user: pl.Series([int(number) + 2**70 for number in user], dtype=getattr(pl, "Int128", pl.Object)),
        lambda user: pd.Categorical(user.astype(str)),
        lambda user: np.ma.array(user),
    ],
    ids=["huge", "above 2^63", "wider than 64 bits", "numbers and text", "int128", "categories", "masked"],
)
def test_users_in_lists_and_odd_arrays(ids):
    assert_same(es.tally(ROWS, **NAMES | {"user": ids(ROWS["u"])}), PLAIN, exact=False, folds=False)


@pytest.mark.parametrize("kept", [slice(None), slice(40, 160)], ids=["all rows", "some rows"])
@pytest.mark.parametrize("kind", ["pandas", "polars categories", "polars enum", "pyarrow"])
def test_ids_of_categories_are_the_users_of_their_text(kind, kept):
    text = np.array([f"ü-{number}" for number in range(int(ROWS["u"].max()) + 3)])  # some of which no row has
    ids = text[ROWS["u"]]
    columns = {
        "pandas": lambda: pd.Series(pd.Categorical.from_codes(ROWS["u"], text))[kept],
        "polars categories": lambda: pl.Series([*text, *ids], dtype=pl.Categorical)[len(text) :][kept],
        "polars enum": lambda: pl.Series(ids, dtype=pl.Enum(text))[kept],
        "pyarrow": lambda: pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(ROWS["u"]), pa.array(text))])[kept],
    }
    rows = {name: values[kept] for name, values in ROWS.items()}
    tally, wanted = es.tally(rows | {"u": columns[kind]()}, **NAMES), es.tally(rows | {"u": ids[kept]}, **NAMES)
    assert_same(tally, wanted, exact=False)
    assert np.array_equal(tally.sketch, wanted.sketch)


def test_integers_are_the_same_users_in_every_width():
    sketches = [es.tally(ROWS | {"u": USERS[kind](ROWS["u"])}, **NAMES).sketch for kind in ("int8", "uint64", "floats", "int64")]
    assert all(np.array_equal(sketch, PLAIN.sketch) for sketch in sketches)


def test_users_left_out_on_purpose():
    tally = es.tally(ROWS, **NAMES | {"user": None})
    assert tally.independent and tally.n_users == tally.n_rows == PLAIN.n_rows
    assert_same(tally, es.tally(ROWS, **NAMES | {"user": np.arange(N_ROWS)}))
    with pytest.raises(TypeError, match="user"):
        es.tally(ROWS, score="s", outcome="y", group="g")
