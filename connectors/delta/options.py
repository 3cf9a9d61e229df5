"""The options of the connector `delta`, with the names of Delta's connector for Flink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.kit.commits import SPOOL_SIZE
from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, int_option, text_option
from runtime.core.secrets import Secret, is_secret

__all__ = [
    "Place",
    "Reading",
    "STORAGE",
    "TABLE_OPTIONS",
    "TABLE_PATH",
    "TARGET_SIZE",
    "UPSERT",
    "read_place",
    "read_reading",
]

TABLE_PATH = text_option("table-path", "", "the folder of the table, also in an object store: 's3://bucket/table'")
MODE = text_option("mode", "batch", "reads a version, or what is there and what comes", ("batch", "streaming"))
VERSION = int_option("versionAsOf", 0, "the version to read")
TIMESTAMP = text_option("timestampAsOf", "", "reads what was there at a time, such as '2026-05-01 12:00:00' (UTC)")
START = text_option(
    "startingVersion",
    "",
    "the first version whose changes are read ('streaming'); 'latest': those that come from now on",
)
INTERVAL = int_option("updateCheckIntervalMillis", 5000, "how often to look for new versions, in milliseconds")
CHANGES = bool_option(
    "streaming-changes", False, "reads deletes and updates, too ('streaming'); a table with a primary key always does"
)
UPSERT = bool_option(
    "write.upsert.enabled",
    False,
    "a row takes the place of the one with its key; needs a PRIMARY KEY, which also turns it on",
)
TARGET_SIZE = text_option("write.target-file-size-bytes", "128 mb", "rows of so many bytes, in memory, go into a file")
STORAGE = "storage."
"""Options that begin so are those of the library's object store."""
TABLE_OPTIONS = (TABLE_PATH, MODE, VERSION, TIMESTAMP, START, INTERVAL, CHANGES, UPSERT, TARGET_SIZE, SPOOL_SIZE)


@dataclass(frozen=True)
class Place:
    """Where a table is; `storage` are options of its object store."""

    path: str
    storage: tuple[tuple[str, str | Secret], ...] = field(default=(), repr=False)

    @property
    def plain(self) -> dict[str, str]:
        """The options as the library takes them."""
        return {key: value.reveal() if isinstance(value, Secret) else value for key, value in self.storage}


@dataclass(frozen=True)
class Reading:
    """Which versions are read. `start`: None begins with all rows, -1 behind the newest version; other numbers are the first
    version whose changes are read. `as_of`: milliseconds since 1970, or a text. `interval` in seconds."""

    version: int | None = None
    as_of: int | str | None = None
    streaming: bool = False
    changes: bool = False
    start: int | None = None
    interval: float = 5.0


def read_place(options: TableOptions, given: Mapping[str, str]) -> Place:
    """Where the table is."""
    storage = {k.removeprefix(STORAGE): v for k, v in given.items() if k.startswith(STORAGE)}
    return Place(
        options.required(TABLE_PATH).removeprefix("file://"),
        tuple((k, Secret(v) if is_secret(k) else v) for k, v in sorted(storage.items())),
    )


def read_reading(options: TableOptions, primary_key: tuple[str, ...]) -> Reading:
    """Which versions are read; raises OptionError for options that exclude each other."""
    streaming = options.get(MODE).lower() == "streaming"
    for one in (VERSION, TIMESTAMP):
        if streaming and options.has(one):
            raise OptionError(
                f"option '{one.key}' reads a version, and 'mode' = 'streaming' what comes",
                hint=f"'{START.key}' says where to begin",
            )
    if options.has(VERSION) and options.has(TIMESTAMP):
        raise OptionError(
            f"options '{VERSION.key}' and '{TIMESTAMP.key}' exclude each other", hint="each says what is read"
        )
    if not streaming:
        for one in (START, CHANGES):
            if options.has(one):
                raise OptionError(f"option '{one.key}' needs 'mode' = 'streaming'", hint=one.description)
    start: int | None = None
    text = options.get(START)
    if text:
        if text.lower() != "latest" and not text.isdecimal():
            raise OptionError(f"option '{START.key}' cannot be '{text}'", hint="it is a number, or 'latest'")
        start = -1 if text.lower() == "latest" else int(text)
    return Reading(
        options.get(VERSION) if options.has(VERSION) else None,
        options.get(TIMESTAMP) or None,
        streaming,
        streaming and (options.get(CHANGES) or bool(primary_key)),
        start,
        options.get(INTERVAL) / 1000,
    )
