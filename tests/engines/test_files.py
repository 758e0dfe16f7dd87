"""Files give the tally that the same rows give in memory, and say what was assumed about them."""

import datetime
import gzip
import os
import re
import uuid
import warnings

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compare import assert_same

import evenscore as es
from evenscore.data.spec import TallySpec
from evenscore.engines.files import tally_files

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
N_ROWS = 1_200


def make_rows():
    rng = np.random.default_rng(0)
    user = rng.integers(0, 150, N_ROWS)
    score = np.round(rng.random(N_ROWS), 6)
    return {
        "s": score,
        "y": (rng.random(N_ROWS) < score).astype(np.int64),
        "g": np.array(["a", "b", "é🦔"])[user % 3],
        "u": user,
        "v": np.round(rng.gamma(2, 1, N_ROWS), 3) + 0.5,
    }


ROWS = make_rows()
FRAME = pd.DataFrame(ROWS)
PLAIN = es.tally(ROWS, **NAMES)


def write_parts(write, suffix):
    def save(folder):
        for place, part in enumerate((FRAME.iloc[:500], FRAME.iloc[500:800], FRAME.iloc[800:])):
            write(part, folder / f"part-{place}{suffix}")

    return save


def write_parquet(frame, path):
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)


def write_csv(**options):
    return lambda frame, path: frame.to_csv(path, index=False, **options)


COMMAS = write_csv(sep=";", decimal=",")
COMMA_NOTES = [
    f"assumed: column '{name}' has a decimal comma: '{repr(value).replace('.', ',')}' is read as {value!r}"
    for name, value in ((name, next(value for value in FRAME[name].tolist() if value % 1)) for name in "sv")
]
IN_PARTS = {
    "parquet": write_parts(write_parquet, ".parquet"),
    "csv": write_parts(write_csv(), ".csv"),
    "decimal commas": write_parts(COMMAS, ".csv"),
}


def one(write, name):
    def save(folder):
        write(FRAME, folder / name)
        return folder / name

    return save


SOURCES = {
    "csv": (one(write_csv(), "rows.csv"), []),
    "csv in capitals": (one(write_csv(), "ROWS.CSV"), []),
    "csv, quoted": (one(write_csv(quoting=2), "rows.csv"), []),
    "csv, carriage returns": (one(write_csv(lineterminator="\r\n"), "rows.csv"), []),
    "csv, marked as UTF-8": (one(write_csv(encoding="utf-8-sig"), "rows.csv"), []),
    "csv.gz": (one(write_csv(compression="gzip"), "rows.csv.gz"), []),
    "tsv": (one(write_csv(sep="\t"), "rows.tsv"), []),
    "txt with bars": (one(write_csv(sep="|"), "rows.txt"), ["assumed: columns are separated by bars"]),
    "semicolons": (one(write_csv(sep=";"), "rows.csv"), ["assumed: columns are separated by semicolons"]),
    "decimal commas": (
        one(COMMAS, "rows.csv"),
        ["assumed: columns are separated by semicolons", *COMMA_NOTES],
    ),
    "quoted decimal commas": (one(write_csv(decimal=","), "rows.csv"), COMMA_NOTES),
    "parquet": (one(write_parquet, "rows.parquet"), []),
    "a name with quotes": (one(write_parquet, 'it\'s "so" [1].pq'), []),
    "folder": (lambda folder: IN_PARTS["parquet"](folder) or folder, []),
    "folder with bookkeeping": (
        lambda folder: (
            [IN_PARTS["csv"](folder), *((folder / name).write_text("x") for name in ("_SUCCESS", "_log.csv", ".a.csv", "a.crc"))]
            and folder
        ),
        [],
    ),
    "folder in a folder": (lambda folder: (folder / "a/b").mkdir(parents=True) or IN_PARTS["csv"](folder / "a/b") or folder, []),
    "glob": (lambda folder: IN_PARTS["parquet"](folder) or str(folder / "part-*.parquet"), []),
    "glob of folders": (lambda folder: (folder / "x").mkdir() or IN_PARTS["csv"](folder / "x") or str(folder / "*"), []),
    "list": (lambda folder: IN_PARTS["csv"](folder) or sorted(folder.iterdir()), []),
    "list that names a file twice": (lambda folder: IN_PARTS["csv"](folder) or [folder, str(folder / "part-1.csv")], []),
}


def read(data, **options):
    notes = []
    return tally_files(data, TallySpec(**NAMES | options), say=notes.append), notes


