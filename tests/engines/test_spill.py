"""Killed, interrupted, out of disk: nothing half-written is taken for whole, and nothing stays behind."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compare import assert_same

import evenscore as es
from data import NAMES
from evenscore.engines import duck, spill
from evenscore.engines.spill import parse_memory_limit, spill_folder, sweep

N_ROWS = 1_500_000
OPTIONS = ["--score", "s", "--outcome", "y", "--group", "g", "--user", "u", "--memory-limit", "200MB"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two files that do not fit into a fifth of a gigabyte."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    user = rng.integers(0, N_ROWS // 4, N_ROWS)
    table = pa.table({"s": rng.random(N_ROWS), "y": (rng.random(N_ROWS) < 0.5) * 1, "g": np.array(["a", "b"])[user % 2], "u": user})
    for number in range(2):
        pq.write_table(table.slice(number * N_ROWS // 2, N_ROWS // 2), folder / f"{number}.parquet")
    return folder, table


def command(*arguments):
    return [sys.executable, "-m", "evenscore", *map(str, arguments)]


def environment(temporary):
    return os.environ | {"TMPDIR": str(temporary), "OPENBLAS_NUM_THREADS": "1"}


def spilled(temporary):
    return [path for path in temporary.iterdir() if path.name.startswith(spill.PREFIX)]


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_run_that_is_stopped_halfway_leaves_nothing_that_looks_whole(number, large, tmp_path):
    folder, table = large
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    output = tmp_path / "out.tally"
    arguments = command("tally", folder, *OPTIONS, "--output", output, "--quiet")
    with subprocess.Popen(arguments, env=environment(temporary), stderr=subprocess.PIPE, text=True) as running:
        while not any((path / "parts").exists() for path in spilled(temporary)):
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.005)
        running.send_signal(number)
        code = running.wait()
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    assert not output.exists() and list(tmp_path.iterdir()) == [temporary]
    assert bool(spilled(temporary)) == (number == signal.SIGKILL)
    subprocess.run(arguments, env=environment(temporary), check=True)
    assert not spilled(temporary)
    assert_same(es.Tally.load(output), es.tally(table, **NAMES), exact=False)


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))


def test_a_disk_that_cannot_take_more_is_named(large, tmp_path):
    """A limit on the size of files fails in the same place as a full disk."""
    folder, _ = large
    output = tmp_path / "out.tally"
    found = subprocess.run(
        command("tally", folder, *OPTIONS, "--output", output),
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        preexec_fn=limited,
    )
    assert found.returncode == 2, found.stderr
    assert f"cannot write temporary files to {tmp_path}: " in found.stderr and "TMPDIR" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_folders_in_use_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(spill.tempfile, "gettempdir", lambda: str(tmp_path))
    with spill_folder() as mine:
        (mine / "rows").write_text("x")
        with spill_folder() as other:
            assert mine.exists() and other != mine
        assert not other.exists()
        abandoned = tmp_path / f"{spill.PREFIX}dead"
        abandoned.mkdir()
        (abandoned / spill.LOCK).touch()
        unmade = tmp_path / f"{spill.PREFIX}young"
        unmade.mkdir()
        sweep(tmp_path)
        assert mine.exists() and unmade.exists() and not abandoned.exists()
        os.utime(unmade, (0, 0))
        sweep(tmp_path)
        assert not unmade.exists()
    assert not mine.exists()
    with pytest.raises(RuntimeError), spill_folder() as folder:
        raise RuntimeError
    assert not folder.exists()


def test_a_place_for_temporary_files_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(spill.tempfile, "gettempdir", lambda: str(tmp_path / "nowhere"))
    with pytest.raises(es.FileError, match=r"cannot make a temporary folder in .*nowhere"), spill_folder():
        pass


SPILLS = """
import sys
from pathlib import Path
from evenscore.engines import duck
for connection in (duck.connect(), duck.connect(threads=1), duck._partitions_connection()):
    connection.execute("SET memory_limit = '40MB'")
    connection.execute("CREATE TABLE held AS SELECT hash(range)::VARCHAR AS text FROM range(3000000)")
    assert not list(Path().iterdir()), "in the folder of whoever calls"
    assert list(Path(sys.argv[1]).glob("*/*/duckdb_temp*")), "nowhere"
