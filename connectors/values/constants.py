"""The rows of a long VALUES as a source: they stand in the statement, so that they can be read again at any time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from connectors.fixed_rows import FixedRows, FixedRowsReader
from runtime.core.schema import Schema
from runtime.core.strict_json import as_count
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split

__all__ = ["ConstantReader", "ConstantTable"]


@dataclass(frozen=True, eq=False)
class ConstantTable(FixedRows):
    """Constant rows. Equal to one with the very same rows."""

    schema: Schema
    rows: pa.RecordBatch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantTable) and self.schema == other.schema and self.rows is other.rows

    def __hash__(self) -> int:
        return hash((self.schema, id(self.rows)))

    @property
    def num_rows(self) -> int:
        return self.rows.num_rows

    def splits(self) -> list[Split]:
        return [Split("rows")]

    def open(self, split: Split, context: ReadContext) -> ConstantReader:
        return ConstantReader(pa.Table.from_batches([self.rows]))

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


class ConstantReader(FixedRowsReader):
    """Goes on from any position."""

    @property
    def waiting(self) -> bool:
        """Whether there is more: a view takes all of it at once."""
        return not self.finished

    def seek(self, position: Any) -> None:
        self._at = as_count(position)