@pytest.mark.parametrize("name", SOURCES)
def test_files_give_the_tally_of_their_rows(name, tmp_path):
    write, assumed = SOURCES[name]
    data = write(tmp_path)
    tally, notes = read(data, weight="v")
    assert_same(tally, es.tally(ROWS, **NAMES, weight="v"))
    assert notes == assumed
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_same(es.tally(data, **NAMES), PLAIN)
    assert [str(warning.message) for warning in caught] == [note for note in assumed if not note.startswith("assumed: column 'v' ")]


def test_partitions_named_by_their_folders(tmp_path):
    pq.write_to_dataset(pa.Table.from_pandas(FRAME), tmp_path, partition_cols=["g"])
    assert_same(es.tally(tmp_path, **NAMES), PLAIN, exact=False)


def test_intersections_counts_and_independent_rows(tmp_path):
    path = SOURCES["parquet"][0](tmp_path)
    options = {"group": ["g", "y"], "count": "u", "user": None}
    assert_same(es.tally(path, **NAMES | options), es.tally(ROWS, **NAMES | options))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_nulls_in_files(kind, tmp_path):
    frame = FRAME.astype({"y": "Int64"})
    frame.loc[[3, 7], "y"] = None
    frame.loc[[7, 9], "g"] = None
    (write_csv() if kind == "csv" else write_parquet)(frame, tmp_path / f"rows.{kind}")
    with pytest.raises(
        es.DataError, match=re.escape("column 'y' (outcome) is null or NaN in 2 of 1,200 rows (first rows, from 0: 3, 7)")
    ):
        es.tally(tmp_path, **NAMES)
    tally = es.tally(tmp_path, **NAMES, nulls="drop")
    assert tally.dropped == {"y": 2, "g": 2}
    assert_same(tally, es.tally(FRAME.drop(index=[3, 7, 9]), **NAMES))


# Types


