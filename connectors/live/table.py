"""A table of what comes on a connection, from when it was made. What comes while nobody is connected is lost."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from connectors.formats.message_table import RowsOfMessages
from connectors.kit.prefetch import Fetched, PrefetchingReader
from runtime.core.changelog import ChangelogMode
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["LiveTable", "Way"]


class Way(Protocol):
    """A connection of a kind. Its text names it in messages, without secrets."""

    @property
    def kind(self) -> str:
        """The connector."""
        ...

    def messages(self, most: int, stop: threading.Event) -> Iterator[list[bytes]]:
        """Connect, and give messages as they come; an empty list now and then when none does. `most`: bytes of a message.

        Raises UnavailableError, ConnectionError or TimeoutError when the connection cannot be made, or ends; it is then made
        again."""
        ...


@dataclass(frozen=True)
class LiveTable:
    """See the module; `schema`, `value`, `metadata`, `most`: see `MessageTable`. It opens nothing by itself."""

    schema: Schema
    primary_key: tuple[str, ...]
    value: Schema
    name: str
    way: Way
    most: int
    time_zone: str
    format: Format = field(compare=False)
    metadata: tuple[tuple[str, str], ...] = ()

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} ({self.way})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": self.way.kind, "columns": list(self.schema.names)}
        return {**described, "options": {"from": str(self.way), "format": self.format.name}}

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.format.changelog_mode

    @property
    def bounded(self) -> bool:
        return False

    @property
    def readable_again(self) -> bool:
        """See `SupportsRereading`: nobody gets what another one has had."""
        return False

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("connection", endless=True)]

    def watch_splits(self, wake: object) -> Any:
        """There is never another one."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.place(), functools.partial(_read, self), context, bounded=False)

    def with_columns(self, names: Sequence[str]) -> LiveTable:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))


def _nowhere(rows: int) -> tuple[int, int]:
    """There is no position to come back to."""
    del rows
    return 0, 0


def _read(table: LiveTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """See `Fetching`. Every position is the same."""
    del position
    decode, count = RowsOfMessages(table), 0
    for messages in table.way.messages(table.most, stop):
        if not messages:
            yield Fetched(None, 0)
            continue
        begin = count
        rows, rejected = decode(pa.array(messages, pa.large_binary()), _no_metadata, lambda i, at=begin: at + i)
        count += len(messages)
        yield Fetched(rows, 0, rejected, _nowhere)


def _no_metadata(key: str) -> pa.Array:
    raise KeyError(key)
