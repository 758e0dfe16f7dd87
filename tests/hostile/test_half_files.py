"""Half a file is never left where a reader finds it: commands ended at any moment, folders that take no files, full disks."""

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from black_box import COLUMNS, LIMIT, NAMES, csv_text, ended, people, run, start

import evenscore as es
from hostile import THOROUGH

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and modes are those of Unix")

N = 400_000
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Enough rows that writing takes a while, outside of the folder that is written to."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(0)
    user = rng.integers(0, N // 4, N)
    score = rng.random(N)
    table = pa.table({"s": score, "y": (rng.random(N) < score).astype(int), "g": np.array(["a", "b"])[user % 2], "u": user})
    for number in range(6):
        table = table.append_column(f"x{number}", pa.array(rng.random(N)))
    pq.write_table(table, folder / "rows.parquet")
    small = people(400)
    pq.write_table(small, folder / "small.parquet")
    tally = es.tally(small, **NAMES)
    es.calibrate(tally, method="kernel").save(folder / "map.json")
    tally.save(folder / "a.tally")
    words = [
        "tally",
        folder / "small.parquet",
        *COLUMNS,
        "--by-user",
        "--lattice",
        "0:1",
        "--quiet",
        "-o",
        folder / "users.parquet",
    ]
    assert ended(*words) == 0
    return folder


WRITERS = {
    "apply to Parquet": lambda at: ["apply", at / "map.json", at / "rows.parquet", "--quiet", "-o", "data/out.parquet"],
    "apply to CSV": lambda at: ["apply", at / "map.json", at / "rows.parquet", "--quiet", "-o", "data/out.csv"],
    "tally by user": lambda at: [
        *["tally", at / "rows.parquet", *COLUMNS, "--by-user", "--lattice", "0:1", "--quiet"],
        *["-o", "data/out.parquet"],
    ],
    "merge by user": lambda at: ["merge", at / "users.parquet", "--by-user", "--quiet", "-o", "data/out.parquet"],
    "simulate": lambda at: ["simulate", "shift", "--users", "60000", "--quiet", "-o", "data/out.csv"],
    "tally": lambda at: ["tally", at / "rows.parquet", *COLUMNS, "--quiet", "-o", "data/out.tally"],
    "calibrate": lambda at: ["calibrate", at / "small.parquet", *COLUMNS, "--quiet", "-o", "data/out.json"],
    "audit": lambda at: [
        *["audit", at / "small.parquet", *COLUMNS, "--method", "bonferroni", "--no-repair", "--quiet"],
        *["--report", "data/out.html", "--json", "data/out.json", "--junit", "data/out.xml"],
    ],
    "decisions": lambda at: [
        *["decisions", at / "small.parquet", *COLUMNS, "--threshold", "0.5", "--quiet"],
        *["--pack", "model-card", "--report", "data/out.md", "--json", "data/out.json"],
    ],
    "thresholds": lambda at: [
        "thresholds",
        at / "small.parquet",
        *COLUMNS,
        "--threshold",
        "0.5",
        "--quiet",
        "--json",
        "data/out.json",
    ],
}
DATA = ("apply to Parquet", "apply to CSV", "tally by user", "merge by user", "simulate")


def seen(folder):
    """The names in a folder that a reader takes for data, or that stand in the way: all but hidden ones."""
    return sorted(path.name for path in folder.rglob("*") if not path.name.startswith("."))


def wait_until_it_writes(process, folder):
    """Until bytes of something new are in the folder, hidden or not, or the command has ended."""
    before = set(folder.iterdir())
    limit = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < limit:
        with contextlib.suppress(FileNotFoundError):
            if any(path.stat().st_size for path in set(folder.iterdir()) - before):
                return
        time.sleep(0.001)


def stop(process, number):
    process.send_signal(number)
    try:
        process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError("a signal did not end it") from None
    return process.returncode


@pytest.mark.parametrize("number", SIGNALS, ids=["interrupted", "ended", "killed"])
@pytest.mark.parametrize("name", DATA if THOROUGH else DATA[:3])
def test_a_command_that_is_stopped_while_it_writes_leaves_nothing_to_be_read(name, number, source, tmp_path):
    """Once anything but the old data is in the folder. What is hidden may stay after SIGKILL, which nobody can catch."""
    folder = tmp_path / "data"
    folder.mkdir()
    if "CSV" in name or name == "simulate":
        (folder / "old.csv").write_text(csv_text(people(400)))
    else:
        pq.write_table(people(400), folder / "old.parquet")
    before = seen(folder)
    process = start(*WRITERS[name](source), cwd=tmp_path, environment={"TMPDIR": str(tmp_path)})
    wait_until_it_writes(process, folder)
    code = stop(process, number)
    assert set(seen(folder)) <= {*before, "out.parquet", "out.csv", "out.truth.json"}, code
    if seen(folder) == before:
        assert sum(es.tally(folder, **NAMES).n_rows.values()) == 400
    else:
        out = folder / ("out.parquet" if (folder / "out.parquet").exists() else "out.csv")
        if "user" not in name and name != "simulate":
            assert sum(es.tally(out, **NAMES).n_rows.values()) == N  # it was whole before the signal came
    if number == signal.SIGINT and code != 0:
        assert code in (130, -signal.SIGINT)
    if number != signal.SIGKILL:
        assert [path for path in folder.iterdir() if path.name.startswith(".")] == [], "what could be removed was not"


def moments(name):
    rng = random.Random(name)
    count = 20 if THOROUGH else 1
    return [(rng.choice(SIGNALS), rng.uniform(0.02, 1.2)) for _ in range(count)]


@pytest.mark.parametrize("name", WRITERS)
def test_a_command_that_is_stopped_at_any_moment_leaves_nothing_by_half(name, source, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number, delay in moments(name):
        for path in list(folder.iterdir()):
            path.unlink()
        process = start(*WRITERS[name](source), cwd=tmp_path, environment={"TMPDIR": str(tmp_path)})
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            stop(process, number)
        process.communicate()
        known = {"out.parquet", "out.csv", "out.truth.json", "out.tally", "out.json", "out.html", "out.xml"}
        assert set(seen(folder)) <= known, (number, delay)
        whole = {".parquet": pq.read_metadata, ".tally": es.Tally.load, ".json": lambda path: json.loads(path.read_text())}
        for path in folder.iterdir():
            if not path.name.startswith(".") and path.suffix in whole:
                whole[path.suffix](path)
        if seen(folder) == []:
            with pytest.raises(es.FileError):  # as for an empty folder: what was left is no data
                es.tally(folder, **NAMES)


DEAF = """
import time
from pathlib import Path
import evenscore.cli as cli
from evenscore.engines.spill import spill_folder
from evenscore.saving import written_whole

@cli.cli.command()
def wait():
    with spill_folder() as folder, written_whole(Path("data/out.parquet")) as temporary:
        temporary.write_text("half")
        (folder / "rows").write_text("some")
        print("writing", flush=True)
        while True:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                pass  # as a query of DuckDB does that was cancelled and waits for its own tasks

cli.GRACE = 0.3
cli.main(["wait"])
"""


@pytest.mark.parametrize("number", SIGNALS[:2], ids=["interrupted", "ended"])
def test_a_library_that_does_not_hear_of_an_interrupt_does_not_keep_the_command(number, tmp_path):
    (tmp_path / "data").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=LIMIT)
    assert (process.returncode, said) == (128 + number, "interrupted\n")
    assert [path.name for path in tmp_path.rglob("*")] == ["data"], "nothing unwound, and nothing may stay"


def test_two_user_level_runs_do_not_share_a_temporary_name(source, tmp_path):
    """Both write the same file at once; one of them wins, and neither fails or leaves a mixture."""
    words = [
        *["tally", source / "rows.parquet", *COLUMNS, "--by-user", "--lattice", "0:1", "--cells", "16", "--quiet"],
        *["-o", tmp_path / "out.parquet"],
    ]
    seen_names = set()
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(run, *words) for _ in range(2)]
        while not all(each.done() for each in running):
            seen_names |= {path.name for path in tmp_path.iterdir() if path.name != "out.parquet"}
            time.sleep(0.001)
    codes = sorted(each.result().returncode for each in running)
    errors = [each.result().stderr for each in running if each.result().returncode]
    assert codes == [0, 0] or (codes == [0, 2] and "overwrite" in errors[0]), [each.result().stderr for each in running]
    assert not any(name.endswith(".partial") for name in seen_names), "a fixed name is shared by every run"
    assert ended("merge", tmp_path / "out.parquet", "--quiet", "-o", tmp_path / "out.tally") == 0
    assert sum(es.Tally.load(tmp_path / "out.tally").n_rows.values()) == N


