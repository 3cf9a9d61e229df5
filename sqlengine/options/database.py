"""Options of a database: of one in a folder, which are read when it is opened, of who computes next
(`sqlengine/database/scheduler.py`), and of materialized tables, as in Flink."""

from __future__ import annotations

from runtime.core.errors import OptionError
from runtime.core.options import Option, bool_option, duration_option, parse_memory, text_option

__all__ = [
    "AT_ONCE",
    "CHECKPOINT_INTERVAL",
    "CHECKPOINT_SIZE",
    "DATABASE_OPTIONS",
    "FOLLOW",
    "FRESHNESS_CONTINUOUS",
    "FRESHNESS_FULL",
    "FULL_FROM",
    "MATERIALIZED_TABLE_OPTIONS",
    "SCHEDULER_OPTIONS",
    "SCHEDULER_PREFIX",
    "SYNCHRONOUS",
    "WEIGHT",
]

SYNCHRONOUS = text_option(
    "sqlengine.database.synchronous",
    "full",
    "what a statement waits for: 'full' its changes are on the disk, 'normal' the system has them, 'off' the same, and "
    "nothing is synced",
    ("full", "normal", "off"),
)
CHECKPOINT_SIZE: Option[int] = Option(
    "sqlengine.database.checkpoint-size", 64 << 20, parse_memory, "how large the log grows before a checkpoint: 64mb"
)
CHECKPOINT_INTERVAL = duration_option(
    "sqlengine.database.checkpoint-interval", 0, "how old a checkpoint gets while the database changes, such as 5 min"
)
FOLLOW = bool_option(
    "sqlengine.insert.follow",
    False,
    "whether an INSERT into a table with a connector follows tables without connector and materialized views: it writes "
    "what they have, then each change",
)
DATABASE_OPTIONS = (SYNCHRONOUS, CHECKPOINT_SIZE, CHECKPOINT_INTERVAL)

SCHEDULER_PREFIX = "sqlengine.scheduler."


def _between(least: int, most: int, text: str) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise OptionError(f"'{text}' is not a number from {least} to {most}")
    return int(text)


WEIGHT: Option[int] = Option(
    "sqlengine.scheduler.weight",
    100,
    lambda text: _between(1, 1000, text),
    "how much processor time a job or view gets beside others that are busy: a number from 1 to 1000",
)
AT_ONCE: Option[int] = Option(
    "sqlengine.scheduler.jobs-at-once",
    1,
    lambda text: _between(1, 1024, text),
    "how many jobs and views over connectors compute at the same time: a number from 1 to 1024",
)
SCHEDULER_OPTIONS = (WEIGHT, AT_ONCE)

FULL_FROM = duration_option(
    "materialized-table.refresh-mode.freshness-threshold",
    30 * 60_000,
    "from which FRESHNESS on a materialized table is computed again by a schedule instead of following every change",
)
FRESHNESS_CONTINUOUS = duration_option(
    "materialized-table.default-freshness.continuous",
    3 * 60_000,
    "the FRESHNESS of a materialized table that says none and follows every change",
)
FRESHNESS_FULL = duration_option(
    "materialized-table.default-freshness.full",
    60 * 60_000,
    "the FRESHNESS of a materialized table that says none and has REFRESH_MODE = FULL",
)
MATERIALIZED_TABLE_OPTIONS = (FULL_FROM, FRESHNESS_CONTINUOUS, FRESHNESS_FULL)
