"""What files larger than memory cost, next to DuckDB handing over the columns, and what Spark costs next to that.

    python benchmarks/scale.py --folder DISK              # 1e6, 1e7 and 1e8 rows; 1.2 GB of Parquet, 1.4 more while it runs
    python benchmarks/scale.py --folder DISK --rows 1e9   # 12 GB and 14 more; what was made or measured before is kept in DISK
    python benchmarks/scale.py --folder DISK --rows 1e7 --spark

Every measurement is a process of its own; CPU time is user and system of all its threads and children, memory its peak. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from writing import page_option, show, table

NAMES = {"score": "score", "outcome": "outcome", "group": "grp", "user": "user_id"}
FILE_ROWS = 10_000_000
FETCHED_ROWS = 100_000_000  # up to here the yardstick is taken
PER_USER = 4
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
TICK = os.sysconf("SC_CLK_TCK")


# Data


def make_files(folder: Path, rows: int, per_user: int = PER_USER, ids: str = "integer") -> Path:
    """Users scattered over all files; outcomes 0/1, two groups by name. What an earlier run has finished is kept.

    Rows a user are heavy-tailed: the busiest of M users has 1 / sqrt(M) of all rows, and a third of the users one row or none.
    """
    import duckdb

    place = folder / f"{rows}-{per_user}-{ids}"
    if (place / "done").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.execute("SET memory_limit = '2GB'")
    key = "u" if ids == "integer" else "'user-' || u"
    user = f"CAST(floor(random() ** 2 * {rows // per_user}) AS INTEGER)"
    n_files = max(2, rows // FILE_ROWS)
    for number in range(n_files):
        path, unfinished = place / f"{number:04}.parquet", place / "unfinished"
        if path.exists():
            continue
        connection.execute(f"SELECT setseed({(number + 1) / (n_files + 1)})")
        connection.execute(
            f"COPY (SELECT score, CAST(random() < 0.2 + 0.5 * score AS TINYINT) AS outcome, "
            f"CASE WHEN u % 2 = 0 THEN 'women' ELSE 'men' END AS grp, {key} AS user_id FROM "
            f"(SELECT random() AS score, {user} AS u FROM range({rows // n_files}))) "
            f"TO '{unfinished}' (FORMAT parquet)"
        )
        unfinished.rename(path)
    (place / "done").touch()
    return place


# Tasks, each in a process of its own


def run_fetch(place: Path) -> dict[str, Any]:
    """DuckDB hands over the four columns, file by file."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    started = _cpu()
    n_rows = 0
    for path in sorted(place.glob("*.parquet")):
        n_rows += len(connection.execute(f"SELECT score, outcome, grp, user_id FROM '{path}'").fetchnumpy()["score"])
    return {"rows": n_rows, "cpu": _cpu() - started}


def run_tally(place: Path, memory_limit: str = "1GB") -> dict[str, Any]:
    import duckdb

    import evenscore as es

    first = duckdb.connect().sql(f"SELECT * FROM '{place}/0000.parquet' LIMIT 1000")
    es.tally(first, **NAMES)  # imports do not count
    started, clock = _cpu(), time.monotonic()
    tally = es.tally(place, **NAMES, memory_limit=memory_limit)
    seconds = time.monotonic() - clock
    return {"rows": sum(tally.n_rows.values()), "users": sum(tally.n_users.values()), "cpu": _cpu() - started, "seconds": seconds}


