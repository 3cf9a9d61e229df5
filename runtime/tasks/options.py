"""Options of divided jobs."""

from __future__ import annotations

from runtime.core.options import bool_option, int_option, text_option

__all__ = ["LOOK_UP_IN_TASKS", "PROCESSES_DIR", "READ_IN_TASKS", "WRITE_IN_TASKS", "WRITTEN_ROWS"]

LOOK_UP_IN_TASKS = bool_option(
    "sqlengine.spark.look-up-in-tasks",
    True,
    "whether tasks ask tables of lookup joins themselves, where these can be asked from anywhere; each task has its own "
    "connection and cache",
)
PROCESSES_DIR = text_option(
    "sqlengine.processes.dir",
    "",
    "the folder in which processes exchange rows and keep versions of state; shared memory when not given",
)
READ_IN_TASKS = text_option(
    "sqlengine.spark.read-in-tasks",
    "auto",
    "whether tasks read the sources that can be read anywhere: 'true', 'false', or 'auto', which is on a cluster of "
    "several machines, but a table that ends and has few rows, and tables without end where each epoch is a Spark job",
    ("auto", "true", "false"),
)
WRITE_IN_TASKS = bool_option(
    "sqlengine.spark.write-in-tasks",
    True,
    "whether tasks write rows for sinks themselves, where the sink can take that and an epoch has many",
)
WRITTEN_ROWS = int_option(
    "sqlengine.spark.write-in-tasks.min-rows",
    20_000,
    "the rows of an epoch from which a task writes them for a sink itself; fewer go to the driver, which puts those of many "
    "epochs into one file",
)
