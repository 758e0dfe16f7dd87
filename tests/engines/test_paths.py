"""Paths: which files are meant, each once, and what DuckDB is told of them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenscore as es
from evenscore.calibration.applying import apply_files
from evenscore.engines.duck import query
from evenscore.engines.paths import find_files, folder_value, folder_values, path_literal

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}


def test_a_pattern_below_a_folder_that_looks_like_one(tmp_path):
    for folder in ("run[1]", "run1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text("s\n1\n")
    assert find_files(str(tmp_path / "run[1]" / "*.csv")) == (str(tmp_path / "run[1]" / "a.csv"),)


@pytest.mark.parametrize("name", ["a[1]*?", "'", '"', "~", "line\nbreak", "e\u0301", "\u00e9", "-a", "g=1"])
def test_a_path_in_sql_means_one_file(name, tmp_path):
    for other in (name, "a1", "plain"):
        (tmp_path / f"{other}.csv").write_text(f"s\n{len(other)}\n")
    held = query(f"SELECT * FROM read_csv({path_literal(str(tmp_path / f'{name}.csv'))}, header = true)").fetchall()
    assert held == [(len(name),)]


FOLDERS = {"day=1/g=a%20b/x.csv": {"day": "1", "g": "a b"}, "g=c=d/x.csv": {"g": "c=d"}, "a=1.csv": {}, "=1/x.csv": {}}


@pytest.mark.parametrize("path", FOLDERS)
def test_folders_that_name_values(path):
    assert folder_values(path) == FOLDERS[path]
    for name, value in FOLDERS[path].items():
        assert query(f"SELECT {folder_value(name, chr(39) + '/' + path + chr(39))}").fetchone()[0] == value


def frame(n=60, **columns):
    rng = np.random.default_rng(0)
    held = {"s": rng.random(n), "y": rng.integers(0, 2, n), "g": np.array(["a", "b"])[np.arange(n) % 2], "u": np.arange(n)}
    return pa.table(held | columns)


def test_floats_of_32_bits_in_one_file_round_no_integers_of_another(tmp_path):
    pq.write_table(frame(s=np.full(60, 2**24 + 1)), tmp_path / "1.parquet")
    pq.write_table(frame(s=np.full(60, 0.5, dtype=np.float32)), tmp_path / "2.parquet")
    assert es.tally(tmp_path, **NAMES).lattice.values.tolist() == [0.5, 2**24 + 1]


def test_ids_that_floats_of_another_file_would_round_are_refused(tmp_path):
    pq.write_table(frame(u=np.arange(60) + 2**60), tmp_path / "1.parquet")
    pq.write_table(frame(u=np.arange(60) + 0.0), tmp_path / "2.parquet")
    with pytest.raises(es.FileError, match="'u' holds fractions in some files and whole numbers beyond"):
        es.tally(tmp_path, **NAMES)


def test_quotes_that_first_occur_late(tmp_path):
    lines = [f"0.{i % 9},{i % 2},{'ab'[i % 2]},{i}" for i in range(30_000)]
    (tmp_path / "rows.csv").write_text("\n".join(["s,y,g,u", *lines, '"0.5","1","a","7"', '0.5,0,"a, too",8']) + "\n")
    assert es.tally(tmp_path, **NAMES).n_rows == {"a": 15_001, "a, too": 1, "b": 15_000}


def test_files_with_columns_in_another_order_and_another_separator(tmp_path):
    (tmp_path / "0.csv").write_text("s,y,g,u\n")
    (tmp_path / "1.csv").write_text("s,y,g,u\n0.1,1,a,1\n0.2,0,b,2\n")
    (tmp_path / "2.csv").write_text("y;s;u;g\n1;0.3;3;a\n")
    tally = es.tally(tmp_path, **NAMES)
    assert tally.n_rows == {"a": 2, "b": 1} and tally.lattice.values.tolist() == [0.1, 0.2, 0.3]
    (tmp_path / "3.csv").write_text("S,y,g,u\n0.1,1,a,1\n")
    with pytest.raises(es.FileError, match=r"3\.csv has no column 's' \(score\)"):
        es.tally(tmp_path, **NAMES)


def applied(data, tmp_path):
    out = tmp_path / "out" / "rows.parquet"
    out.parent.mkdir()
    calibrator = es.calibrate(es.tally(frame(), **NAMES), method="platt")
    apply_files(calibrator, data, out)
    return pq.read_table(out)


def test_apply_keeps_other_columns_of_parquet_files_that_differ(tmp_path):
    """Fractions, long integers, and columns that only some files have."""
    parts = [frame(x=np.arange(60), z=np.arange(60) + 2**60), frame(x=np.arange(60) + 0.25, z=np.arange(60, dtype=np.uint64))]
    (tmp_path / "in").mkdir()
    pq.write_table(parts[0], tmp_path / "in" / "1.parquet")
    pq.write_table(parts[1].append_column("w", pa.array(["w"] * 60)), tmp_path / "in" / "2.parquet")
    held = applied(tmp_path / "in", tmp_path)
    assert held["x"].to_pylist() == [*range(60), *(i + 0.25 for i in range(60))]
    assert list(map(int, held["z"].to_pylist())) == [*(2**60 + i for i in range(60)), *range(60)]
    assert held["w"].to_pylist() == [None] * 60 + ["w"] * 60


def test_apply_keeps_ids_of_a_csv_file_that_no_integer_holds(tmp_path):
    ids = [str(12345678901234567890 + i) for i in range(4)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,s,g", *(f"{name},0.5,a" for name in ids)]) + "\n")
    assert applied(tmp_path / "rows.csv", tmp_path)["id"].to_pylist() == ids


def test_apply_fills_in_what_folders_say(tmp_path):
    (tmp_path / "g=a").mkdir()
    pq.write_table(frame().drop_columns(["g"]), tmp_path / "g=a" / "rows.parquet")
    assert set(applied(tmp_path / "g=a", tmp_path)["g"].to_pylist()) == {"a"}
