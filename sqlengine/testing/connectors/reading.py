"""Tables read and written without a job: what tests of connectors do all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from runtime.core.changelog import ChangelogBatch
from runtime.spi.reader import RejectedRow, SourceReader
from runtime.spi.source import SourceTable, Split
from runtime.spi.writer import SinkWriter

__all__ = ["Change", "Context", "changes_of", "drain", "end", "read_all", "rows_of", "split_of"]

Change = tuple[int, tuple[Any, ...]]
"""A row kind and a row."""
_PATIENCE = 60.0


class Context:
    """A job that keeps what readers reject."""

    time_zone = "UTC"

    def __init__(self) -> None:
        self.rejected: list[RejectedRow] = []
        self.woken = 0

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        self.rejected += rows

    def wake(self) -> None:
        self.woken += 1


def end(writer: SinkWriter) -> None:
    """What the end of a job without checkpoints does."""
    committable = writer.prepare()
    if committable is not None:
        writer.publish(committable)


def changes_of(batch: ChangelogBatch) -> list[Change]:
    """Kind and row of each change."""
    rows = [tuple(r.values()) for r in batch.rows.to_pylist()]
    return list(zip(batch.kinds_or_inserts().tolist(), rows, strict=True))


def drain(reader: SourceReader, max_rows: int = 1000) -> list[Change]:
    """All changes that a bounded reader has left."""
    found: list[Change] = []
    until, nothing = time.monotonic() + _PATIENCE, threading.Event()
    while time.monotonic() < until:
        if reader.finished:
            return found
        batch = reader.poll(max_rows)
        if batch is not None:
            assert 0 < len(batch) <= max_rows + 1
            found += changes_of(batch)
        elif not reader.finished:
            # What reads in the background may have the interpreter.
            nothing.wait(0.0005)
    raise AssertionError(f"the reader has not ended within {_PATIENCE:.0f} s")


def read_all(table: SourceTable, max_rows: int = 1000, context: Context | None = None) -> list[Change]:
    """All changes of a bounded table, split by split."""
    found: list[Change] = []
    for split in table.splits():
        reader = table.open(split, context or Context())
        found += drain(reader, max_rows)
        reader.close()
    return found


def rows_of(table: SourceTable, **more: Any) -> list[tuple[Any, ...]]:
    """All rows of a bounded table of insertions."""
    changes = read_all(table, **more)
    assert all(kind == 0 for kind, _ in changes)
    return [row for _, row in changes]


def split_of(table: SourceTable) -> Split:
    """The only split of a table."""
    (only,) = table.splits()
    return only
