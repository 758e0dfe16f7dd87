"""The table of hostile inputs in docs/hostile.md: every row is run, and shows what it gave.

python tests/hostile_table.py
"""

from __future__ import annotations

import contextlib
import decimal
import hashlib
import io
import json
import os
import struct
import sys
import tempfile
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import evenscore as es
from evenscore.cli import main

sys.path.insert(0, str(Path(__file__).parent / "support"))
import hostile_reading as reading

PAGE = Path(__file__).parents[1] / "docs" / "hostile.md"
BEGIN, END = "<!-- the table begins -->", "<!-- the table ends -->"
LONGEST = 230

N = 40
RNG = np.random.default_rng(0)
SCORES = RNG.random(N)
ROWS = {"s": SCORES, "y": (RNG.random(N) < SCORES).astype(int), "g": np.array(["a", "b"])[np.arange(N) % 2], "u": np.arange(N) // 2}
NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
EVIL = 'it\'s "a"; DROP TABLE x; --\n<script>😀\u202e'


@dataclass(frozen=True)
class Row:
    """What is fed in, where, and the call; what is said after ``cut`` are words of another library."""

    given: str
    where: str
    call: Callable[[], Any]
    cut: str | None = None


def two(a: Any, b: Any) -> list[Any]:
    return [a, b] * (N // 2)


def tallied(roles: dict[str, Any] | None = None, **columns: Any) -> str:
    options = dict(roles or {})
    tally = es.tally(ROWS | columns, **NAMES | options)
    return "a tally of " + ", ".join(f"{users} users in {_label(group)}" for group, users in tally.n_users.items())


def _label(group: Any) -> str:
    text = repr(group)
    return text if len(text) <= 40 else f"a label of {len(text):,} characters"


def framed(frame: Any, **roles: Any) -> str:
    return f"a tally of {sum(es.tally(frame, **NAMES | roles).n_rows.values())} rows"


def tested(**columns: Any) -> str:
    roles = {"weight": "w"} if "w" in columns else {}
    test = es.parity_test(es.tally(ROWS | columns, **NAMES, **roles), method="sup", both=False)
    return f"{test.verdict}: {test.reason}" + ("" if np.isnan(test.max_gap) else f", of {abs(test.max_gap):.2f}")


def large() -> dict[str, Any]:
    return es.simulate({"a": 400, "b": 400}, rows_per_user=3, curve={"a": (0.0, 1.0), "b": (0.4, 1.0)}).data(seed=1)


LARGE = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def tally_of(data: Any = None, **options: Any) -> es.Tally:
    return es.tally(large() if data is None else data, **LARGE, **options)


# Names


def through_files(name: str) -> str:
    tally, calibrator = _named(name)
    tally.save("named.tally")
    calibrator.save("named.json")
    whole = name in es.Tally.load("named.tally").groups and name in es.Calibrator.load("named.json").groups
    return "the same name" if whole else "another name"


def through_sql(name: str) -> str:
    _, calibrator = _named(name)
    connection = duckdb.connect()
    connection.register("rows", pa.table(_renamed(name)))
    found = connection.execute(f"SELECT {calibrator.to_sql()} FROM rows").fetchnumpy()
    expected = calibrator.transform(SCORES, _renamed(name)[f"{name} g"])
    return "the numbers of transform" if np.allclose(next(iter(found.values())), expected, rtol=1e-12) else "other numbers"


def through_html(name: str) -> str:
    data = large()
    data["group"] = np.where(data["group"] == data["group"][0], name, "b")
    page = es.audit(data, **LARGE, method="bonferroni", repair=False).to_html()
    return "one page without a script of the name" if "<script>😀" not in page else "the script"


def through_json(name: str) -> str:
    tally, _ = _named(name)
    test = es.parity_test(tally, method="sup", both=False)
    document = json.dumps(test.to_dict(), ensure_ascii=False)
    return (
        "the same name"
        if json.dumps(name, ensure_ascii=False) in document and json.loads(document) == test.to_dict()
        else "another"
    )


def _renamed(name: str) -> dict[str, Any]:
    data = {f"{name} {key}": values for key, values in ROWS.items()}
    return data | {f"{name} g": np.array([name, "b"], dtype=object)[np.arange(N) % 2]}


def _named(name: str) -> tuple[es.Tally, es.Calibrator]:
    tally = es.tally(_renamed(name), **{role: f"{name} {key}" for role, key in NAMES.items()})
    return tally, es.calibrate(tally, method="platt")


# Files


def cut_everywhere(thing: Any) -> str:
    thing.save("cut")
    content = Path("cut").read_bytes()
    whole = len(content.rstrip())
    refused = 0
    for length in range(whole):
        Path("cut").write_bytes(content[:length])
        try:
            type(thing).load("cut")
        except es.FileError:
            refused += 1
    return "refused at every length" if refused == whole else f"{whole - refused:,} of {whole:,} lengths accepted"


def bomb() -> Any:
    """A small file that says its arrays are large, with a right checksum."""
    from evenscore.tallies.archive import DIGEST, PREFIX

    tally_of(cells=8).save("bomb")
    content = Path("bomb").read_bytes()
    magic, version, length = PREFIX.unpack_from(content)
    header = json.loads(content[PREFIX.size : PREFIX.size + length])
    header["arrays"][0]["shape"] = [2**40]
    encoded = json.dumps(header).encode()
    body = PREFIX.pack(magic, version, len(encoded)) + encoded + content[PREFIX.size + length : -DIGEST]
    Path("bomb").write_bytes(body + hashlib.sha256(body).digest())
    return es.Tally.load("bomb")


def written(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return name


def command(*words: str) -> str:
    """What the command line says, and the code that it ends with."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as ended:
            code = ended.code
    said = (err.getvalue().strip() or out.getvalue().strip()).splitlines()
    said = [line for line in said if not line.startswith(("Usage", "Try"))]
    return f"ends with {code}: {said[0] if said else 'nothing said'}"


def pipe() -> str:
    if not Path("pipe").exists():
        os.mkfifo("pipe")
    return "pipe"


def table_named(table: str) -> str:
    return "... " + es.calibrate(tally_of(), method="platt").to_sql(table=table).splitlines()[-1][-60:]


# Resources


def threads() -> str:
    def work(seed: int) -> str:
        return repr(es.parity_test(tally_of(), seed=seed, method="sup").rows())

    alone = [work(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        return "the same rows" if list(pool.map(work, range(4))) == alone else "other rows"


def saved_by_threads() -> str:
    calibrator = es.calibrate(tally_of(), method="platt")
    before = threading.active_count()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: calibrator.save("shared.json"), range(100)))
    left = [path.name for path in Path().iterdir() if path.name.startswith(".")]
    return f"a whole file, {len(left)} left over" if es.Calibrator.load("shared.json") and before else ""


def offset() -> str:
    near, far = large(), large()
    near["outcome"], far["outcome"] = near["outcome"] + 2, far["outcome"] + 1e9  # neither are 0 and 1
    gaps = [es.parity_test(es.tally(data, **LARGE), method="sup", both=False).max_gap for data in (near, far)]
    return f"gaps alike to {abs(gaps[1] / gaps[0] - 1):.0e}" if abs(gaps[1] / gaps[0] - 1) > 1e-5 else "the same gap to 5 digits"


def wide_weights() -> str:
    data = large()
    weight = 10.0 ** np.random.default_rng(0).uniform(-6, 6, len(data["score"]))
    found = [es.parity_test(es.tally(data | {"w": weight * k}, **LARGE, weight="w"), method="sup", both=False) for k in (1, 1e6)]
    return "the same p-value" if np.isclose(found[0].p_value, found[1].p_value, rtol=1e-8, equal_nan=True) else "another p-value"


def memory() -> str:
    data = es.simulate(20_000, rows_per_user=10).data(seed=1)
    tracemalloc.start()
    tally = es.tally(data, **LARGE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    columns = sum(column.nbytes for column in data.values())
    return "less than four times the columns and six times the sums" if peak < 4 * columns + 6 * tally.nbytes else f"{peak:,} bytes"


def rows() -> dict[str, list[Row]]:
    """All rows by kind; made when the folder to work in is there."""
    frame = pd.DataFrame(ROWS)
    tally = tally_of(cuts=(0.5,))
    return {
        "Values": [
            Row("NaN in 2 rows", "`es.tally`, score", lambda: tallied(s=np.where(ROWS["u"] == 3, np.nan, SCORES))),
            Row("infinity", "`es.tally`, score", lambda: tallied(s=np.where(ROWS["u"] == 3, np.inf, SCORES))),
            Row("1e300, a code for missing", "`es.tally`, outcome", lambda: tallied(y=np.where(ROWS["u"] == 3, 1e300, 1.0))),
            Row("scores ±1e75", "`es.tally`, score", lambda: tallied(s=np.where(ROWS["y"] == 1, 1e75, -1e75))),
            Row("one score in all rows", "`es.parity_test`", lambda: tested(s=np.full(N, 0.5))),
            Row("a number of 400 digits", "`es.tally`, score", lambda: tallied(s=two(10**400, 1))),
            Row("ids of 5,000 digits", "`es.tally`, user", lambda: tallied(u=two(10**5000, 10**4999))),
            Row("ids 0.5 and 1.5", "`es.tally`, user", lambda: tallied(u=np.array(two(0.5, 1.5)))),
            Row("a signalling NaN", "`es.tally`, score", lambda: tallied(s=two(decimal.Decimal("sNaN"), decimal.Decimal("0.5")))),
            Row("weights of 5e-324", "`es.tally`, weight", lambda: tallied({"weight": "w"}, w=np.full(N, 5e-324))),
            Row("negative weights", "`es.tally`, weight", lambda: tallied({"weight": "w"}, w=np.full(N, -1.0))),
            Row("a group that weighs nothing", "`es.parity_test`", lambda: tested(w=(ROWS["g"] == "a") * 1.0)),
            Row("counts of 2^62", "`es.tally`, count", lambda: tallied({"count": "c"}, c=np.full(N, 2**62))),
            Row(
                "counts of 2^40, independent rows",
                "`es.tally`, count",
                lambda: tallied({"count": "c", "user": None}, c=np.full(N, 2**40)),
            ),
            Row("outcomes offset by 1e9", "`es.parity_test`", offset),
            Row("weights over 12 orders, scaled by 1e6", "`es.parity_test`", wide_weights),
        ],
        "Types": [
            Row("text", "`es.tally`, score", lambda: tallied(s=np.array(two("0.5", "x")))),
            Row("complex numbers", "`es.tally`, score", lambda: tallied(s=SCORES * 1j)),
            Row("a set", "`es.tally`, score", lambda: tallied(s={0.5})),
            Row("a generator", "`es.tally`, outcome", lambda: tallied(y=iter(()))),
            Row("lists", "`es.tally`, group", lambda: tallied(g=[[1], [2]] * (N // 2))),
            Row("1, True, 1.0 and '1'", "`es.tally`, group", lambda: tallied(g=[1, True, 1.0, "1"] * (N // 4))),
            Row("halves of a character", "`es.tally`, group", lambda: tallied(g=two("\ud800", "\udfff"))),
            Row("NumPy text with nulls", "`es.tally`, group", lambda: tallied(g=_null_text())),
            Row(
                "NumPy moments in nanoseconds",
                "`es.tally`, group",
                lambda: tallied(g=np.array(two("2020", "2021"), dtype="M8[ns]")),
            ),
            Row("masked records", "`es.tally`, score", lambda: tallied(s=_masked_records())),
            Row(
                "a pandas period",
                "`es.tally`, outcome",
                lambda: tallied(y=pd.Series(pd.PeriodIndex(two("2020", "2021"), freq="Y"))),
            ),
            Row("pandas categories with a null", "`es.tally`, group", lambda: tallied(g=pd.Series(pd.Categorical(two("a", None))))),
            Row("polars integers of 128 bits", "`es.tally`, score", lambda: tallied(s=pl.Series(two(2**100, 0), dtype=pl.Int128))),
            Row("polars structs", "`es.tally`, score", lambda: tallied(s=pl.Series(two({"a": 1}, {"a": 2})))),
            Row("a pyarrow union", "`es.tally`, score", lambda: framed(pa.table(ROWS | {"s": _union()}))),
            Row("pyarrow runs", "`es.tally`, score", lambda: framed(pa.table(ROWS | {"s": _runs()}))),
            Row("objects that fail when compared", "`es.tally`, group", lambda: tallied(g=[_Fails() for _ in range(N)])),
        ],
        "Shapes": [
            Row("no rows", "`es.tally`", lambda: framed(frame.iloc[:0])),
            Row("one row", "`es.parity_test`", lambda: es.parity_test(es.tally(frame.iloc[:1], **NAMES))),
            Row("no columns", "`es.tally`", lambda: framed(pd.DataFrame())),
            Row("two columns of one name", "`es.tally`", lambda: framed(pa.table([pa.array(SCORES)] * 2, names=["s", "s"]))),
            Row(
                "names in two levels",
                "`es.tally`",
                lambda: framed(pd.DataFrame({("a", key): value for key, value in ROWS.items()})),
            ),
            Row("10,000 columns", "`es.tally`", lambda: framed(pd.DataFrame(ROWS | {f"c{i}": SCORES for i in range(10_000)}))),
            Row("10,000 groups", "`es.tally`, group", lambda: framed(_many_groups())),
            Row("all rows of one user", "`es.parity_test`", lambda: tested(u=np.zeros(N, dtype=int))),
            Row("columns of two lengths", "`es.tally`", lambda: tallied(y=ROWS["y"][:-1])),
            Row("a lazy frame without the column", "`es.tally`", lambda: framed(pl.LazyFrame(ROWS).drop("y"))),
            Row(
                "a lazy frame that cannot be planned",
                "`es.tally`",
                lambda: framed(pl.LazyFrame(ROWS).with_columns(s=pl.col("gone"))),
                cut="ColumnNotFoundError:",
            ),
        ],
        "Names": [
            Row(f"`{EVIL.encode('unicode_escape').decode()}`", "columns and groups, saved and loaded", lambda: through_files(EVIL)),
            Row("the same", "`Calibrator.to_sql`, run by DuckDB", lambda: through_sql(EVIL)),
            Row("the same", "`to_dict`, as JSON", lambda: through_json(EVIL)),
            Row("the same", "`Audit.to_html`", lambda: through_html(EVIL)),
            Row("a name of 10,000 characters", "columns and groups, saved and loaded", lambda: through_files("long" * 2500)),
            Row("a name of 10,000 characters", "`es.tally`, a column that is not there", lambda: framed(frame, score="x" * 10_000)),
            Row("`people; DROP TABLE x`", "`Calibrator.to_sql(table=...)`", lambda: table_named("people; DROP TABLE x")),
        ],
        "Files": [
            Row("a tally cut off at each length", "`es.Tally.load`", lambda: cut_everywhere(es.tally(large(), **LARGE, cells=2))),
            Row(
                "a calibrator cut off at each length",
                "`es.Calibrator.load`",
                lambda: cut_everywhere(es.calibrate(tally_of(cells=8), method="binning", bins=2)),
            ),
            Row("one byte changed", "`es.Tally.load`", _one_byte),
            Row(
                "arrays that say they are 8 TB", "`es.Tally.load`", bomb, "which no tally of"
            ),  # so many bytes, by the zlib at hand
            Row(
                "100,000 open brackets",
                "`es.Calibrator.load`",
                lambda: es.Calibrator.load(written("x.json", "[" * 100_000)),
                "cut off:",
            ),
            Row(
                "100,000 open brackets",
                "`es.compare_audits`",
                lambda: es.compare_audits(written("x.json", "[" * 100_000), "x.json"),
                "JSON:",
            ),
            Row("another kind of file", "`es.JointCalibrator.load`", _other_kind),
            Row("a newer version", "`es.Tally.load`", _newer),
            Row("a pipe without a writer", "`es.Tally.load`", lambda: es.Tally.load(pipe())),
            Row("a pipe without a reader", "`Tally.save`", lambda: tally.save(pipe())),
            Row("a pipe", "`es.tally`", lambda: framed(pipe())),
            Row("`/dev/zero`", "`es.Calibrator.load`", lambda: es.Calibrator.load("/dev/zero")),
            Row("a disk that is full", "`Tally.save`", lambda: tally.save("/dev/full")),
            Row("a folder", "`Calibrator.save`", lambda: es.calibrate(tally).save(".")),
            Row("a link to itself", "`es.Tally.load`", _loop),
            Row("a path with a null byte", "`Calibrator.save_lookup`", lambda: es.calibrate(tally).save_lookup("a\x00b.csv")),
            Row("a CSV without a header's columns", "`es.tally`", lambda: framed(written("x.csv", "a,b\n1,2\n"))),
            Row("an empty CSV", "`es.tally`", lambda: framed(written("empty.csv", ""))),
            Row("text among the numbers of a CSV", "`es.tally`", lambda: framed(written("mixed.csv", _mixed()))),
            Row(
                "a Parquet file that is none",
                "`es.tally`",
                lambda: framed(written("x.parquet", b"PAR1" * 20)),
                "cannot read x.parquet:",
            ),
            Row("`''`", "`es.tally`", lambda: framed("")),
        ],
        "Options": [
            Row("`method=array(['sup'])`", "`es.parity_test`", lambda: es.parity_test(tally, method=np.array(["sup"]))),
            Row("`alpha=nan`", "`es.parity_test`", lambda: es.parity_test(tally, alpha=float("nan"))),
            Row("`bandwidth=10**400`", "`es.curves`", lambda: es.curves(tally, bandwidth=10**400)),
            Row("`seed=True`", "`es.calibration_error`", lambda: es.calibration_error(tally, seed=True)),
            Row("`grid` of 3,000 points", "`es.curves`", lambda: es.curves(tally, grid=np.linspace(0, 1, 3000))),
            Row("`groups` that were not there", "`Calibrator.transform`", lambda: es.calibrate(tally).transform([0.5], ["zz"])),
            Row("`ax=3`", "`Tally.plot`", lambda: tally.plot(ax=3)),
            Row("`evenscore.toml` nested without end", "`evenscore audit`", _nested_settings, "TOML:"),
            Row("`evenscore.toml` with a typing mistake", "`evenscore audit`", _mistaken_settings),
            Row("`--alpha 1e400`", "`evenscore audit`", lambda: _audited("--alpha", "1e400")),
            Row("`--split 3-1/5`", "`evenscore tally`", lambda: _tallied("--split", "3-1/5")),
            Row("a name of 10,000 characters", "`evenscore merge`", lambda: command("merge", "é" * 10_000, "--output", "x")),
        ],
        "Misread, lost or leaked": [
            Row("outcomes 1 for 120,000 rows of a CSV, then .5", "`es.tally`", reading.late_fractions),
            Row("users 007 and 7 in a CSV", "`es.tally`", reading.leading_zeros),
            Row("`data[1].csv` of 10 rows beside `data1.csv`", "`es.tally`", reading.brackets),
            Row("a file of 40 rows, another spelling of it and a link", "`es.tally`", reading.twice),
            Row("`y=1/part.csv`, which has a column y", "`es.tally`", reading.partition),
            Row("a folder with 20 rows and two unfinished files", "`es.tally`", reading.unfinished),
            Row("the data as the output", "`evenscore tally`", lambda: _audited_over("tally", "--output")),
            Row("the data as the JSON", "`evenscore audit`", lambda: _audited_over("audit", "--json")),
            Row("timestamps with fractions as users", "`es.tally(split=...)`", reading.moments),
            Row("weights times 1e-60", "`es.parity_test`", lambda: reading.units(1e-60)),
            Row("weights times 1e60", "`es.parity_test`", lambda: reading.units(1e60)),
            Row("scores that are the outcomes", "`es.calibration_error`", reading.equal_scores),
            Row("40 people all 1 against 40 all 0", "`es.parity_test(tolerance=.1)`", reading.all_and_nobody),
            Row("one income of 48 million among 4,000", "`Tally.release`, root of squares", reading.one_income),
        ],
        "Resources": [
            Row("4 threads at once", "`es.tally`, `es.parity_test`", threads),
            Row("8 threads, one file", "`Calibrator.save`", saved_by_threads),
            Row("400,000 rows", "`es.tally`, memory at its height", memory),
            Row("a memory limit of 1 MB", "`es.tally`", lambda: es.tally(written("r.csv", _csv()), **NAMES, memory_limit="1MB")),
        ],
    }


class _Fails:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        raise RuntimeError


def _null_text() -> Any:
    return np.array(two("x", None), dtype=np.dtypes.StringDType(na_object=None))


def _masked_records() -> Any:
    return np.ma.array(two((1, 2.0), (3, 4.0)), dtype=[("a", "i4"), ("b", "f8")])


def _union() -> Any:
    return pa.UnionArray.from_sparse(pa.array(two(0, 1), pa.int8()), [pa.array(range(N)), pa.array(["x"] * N)])


def _runs() -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array([N // 2, N], pa.int32()), pa.array([0.25, 0.5]))


def _many_groups() -> dict[str, Any]:
    return {key: np.tile(values, 500) for key, values in ROWS.items()} | {"g": np.arange(20_000) // 2}


def _one_byte() -> Any:
    tally_of(cells=8).save("byte")
    content = bytearray(Path("byte").read_bytes())
    content[len(content) // 2] ^= 1
    Path("byte").write_bytes(content)
    return es.Tally.load("byte")


def _other_kind() -> Any:
    es.calibrate(tally_of(), method="platt").save("single.json")
    return es.JointCalibrator.load("single.json")


def _newer() -> Any:
    tally_of(cells=8).save("newer")
    content = bytearray(Path("newer").read_bytes())
    content[16:20] = struct.pack("<I", 99)
    body = bytes(content[:-32])
    Path("newer").write_bytes(body + hashlib.sha256(body).digest())
    return es.Tally.load("newer")


def _loop() -> Any:
    if not Path("loop").is_symlink():
        Path("loop").symlink_to("loop")
    return es.Tally.load("loop")


def _csv() -> str:
    return "s,y,g,u\n" + "\n".join(",".join(map(str, row)) for row in zip(*ROWS.values(), strict=True)) + "\n"


def _mixed() -> str:
    return "s,y,g,u\n" + "\n".join(f"0.{i},{i % 2},{'ab'[i % 2]},{i}" for i in range(10, 90)) + "\noops,1,b,1\n"


def _nested_settings() -> str:
    return command("audit", "--config", written("nested.toml", "[data]\nattributes = " + "[" * 100_000))


def _mistaken_settings() -> str:
    return command("audit", "--config", written("mistaken.toml", "[data]\nscroe = 's'"))


COLUMNS = ("--score", "s", "--outcome", "y", "--group", "g", "--user", "u")


def _audited(*words: str) -> str:
    return command("audit", written("r.csv", _csv()), *COLUMNS, *words)


def _audited_over(name: str, option: str) -> str:
    """The data are given as an output, and stay what they are."""
    path = written("over.csv", _csv())
    said = command(name, path, *COLUMNS, option, path)
    return said if Path(path).read_text(encoding="utf-8") == _csv() else "the data are gone"


def _tallied(*words: str) -> str:
    return command("tally", written("r.csv", _csv()), *COLUMNS, "--output", "x.tally", *words)


# The page


def gave(row: Row) -> str:
    """What a row gives: a result in words, or the error with its message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.EvenscoreWarning)
        try:
            found = row.call()
            text = found if isinstance(found, str) else f"a result: {type(found).__name__}"
        except es.EvenscoreError as error:
            text = f"{type(error).__name__}: {error}"
    if row.cut is not None:
        head, found_cut, _ = text.partition(row.cut)
        text = f"{head}{row.cut} …" if found_cut else text
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + " …"


def cell(text: str) -> str:
    """Text in a table of Markdown, as it is: what cannot be seen is escaped."""
    visible = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return visible.replace("|", "\\|")


def code(text: str) -> str:
    """Text in a cell that Markdown must not read."""
    fence = "``" if "`" in text else "`"
    return f"{fence} {cell(text)} {fence}" if fence == "``" else f"`{cell(text)}`"


def table() -> str:
    before = Path.cwd()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for kind, found in rows().items():
                lines += [f"### {kind}", "", "| input | fed to | what it gave |", "|---|---|---|"]
                lines += [f"| {cell(row.given)} | {row.where} | {code(gave(row))} |" for row in found]
                lines.append("")
        finally:
            os.chdir(before)
    return "\n".join(lines)


def with_table(page: str, new: str) -> str:
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start] + "\n\n" + new + "\n" + page[end:]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table()), encoding="utf-8")
    print(f"{sum(map(len, rows().values()))} rows")
