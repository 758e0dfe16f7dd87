"""The files that are named are read, and no others: names with brackets and stars, links, partition folders, columns by case."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from black_box import COLUMNS, NAMES, assert_alike, csv_text, ended, people, some

import evenscore as es

ONE, TWO = people(200, seed=1), people(160, seed=2)
KINDS = ("csv", "parquet")


def write(path, table):
    """A table in the kind of file that the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        path.write_text(csv_text(table), encoding="utf-8")
    return path


def n_rows(tally):
    return sum(tally.n_rows.values())


def tallied(data, **options):
    return es.tally(data, **(NAMES | options))


# Names that look like patterns

ODD = {  # a name, and another file that it means as a pattern
    "data[1]": "data1",
    "q*": "qz",
    "a?": "ab",
    "[ab]": "a",
    "{a,b}": "a",
    "x**": "xy",
    "[!a]": "b",
    "a b": "a",
    "it's": "its",
    "100%": "100",
    "a\\b": "ab",
    "-o": "o",
    "naïve": "naive",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", some(ODD, 7))
def test_a_file_that_exists_under_the_name_wins_over_a_pattern(name, kind, tmp_path):
    write(tmp_path / f"{ODD[name]}.{kind}", TWO)
    path = write(tmp_path / f"{name}.{kind}", ONE)
    assert_alike(tallied(str(path)), tallied(ONE))
    assert_alike(tallied(path), tallied(ONE))
    assert_alike(tallied([path]), tallied(ONE))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["data[1]", "q*"])
def test_both_files_are_read_when_both_are_named(name, kind, tmp_path):
    both = [write(tmp_path / f"{name}.{kind}", ONE), write(tmp_path / f"{ODD[name]}.{kind}", TWO)]
    assert n_rows(tallied(both)) == ONE.num_rows + TWO.num_rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_and_a_pattern_read_odd_names_once(kind, tmp_path):
    for name in ("data[1]", "data1", "q*", "qz"):
        write(tmp_path / "all" / f"{name}.{kind}", ONE.slice(0, 50))
    assert n_rows(tallied(tmp_path / "all")) == 200
    assert n_rows(tallied(str(tmp_path / "all" / f"*.{kind}"))) == 200


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_whose_name_is_a_pattern(kind, tmp_path):
    write(tmp_path / "run1" / f"rows.{kind}", TWO)
    write(tmp_path / "run[1]" / f"rows.{kind}", ONE)
    assert_alike(tallied(tmp_path / "run[1]"), tallied(ONE))
    assert_alike(tallied(tmp_path / "run[1]" / f"rows.{kind}"), tallied(ONE))


def test_a_name_with_a_tilde_is_a_name(tmp_path, monkeypatch):
    """``~x.csv`` is not the home of a user x."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "~x.csv", ONE)
    write(tmp_path / "~" / "rows.csv", ONE)
    assert_alike(tallied("~x.csv"), tallied(ONE))
    assert_alike(tallied("~/rows.csv"), tallied(ONE))


@pytest.mark.parametrize("name", ["data[1].csv", "q*.csv", "~x.csv"])
def test_commands_read_the_file_that_is_named(name, tmp_path, monkeypatch):
    """Audits, calibrators, user-level files and apply alike."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / name, ONE)
    write(tmp_path / "data1.csv", TWO)
    write(tmp_path / "qz.csv", TWO)
    assert ended("tally", name, *COLUMNS, "--quiet", "-o", "out.tally") == 0
    assert n_rows(es.Tally.load("out.tally")) == ONE.num_rows
    assert ended("tally", name, *COLUMNS, "--quiet", "--by-user", "--lattice", "0:1", "-o", "users.parquet") == 0
    assert ended("merge", "users.parquet", "--quiet", "-o", "merged.tally") == 0
    assert n_rows(es.Tally.load("merged.tally")) == ONE.num_rows
    assert ended("calibrate", name, *COLUMNS, "--method", "platt", "--quiet", "-o", "map.json") == 0
    assert ended("apply", "map.json", name, "--quiet", "-o", "out.parquet") == 0
    assert pq.read_metadata("out.parquet").num_rows == ONE.num_rows


def test_merge_reads_the_user_level_file_that_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, table in (("day[1]", ONE), ("day1", TWO)):
        write(tmp_path / f"{name}.csv", table)
        assert ended("tally", f"{name}.csv", *COLUMNS, "--quiet", "--by-user", "--lattice", "0:1", "-o", f"{name}.parquet") == 0
    assert ended("merge", "day[1].parquet", "--quiet", "-o", "merged.tally") == 0
    merged = es.Tally.load("merged.tally")
    assert_alike(merged, tallied(ONE, lattice=es.Lattice(0, 1)))


