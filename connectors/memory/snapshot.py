"""What a SELECT over a table in memory reads: rows that do not change, of now or as of a moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connectors.fixed_rows import FixedRows, FixedRowsReader
from connectors.memory.rows import TableVersion
from runtime.core.errors import PlanningError, SqlEngineError
from runtime.core.schema import Schema
from runtime.spi.abilities import StoredColumns
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["PastReader", "PastRows", "SnapshotReader", "TableSnapshot", "cannot_be_read_again"]


def cannot_be_read_again(name: str) -> PlanningError:
    """The error for a position that is not the start."""
    return PlanningError(
        f"{name} lives in memory: its changes cannot be read again, so a job that has read some cannot go on from there",
        code="E1711",
        hint="start the job anew, or have it read a table with a connector",
    )


class TableSnapshot(FixedRows):
    """Rows that do not change: what a SELECT over a table in memory reads. Equal to one of the same columns of the very
    same rows, so that a plan reads them once. Rows are put together when somebody reads them, and only the columns asked
    for.

    Args:
        rows: all columns of the rows, or a version of a table.
        columns: which of them it has; all when not given.
        stated_rows: what `statistics` says in the place of the number of rows.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        whole: pa.Table | TableVersion,
        columns: Sequence[str] | None = None,
        stated_rows: int | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.whole = whole
        self.stated_rows = stated_rows
        self._columns = None if columns is None else tuple(columns)

    @property
    def rows(self) -> pa.Table:
        """The rows, with the columns of the schema."""
        if isinstance(self.whole, TableVersion):
            return self.whole.rows(self._columns)
        return self.whole if self._columns is None else self.whole.select(list(self._columns))

    @property
    def num_rows(self) -> int:
        return self.whole.num_rows

    def statistics(self) -> TableStatistics:
        if self.stated_rows is None:
            return super().statistics()
        return TableStatistics(rows=float(self.stated_rows), counted=True)

    @property
    def _identity(self) -> tuple[str, Schema, int]:
        return self.name, self.schema, id(self.whole)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSnapshot) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def splits(self) -> list[Split]:
        return [Split("all")]

    def open(self, split: Split, context: ReadContext) -> SnapshotReader:
        return SnapshotReader(self.name, self.rows)

    def stored_columns(self) -> StoredColumns:
        """See `TellsStoredColumns`."""
        return StoredColumns((), self.schema, rows=lambda: self.rows)

    def with_columns(self, names: Sequence[str]) -> TableSnapshot:
        fields = tuple(self.schema[self.schema.index_of(n)] for n in names)
        return TableSnapshot(self.name, Schema(fields), self.whole, names, self.stated_rows)

    def describe(self) -> dict[str, Any]:
        return {"connector": "memory", "name": self.name, "columns": list(self.schema.names)}


class SnapshotReader(FixedRowsReader):
    """Begins at the start, and nowhere else."""

    def __init__(self, name: str, rows: pa.Table) -> None:
        super().__init__(rows)
        self._name = name

    def seek(self, position: Any) -> None:
        """Only to the start. Raises PlanningError E1711: whether the table still has the rows it had cannot be told."""
        if position:
            raise cannot_be_read_again(self._name)


class PastRows(FixedRows):
    """What `FOR SYSTEM_TIME AS OF` reads. Equal to one with the same columns of the same table as of the same moment.

    Args:
        name: the full name of the table.
        as_of: the moment, as text.
        whole: all columns of the rows, or the error of whoever reads them: they are forgotten.
        counted: whether plans may depend on how many there are.
        columns: which of them it has; all when not given.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        as_of: str,
        whole: TableVersion | SqlEngineError,
        *,
        counted: bool,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.as_of = as_of
        self._whole = whole
        self._counted = counted
        self._columns = None if columns is None else tuple(columns)

    @property
    def title(self) -> str:
        """What it is called in plans."""
        return f"{self.name} as of {self.as_of}"

    @property
    def rows(self) -> pa.Table:
        """The rows, with the columns of the schema."""
        if isinstance(self._whole, SqlEngineError):
            raise self._whole
        return self._whole.rows(self._columns)

    @property
    def num_rows(self) -> int:
        return 0 if isinstance(self._whole, SqlEngineError) else self._whole.num_rows

    def statistics(self) -> TableStatistics:
        return super().statistics() if self._counted else TableStatistics()

    @property
    def _identity(self) -> tuple[str, Schema, str]:
        return self.name, self.schema, self.as_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PastRows) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def splits(self) -> list[Split]:
        return [Split("all")]

    def open(self, split: Split, context: ReadContext) -> PastReader:
        return PastReader(self.name, self.rows)

    def with_columns(self, names: Sequence[str]) -> PastRows:
        fields = tuple(self.schema[self.schema.index_of(n)] for n in names)
        schema = Schema(fields)
        return PastRows(self.name, schema, self.as_of, self._whole, counted=self._counted, columns=names)

    def describe(self) -> dict[str, Any]:
        return {"connector": "memory", "name": self.name, "as of": self.as_of, "columns": list(self.schema.names)}


class PastReader(FixedRowsReader):
    """Begins at the start, and nowhere else: the order of the rows is that of this process."""

    def __init__(self, name: str, rows: pa.Table) -> None:
        super().__init__(rows)
        self._name = name

    @property
    def waiting(self) -> bool:
        """Whether there is more: a view takes all of it at once."""
        return not self.finished

    @property
    def backlog(self) -> int:
        """How much that is, rows."""
        return self._rows.num_rows - self._at

    def gather(self) -> None:
        """Nothing comes that could gather."""

    def seek(self, position: Any) -> None:
        """Only to the start. Raises PlanningError E1711."""
        if position:
            raise cannot_be_read_again(self._name)
