"""Options of jobs on Spark."""

from __future__ import annotations

from runtime.core.options import bool_option, text_option

__all__ = ["RESIDENT", "STATE_DIR"]

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
