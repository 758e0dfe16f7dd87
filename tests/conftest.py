import os
import signal
import sys
from pathlib import Path

import pytest

# Several test processes share two cores; a thread pool in each would only get in the way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parent / "support"), str(Path(__file__).parent)]

# A shell starts what runs in the background with Ctrl-C ignored, and children inherit that; tests interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file's tests go to one process, so that what they share is made once; all of Spark's to one, which share a session.

    Newer versions of pytest ignore the groups of xdist.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "spark" if "spark" in nodeid else nodeid.split("::")[0]

    return ByFile(config, log)


def pytest_terminal_summary(terminalreporter):
    """How many hostile calls there were, and what they gave."""
    tried = getattr(sys.modules.get("hostile"), "TRIED", {})
    if sum(tried.values()):
        terminalreporter.write_line("hostile calls: " + ", ".join(f"{n:,} gave {what}" for what, n in tried.items()))


@pytest.fixture(scope="session")
def spark():
    """A small local Spark."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # Compiling plans takes longer than running them on a few thousand rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    builder = SparkSession.builder.master("local[2]").appName("evenscore tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
