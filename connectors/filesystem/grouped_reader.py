"""COUNT, MIN and MAX of a Parquet file: what its footer says, or, where that does not tell exactly, of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.filesystem.column_reader import BATCH_ROWS, refusing_damage
from connectors.filesystem.parquet_reader import ParquetFileReader, chunk_of
from connectors.kit.aggregates import Aggregation
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Field, Schema
from runtime.core.strict_json import counts_of
from runtime.core.types import TypeRoot
from runtime.spi.abilities import AskedAggregate

__all__ = ["GroupedParquetReader", "of_files"]

_ENDS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE})
"""Types of which a footer says the least and the greatest value as they are."""


def of_files(stored: Schema, group: Sequence[str], calls: Sequence[AskedAggregate]) -> Aggregation | None:
    """What files are asked for; None for what footers do not say. `stored`: the columns that they hold."""
    if group or not calls:
        return None
    types = {f.name: f.type for f in stored}
    for call in calls:
        known = call.column is None or call.column in types
        if not known or (call.function != "COUNT" and (call.column is None or types[call.column].root not in _ENDS)):
            return None
        if call.function == "SUM":
            return None
    names = dict.fromkeys(call.column for call in calls if call.column is not None)
    return Aggregation((), tuple(calls), Schema(tuple(stored[stored.index_of(name)] for name in names)))


class GroupedParquetReader(ParquetFileReader):
    """Gives one row; none of a file without rows. A position is whether it was given."""

    _aggregation: Aggregation
    _parts: list[list[Any]]
    _shown = False
    _asked = False

    def aggregating(self, aggregation: Aggregation) -> GroupedParquetReader:
        """Itself, which gives this."""
        self._aggregation = aggregation
        self._parts = []
        return self

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0 or self._shown:
            return None
        if not self._asked:
            self._asked = True
            with refusing_damage(self._path):
                told = self._of_footer()
            if told is not None:
                return self._given_out([told])
        batch = super().poll(BATCH_ROWS)
        if batch is not None and len(batch):
            self._parts.append([self._of_rows(call, batch) for call in self._aggregation.calls])
        return self._given_out(self._parts) if super().finished else None

    def available_in(self) -> float:
        """See `AvailabilityReader`: it reads on."""
        return 0.0

    @property
    def finished(self) -> bool:
        return self._shown

    def position(self) -> dict[str, int]:
        return self._stamp.position(given=int(self._shown))

    def seek(self, position: Any) -> None:
        self._stamp.check(position)
        self._shown = counts_of(position, "given") != (0,)

    def _given_out(self, parts: Sequence[Sequence[Any]]) -> ChangelogBatch | None:
        self._shown = True
        if not self._file.metadata.num_rows:
            return None
        schema = self._aggregation.schema
        cells = zip(self._aggregation.calls, zip(*parts, strict=True), schema, strict=True)
        columns = [pa.array([_together(call, values)], f.type.arrow) for call, values, f in cells]
        return ChangelogBatch.of(columns, schema)

    def _of_rows(self, call: AskedAggregate, batch: ChangelogBatch) -> Any:
        if call.column is None:
            return len(batch)
        column = batch.rows.column(self._aggregation.rows.index_of(call.column))
        if call.function == "COUNT":
            return len(column) - column.null_count
        return pc.min_max(column)[call.function.lower()].as_py()

    def _of_footer(self) -> list[Any] | None:
        """None where it does not say all."""
        metadata = self._file.metadata
        leaves = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        found: list[Any] = []
        for call in self._aggregation.calls:
            if call.column is None:
                found.append(metadata.num_rows)
                continue
            field = self._aggregation.rows[self._aggregation.rows.index_of(call.column)]
            leaf = leaves.get(field.name)
            # Of another type, or without the column, values have to be converted, and may be none of the declared type.
            if leaf is None or self._file.schema_arrow.field(field.name).type != field.type.arrow:
                return None
            parts = [self._of_piece(call, field, group, leaf) for group in self._groups]
            if any(part is _UNKNOWN for part in parts):
                return None
            found.append(_together(call, parts))
        return found

    def _of_piece(self, call: AskedAggregate, field: Field, group: int, leaf: int) -> Any:
        """Of a column in a row group."""
        rows, statistics = self._rows_of(group), chunk_of(self._file, group, leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return _UNKNOWN
        nulls = statistics.null_count
        if not 0 <= nulls <= rows or (nulls and not field.type.nullable):
            return _UNKNOWN
        if call.function == "COUNT":
            return rows - nulls
        if nulls == rows:
            return None
        if not statistics.has_min_max:
            return _UNKNOWN
        return statistics.min if call.function == "MIN" else statistics.max


_UNKNOWN = object()


def _together(call: AskedAggregate, parts: Sequence[Any]) -> Any:
    values = [part for part in parts if part is not None]
    if call.function == "COUNT":
        return sum(values)
    return (min if call.function == "MIN" else max)(values, default=None)