# Partition folders


ROLE_COLUMNS = {"y": "1", "s": "0.5", "u": "7", "g": "a"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", ROLE_COLUMNS)
def test_a_folder_never_replaces_a_column_of_the_file(column, kind, tmp_path):
    """``…/y=1/part.csv`` with a column y of its own: the file's values, or an error that names it; never the folder's."""
    path = write(tmp_path / f"{column}={ROLE_COLUMNS[column]}" / f"part.{kind}", ONE)
    for data in (path, tmp_path):
        try:
            found = tallied(data)
        except es.EvenscoreError as error:
            assert column in str(error)
        else:
            assert_alike(found, tallied(ONE))


@pytest.mark.parametrize("kind", KINDS)
def test_a_conflict_of_folder_and_file_is_an_error(kind, tmp_path):
    """The file says a and b, the folder says z."""
    write(tmp_path / "g=z" / f"part.{kind}", ONE)
    with pytest.raises(es.EvenscoreError, match="g"):
        tallied(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_called_what_the_caller_called_them(kind, tmp_path, monkeypatch):
    """No message has an absolute path where a relative one was given."""
    write(tmp_path / "there" / "g=z" / f"part.{kind}", ONE)
    damaged = write(tmp_path / "there" / f"damaged.{kind}.gz" if kind == "csv" else tmp_path / "damaged.parquet", ONE)
    damaged.write_bytes(b"PAR1" + b"x" * 50 + b"PAR1")
    monkeypatch.chdir(tmp_path)
    for data in ("there/g=z", f"there/*/part.{kind}", os.path.relpath(damaged)):
        with pytest.raises(es.EvenscoreError) as caught:
            tallied(data)
        assert str(tmp_path) not in str(caught.value)
        assert "part." in str(caught.value) or "damaged." in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_folders_fill_in_a_column_that_files_lack(kind, tmp_path):
    for label in ("a", "b"):
        mask = np.array(ONE["g"].to_pylist()) == label
        write(tmp_path / f"g={label}" / f"part.{kind}", ONE.filter(pa.array(mask)).drop_columns(["g"]))
    assert_alike(tallied(tmp_path), tallied(ONE))


@pytest.mark.parametrize("kind", KINDS)
def test_apply_never_replaces_a_column_by_a_folder(kind, tmp_path):
    es.calibrate(tallied(ONE), method="platt").save(tmp_path / "map.json")
    path = write(tmp_path / "s=0.5" / f"part.{kind}", ONE)
    code = ended("apply", tmp_path / "map.json", path, "--quiet", "-o", tmp_path / "out.parquet")
    if code == 0:
        assert pq.read_table(tmp_path / "out.parquet")["s"].to_pylist() == ONE["s"].to_pylist()
    else:
        assert code == 2


# The same file twice


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_file_is_read_once(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "in" / f"rows.{kind}", ONE)
    (tmp_path / "in" / f"link.{kind}").symlink_to(path)
    (tmp_path / "hard").mkdir()
    os.link(path, tmp_path / "hard" / f"rows.{kind}")
    (tmp_path / "other").symlink_to(tmp_path / "in")
    name = f"in/rows.{kind}"
    for data in (
        [name, f"./{name}"],
        [name, f"in/../{name}"],
        [name, str(path)],
        [name, f"in//rows.{kind}"],
        [name, f"in/link.{kind}"],
        [name, f"other/rows.{kind}"],
        [name, f"hard/rows.{kind}"],
        "in",
        ["in", name],
        ["in", "other"],
        f"in/*.{kind}",
        f"**/*.{kind}",
    ):
        assert n_rows(tallied(data)) == ONE.num_rows, data


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_apply_writes_rows_of_the_same_file_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", ONE)
    (tmp_path / "link.csv").symlink_to("rows.csv")
    es.calibrate(tallied(ONE), method="platt").save("map.json")
    assert ended("apply", "map.json", "rows.csv", "./rows.csv", "link.csv", "--quiet", "-o", "out.parquet") == 0
    assert pq.read_metadata("out.parquet").num_rows == ONE.num_rows


def test_merging_a_tally_with_itself_is_refused(tmp_path, monkeypatch):
    """By file identity; the users' hashes show it, too, but independent rows have none."""
    monkeypatch.chdir(tmp_path)
    tallied(ONE, user=None).save("a.tally")
    (tmp_path / "b.tally").symlink_to("a.tally")
    for other in ("./a.tally", "b.tally"):
        code = ended("merge", "a.tally", other, "--quiet", "-o", "out.tally")
        assert code == 2 or n_rows(es.Tally.load("out.tally")) == ONE.num_rows


# Columns by their names


def rivals(first="S", second="s", third="s_1"):
    """Three columns that engines may confuse; only the second holds the scores."""
    rng = np.random.default_rng(3)
    return {
        first: rng.random(ONE.num_rows).round(3),
        second: ONE["s"].to_numpy(),
        third: rng.random(ONE.num_rows).round(3),
        **{name: ONE[name].to_pylist() for name in "ygu"},
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [("S", "s", "s_1"), ("s_1", "s", "S"), ("S", "s_1", "s"), ("É", "é", "é_1")])
@pytest.mark.parametrize("asked", [0, 1, 2])
def test_columns_that_differ_by_case_are_each_themselves(kind, names, asked, tmp_path):
    columns = rivals(*names)
    path = write(tmp_path / f"rows.{kind}", pa.table(columns))
    options = {"score": names[asked]}
    assert_alike(tallied(path, **options), tallied(columns, **options))


@pytest.mark.parametrize("container", ["duckdb", "dask", "polars"])
def test_columns_that_differ_by_case_in_other_containers(container):
    import dask.dataframe as dd
    import duckdb
    import polars as pl

    columns = rivals()
    make = {
        "duckdb": lambda: duckdb.connect().from_arrow(pa.table(columns)),
        "dask": lambda: dd.from_pandas(pa.table(columns).to_pandas(), npartitions=2),
        "polars": lambda: pl.DataFrame(columns),
    }
    for name in ("S", "s", "s_1"):
        try:
            frame = make[container]()
            found = tallied(frame, score=name)
        except es.EvenscoreError as error:
            assert "S" in str(error) or "s" in str(error)  # refusing is honest, the wrong column is not
        else:
            # DuckDB itself calls the columns of the arrow table S, s_1 and s_1_1: the relation's own s_1 is meant
            held = dict(zip(frame.columns, columns.values(), strict=True))
            assert_alike(found, tallied(held, score=name))


@pytest.mark.parametrize("kind", KINDS)
def test_apply_keeps_columns_that_differ_by_case(kind, tmp_path):
    columns = rivals()
    es.calibrate(tallied(columns), method="platt").save(tmp_path / "map.json")
    path = write(tmp_path / f"rows.{kind}", pa.table(columns))
    assert ended("apply", tmp_path / "map.json", path, "--quiet", "-o", tmp_path / "out.csv") == 0
    import csv

    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        header, *lines = list(csv.reader(file))
    assert header == [*columns, "calibrated"]
    assert [float(line[0]) for line in lines] == columns["S"].tolist()
    assert [float(line[1]) for line in lines] == columns["s"].tolist()


def test_duplicate_names_in_csv_are_refused_as_in_memory(tmp_path):
    """``s,s,y,g,u``: which of the two is meant nobody can say."""
    header, *lines = csv_text(ONE).splitlines()
    for twice in ("s", "g", "u", "y"):
        place = header.split(",").index(twice)
        doubled = [",".join([row.split(",")[place], row]) for row in [header, *lines]]
        (tmp_path / "twice.csv").write_text("\n".join(doubled) + "\n")
        with pytest.raises(es.EvenscoreError, match=r"more than one column|several columns|twice"):
            tallied(tmp_path / "twice.csv")


def test_duplicate_names_in_parquet_are_refused_as_in_memory(tmp_path):
    table = pa.Table.from_arrays([ONE["u"], *ONE.columns], names=["s", *ONE.column_names])
    pq.write_table(table, tmp_path / "twice.parquet")
    for data in (table, tmp_path / "twice.parquet"):
        with pytest.raises(es.EvenscoreError, match=r"more than one column|several columns|twice"):
            tallied(data)


def test_a_duplicate_that_nobody_asks_for_does_no_harm(tmp_path):
    """In CSV of other people's making there are often two empty names; the columns asked for are themselves, or all is refused."""
    header, *lines = csv_text(ONE).splitlines()
    (tmp_path / "twice.csv").write_text("\n".join([f"note,note,{header}", *(f"x,y,{line}" for line in lines)]) + "\n")
    try:
        assert_alike(tallied(tmp_path / "twice.csv"), tallied(ONE))
    except es.EvenscoreError as error:
        assert "note" in str(error)


def test_what_begins_with_a_dot_or_underscore_is_no_data_in_a_folder(tmp_path):
    for name in (".hidden", "_SUCCESS", "rows"):
        write(tmp_path / f"{name}.csv", ONE)
    write(tmp_path / ".tmp" / "part.csv", TWO)
    write(tmp_path / "_temporary" / "part.csv", TWO)
    assert n_rows(tallied(tmp_path)) == ONE.num_rows