def run_spark(place: Path, way: str | None = None) -> dict[str, Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import evenscore as es

    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frame = spark.read.parquet(str(place))
    es.tally(frame.limit(1000), **NAMES, way=way)  # start Python workers and compile once
    before, shuffled, clock = session_cpu(), _shuffled(spark), time.monotonic()
    tally = es.tally(frame, **NAMES, way=way)
    found = {"rows": sum(tally.n_rows.values()), "cpu": session_cpu() - before, "seconds": time.monotonic() - clock}
    found["shuffled"] = _shuffled(spark) - shuffled
    spark.stop()
    return found


def _shuffled(spark: Any) -> int:
    """Bytes written to shuffles so far."""
    context = spark.sparkContext
    quantiles = context._gateway.new_array(spark._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, quantiles, None)
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def session_cpu() -> float:
    """CPU seconds of every process of this session: the driver, the JVM and its Python workers."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == os.getsid(0):
                total += sum(map(int, fields[11:15]))
    return total / TICK


TASKS = {"fetch": run_fetch, "tally": run_tally, "spark": run_spark}


def measured(task: str, place: Path, *arguments: str, repeats: int = 1) -> dict[str, Any]:
    """A task in a process of its own; the one with the median CPU of several. Long ones are not measured twice: they are kept."""
    kept = place / "-".join(("measured", task, *arguments))
    if kept.exists():
        return json.loads(kept.read_text())
    runs = sorted((_run(task, place, *arguments) for _ in range(repeats)), key=lambda run: run["cpu"])
    found = runs[len(runs) // 2]
    if found.get("rows", 0) >= 10**8:
        kept.write_text(json.dumps(found))
    return found


def _run(task: str, place: Path, *arguments: str) -> dict[str, Any]:
    """What a task says about itself, and the most bytes of temporary files while it ran."""
    command = [sys.executable, __file__, "--task", task, str(place), *arguments]
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        environment = os.environ | ONE_THREAD | {"TMPDIR": temporary}
        spilled = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as process:
            while process.poll() is None:
                spilled = max(spilled, _bytes_in(Path(temporary)))
                time.sleep(0.2)
            said = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{task} failed")
    return json.loads(said.splitlines()[-1]) | {"spilled": spilled, "load": os.getloadavg()[1]}


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # gone in the meantime
            total += path.stat().st_size
    return total


# Tables


def files_table(folder: Path, sizes: list[int]) -> str:
    lines = []
    for rows in sizes:
        for ids in ("integer", "text") if rows == 10_000_000 else ("integer",):
            place = make_files(folder, rows, ids=ids)
            repeats = 3 if rows < 10_000_000 else 1
            tally = measured("tally", place, repeats=repeats)
            cpu = ["", f"{tally['cpu']:.2f}", ""]
            if rows <= FETCHED_ROWS:
                fetch = measured("fetch", place, repeats=repeats)
                cpu = [f"{fetch['cpu']:.2f}", f"{tally['cpu']:.2f}", f"{tally['cpu'] / fetch['cpu']:.2f}"]
            rest = [f"{tally['cpu'] / rows * 1e9:.0f}", f"{tally['peak_mb']:.0f}", f"{tally['spilled'] / 1e9:.2f}"]
            rest += [f"{tally['seconds']:.0f}", f"{tally['load']:.0f}"]
            lines.append([f"{rows:,}", ids, *cpu, *rest])
            print(*lines[-1], file=sys.stderr, flush=True)
    header = ["rows", "ids", "fetch, CPU s", "tally, CPU s", "over fetch", "ns a row", "peak MB", "spilled GB", "seconds", "load"]
    return "### Files\n\n" + table(header, lines)


def spark_table(folder: Path, rows: int, per_user: list[int]) -> str:
    lines = []
    for users in per_user:
        place = make_files(folder, rows, users)
        local = measured("tally", place)
        for way in ("expressions", "arrow"):
            if way == "expressions" and users > 64 and rows > 2_000_000:
                continue
            found = measured("spark", place, way)
            each = [f"{found['cpu'] / rows * 1e9:.0f}", f"{local['cpu'] / rows * 1e9:.0f}", f"{found['shuffled'] / rows:.1f}"]
            lines.append([f"{rows:,}", f"{users}", way, f"{found['cpu']:.1f}", f"{found['seconds']:.0f}", *each])
            print(*lines[-1], file=sys.stderr, flush=True)
    header = ["rows", "rows a user", "way", "CPU s", "seconds", "ns a row", "DuckDB, ns a row", "shuffled bytes a row"]
    return "### Spark in local mode\n\n" + table(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=Path("scale-data"))
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--per-user", type=int, nargs="+", default=[4, 64, 500])
    parser.add_argument("--spark", action="store_true")
    page_option(parser)
    arguments = parser.parse_args()
    if arguments.task:
        name, place, *others = arguments.task
        found = TASKS[name](Path(place), *others)
        print(json.dumps(found | {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sizes = [int(rows) for rows in arguments.rows]
    if arguments.spark:
        sections = [partial(spark_table, arguments.folder, rows, arguments.per_user) for rows in sizes]
        show(sections, "Spark", arguments.page, ("duckdb", "pyspark"), part="-spark")
    else:
        show([partial(files_table, arguments.folder, sizes)], "Files larger than memory", arguments.page, ("duckdb",))


if __name__ == "__main__":
    main()
