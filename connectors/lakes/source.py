"""A table of a lake as a source: conditions and a limit are pushed into it; one reader goes from version to version."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from connectors.filesystem.column_filters import ColumnFilter, filter_expression, take_filters
from connectors.kit.prefetch import Fetching, PrefetchingReader
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import ConnectorError
from runtime.core.rooms import load
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["LakeSource", "Reading", "check_library"]

_CHANGES = ChangelogMode(delete=True)


def check_library(room: Any, library: str, extra: str) -> None:
    """Raises ConnectorError E3190 where a library that a module needs is not installed."""
    try:
        load(room)
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("connectors", "runtime"):
            raise
        raise ConnectorError(
            f"the library for {library} is not installed ({error.name})",
            code="E3190",
            hint=f"pip install 'sqlengine[{extra}]'",
        ) from error


class Reading(Protocol):
    """What of a table is read: a version, or what comes (`streaming`); with deletes and updates (`changes`)."""

    @property
    def streaming(self) -> bool: ...

    @property
    def changes(self) -> bool: ...


R = TypeVar("R", bound=Reading)


@dataclass(frozen=True)
class LakeSource(ABC, Generic[R]):
    """A table, or what comes into it; a connector has the abstract methods. `declared`: the columns before any is left out."""

    connector: ClassVar[str]

    schema: Schema
    declared: Schema
    reading: R
    filters: tuple[ColumnFilter, ...] = field(default=(), kw_only=True)
    limit: int | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def where(self) -> str:
        """Names the table, in messages and plans."""

    @abstractmethod
    def newest_rows(self) -> tuple[int | None, bool]:
        """How many rows there are, None if nobody knows, and whether that is exact."""

    @abstractmethod
    def fetching(self) -> Fetching:
        """What the reader reads from."""

    @abstractmethod
    def described_options(self) -> dict[str, str]:
        """The options that say what is read, for plans."""

    @abstractmethod
    def as_of(self, milliseconds: int) -> Self:
        """The table as it was (`SupportsTimeTravel`)."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        return _CHANGES if self.reading.changes else APPEND

    @property
    def bounded(self) -> bool:
        return not self.reading.streaming

    @property
    def distributed_reads(self) -> bool:
        """Versions stay as they are, for whoever sees the table."""
        return True

    def statistics(self) -> TableStatistics:
        if self.reading.streaming:
            return TableStatistics()
        rows, exact = self.newest_rows()
        return TableStatistics(rows=None if rows is None else float(rows), counted=exact and self.limit is None)

    def splits(self) -> list[Split]:
        return [Split("table")]

    def watch_splits(self, wake: Any) -> Any:
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.where, self.fetching(), context, bounded=self.bounded)

    def with_columns(self, names: Sequence[str]) -> Self:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[Self, list[Expr]]:
        if self.limit is not None:
            return self, list(filters)
        taken, left = take_filters(filters, self.schema, self.schema.names)
        more = tuple(one for one in taken if one not in self.filters)
        return replace(self, filters=(*self.filters, *more)), left

    def with_limit(self, rows: int) -> Self:
        return replace(self, limit=rows if self.limit is None else min(rows, self.limit))

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        return [filter_expression(one, schema) for one in self.filters], self.limit

    def describe(self) -> dict[str, Any]:
        pushed: dict[str, Any] = {"filters": [str(one) for one in self.filters]} if self.filters else {}
        if self.limit is not None:
            pushed["limit"] = self.limit
        return {
            "connector": self.connector,
            "table": self.where,
            "columns": list(self.schema.names),
            **pushed,
            **({"streaming": True} if self.reading.streaming else {}),
            "options": self.described_options(),
        }
