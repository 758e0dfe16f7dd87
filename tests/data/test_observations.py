"""The border: outcomes, weights, counts and nulls of every kind; whatever is wrong with the data, the message says so."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from compare import assert_same
from containers import BAD_ROWS, CONNECTION, CONTAINERS, N_ROWS, NAMES, PLAIN, ROWS, change

import evenscore as es
from evenscore.data.observations import observe
from evenscore.data.spec import TallySpec

# Outcomes, weights, counts


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, np.float64, object])
@pytest.mark.parametrize("container", ["dict of arrays", "pandas", "polars", "pyarrow", "duckdb"])
def test_outcomes_of_any_numeric_type(dtype, container):
    outcomes = ROWS["y"].astype(dtype)
    if dtype is object and container != "dict of arrays":
        outcomes = [Decimal(outcome) for outcome in outcomes.tolist()]
    tally = es.tally(CONTAINERS[container](ROWS | {"y": outcomes}), **NAMES)
    assert tally.binary
    assert_same(tally, PLAIN)


def test_real_outcomes_are_not_binary():
    assert not es.tally(ROWS | {"y": ROWS["y"] * 2}, **NAMES).binary
    assert not es.tally(ROWS | {"y": ROWS["y"] - 0.5}, **NAMES).binary


def test_a_count_repeats_the_row():
    repeated = {name: np.repeat(values, ROWS["k"]) for name, values in ROWS.items()}
    counted = es.tally(ROWS, **NAMES, count="k")
    assert counted.n_rows == es.tally(repeated, **NAMES).n_rows
    assert_same(counted, es.tally(repeated, **NAMES), exact=False)
    assert_same(es.tally(ROWS, **NAMES, count="k", weight="v"), es.tally(repeated, **NAMES, weight="v"), exact=False)


def test_a_weight_leaves_the_row_one_observation():
    twice = np.full(N_ROWS, 2)
    weighted, counted = (es.tally(ROWS, **NAMES, **{role: twice}) for role in ("weight", "count"))
    assert weighted.n_rows == PLAIN.n_rows and counted.n_rows == {label: 2 * n for label, n in PLAIN.n_rows.items()}
    for label in PLAIN.groups:
        plain, heavy, repeated = (tally.sums(label, "user").W for tally in (PLAIN, weighted, counted))
        np.testing.assert_allclose(heavy, 2 * plain)
        np.testing.assert_allclose(repeated, plain)


# Nulls


def with_object(value):
    def make(rows):
        outcomes = rows["y"].astype(object)
        outcomes[BAD_ROWS] = value
        return rows | {"y": outcomes}

    return make


def masked(rows):
    mask = np.isin(np.arange(N_ROWS), BAD_ROWS)
    return rows | {"y": np.ma.array(np.where(mask, 7, rows["y"]), mask=mask)}


def listed(rows):
    return with_object(None)(rows)["y"].tolist()


NULL_OUTCOMES = {
    "nan": lambda rows: change(y=rows["y"]),
    "none": with_object(None),
    "nan object": with_object(float("nan")),
    "pandas NA object": with_object(pd.NA),
    "pandas NaT object": with_object(pd.NaT),
    "decimal nan": with_object(Decimal("nan")),
    "list": lambda rows: rows | {"y": listed(rows)},
    "masked": masked,
    "masked nan": lambda rows: rows | {"y": np.ma.array(change(y=rows["y"])["y"])},
    "pandas nan": lambda rows: pd.DataFrame(change(y=rows["y"])),
    "pandas Int64": lambda rows: pd.DataFrame(rows).assign(y=pd.array(listed(rows), dtype="Int64")),
    "pandas boolean": lambda rows: pd.DataFrame(rows).assign(y=pd.array(listed(rows), dtype="boolean")),
    "pandas objects": lambda rows: pd.DataFrame(rows).assign(y=pd.Series(listed(rows), dtype=object)),
    "pandas arrow": lambda rows: pd.DataFrame(rows).assign(y=pd.array(listed(rows), dtype="int64[pyarrow]")),
    "polars null": lambda rows: pl.DataFrame(rows | {"y": listed(rows)}),
    "polars nan": lambda rows: pl.DataFrame(change(y=rows["y"])),
    "polars boolean": lambda rows: pl.DataFrame(rows | {"y": pl.Series(listed(rows)).cast(pl.Boolean)}),
    "pyarrow null": lambda rows: pa.table(rows | {"y": pa.array(listed(rows))}),
    "pyarrow nan": lambda rows: pa.table(change(y=rows["y"])),
    "duckdb null": lambda rows: CONNECTION.from_arrow(pa.table(rows | {"y": pa.array(listed(rows))})),
}


@pytest.mark.parametrize("kind", NULL_OUTCOMES)
def test_null_outcomes(kind):
    data = NULL_OUTCOMES[kind](ROWS)
    message = (
        "column 'y' (outcome) is null or NaN in 4 of 1,500 rows (first rows, from 0: 5, 9, 100); "
        "nulls='drop' leaves such rows out and counts them; nulls='unlabelled' keeps their scores"
    )
    with pytest.raises(es.DataError, match=re.escape(message)):
        es.tally(data, **NAMES)
    dropped = es.tally(data, **NAMES, nulls="drop")
    assert_same(dropped, es.tally({name: np.delete(values, BAD_ROWS) for name, values in ROWS.items()}, **NAMES))
    assert dropped.dropped == {"y": 4}
    unlabelled = es.tally(data, **NAMES, nulls="unlabelled")
    assert unlabelled.n_rows == dropped.n_rows and sum(unlabelled.n_unlabelled.values()) == 4 and not unlabelled.dropped
    assert sum(unlabelled.sums(label, "row").A.sum() for label in unlabelled.groups) == N_ROWS
    assert sum(unlabelled.sums(label, "row").W.sum() for label in unlabelled.groups) == N_ROWS - 4


@pytest.mark.parametrize("role", ["score", "group", "user", "weight", "count"])
@pytest.mark.parametrize("container", ["dict of lists", "pandas", "polars", "pyarrow", "duckdb"])
def test_nulls_elsewhere_are_errors_unless_dropped(role, container):
    options = NAMES | {"weight": "v", "count": "k"}
    name = options[role]
    values = ROWS[name].tolist()
    for row in BAD_ROWS:
        values[row] = None
    data = CONTAINERS[container](ROWS | {name: pa.array(values) if container in ("pyarrow", "duckdb") else values}) \
        if container != "dict of lists" else ROWS | {name: values}  # fmt: skip
    for nulls in ("error", "unlabelled"):
        message = f"column '{name}' ({role}) is null or NaN in 4 of 1,500 rows (first rows, from 0: 5, 9, 100); nulls='drop'"
        with pytest.raises(es.DataError, match=re.escape(message)):
            es.tally(data, **options, nulls=nulls)
    dropped = es.tally(data, **options, nulls="drop")
    assert_same(dropped, es.tally({key: np.delete(column, BAD_ROWS) for key, column in ROWS.items()}, **options))
    assert dropped.dropped == {name: 4}


def test_a_row_with_two_nulls_is_dropped_once_and_counted_in_both_columns():
    data = change(s=ROWS["s"]) | {"v": change([9, 11], v=ROWS["v"])["v"]}
    tally = es.tally(data, **NAMES, weight="v", nulls="drop")
    assert tally.dropped == {"s": 4, "v": 2} and sum(tally.n_rows.values()) == N_ROWS - 5
    assert "rows left out: s is null in 4, v in 2; some may lack several" in repr(tally)


def test_dropping_everything_says_why():
    with pytest.raises(es.DataError, match=re.escape("nulls='drop' leaves none of the 1,500 rows: 's' is null in 1,500")):
        es.tally(change(range(N_ROWS), s=ROWS["s"]), **NAMES, nulls="drop")
    with pytest.raises(es.DataError, match=re.escape("column 'y' (outcome) is null in all 1,500 rows: nothing is labelled")):
        es.tally(change(range(N_ROWS), y=ROWS["y"]), **NAMES, nulls="unlabelled")


# Bad input


def text_in(name, rows=BAD_ROWS):
    values = ROWS[name].astype(object)
    values[rows] = "n/a"
    return ROWS | {name: values}


FIRST = "in 4 of 1,500 rows (first rows, from 0: 5 ({0}), 9 ({0}), 100 ({0}))"
BAD = {
    "unknown column": (ROWS, {"score": "scor"}, "no column 'scor' for score; the data has: s, y, g, u, v, k"),
    "unknown group": (pd.DataFrame(ROWS), {"group": ["g", "h"]}, "no column 'h' for group; the data has: s, y, g, u, v, k"),
    "no columns": ({}, {}, "no column 's' for score; the data has: no columns"),
    "infinite scores": (change(to=np.inf, s=ROWS["s"]), {}, "column 's' (score) is not finite " + FIRST.format("inf")),
    "infinite outcomes": (change(to=-np.inf, y=ROWS["y"]), {}, "column 'y' (outcome) is not finite " + FIRST.format("-inf")),
    "infinite weights": (
        change(to=np.inf, v=ROWS["v"]),
        {"weight": "v"},
        "column 'v' (weight) is not finite " + FIRST.format("inf"),
    ),
    "a code for missing": (change(to=1e300, y=ROWS["y"]), {}, "column 'y' (outcome) is beyond 1e+75 " + FIRST.format("1e+300")),
    "negative weights": (change(to=-2.5, v=ROWS["v"]), {"weight": "v"}, "column 'v' (weight) is negative " + FIRST.format("-2.5")),
    "negative counts": (change(to=-2, k=ROWS["k"]), {"count": "k"}, "column 'k' (count) is negative " + FIRST.format("-2.0")),
    "fractional counts": (
        change(to=2.5, k=ROWS["k"]),
        {"count": "k"},
        "column 'k' (count) is not a whole number " + FIRST.format("2.5") + "; for survey weights use weight=",
    ),
    "endless counts": (
        change(to=1e18, k=ROWS["k"]),
        {"count": "k"},
        "column 'k' (count) is beyond 9,007,199,254,740,992 " + FIRST.format("1e+18"),
    ),
    "zero weights": (ROWS, {"weight": np.zeros(N_ROWS)}, "column 'weight' (weight) is zero in all 1,500 rows"),
    "zero counts": (ROWS, {"count": np.zeros(N_ROWS, int)}, "column 'count' (count) is zero in all 1,500 rows"),
    "text among scores": (text_in("s"), {}, "column 's' (score) does not hold a number " + FIRST.format("'n/a'")),
    "text among outcomes": (text_in("y"), {}, "column 'y' (outcome) does not hold a number " + FIRST.format("'n/a'")),
    "text for scores": (
        ROWS,
        {"score": "g"},
        "column 'g' (score) holds text, not numbers, in 1,500 of 1,500 rows (first rows, from 0: 0 (",
    ),
    "dates for scores": (
        ROWS,
        {"score": np.full(N_ROWS, np.datetime64("2024-01-01"))},
        "column 'score' (score) holds datetime64[D], not numbers, in 1,500 of 1,500 rows",
    ),
    "text for scores in polars": (
        pl.DataFrame(ROWS),
        {"score": "g"},
        "column 'g' (score) holds text, not numbers, in 1,500 of 1,500 rows (first rows, from 0: 0 (",
    ),
    "empty dict of arrays": (
        {name: values[:0] for name, values in ROWS.items()},
        {},
        "the data has no rows (column 's' (score) is empty)",
    ),
    "empty frame": (pd.DataFrame(ROWS).iloc[:0], {}, "the data has no rows (column 's' (score) is empty)"),
    "empty lists": ({name: [] for name in ROWS}, {}, "the data has no rows (column 's' (score) is empty)"),
    "different lengths": (
        ROWS | {"y": ROWS["y"][:-1]},
        {},
        "the columns must have the same number of rows, but have 's': 1,500, 'y': 1,499, 'g': 1,500, 'u': 1,500",
    ),
    "different lengths of group arrays": (
        None,
        {"score": ROWS["s"], "outcome": ROWS["y"], "group": [ROWS["g"], ROWS["g"][:-1]], "user": None},
        "but have 'score': 1,500, 'outcome': 1,500, 'group 1': 1,500, 'group 2': 1,499",
    ),
    "arrays that are not of the frame": (
        pd.DataFrame(ROWS),
        {role: ROWS[name][:9] for role, name in NAMES.items()},
        "the arrays have 9 values, the data has 1,500 rows",
    ),
    "an id for a group": (
        ROWS | {"g": np.arange(N_ROWS)},
        {},
        "column 'g' (group) has 1,500 different values in 1,500 rows, more than the 200 groups that are possible: is it an id",
    ),
    "too many intersections": (
        ROWS,
        {"group": ["u", "k"]},
        "column 'u' x 'k' (group) has 392 different values in 1,500 rows, more than the 200 groups that are possible",
    ),
    "two dimensions": (
        ROWS | {"s": np.c_[ROWS["s"], ROWS["s"]]},
        {},
        "column 's' (score) must have one dimension, not 2 (its shape is (1500, 2))",
    ),
    "two masked dimensions": (ROWS | {"s": np.ma.ones((3, 2))}, {}, "column 's' (score) must have one dimension, not 2"),
    "a number for a column": (ROWS, {"score": 0.5}, "score must be a column name or an array, not 0.5 (float)"),
    "a number in the dict": (ROWS | {"s": 0.5}, {}, "column 's' (score) must be a column name or an array, not 0.5 (float)"),
    "no score": (ROWS, {"score": None}, "score=None: name a column or give an array"),
    "no group": (ROWS, {"group": []}, "group=[] names no column; give one name, or several for their intersection"),
    "labels in a list": (
        ROWS,
        {"group": [1, 0, 1]},
        "group=[1, ...]: a list means the intersection of several columns; give labels as a",
    ),
    "names without data": (None, {}, "score='s' names a column, but data is None; pass the frame as data, or an array as score"),
    "numbers for names": (
        pd.DataFrame({0: [0.5]}),
        {"score": 0},
        "score=0: column names must be text; rename the column, or pass its",
    ),
    "names that occur twice": (
        pd.DataFrame(np.ones((3, 3)), columns=["s", "y", "s"]),
        {},
        "the data has more than one column called 's'; rename or drop the others",
    ),
    "no frame": (
        np.ones((3, 3)),
        {},
        "data is of type ndarray; give a pandas, polars or pyarrow frame, a dict of arrays, or a path to",
    ),
    "lists for groups": (ROWS | {"g": [[1]] * N_ROWS}, {}, "column 'g' (group) holds values that cannot be compared, such as [1]"),
    "lists for groups in polars": (
        pl.DataFrame(ROWS).with_columns(g=pl.concat_list(pl.col("u") % 2)),
        {},
        "which cannot be a label; turn the column into text first",
    ),
    "fractions for users": (
        change(to=0.5, u=ROWS["u"]),
        {},
        "column 'u' (user) holds fractions " + FIRST.format("0.5") + "; ids are integers, text or UUIDs",
    ),
    "floats too large for users": (
        change(to=2.0**60, u=ROWS["u"]),
        {},
        "column 'u' (user) holds floats too large to tell ids apart " + FIRST.format(2.0**60) + "; give ids as integers or text",
    ),
    "an unknown way with nulls": (
        ROWS,
        {"nulls": "skip"},
        "nulls='skip' is not known; choose one of 'error', 'drop', 'unlabelled'",
    ),
    "a number for a lattice": (ROWS, {"lattice": 5}, "lattice=5 must be a Tally or an es.Lattice, not of type int"),
    "another range": (
        ROWS,
        {"lattice": es.Lattice(300, 850)},
        "column 's' (score): 1,500 of 1,500 scores lie outside the lattice's range "
        "(<Lattice of 512 cells from 300 to 850, scale='auto'>)",
    ),
    "other values": (
        ROWS,
        {"score": "k", "lattice": es.Lattice.from_values([1, 2, 3])},
        f"column 'k' (score): {int((ROWS['k'] == 0).sum())} of 1,500 scores are none of the lattice's values",
    ),
    "a lattice without the cut": (
        ROWS,
        {"lattice": es.Lattice(0, 1), "cuts": [0.123]},
        "has no edge at 0.123; make it with cuts=[0.123]",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_is_wrong(case):
    data, options, message = BAD[case]
    with pytest.raises((es.DataError, es.OptionError), match=re.escape(message)):
        es.tally(data, **NAMES | options)


def test_rows_in_messages_are_those_of_the_data_as_given():
    data = change([0, 1, 2, 3], s=ROWS["s"]) | {"v": change([7, 8], to=-1, v=ROWS["v"])["v"]}
    message = "column 'v' (weight) is negative in 2 of 1,496 rows (first rows, from 0: 7 (-1.0), 8 (-1.0))"
    with pytest.raises(es.DataError, match=re.escape(message)):
        es.tally(data, **NAMES, weight="v", nulls="drop")


def test_long_values_do_not_flood_the_message():
    with pytest.raises(es.DataError) as caught:
        es.tally(ROWS | {"s": np.array(["x" * 10_000] * N_ROWS)}, **NAMES)
    assert len(str(caught.value)) < 400


def test_scores_outside_a_given_lattice_are_warned_about():
    with pytest.warns(es.EvenscoreWarning, match=r"scores lie outside <Lattice .*>; they share its end cells"):
        es.tally(ROWS, **NAMES, lattice=es.Lattice(0.2, 0.8))


@pytest.mark.parametrize("container", ["pandas", "polars", "pyarrow", "dict of arrays"])
def test_a_frame_where_a_tally_belongs_is_told_the_call(container):
    for function in ("parity_test", "curves"):
        call = f"es.{function}(es.tally(data, score=..., outcome=..., group=..., user=...))"
        with pytest.raises(es.OptionError, match=re.escape(call)):
            getattr(es, function)(CONTAINERS[container](ROWS))


def test_one_group_can_be_tallied_but_not_compared():
    tally = es.tally(ROWS, **NAMES | {"group": np.full(N_ROWS, "everyone")})
    assert tally.groups == ("everyone",) and tally.n_rows == {"everyone": N_ROWS}
    with pytest.raises(es.DataError, match=re.escape("comparing needs at least 2 groups; the tally has 1 ('everyone')")):
        es.parity_test(tally)


def test_plain_arrays_are_not_copied():
    columns = {"s": ROWS["s"], "y": ROWS["y"], "g": ROWS["g"], "u": ROWS["u"], "v": ROWS["v"], "k": ROWS["k"] + 1}
    seen = observe(columns, TallySpec(**NAMES, weight="v", count="k"))
    pairs = [(seen.score, "s"), (seen.outcome, "y"), (seen.users.codes, "u"), (seen.weight, "v"), (seen.count, "k")]
    assert all(array is columns[name] for array, name in pairs)
