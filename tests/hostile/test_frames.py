"""Generated frames with hostile types, values, sizes and names, through the whole flow and the command line."""

import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenscore as es
from evenscore.cli import cli
from hostile import NAMES, THOROUGH, show, survives

EXAMPLES = 3000 if THOROUGH else 60
FUZZ = settings(max_examples=EXAMPLES, deadline=None, derandomize=not THOROUGH, suppress_health_check=list(HealthCheck))

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 1),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, -0.0, 1e-320, 1e300, 2**53, 2**63, None]),
)
labels = st.one_of(
    st.sampled_from(["a", "b", *NAMES]),
    st.integers(-3, 3),
    st.booleans(),
    st.none(),
    st.floats(),
    st.text(max_size=5),
    st.dates(),
    st.decimals(allow_nan=False, places=2, min_value=-9, max_value=9),
    st.binary(max_size=3),
    st.tuples(st.integers(0, 1)),
)
anything = st.one_of(numbers, labels, st.lists(st.integers(), max_size=2), st.complex_numbers(), st.just(object()))


def column(values):
    """Mostly columns of one sort, sometimes of any."""

    def of(n):
        return st.one_of(
            st.lists(values, min_size=n, max_size=n),
            st.lists(anything, min_size=n, max_size=n),
            st.tuples(values).map(lambda one: list(one) * n),
        )

    return of


@st.composite
def frames(draw):
    n = draw(st.sampled_from([0, 1, 2, 3, 8, 30]))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=7, max_size=7, unique=True))
    unit, zero_one = st.floats(0, 1), st.integers(0, 1)
    sizes = st.one_of(numbers, st.floats(0, 1e80), st.sampled_from([0, 1, 1e-80, 5e-324, 1e75, 2**52]))
    sorts = [
        st.one_of(unit, numbers),
        st.one_of(zero_one, numbers),
        labels,
        st.one_of(st.integers(0, 9), labels),
        sizes,
        sizes,
        labels,
    ]
    columns = [draw(column(draw(st.sampled_from([easy, sort])))(n)) for easy, sort in zip(EASY, sorts, strict=True)]
    return dict(zip(names, columns, strict=True))


EASY = (
    *(st.floats(0, 1), st.integers(0, 1), st.sampled_from(["a", "b"]), st.integers(0, 9)),
    *(st.floats(0, 9), st.integers(0, 3), st.integers(0, 5)),
)


MAKERS = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "polars": lambda data: pl.DataFrame(data, strict=False),
    "lazy": lambda data: pl.LazyFrame(data, strict=False),
    "pyarrow": pa.table,
    "duckdb": lambda data: duckdb.from_arrow(pa.table(data)),
}


def framed(data, kind):
    """The data as a frame of some kind, or None when the library itself refuses."""
    try:
        if kind == "arrays":
            return {name: np.array(values, dtype=object) for name, values in data.items()}
        return MAKERS[kind](data)
    except Exception:  # not ours
        return None


def flow(data, roles, **options):
    """From rows to verdicts, all that a small tally allows."""
    tally = es.tally(data, **roles, **options)
    show(tally)
    for step in (
        lambda: es.parity_test(tally, method="bonferroni", both=False),
        lambda: es.curves(tally),
        lambda: es.calibrate(tally, method="platt"),
        lambda: es.calibrate(tally),
        lambda: es.marginal_test(tally, threshold=0.5, both=False),
        lambda: es.calibration_error(tally, interval=False),
        lambda: es.classification_impact(tally, threshold="all", interval=False),
    ):
        survives(step)
    return tally


@FUZZ
@given(
    frames(),
    st.sampled_from(["arrays", *MAKERS]),
    st.sampled_from(["error", "drop", "unlabelled"]),
    st.sampled_from([(), ("item",), ("weight",), ("count", "item"), ("weight", "count")]),
    st.booleans(),
)
def test_a_generated_frame_gives_a_result_or_a_reason(data, kind, nulls, sizes, independent):
    frame = framed(data, kind)
    if frame is None:
        return
    named = dict(zip(("score", "outcome", "group", "user", "weight", "count", "item"), data, strict=True))
    roles = {role: name for role, name in named.items() if role in ("score", "outcome", "group", "user", *sizes)}
    survives(flow, frame, roles | ({"user": None} if independent else {}), nulls=nulls)


@pytest.mark.parametrize(
    "scores",
    [
        [0.5] * 40,
        [0.0, 1.0] * 20,
        np.linspace(-1e74, 1e74, 40),
        np.linspace(0, 5e-324, 40),
        np.nextafter(0.5, 1) * np.ones(40),
        [1e-300, 1e300 / 1e226] * 20,
        np.arange(40, dtype=np.int8),
        np.full(40, 2**62),
    ],
    ids=range(8),
)
def test_scores_at_the_edge_of_what_floats_hold(scores):
    data = {"s": scores, "y": [0, 1, 1, 0] * 10, "g": ["a", "b"] * 20, "u": list(range(40))}
    survives(flow, data, {"score": "s", "outcome": "y", "group": "g", "user": "u"})


