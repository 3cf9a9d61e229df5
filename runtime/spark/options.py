"""Options of jobs on Spark."""

from __future__ import annotations

from runtime.core.options import bool_option, int_option, text_option

__all__ = ["CONTROL_PORT", "MODE", "RESIDENT", "STATE_DIR"]

STATE_DIR = text_option(
    "sqlengine.spark.state-dir",
    "",
    "the folder (or URI) for versions of state between epochs; driver and executors must reach it",
)
RESIDENT = bool_option(
    "sqlengine.spark.resident",
    True,
    "whether each partition has a process on its executor that keeps state in memory from epoch to epoch",
)
MODE = text_option(
    "sqlengine.spark.mode",
    "auto",
    "how the tasks of a job run: 'auto' in long-lived tasks that exchange rows themselves where Spark can run them, which "
    "EXPLAIN tells; 'continuous' the same, or not at all; 'per-epoch' in a Spark job for each epoch",
    ("auto", "continuous", "per-epoch"),
)
CONTROL_PORT = int_option(
    "sqlengine.spark.control-port",
    0,
    "the port of the driver to which long-lived tasks connect; any free one when 0",
)