"""


def test_what_memory_cannot_hold_never_goes_to_the_folder_of_the_caller(tmp_path):
    """DuckDB's own choice is ./.tmp, which a reader of the folder may come upon, and which nobody removes after a kill."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    words = [sys.executable, "-c", SPILLS, str(temporary)]
    done = subprocess.run(words, cwd=here, env=environment(temporary), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert not list(temporary.iterdir()) and not list(here.iterdir())


def no_place():
    raise FileNotFoundError("No usable temporary directory found")


@pytest.mark.parametrize("place", [lambda: "nowhere", no_place], ids=["a folder that is not there", "nothing can be written"])
def test_connections_do_without_a_place_for_temporary_files(place, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "_FOLDERS", {})
    monkeypatch.setattr(spill.tempfile, "gettempdir", place)
    assert duck.connect().execute("SELECT current_setting('temp_directory')").fetchone() == ("",)
    with pytest.raises(es.FileError, match="temporary"), spill_folder():
        pass


@pytest.mark.parametrize("limit", ["", "1 potato", "-1GB", "150MB", 0, True, "GB", "1.2.3GB", None])
def test_sizes_that_are_none(limit):
    with pytest.raises(es.OptionError, match=r"memory_limit=.* must be a size of at least 200 MB, such as '2GB'"):
        parse_memory_limit(limit)


def test_sizes():
    assert (
        parse_memory_limit("2gb") == parse_memory_limit(2e9) == parse_memory_limit("2000 MB") == 2 * 10**9
        and parse_memory_limit("1TiB") == 2**40
    )


# Files that disagree, or are not what they seem


def write(path, **columns):
    rows = {"s": [0.1, 0.2, 0.3], "y": [0, 1, 0], "g": ["a", "b", "a"], "u": [1, 2, 3]} | columns
    pq.write_table(pa.table({name: values for name, values in rows.items() if values is not None}), path)
    return path


def refused(folder, *, code=2):
    found = subprocess.run(command("tally", folder, *OPTIONS, "-o", folder / "out.tally"), capture_output=True, text=True)
    assert found.returncode == code, found.stderr
    assert not (folder / "out.tally").exists()
    return found.stderr


def damaged(path):
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[-8:-4], "little")
    content[-8 - size : -8] = b"\xff" * size
    path.write_bytes(content)


BAD = {
    "a column is missing": (lambda path: write(path, y=None), "b.parquet has no column 'y' (outcome); {folder}/a.parquet has one"),
    "text and numbers": (lambda path: write(path, s=["x", "y", "z"]), "'s' (score) is a number in {folder}/a.parquet and text in"),
    "ids of two sorts": (lambda path: write(path, u=["x", "y", "z"]), "'u' (user) is a number in {folder}/a.parquet and text in"),
    "a corrupt footer": (lambda path: damaged(write(path)), "cannot read {folder}/b.parquet: "),
    "an empty file": (lambda path: path.touch(), "{folder}/b.parquet is empty"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "{folder}/b.parquet"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_file_to_blame_is_named(name, tmp_path):
    spoil, message = BAD[name]
    write(tmp_path / "a.parquet")
    spoil(tmp_path / "b.parquet")
    write(tmp_path / "c.parquet")
    with pytest.raises(es.FileError) as caught:
        es.tally([tmp_path / f"{letter}.parquet" for letter in "abc"], **NAMES)
    assert message.format(folder=tmp_path) in str(caught.value)


def test_the_command_line_ends_with_2_and_writes_nothing(tmp_path):
    write(tmp_path / "a.parquet")
    damaged(write(tmp_path / "b.parquet"))
    assert f"cannot read {tmp_path}/b.parquet: " in refused(tmp_path)
    (tmp_path / "b.parquet").unlink()
    assert (
        "no file"
        in subprocess.run(
            command("tally", tmp_path / "a.parquet", tmp_path / "gone.parquet", *OPTIONS, "-o", tmp_path / "out.tally"),
            capture_output=True,
            text=True,
        ).stderr
    )


def test_fractions_are_not_rounded_to_the_integers_of_the_first_file(tmp_path):
    write(tmp_path / "a.parquet", s=[0, 1, 0])
    write(tmp_path / "b.parquet", s=[0.25, 0.75, 0.5])
    tally = es.tally(tmp_path, **NAMES)
    assert tally.lattice.values.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_no_permission_in_a_glob(tmp_path):
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet").chmod(0)
    with pytest.raises(es.FileError, match=r"cannot read .*b.parquet: permission denied"):
        es.tally(str(tmp_path / "*.parquet"), **NAMES)


def test_a_mixed_column_of_a_csv_shows_where(tmp_path):
    lines = [f"0.{i},1,a,{i}" for i in range(10, 90)] + ["oops,1,b,1"]
    (tmp_path / "rows.csv").write_text("s,y,g,u\n" + "\n".join(lines))
    assert "column 's' (score) does not hold a number in 1 of 81 rows (first rows, from 0: 80 ('oops'))" in refused(tmp_path)
    assert Path(tmp_path / "rows.csv").exists()