def test_types_of_parquet_columns(tmp_path):
    duckdb.sql("""
        SELECT (i / 100)::DECIMAL(6, 2) AS s, i % 2 = 0 AS y, DATE '2024-01-01' + (i // 2 % 2)::INT AS day,
               CASE WHEN i // 2 % 2 = 0 THEN 'x' ELSE 'y' END::ENUM ('y', 'x') AS word, i // 2 % 2 = 0 AS flag,
               TIMESTAMP '2024-01-01 12:00:00' + INTERVAL (i // 2 % 2) DAY AS moment, ('id' || i // 2)::BLOB AS blob,
               ('00000000-0000-0000-0000-0000000000' || (i // 2 + 10))::UUID AS uuid, (i // 2)::UBIGINT + 9223372036854775808 AS big
        FROM range(100) t(i)""").to_parquet(str(tmp_path / "types.parquet"))
    groups = {
        "day": (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
        "word": ("x", "y"),
        "flag": (False, True),
        "moment": (datetime.datetime(2024, 1, 1, 12), datetime.datetime(2024, 1, 2, 12)),
    }
    score, user = np.arange(100) / 100, np.arange(100) // 2
    for name, labels in groups.items():
        tally = es.tally(tmp_path, score="s", outcome="y", group=name, user="uuid")
        assert tally.groups == labels and tally.n_rows == dict.fromkeys(labels, 50)
    ids = {
        "uuid": [str(uuid.UUID(f"00000000-0000-0000-0000-0000000000{n + 10}")) for n in user],
        "blob": [b"id%d" % n for n in user],
    }
    for name, expected in (ids | {"big": user.astype(np.uint64) + np.uint64(2**63)}).items():
        tally = es.tally(tmp_path, score="s", outcome="y", group="word", user=name)
        same = es.tally(None, score=score, outcome=np.arange(100) % 2 == 0, group=np.array(["x", "y"])[user % 2], user=expected)
        assert_same(tally, same, exact=False) if name != "big" else assert_same(tally, same)
        assert np.array_equal(tally.sketch, same.sketch)


def csv(folder, *lines, header="s,y,g,u"):
    path = folder / "rows.csv"
    path.write_text("\n".join([header, *lines, ""]))
    return path


def test_long_and_dotted_ids_stay_exact(tmp_path):
    long = [2**64 + 10**19, 2**64 + 10**19 + 1]
    path = csv(tmp_path, *(f"0.{i},1,a,{long[i % 2]}" for i in range(1, 9)))
    assert es.tally(path, **NAMES).n_users == {"a": 2}
    assert np.array_equal(
        es.tally(path, **NAMES).sketch, es.tally(None, score=[0.5] * 2, outcome=[1, 0], group=np.ones(2), user=long).sketch
    )
    path = csv(tmp_path, *(f"0.{i},1,a,{['3.1', '3.10', '4.5'][i % 3]}" for i in range(1, 9)))
    assert es.tally(path, **NAMES).n_users == {"a": 3}
    path = csv(tmp_path, *(f"0.{i},1,a,{i % 2}.0" for i in range(1, 9)))
    assert np.array_equal(
        es.tally(path, **NAMES).sketch, es.tally(None, score=[0.5] * 2, outcome=[1, 0], group=np.ones(2), user=[0, 1]).sketch
    )


def test_a_column_that_changes_its_type_late(tmp_path):
    lines = ["0.5,1,a,1"] * 120_000
    tally = es.tally(csv(tmp_path, *lines, "0.25,0,b,x9"), **NAMES)
    assert tally.n_rows == {"a": 120_000, "b": 1} and tally.n_users == {"a": 1, "b": 1}
    message = "column 's' (score) does not hold a number in 1 of 120,001 rows (first rows, from 0: 120000 ('oops'))"
    with pytest.raises(es.DataError, match=re.escape(message)):
        es.tally(csv(tmp_path, *lines, "oops,0,b,1"), **NAMES)


def test_words_for_missing_numbers(tmp_path):
    path = csv(tmp_path, "0.1,1,a,1", "NA,0,a,2", ",1,NA,3", "0.4,null,NA,4", "0.5,0,NA,5")
    tally, notes = read(path, nulls="drop")
    assert tally.dropped == {"s": 2, "y": 1} and tally.n_rows == {"NA": 1, "a": 1}
    assert notes == [
        f"assumed: column '{name}' is missing where it says '{word}' or the like, in 1 of 5 rows"
        for name, word in (("s", "NA"), ("y", "null"))
    ]


def test_thousands_and_decimal_commas(tmp_path):
    path = csv(tmp_path, "1.234,5;1;a;1", "-2.000.000,25;0;a;2", "3;1;a;3", "1,5e3;0;a;4", header="s;y;g;u")
    tally, notes = read(path)
    assert tally.lattice.values.tolist() == [-2000000.25, 3.0, 1234.5, 1500.0]
    assert "assumed: column 's' has a decimal comma: '1.234,5' is read as 1234.5" in notes


def test_text_that_is_not_utf8(tmp_path):
    (tmp_path / "rows.csv").write_bytes("s;y;g;u\n0,5;1;café;1\n0,25;0;thé;2\n".encode("latin-1"))
    tally, notes = read(tmp_path)
    assert tally.groups == ("café", "thé") and notes[0] == "assumed: the text is in Latin-1, since it is not UTF-8"


ODD_NAMES = ['it\'s "so"', "a;b", "a,b", "two\nlines", "🦔", "two words", "select", "x" * 300]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", ODD_NAMES, ids=["quotes", "semicolon", "comma", "newline", "emoji", "words", "select", "long"])
def test_odd_column_names(name, kind, tmp_path):
    names = {"s": name, "y": f"{name} y", "g": f"{name} g", "u": f"{name} u"}
    (write_csv() if kind == "csv" else write_parquet)(FRAME.rename(columns=names), tmp_path / f"rows.{kind}")
    tally = es.tally(tmp_path, **{role: names[short] for role, short in NAMES.items()})
    assert_same(tally, PLAIN)
    assert tally.columns.score == name


# What cannot be read


def put(name, content=b""):
    def write(folder):
        (folder / name).write_bytes(content)
        return folder / name

    return write


def parquet_bytes():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(ROWS), sink)
    return sink.getvalue().to_pybytes()


def mixed(folder):
    write_parquet(FRAME, folder / "a.parquet")
    write_csv()(FRAME, folder / "b.csv")
    return folder


def unlike(folder):
    write_csv()(FRAME, folder / "a.csv")
    write_csv()(FRAME.drop(columns="y"), folder / "b.csv")
    return folder


def a_tally(folder):
    PLAIN.save(folder / "saved.csv")
    return folder / "saved.csv"


