"""Names of one file, what counts as data, and files that appear whole."""

import os

import pytest

import evenscore as es
from evenscore.errors import visible
from evenscore.saving import file_identity, holds_data, refuse_data, write_whole, written_whole

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and devices are those of Unix")


def test_all_names_of_a_file_are_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_text("a")
    (tmp_path / "soft").symlink_to("a")
    (tmp_path / "hard").hardlink_to("a")
    (tmp_path / "elsewhere").symlink_to("folder")
    assert len({file_identity(name) for name in ("a", "./a", tmp_path / "a", "folder/../a", "soft", "hard")}) == 1
    (tmp_path / "dangling").symlink_to("folder/new")
    names = ("folder/new", "./folder/new", "elsewhere/new", "folder/../folder/new", "dangling", "elsewhere/../dangling")
    assert len({file_identity(name) for name in names}) == 1
    assert file_identity("folder/new") != file_identity("folder/old")
    assert file_identity("no/folder/new") == file_identity("./no/folder/new") != file_identity("no/new")


def test_devices_are_shared_and_no_name_is_no_file():
    assert file_identity(os.devnull) is None
    assert file_identity("a\0b") is None and file_identity(f"{__file__}/x") is None


CONTENTS = {
    "a.csv": (b"s,y\n1,2\n", True),
    "A.CSV": (b"s,y\n1,2\n", True),
    "a.csv.gz": (b"\x1f\x8b", True),
    "a.tally": (b"PAR1...", True),
    "b.parquet": (b"PAR1...", True),
    "b.csv": (b"", False),
    "c.csv": (b'{"schema": 1}', False),
    "d.csv": (b"evenscore tally\n", False),
    "a.txt": (b"notes", False),
    "a.json": (b"1,2", False),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_counts_as_data(name, tmp_path):
    content, is_data = CONTENTS[name]
    (tmp_path / name).write_bytes(content)
    assert holds_data(tmp_path / name) == is_data
    assert not holds_data(tmp_path / f"no-{name}")


def test_results_do_not_take_the_place_of_data(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("s,y\n")
    for write in (lambda: write_whole(path, b"{}"), lambda: refuse_data(path)):
        with pytest.raises(es.FileError, match="holds data"):
            write()
    write_whole(path, b"a,b\n", data=True)
    assert path.read_text() == "a,b\n"


def test_a_file_that_came_meanwhile_is_kept(tmp_path):
    path = tmp_path / "out.csv"
    with pytest.raises(es.FileError, match="overwrite=True"), written_whole(path, ".csv", overwrite=False) as temporary:
        temporary.write_text("mine")
        assert temporary.name.startswith(".")
        path.write_text("yours")
    assert path.read_text() == "yours" and list(tmp_path.iterdir()) == [path]
    with written_whole(path, overwrite=True) as temporary:
        temporary.write_text("mine")
    assert path.read_text() == "mine" and list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with written_whole(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_what_is_not_printable_is_replaced():
    assert visible("a\x1b[31m\n\u202eb é 漢 👍") == "a\ufffd[31m\n\ufffdb é 漢 👍"
    assert str(es.DataError("no column \x9b31m")) == "no column \ufffd31m"
