"""Tables of connectors as the front door would ask for them, and ways to read and write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connectors.catalogue import standard_registry
from runtime.core.changelog import ChangelogBatch
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.spi.reader import RejectedRow, SourceReader
from runtime.spi.registry import TableRequest
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable, Split
from runtime.spi.writer import SinkWriter

REGISTRY = standard_registry()
Change = tuple[int, tuple[Any, ...]]


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


def request(schema: Schema, options: Mapping[str, str], **more: Any) -> TableRequest:
    return TableRequest("t", schema, more.pop("primary_key", ()), options, Options({}), registry=REGISTRY, **more)


def source(connector: str, schema: Schema, options: Mapping[str, str], **more: Any) -> SourceTable:
    make = REGISTRY.connectors.get(connector).source
    assert make is not None
    return make(request(schema, options, **more))


def sink(connector: str, schema: Schema, options: Mapping[str, str], **more: Any) -> SinkTable:
    make = REGISTRY.connectors.get(connector).sink
    assert make is not None
    return make(request(schema, options, **more))


def end(writer: SinkWriter) -> None:
    """What the end of a job without checkpoints does."""
    committable = writer.prepare()
    if committable is not None:
        writer.publish(committable)


def changes_of(batch: ChangelogBatch) -> list[Change]:
    rows = [tuple(r.values()) for r in batch.rows.to_pylist()]
    return list(zip(batch.kinds_or_inserts().tolist(), rows, strict=True))


def drain(reader: SourceReader, max_rows: int = 1000, polls: int = 100_000) -> list[Change]:
    """All changes that a bounded reader has left."""
    found: list[Change] = []
    for _ in range(polls):
        if reader.finished:
            return found
        batch = reader.poll(max_rows)
        if batch is not None:
            assert 0 < len(batch) <= max_rows + 1
            found += changes_of(batch)
    raise AssertionError("the reader does not end")


def read_all(table: SourceTable, max_rows: int = 1000, context: Context | None = None) -> list[Change]:
    found: list[Change] = []
    for split in table.splits():
        reader = table.open(split, context or Context())
        found += drain(reader, max_rows)
        reader.close()
    return found


def rows_of(table: SourceTable, **more: Any) -> list[tuple[Any, ...]]:
    changes = read_all(table, **more)
    assert all(kind == 0 for kind, _ in changes)
    return [row for _, row in changes]


def split_of(table: SourceTable) -> Split:
    (only,) = table.splits()
    return only