UNREADABLE = {
    "missing": (lambda folder: folder / "rows.csv", es.FileError, "no file {folder}/rows.csv"),
    "nothing matches": (lambda folder: str(folder / "*.csv"), es.FileError, "no file {folder}/*.csv"),
    "far away": (
        lambda _: "https://example.org/rows.csv",
        es.FileError,
        "no file https://example.org/rows.csv; evenscore reads local files",
    ),
    "empty folder": (lambda folder: folder, es.FileError, "the folder {folder} holds no CSV or Parquet files"),
    "other files": (lambda folder: put("a.json")(folder).parent, es.FileError, "the folder {folder} holds no CSV or Parquet files"),
    "another kind": (put("a.json", b"{}"), es.FileError, "{folder}/a.json: evenscore reads CSV (.csv, .tsv, .txt, .csv.gz"),
    "empty csv": (put("a.csv"), es.FileError, "{folder}/a.csv is empty"),
    "empty parquet": (put("a.parquet"), es.FileError, "{folder}/a.parquet is empty"),
    "header only": (put("a.csv", b"s,y,g,u\n"), es.DataError, "{folder}/a.csv: the data has no rows, only the columns s, y, g, u"),
    "no header": (
        put("a.csv", b"0.5,1,a,1\n0.7,0,b,2\n"),
        es.DataError,
        "column3 (is there no line with the names of the columns?)",
    ),
    "parquet cut off": (put("a.parquet", parquet_bytes()[:-100]), es.FileError, "cannot read {folder}/a.parquet: "),
    "parquet scrambled": (
        put("a.parquet", b"PAR1" + bytes(1_000) + parquet_bytes()[1_004:]),
        es.FileError,
        "cannot read {folder}/a.parquet: ",
    ),
    "no parquet at all": (put("a.parquet", b"s,y,g,u\n" * 99), es.FileError, "cannot read {folder}/a.parquet: "),
    "gzip cut off": (
        put("a.csv.gz", gzip.compress(FRAME.to_csv(index=False).encode())[:-2_000]),
        es.FileError,
        "cannot read {folder}/a.csv.gz: ",
    ),
    "no gzip at all": (put("a.csv.gz", b"s,y,g,u\n0.5,1,a,1\n"), es.FileError, "cannot read {folder}/a.csv.gz: "),
    "mixed kinds": (
        mixed,
        es.FileError,
        "of different kinds ({folder}/b.csv is CSV, {folder}/a.parquet is Parquet); give files of one kind",
    ),
    "unlike files": (unlike, es.FileError, "{folder}/b.csv has no column 'y' (outcome); {folder}/a.csv has one"),
    "a saved tally": (a_tally, es.FileError, "{folder}/saved.csv is a saved tally; read it with es.Tally.load"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_says_so(name, tmp_path):
    write, error, message = UNREADABLE[name]
    with pytest.raises(error, match=re.escape(message.format(folder=tmp_path))) as caught:
        es.tally(write(tmp_path), **NAMES)
    assert len(str(caught.value)) < 600 and "LINE 1" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_without_permission_says_so(tmp_path):
    path = SOURCES["csv"][0](tmp_path)
    path.chmod(0)
    with pytest.raises(es.FileError, match=re.escape(f"cannot read {path}: permission denied")):
        es.tally(path, **NAMES)


WRONG = {
    "unknown column": ({"score": "scor"}, "no column 'scor' for score; the file has: s, y, g, u, v"),
    "capitals": ({"score": "S"}, "no column 'S' for score; the file has: s, y, g, u, v; did you mean 's'?"),
    "unknown part": ({"group": ["g", "h"]}, "no column 'h' for group; the file has: s, y, g, u, v"),
    "an array": ({"user": ROWS["u"]}, "user: with files, name a column of the file instead of giving an array"),
    "no score": ({"score": None}, "score=None: name a column or give an array"),
    "text for scores": (
        {"score": "g"},
        "column 'g' (score) does not hold a number in 1,200 of 1,200 rows (first rows, from 0: 0 (",
    ),
    "fractions for users": ({"count": "v"}, "column 'v' (count) is not a whole number in"),
}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_columns_say_so(name, kind, tmp_path):
    path = SOURCES[kind][0](tmp_path)
    options, message = WRONG[name]
    with pytest.raises((es.DataError, es.OptionError), match=re.escape(message)):
        es.tally(path, **NAMES | options)


def test_wrong_columns_of_a_relation_say_so():
    connection = duckdb.connect()
    relation = connection.from_arrow(pa.table(ROWS))
    with pytest.raises(es.DataError, match=re.escape("no column 'scor' for score; the relation has: s, y, g, u, v")):
        es.tally(relation, **NAMES | {"score": "scor"})


def test_some_rows_that_hold_no_number_are_shown(tmp_path):
    lines = [f"0.{i},1,a,{i}" for i in range(10, 50)]
    message = "column 's' (score) does not hold a number in 4 of 44 rows (first rows, from 0: 40 ('x'), 41 ('x'), 42 ('x'))"
    with pytest.raises(es.DataError, match=re.escape(message)):
        es.tally(csv(tmp_path, *lines, *["x,1,a,1"] * 4), **NAMES)