# Folders that cannot be written


NO_FOLDER = {
    "apply": lambda at, out: ["apply", at / "map.json", at / "small.parquet", "--quiet", "-o", out / "x.parquet"],
    "apply csv": lambda at, out: ["apply", at / "map.json", at / "small.parquet", "--quiet", "-o", out / "x.csv"],
    "by user": lambda at, out: [
        "tally",
        at / "small.parquet",
        *COLUMNS,
        "--by-user",
        "--lattice",
        "0:1",
        "--quiet",
        "-o",
        out / "x.parquet",
    ],
    "merge by user": lambda at, out: ["merge", at / "users.parquet", "--by-user", "--quiet", "-o", out / "x.parquet"],
    "merge": lambda at, out: ["merge", at / "a.tally", "--quiet", "-o", out / "x.tally"],
    "tally": lambda at, out: ["tally", at / "small.parquet", *COLUMNS, "--quiet", "-o", out / "x.tally"],
    "calibrate": lambda at, out: [
        "calibrate",
        at / "small.parquet",
        *COLUMNS,
        "--method",
        "platt",
        "--quiet",
        "-o",
        out / "x.json",
    ],
    "simulate": lambda at, out: ["simulate", "shift", "--users", "20", "--quiet", "-o", out / "x.csv"],
    "simulate parquet": lambda at, out: ["simulate", "shift", "--users", "20", "--quiet", "-o", out / "x.parquet"],
    "audit report": lambda at, out: [
        "audit",
        at / "a.tally",
        "--quiet",
        "--method",
        "bonferroni",
        "--no-repair",
        "--report",
        out / "x.html",
    ],
    "decisions json": lambda at, out: [
        *["decisions", at / "small.parquet", *COLUMNS, "--threshold", ".5", "--quiet", "--json", out / "x"],
    ],
    "decisions report": lambda at, out: [
        *["decisions", at / "small.parquet", *COLUMNS, "--threshold", ".5", "--quiet", "--pack", "ll144", "--report", out / "x.md"],
    ],
    "thresholds json": lambda at, out: [
        "thresholds",
        at / "small.parquet",
        *COLUMNS,
        "--threshold",
        ".5",
        "--quiet",
        "--json",
        out / "x",
    ],
    "thresholds plot": lambda at, out: [
        "thresholds",
        at / "small.parquet",
        *COLUMNS,
        "--threshold",
        ".5",
        "--quiet",
        "--plot",
        out / "x.png",
    ],
    "init": lambda at, out: ["init", at / "small.parquet", "-o", out / "x.toml"],
}


