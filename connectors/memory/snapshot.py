"""What a SELECT over a table in memory reads: rows that do not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.fixed_rows import FixedRows, FixedRowsReader
from runtime.core.errors import PlanningError
from runtime.core.schema import Schema
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split

__all__ = ["SnapshotReader", "TableSnapshot", "cannot_be_read_again"]


def cannot_be_read_again(name: str) -> PlanningError:
    """The error for a position that is not the start."""
    return PlanningError(
        f"{name} lives in memory: its changes cannot be read again, so a job that has read some cannot go on from there",
        code="E1711",
        hint="start the job anew, or have it read a table with a connector",
    )


@dataclass(frozen=True, eq=False)
class TableSnapshot(FixedRows):
    """Rows that do not change: what a SELECT over a table in memory reads. Equal to one of the same columns of the very
    same rows, so that a plan reads them once.

    `whole`: the rows with all columns of the table, where `rows` has some of them.
    """

    name: str
    schema: Schema
    rows: pa.Table
    whole: pa.Table | None = None

    @property
    def _identity(self) -> tuple[str, Schema, int]:
        return self.name, self.schema, id(self.rows if self.whole is None else self.whole)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSnapshot) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def splits(self) -> list[Split]:
        return [Split("all")]

    def open(self, split: Split, context: ReadContext) -> SnapshotReader:
        return SnapshotReader(self.name, self.rows)

    def with_columns(self, names: Sequence[str]) -> TableSnapshot:
        fields = tuple(self.schema[self.schema.index_of(n)] for n in names)
        whole = self.rows if self.whole is None else self.whole
        return TableSnapshot(self.name, Schema(fields), self.rows.select(list(names)), whole)

    def describe(self) -> dict[str, Any]:
        return {"connector": "memory", "name": self.name, "columns": list(self.schema.names)}


class SnapshotReader(FixedRowsReader):
    """Begins at the start, and nowhere else."""

    def __init__(self, name: str, rows: pa.Table) -> None:
        super().__init__(rows.combine_chunks())
        self._name = name

    def seek(self, position: Any) -> None:
        """Only to the start. Raises PlanningError E1711: whether the table still has the rows it had cannot be told."""
        if position:
            raise cannot_be_read_again(self._name)
