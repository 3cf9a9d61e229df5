"""What tables of messages share: those that are read in one split, by a reader that fetches ahead."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from connectors.formats.message_table import message_format
from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.options import MAX_RECORD, TableOptions, memory_limit, physical_part
from runtime.core.changelog import ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import Option
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.registry import TableRequest
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["MessageSource", "messages_of"]


@dataclass(frozen=True, kw_only=True)
class MessageSource(ABC):
    """A table of messages; a connector says where they are (`place`), and fetches them (`fetch`). It opens nothing by itself.

    Attributes:
        schema, value, metadata, most: see `MessageTable`.
        starts: 'earliest' or 'latest'; ends: 'latest' or 'unbounded'.
    """

    SPLIT: ClassVar[str]
    """The name of the only split."""

    schema: Schema
    primary_key: tuple[str, ...]
    value: Schema
    metadata: tuple[tuple[str, str], ...]
    name: str
    starts: str
    ends: str
    most: int
    time_zone: str
    format: Format = field(compare=False)

    @abstractmethod
    def place(self) -> str:
        """For messages and lineage."""

    @abstractmethod
    def fetch(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        """See `Fetching`."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.format.changelog_mode

    @property
    def bounded(self) -> bool:
        return self.ends == "latest"

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split(self.SPLIT)]

    def watch_splits(self, wake: object) -> Any:
        """There is never another one."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        return PrefetchingReader(self.place(), self.fetch, context, bounded=self.bounded)

    def with_columns(self, names: Sequence[str]) -> Self:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        """Of a sink: what the format writes."""
        return self.format.changelog_mode


def messages_of(
    connector: str,
    request: TableRequest,
    options: TableOptions,
    starts: Option[str],
    ends: Option[str],
    *,
    writes: bool = False,
) -> dict[str, Any]:
    """What every `MessageSource` is made with. Raises OptionError, and UnsupportedError as `message_format` does."""
    if writes and request.metadata:
        raise OptionError(
            f"connector '{connector}' cannot write metadata column '{request.metadata[0][1]}'",
            hint="declare it VIRTUAL",
        )
    return {
        "schema": request.schema,
        "primary_key": request.primary_key,
        "value": physical_part(request),
        "metadata": request.metadata,
        "name": request.name,
        "starts": options.get(starts).lower(),
        "ends": options.get(ends).lower(),
        "most": memory_limit(options, MAX_RECORD),
        "time_zone": request.time_zone,
        "format": message_format(request, options, writes=writes),
    }