def fails_in_words(words, capfd, out):
    code = ended(*words)
    said = capfd.readouterr()
    assert code == 2 and said.err.startswith("Error: ") and len(said.err.splitlines()) <= 3, (code, said.err[-400:])
    assert str(out) in said.err.replace("\n", ""), said.err
    return said.err


@pytest.mark.parametrize("name", NO_FOLDER)
def test_a_folder_that_is_not_there_is_an_error_in_words(name, source, tmp_path, capfd):
    fails_in_words(NO_FOLDER[name](source, tmp_path / "no"), capfd, tmp_path / "no")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc takes no files, not even of root")
@pytest.mark.parametrize("name", NO_FOLDER)
def test_a_folder_that_is_a_device_or_read_only_is_an_error_in_words(name, source, capfd):
    """0.1.0 ended with 70, as if it had crashed."""
    fails_in_words(NO_FOLDER[name](source, Path("/proc")), capfd, "/proc")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
@pytest.mark.parametrize("name", NO_FOLDER)
def test_a_read_only_folder_is_an_error_in_words(name, source, tmp_path, capfd):
    place = tmp_path / "locked"
    place.mkdir()
    place.chmod(0o500)
    try:
        fails_in_words(NO_FOLDER[name](source, place), capfd, place)
    finally:
        place.chmod(0o700)


# A full disk, as far as it can be had without one: a process that may write only so many bytes to a file


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from evenscore.cli import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize("name", ["apply to Parquet", "apply to CSV", "simulate", "tally"])
def test_a_full_disk_is_blamed_on_the_folder_that_is_written_to(name, source, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, "-c", FULL, "20000", *map(str, WRITERS[name](source))]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "elsewhere")},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 2, (done.returncode, done.stderr[-500:])
    assert "data/out" in done.stderr, done.stderr
    assert "TMPDIR" not in done.stderr and "temporary" not in done.stderr, "the wrong folder is blamed"
    assert [path.name for path in (tmp_path / "data").iterdir()] == [], "half a file is left"


def test_the_limit_of_the_process_is_its_own():
    """The limits above are set in other processes."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
