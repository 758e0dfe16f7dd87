import numpy as np
import pandas as pd
import pytest

import evenscore as es
from evenscore.engines.writing import write_columns

COLUMNS = {
    "n": np.arange(3),
    "x": np.array([0.1, np.nan, 1 / 3]),
    'a "b", c': np.array(["ü,", 'quote"', "line\nbreak"]),
    "mixed": np.array(["a", 3, True], dtype=object),
}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_written_is_read_back(tmp_path, kind):
    path = tmp_path / f"it's here.{kind}"
    write_columns(path, COLUMNS)
    frame = getattr(pd, f"read_{kind}")(path)
    assert list(frame) == list(COLUMNS) and list(frame["n"]) == [0, 1, 2]
    assert np.array_equal(frame["x"].to_numpy(dtype=float), COLUMNS["x"], equal_nan=True)
    assert list(frame['a "b", c']) == list(COLUMNS['a "b", c']) and list(frame["mixed"]) == ["a", "3", "True"]
    before = path.read_bytes()
    with pytest.raises(es.FileError, match="overwrite=True"):
        write_columns(path, COLUMNS)
    write_columns(path, COLUMNS, overwrite=True)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == [path.name]


def test_other_files_are_refused(tmp_path):
    for name, words in (("a.xlsx", "must end in .csv or .parquet"), ("no/a.csv", "No such file")):
        with pytest.raises(es.FileError, match=words):
            write_columns(tmp_path / name, COLUMNS)
    assert list(tmp_path.iterdir()) == []