COMMANDS = [
    ["audit", "FILE", "COLUMNS"],
    ["tally", "FILE", "COLUMNS", "--out", "OUT"],
    ["merge", "FILE", "FILE", "--out", "OUT"],
    ["calibrate", "FILE", "COLUMNS", "--out", "OUT"],
    ["apply", "FILE", "FILE", "--out", "OUT"],
    ["thresholds", "FILE", "COLUMNS", "--threshold", "0.5"],
    ["decisions", "FILE", "COLUMNS", "--threshold", "0.5"],
    ["compare", "FILE", "FILE"],
    ["simulate", "--spec", "FILE", "--output", "OUT"],
]
CONTENTS = {
    "empty": b"",
    "zeros": bytes(3000),
    "header only": b"s,y,g,u\n",
    "ragged": b"s,y,g,u\n0.1,1,a\n0.2,0,b,2,3,4\n",
    "binary": bytes(range(256)) * 20,
    "json": b'{"format": "evenscore calibrator", "version": 99}',
    "nested": b"[" * 100_000,
    "simulation": b'{"simulation": {"groups": ["a"], "users": [1e400]}}',
    "parquet head": b"PAR1" + bytes(50) + b"PAR1",
    "tally head": b"evenscore tally\n" + bytes(200),
    "long line": b"s,y,g,u\n" + b"0.5,1,a," + b"x" * 300_000 + b"\n",
    "quotes": b's,y,g,u\n"0.1,1,a,"2\n',
    "utf16": "s,y,g,u\n0.1,1,a,1\n".encode("utf-16"),
    "injection": b"s,y,g,u\n0.1,1,'); DROP TABLE x; --,1\n0.3,0,b,2\n",
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_on_a_hostile_file_ends_in_words(words, content, tmp_path):
    found = []
    for suffix in (".csv", ".parquet", ".json") if THOROUGH else (".csv",):
        path = tmp_path / f'it\'s; a "file"{suffix}'
        path.write_bytes(CONTENTS[content])
        columns = ["--score", "s", "--outcome", "y", "--group", "g", "--user", "u"]
        filled = [w for word in words for w in (columns if word == "COLUMNS" else [named(word, path, tmp_path)])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", es.EvenscoreWarning)
            found.append(CliRunner().invoke(cli, filled, standalone_mode=True))
    for result in found:
        fine = result.exception is None or isinstance(result.exception, SystemExit | es.EvenscoreError)
        assert fine, f"{type(result.exception).__name__}: {result.exception}"


def named(word, path, folder):
    return {"FILE": str(path), "OUT": str(folder / "out.csv")}.get(word, word)


def test_the_generator_makes_what_is_accepted_too():
    """A fuzz test whose every frame is refused would test nothing."""
    data = {"s": [0.1, 0.4, 0.6, 0.9] * 5, "y": [0, 1] * 10, "g": ["a"] * 10 + ["b"] * 10, "u": list(range(20))}
    assert survives(flow, data, {"score": "s", "outcome": "y", "group": "g", "user": "u"})


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars"])
def test_groups_beyond_64_bits_with_a_sign(kind):
    data = {"s": [0.1, 0.4, 0.6, 0.9], "y": [0, 1, 0, 1], "g": np.array([2**63, 2**63 + 1] * 2, dtype=np.uint64), "u": [1, 2, 3, 4]}
    tally = es.tally(framed(data, kind), score="s", outcome="y", group="g", user="u")
    assert tally.groups == (2**63, 2**63 + 1)


@pytest.mark.parametrize("scores", [[[1]] * 4, [[-(2**63) - 1]] * 4, [{"a": 1}] * 4], ids=range(3))
def test_nested_scores_are_refused(scores):
    frame = pl.DataFrame({"s": scores, "y": [0, 1, 0, 1], "g": ["a", "b"] * 2, "u": [1, 2, 3, 4]}, strict=False)
    with pytest.raises(es.DataError, match="not numbers"):
        es.tally(frame, score="s", outcome="y", group="g", user="u")


def test_scores_of_128_bits_are_numbers():
    frame = pl.DataFrame(
        {"s": pl.Series([2**70, -(2**70), 0, 1], dtype=pl.Int128), "y": [0, 1, 0, 1], "g": list("abab"), "u": [1, 2, 3, 4]}
    )
    assert es.tally(frame, score="s", outcome="y", group="g", user="u").lattice.high == 2.0**70
