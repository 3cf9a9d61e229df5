"""A table in memory asked by key: it answers with its rows as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connectors.memory.table import MemoryTable
from runtime.core.schema import Schema
from runtime.kernels.row_index import RowIndex

__all__ = ["MemoryLookup"]


class MemoryLookup:
    """Looks rows up by equality on any columns; NULL keys match nothing.

    It stands for a table of another system in tests. Its index is made anew after each change of the table.
    """

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self._rows: pa.RecordBatch | None = None
        self._indices: dict[tuple[str, ...], RowIndex] = {}
        self._seen = -1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryLookup) and other._table is self._table

    def __hash__(self) -> int:
        return hash(id(self._table))

    @property
    def schema(self) -> Schema:
        return self._table.schema

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The matching rows of each key, in order of arrival."""
        rows = self._now()
        names = tuple(key_columns)
        if names not in self._indices:
            self._indices[names] = RowIndex([rows.column(c) for c in names])
        positions, found = self._indices[names].find([keys.column(i) for i in range(len(names))])
        return pa.array(positions, pa.int64()), rows.take(pa.array(found))

    def describe(self) -> dict[str, Any]:
        return self._table.describe()

    def _now(self) -> pa.RecordBatch:
        if self._rows is None or self._seen != self._table.changed:
            contents = self._table.contents().combine_chunks().to_batches()
            empty = pa.RecordBatch.from_arrays(
                [pa.array([], f.type.arrow) for f in self.schema], names=list(self.schema.names)
            )
            self._rows = contents[0] if contents else empty
            self._seen = self._table.changed
            self._indices.clear()
        return self._rows
