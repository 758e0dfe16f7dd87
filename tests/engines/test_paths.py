"""Paths: which files are meant, each once, and what DuckDB is told of them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenscore as es
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
