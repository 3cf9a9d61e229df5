"""The tables of rule specs: what the words behind a Scan say, nothing to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from runtime.core.changelog import APPEND, RETRACT, UPSERT, ChangelogMode
from runtime.core.schema import Field, Schema
from runtime.expr.display import show
from runtime.expr.nodes import Expr
from runtime.spi.abilities import AskedAggregate
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from runtime.spi.writer import SinkWriter

__all__ = ["open_table"]


@dataclass(frozen=True)
class SpecTable:
    """A table of a spec: its name, columns and kinds of change; `pushed` shows what rules pushed into it."""

    name: str
    schema: Schema
    changelog_mode: ChangelogMode
    bounded: bool = True
    rows: float | None = None
    pushed: tuple[tuple[str, str], ...] = ()
    primary_key: tuple[str, ...] = ()

    @property
    def delivery(self) -> Delivery:
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def open_writer(self, job: str) -> SinkWriter:
        raise AssertionError("nothing is written in a spec")

    def statistics(self) -> TableStatistics:
        return TableStatistics(self.rows)

    def splits(self) -> list[Split]:
        return []

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        raise AssertionError("nothing is read in a spec")

    def describe(self) -> dict[str, Any]:
        return dict(self.pushed)


@dataclass(frozen=True)
class FilteringTable(SpecTable):
    """Takes comparisons with `=` only."""

    taken: tuple[Expr, ...] = field(default=())

    def with_filters(self, filters: Sequence[Any]) -> tuple[FilteringTable, list[Any]]:
        mine = tuple(f for f in filters if getattr(f, "function", None) == "=")
        text = ", ".join(show(f) for f in mine)
        return replace(self, taken=self.taken + mine, pushed=(*self.pushed, ("filters", text))), [
            f for f in filters if f not in mine
        ]


@dataclass(frozen=True)
class NarrowingTable(SpecTable):
    """Can leave out columns."""

    def with_columns(self, names: Sequence[str]) -> NarrowingTable:
        return replace(self, schema=Schema(tuple(f for f in self.schema if f.name in names)))


@dataclass(frozen=True)
class StoppingTable(SpecTable):
    """Can stop after a number of rows."""

    def with_limit(self, rows: int) -> StoppingTable:
        return replace(self, pushed=(("limit", str(rows)),))


@dataclass(frozen=True)
class GroupingTable(SpecTable):
    """Counts, adds and compares, but takes no group by text."""

    def with_aggregates(self, group: Sequence[str], calls: Sequence[AskedAggregate]) -> GroupingTable | None:
        by = [self.schema[self.schema.index_of(name)] for name in group]
        if any(f.type.is_character for f in by):
            return None
        schema = Schema((*by, *(Field(call.text, call.type) for call in calls)))
        pushed = (("aggregates", ", ".join(call.text for call in calls)), ("group by", ", ".join(group)))
        return replace(self, schema=schema, pushed=pushed)


@dataclass(frozen=True)
class AskedTable(SpecTable):
    """Can be looked up by key."""

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        raise AssertionError("nothing is looked up in a spec")


def open_table(name: str, schema: Schema, words: frozenset[str]) -> SpecTable:
    """`retract` and `upsert` tables, and ones that take `filters`, `columns`, a `limit`, a `lookup` or `aggregates`; `rows` and a
    number are two words."""
    mode = UPSERT if "upsert" in words else RETRACT if "retract" in words else APPEND
    numbers = [w for w in words if w.isdigit()]
    made = SpecTable
    for word, table in (
        ("filters", FilteringTable),
        ("columns", NarrowingTable),
        ("limit", StoppingTable),
        ("lookup", AskedTable),
        ("aggregates", GroupingTable),
    ):
        if word in words:
            made = table
    return made(name, schema, mode, rows=float(numbers[0]) if numbers else None)
