"""Names with quotes, semicolons, line breaks, emoji, right-to-left text and 10 kB go through unharmed, and nothing is injected."""

import csv
import html
import json

import duckdb
import numpy as np
import pytest

import evenscore as es
from hostile import NAMES

RNG = np.random.default_rng(0)
SCORES = RNG.random(400)
OUTCOMES = (RNG.random(400) < SCORES).astype(int)


def tallied(name):
    """A tally whose columns and groups have the name."""
    names = {role: f"{name}{role}" for role in ("score", "outcome", "group", "user")}
    groups = np.array([name, name + "!"], dtype=object)[np.arange(400) % 2]
    data = dict(zip(names.values(), (SCORES, OUTCOMES, groups, np.arange(400)), strict=True))
    return es.tally(data, **names), data, names


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_goes_through_files_json_and_html(name, tmp_path):
    tally, _, _ = tallied(name)
    tally.save(tmp_path / "tally")
    assert es.Tally.load(tmp_path / "tally").groups == (name, name + "!")
    test = es.parity_test(tally, method="sup", both=False)
    assert [row["group_a"] for row in test.rows()] == [name]
    document = test.to_dict()
    assert json.loads(json.dumps(document)) == document and name in strings(document)
    shown = test._repr_html_() + tally._repr_html_()
    assert "<script>" not in shown and (len(name) > 100 or not name.isprintable() or html.escape(name) in shown)
    assert all(char.isprintable() or char == "\n" for char in repr(test))
    calibrator = es.calibrate(tally, method="platt")
    calibrator.save(tmp_path / "map.json")
    assert es.Calibrator.load(tmp_path / "map.json").groups == (name, name + "!")
    calibrator.save_lookup(tmp_path / "lookup.csv")
    with (tmp_path / "lookup.csv").open(newline="", encoding="utf-8") as file:
        assert {row[0] for row in csv.reader(file)} >= {name, name + "!"}


@pytest.mark.parametrize("name", [name for name in NAMES if "\x00" not in name], ids=range(len(NAMES) - 1))
def test_a_name_goes_through_sql(name):
    tally, data, names = tallied(name)
    calibrator = es.calibrate(tally, method="platt")
    connection = duckdb.connect()
    columns = ", ".join('"' + column.replace('"', '""') + '" ' + kind for column, kind in zip(names.values(), TYPES, strict=True))
    connection.execute(f"CREATE TABLE data ({columns})")
    connection.executemany(
        "INSERT INTO data VALUES (?, ?, ?, ?)", [list(map(plain, row)) for row in zip(*data.values(), strict=True)]
    )
    found = connection.execute(f"SELECT {calibrator.to_sql()} FROM data").fetchnumpy()
    expected = calibrator.transform(SCORES, data[names["group"]])
    np.testing.assert_allclose(next(iter(found.values())), expected, rtol=1e-12)
    assert connection.execute("SELECT count(*) FROM data").fetchone() == (400,)


def strings(value):
    """Every text in a JSON document."""
    if isinstance(value, str):
        return {value}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(strings, inner))


TYPES = ("DOUBLE", "INTEGER", "VARCHAR", "INTEGER")


def plain(value):
    return value.item() if isinstance(value, np.generic) else value
