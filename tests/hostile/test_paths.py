"""Pipes, devices, folders, links, and names that no file can have: read and written in words, at once, and never by half."""

import os
import select
import signal
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore import saving
from hostile import survives

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and devices are those of Unix")

ROWS = as_dict(repeated_users(600, 1))
TALLY = es.tally(ROWS, **NAMES, cells=64, cuts=(0.5,))
AUDIT = es.audit(ROWS, **NAMES, method="bonferroni", repair=False)
CALIBRATOR = es.calibrate(TALLY, method="platt")
TRIAL = es.ThresholdTrial(TALLY, threshold=0.5, max_step=0.05)
READERS = {
    "Tally.load": es.Tally.load,
    "Calibrator.load": es.Calibrator.load,
    "JointCalibrator.load": es.JointCalibrator.load,
    "ThresholdTrial.load": es.ThresholdTrial.load,
    "compare_audits": lambda path: es.compare_audits(path, AUDIT),
    "tally": lambda path: es.tally(path, **NAMES),
    "audit": lambda path: es.audit(path, **NAMES),
    "study": lambda path: es.study(es.simulate(20), ["bonferroni"], runs=1, resume=path),
}
WRITERS = {
    "Tally.save": TALLY.save,
    "Calibrator.save": CALIBRATOR.save,
    "Calibrator.save_lookup": CALIBRATOR.save_lookup,
    "ThresholdTrial.save": TRIAL.save,
    "Audit.to_html": AUDIT.to_html,
    "Audit.to_json": AUDIT.to_json,
    "Audit.to_junit": AUDIT.to_junit,
}


@pytest.fixture
def odd(tmp_path):
    """A folder of odd things, and their paths."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("x")
    return {
        "pipe": tmp_path / "pipe",
        "folder": tmp_path / "folder",
        "loop": tmp_path / "loop",
        "below a file": tmp_path / "file" / "x",
        "null byte": str(tmp_path / "a\x00b"),
        "half a character": str(tmp_path / "\ud800"),
        "long name": str(tmp_path / ("x" * 300)),
        "long path": "/".join(["x" * 200] * 30),
        "nothing": "",
        "no path": 3,
        "bytes": b"x",
        "several": [b"x"],
        "full": "/dev/full",
        "endless": "/dev/zero",
    }


@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read_is_refused_at_once(reader, odd):
    for name, path in odd.items():
        assert not survives(READERS[reader], path) or (reader, name) == ("study", "loop"), name


@pytest.mark.parametrize("writer", WRITERS)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(writer, odd, tmp_path):
    before = sorted(tmp_path.iterdir())
    for name, path in odd.items():
        if name not in ("endless", "loop"):  # it takes anything, and a link to itself can be replaced
            assert not survives(WRITERS[writer], path), name
    assert sorted(tmp_path.iterdir()) == before


def test_a_pipe_with_a_writer_is_read_to_its_end(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    TALLY.save(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # so that the writer need not wait
    writing = threading.Thread(target=path.write_bytes, args=(content,))
    writing.start()
    select.select([reading], [], [], 60)  # until it writes: a pipe without a writer is empty
    assert es.Tally.load(path).n_users == TALLY.n_users
    writing.join()
    os.close(reading)


def test_a_file_too_large_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(saving.MOST_BYTES + 1)
    tracemalloc.start()
    try:
        with pytest.raises(es.FileError, match="more than 536,870,912 bytes"):
            es.Calibrator.load(tmp_path / "large")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_many_threads_write_the_same_file_and_leave_the_umask(tmp_path):
    """The umask was read by setting it, which another thread could see."""
    before = os.umask(0o027)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: CALIBRATOR.save(tmp_path / "map.json"), range(200)))
        assert es.Calibrator.load(tmp_path / "map.json").groups == CALIBRATOR.groups
        assert (tmp_path / "map.json").stat().st_mode & 0o777 == 0o640
        assert [path.name for path in tmp_path.iterdir()] == ["map.json"]
    finally:
        assert os.umask(before) == 0o027


INTERRUPTED = """
import pathlib, sys, evenscore as es
from evenscore import saving
path = pathlib.Path(sys.argv[1])
print("ready", flush=True)
while True:
    saving.write_whole(path, b"x" * 20_000_000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["interrupted", "ended", "killed"])
def test_an_interrupt_while_writing_leaves_a_whole_file(number, tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"y" * 20_000_000)
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        running.stdout.readline()
        while len(list(tmp_path.iterdir())) == 1 and running.poll() is None:
            pass
        running.send_signal(number)
        running.wait()
    assert path.stat().st_size == 20_000_000
    assert number != signal.SIGINT or [each.name for each in tmp_path.iterdir()] == ["out"]
