"""The rows of a long VALUES as a source: they stand in the statement, so that they can be read again at any time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.core.strict_json import as_count
from runtime.spi.table import ReadContext, Split, TableStatistics

__all__ = ["ConstantReader", "ConstantTable"]


@dataclass(frozen=True, eq=False)
class ConstantTable:
    """Constant rows. Equal to one with the very same rows."""

    schema: Schema
    rows: pa.RecordBatch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantTable) and self.schema == other.schema and self.rows is other.rows

    def __hash__(self) -> int:
        return hash((self.schema, id(self.rows)))

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    @property
    def bounded(self) -> bool:
        return True

    def statistics(self) -> TableStatistics:
        return TableStatistics(rows=float(self.rows.num_rows), counted=True)

    def splits(self) -> list[Split]:
        return [Split("rows")]

    def open(self, split: Split, context: ReadContext) -> ConstantReader:
        return ConstantReader(self.rows)

    def with_columns(self, names: Sequence[str]) -> ConstantTable:
        fields = tuple(self.schema[self.schema.index_of(n)] for n in names)
        return ConstantTable(Schema(fields), self.rows.select(list(names)))

    def describe(self) -> dict[str, Any]:
        return {"connector": "constants", "columns": list(self.schema.names), "rows": self._digest}

    @cached_property
    def _digest(self) -> str:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as writer:
            writer.write_batch(self.rows)
        return hashlib.blake2b(sink.getvalue(), digest_size=12).hexdigest()


class ConstantReader:
    """A position is the number of rows given."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._at = 0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if self.finished or max_rows <= 0:
            return None
        part = self._rows.slice(self._at, max_rows)
        self._at += part.num_rows
        return ChangelogBatch(part)

    @property
    def finished(self) -> bool:
        return self._at >= self._rows.num_rows

    @property
    def waiting(self) -> bool:
        """Whether there is more: a view takes all of it at once."""
        return not self.finished

    def position(self) -> int:
        return self._at

    def seek(self, position: Any) -> None:
        self._at = as_count(position)

    def close(self) -> None:
        self._at = self._rows.num_rows
