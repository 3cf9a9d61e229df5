"""The Spark session: made when it is needed, configured for many small jobs, with errors that say what is missing."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from runtime.core.errors import SparkError, SqlEngineError
from runtime.core.secrets import secret_keys
from runtime.spark.failures import failure_of

__all__ = [
    "CONFIGURATION",
    "LOCAL_MASTER",
    "asked",
    "check_java",
    "is_remote",
    "no_tasks",
    "package_root",
    "reached",
    "spark_session",
    "temporary_place",
]

T = TypeVar("T")
LOCAL_MASTER = "local[*]"
"""All cores of this machine."""
_TRIES = 4
"""So often a task is tried, as on a cluster."""

CONFIGURATION = {
    # An exchange must keep its number of partitions: state belongs to them.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Workers keep the operators of the last epoch.
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Exchanges carry Arrow streams: few, large, and gone after the epoch.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.driver.maxResultSize": "0",
    "spark.rdd.compress": "false",
}
"""What a session of ours is made with; of a session that the user gives nothing is changed."""

_OLDEST_JAVA = 17


def package_root() -> str:
    """The folder from which this process imports the engine."""
    top = sys.modules[__name__.partition(".")[0]].__file__
    assert top is not None
    return str(Path(top).resolve().parents[1])


@functools.cache
def temporary_place(name: str) -> str:
    """A folder of this process for what nobody needs after it; deleted at its end."""
    place = tempfile.mkdtemp(prefix=f"sqlengine-{name}-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def spark_session(master: str = "", conf: dict[str, str] | None = None) -> Any:
    """The session that is active in this process, or a new one.

    Args:
        master: of a new session; "" is this machine with all its cores.

    Raises:
        SparkError: E3601 pyspark is not installed; E3602 there is no Java, or one too old; E3604 the session cannot be
            started.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkError("PySpark is not installed", code="E3601", hint="pip install 'sqlengine[spark]'") from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    conf = conf or {}
    if conf.get("spark.submit.deployMode", "").lower() == "cluster":
        raise SparkError(
            "this program is the driver, and so it cannot be started on the cluster",
            code="E3604",
            hint="with YARN and Kubernetes `spark-submit --deploy-mode cluster` starts it there, with what "
            "`sqlengine spark-package --job` writes; a standalone cluster runs no driver in Python",
        )
    if "SPARK_CONNECT_MODE_ENABLED" not in os.environ:
        check_java()
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    where = _with_retries(master or LOCAL_MASTER)
    builder = SparkSession.builder.appName("sqlengine").master(where)
    logging = Path(__file__).with_name("log4j2.properties")
    settings = {
        **CONFIGURATION,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        # What its pages and logs show of settings and options.
        "spark.redaction.regex": secret_keys(),
    }
    if where.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in {**settings, **conf}.items():
        builder = builder.config(key, value)
    interrupted = signal.getsignal(signal.SIGINT)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise SparkError(
            f"Spark cannot be started at {where}: {_first_line(error)}",
            code="E3604",
            hint="is the master there? --on spark alone runs on this machine",
        ) from error
    finally:
        # Spark puts a handler of its own there, which cancels its jobs: whoever had one stops the engine's cleanly.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupted)
    return session


def _with_retries(master: str) -> str:
    """`local[N]` tries no task again; with a second number it does."""
    plain = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return master if plain is None else f"local[{plain[1] or 1},{_TRIES}]"


def is_remote(session: Any) -> bool:
    """Whether a session is one of Spark Connect, told without importing it."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def no_tasks() -> SparkError:
    """The error for a session of Spark Connect that is to run tasks."""
    return SparkError(
        "a session of Spark Connect cannot run the engine's tasks",
        code="E3605",
        hint="TableEnvironment.create() or sqlengine.spark.install(session) use its tables and DataFrames, and run queries here",
    )


def check_java() -> None:
    """Raises SparkError E3602 when no Java is there that Spark 4 can use."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    hint = f"install Java {_OLDEST_JAVA} or newer, and let JAVA_HOME point to it (apt install openjdk-{_OLDEST_JAVA}-jre-headless)"
    if java is None or not os.path.exists(java):
        found = "no java is on the PATH" if java is None else f"JAVA_HOME is {home}, where there is no bin/java"
        raise SparkError(f"Spark needs Java, and {found}", code="E3602", hint=hint)
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if version is not None and int(version[1]) < _OLDEST_JAVA:
        raise SparkError(f"Spark 4 needs Java {_OLDEST_JAVA}, and {java} is Java {version[1]}", code="E3602", hint=hint)


def asked(question: Callable[[], T]) -> T:
    """What Spark answers. Raises SparkError for what it raises (`reached`), and errors of the engine as they are."""
    try:
        return question()
    except SqlEngineError:
        raise
    except Exception as error:
        raise reached(error) from error


def reached(error: Exception) -> SparkError:
    """What went wrong in a Spark job, in words that say what to do."""
    text = str(error)
    missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
    if missing is not None:
        module = missing[1]
        ours = module.partition(".")[0] in ("sqlengine", "runtime", "planner", "connectors")
        hint = (
            "send it with `spark-submit --py-files $(sqlengine spark-package)`, or install the wheel on every executor"
            if ours
            else f"install it on every executor (pip install {module.partition('.')[0]}), or start Spark with PYSPARK_PYTHON set to a "
            "Python that has it"
        )
        return SparkError(f"an executor lacks the Python module {module}", code="E3603", hint=hint)
    python = re.search(r"(PYTHON_VERSION_MISMATCH[^\n]*|Python in worker has different version[^\n]*)", text)
    if python is not None:
        return SparkError(
            "executors run another version of Python than the driver",
            code="E3603",
            hint="set PYSPARK_PYTHON to the same version on all machines",
        )
    program = re.search(r'Cannot run program "([^"]*python[^"]*)"', text)
    if program is not None:
        return SparkError(
            f"an executor has no Python at {program[1]}",
            code="E3603",
            hint="let PYSPARK_PYTHON name one that is there, or send one: `sqlengine spark-package --environment` tells how",
        )
    cause, hint = failure_of(text)
    more = "the executors' logs tell more; run again with `sqlengine --traceback`"
    return SparkError(f"Spark has failed: {cause}", hint=hint or more)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
