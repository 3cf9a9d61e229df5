"""Options of tables in SQL databases, as in Flink's connector `jdbc`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connectors.kit.commits import SPOOL_SIZE
from connectors.options import TableOptions, memory_limit
from runtime.core.errors import OptionError
from runtime.core.options import Option, bool_option, duration_option, int_option, text_option

__all__ = [
    "COMPATIBLE",
    "GUARANTEE",
    "PARALLEL",
    "PARTITION_OPTIONS",
    "TABLE",
    "TABLE_OPTIONS",
    "Delivering",
    "Partition",
    "read_delivering",
    "read_partition",
]

TABLE = text_option("table-name", "", "the table or view in the database, also as 'schema.table'")
PARTITION_COLUMN = text_option("scan.partition.column", "", "a column of numbers: the table is read by ranges of it")
PARTITION_NUM = int_option("scan.partition.num", 0, "how many ranges")
PARTITION_LOWER = text_option("scan.partition.lower-bound", "", "the least value that is read, as a number")
PARTITION_UPPER = text_option("scan.partition.upper-bound", "", "the greatest value that is read, as a number")
PARALLEL = int_option(
    "scan.parallelism", 4, "how many parts are read at the same time, each by a connection of its own"
)
GUARANTEE = text_option(
    "sink.delivery-guarantee",
    "exactly-once",
    "'exactly-once': rows are there with the checkpoint that holds them; 'at-least-once': at the end of each epoch",
    ("exactly-once", "at-least-once"),
)
_FETCH = int_option("scan.fetch-size", 0, "accepted for compatibility")
_AUTO_COMMIT = bool_option("scan.auto-commit", True, "accepted for compatibility")
_DRIVER = text_option("driver", "", "accepted for compatibility: there is no Java")
_MODE = text_option("compatible-mode", "", "accepted for compatibility")
_POLICY = text_option(
    "filter.handling.policy", "", "accepted for compatibility: filters are pushed down where they mean the same"
)
_RETRY_TIMEOUT = duration_option("connection.max-retry-timeout", 60_000, "accepted for compatibility")
_FLUSH_ROWS = int_option("sink.buffer-flush.max-rows", 100, "accepted for compatibility: an epoch is written at once")
_FLUSH_INTERVAL = duration_option("sink.buffer-flush.interval", 1000, "accepted for compatibility")
_SINK_RETRIES = int_option("sink.max-retries", 3, "accepted for compatibility: it is tried eight times")
_SINK_PARALLELISM = int_option("sink.parallelism", 1, "accepted for compatibility")
COMPATIBLE: tuple[Option[Any], ...] = (
    _DRIVER, _MODE, _POLICY, _RETRY_TIMEOUT, _FETCH, _AUTO_COMMIT, _FLUSH_ROWS, _FLUSH_INTERVAL, _SINK_RETRIES,
    _SINK_PARALLELISM,
)  # fmt: skip
"""Flink's options that mean nothing here."""
PARTITION_OPTIONS = (PARTITION_COLUMN, PARTITION_NUM, PARTITION_LOWER, PARTITION_UPPER)
TABLE_OPTIONS = (TABLE, *PARTITION_OPTIONS, PARALLEL, GUARANTEE, SPOOL_SIZE)


@dataclass(frozen=True)
class Partition:
    """Ranges of a column by which a table is read: `number` of them, from `low` to `high`, both included."""

    column: str
    number: int
    low: int
    high: int

    def ranges(self) -> list[tuple[int, int]]:
        """The first and last value of each, as in Flink: none is empty, and the last ones are longer."""
        width = self.high - self.low + 1
        number = max(1, min(self.number, width))
        size, longer = divmod(width, number)
        found: list[tuple[int, int]] = []
        begin = self.low
        for place in range(number):
            end = begin + size + (1 if place >= number - longer else 0) - 1
            found.append((begin, end))
            begin = end + 1
        return found


@dataclass(frozen=True)
class Delivering:
    """How rows are written. `spool`: the most bytes that a checkpoint holds."""

    exactly_once: bool
    spool: int


def read_partition(options: TableOptions) -> Partition | None:
    """Raises OptionError E1504 when only some of the four are there, E1500 when they contradict each other."""
    given = [o for o in PARTITION_OPTIONS if options.has(o)]
    if not given:
        return None
    for option in PARTITION_OPTIONS:
        if option not in given:
            raise OptionError(
                f"the option '{option.key}' is missing beside '{given[0].key}'",
                code="E1504",
                hint="ranges need a column, their number, a lower and an upper bound",
            )
    try:
        low, high = int(options.get(PARTITION_LOWER)), int(options.get(PARTITION_UPPER))
    except ValueError as error:
        raise OptionError("bounds of 'scan.partition' are whole numbers", hint="such as '0' and '1000000'") from error
    number = options.get(PARTITION_NUM)
    if number < 1 or low > high:
        raise OptionError(
            "the options 'scan.partition' name no range",
            hint="'num' is at least 1, and 'lower-bound' not above 'upper-bound'",
        )
    return Partition(options.get(PARTITION_COLUMN), number, low, high)


def read_delivering(options: TableOptions) -> Delivering:
    return Delivering(options.get(GUARANTEE).lower() == "exactly-once", memory_limit(options, SPOOL_SIZE))
