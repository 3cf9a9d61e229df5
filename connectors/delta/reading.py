"""The rows of a file of a Delta table, with the values of its partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from connectors.delta.log import DeltaFile
from connectors.delta.options import Place
from connectors.delta.types import partition_array
from connectors.filesystem.column_filters import ColumnFilter, passing
from connectors.kit.versions import checked_times
from runtime.core.changelog import DELETE, INSERT
from runtime.core.schema import Schema

__all__ = ["FileRows"]

_KIND = "_change_type"
_KINDS = pa.array(["insert", "update_postimage", "delete", "update_preimage"])
_COMPARED = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


class FileRows:
    """Reads files with some columns.

    Args:
        files: the table's, as a file system.
        schema: the columns that are wanted.
        stored: all columns of the table.
        filters: what rows must be, over any columns of the table.
    """

    def __init__(
        self, files: Any, place: Place, schema: Schema, stored: Schema, filters: Sequence[ColumnFilter]
    ) -> None:
        self._files = files
        self._place = place
        self._schema = schema
        self._filters = filters
        self._wanted = {
            f.name: f.type.arrow for f in (*schema, *(x for x in stored if x.name in {o.column for o in filters}))
        }
        self._wanted |= {o.column: o.type.arrow for o in filters}

    def rows(self, file: DeltaFile, mask: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """Its rows; `mask`: which of them."""
        for batch, _ in self._batches(file, mask, feed=False):
            yield batch

    def changes(self, file: DeltaFile) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """The rows of a file of changes, and their kinds."""
        for batch, told in self._batches(file, None, feed=True):
            number = pc.index_in(told, value_set=_KINDS).to_numpy(zero_copy_only=False)
            yield batch, np.where(number < 2, INSERT, DELETE).astype(np.int8)

    def _batches(self, file: DeltaFile, mask: np.ndarray | None, *, feed: bool) -> Iterator[tuple[pa.RecordBatch, Any]]:
        form: Any = ds.ParquetFileFormat(pre_buffer=True)
        fragment = form.make_fragment(file.path, self._files)
        physical = fragment.physical_schema
        partition = dict(file.partition)
        here = [n for n in self._wanted if n in physical.names and n not in partition]
        read = [*here, _KIND] if feed else here
        begins = np.concatenate([[0], np.cumsum([g.num_rows for g in fragment.row_groups])])
        for group in fragment.split_by_row_group(self._hint(physical, partition), schema=physical):
            at = int(begins[group.row_groups[0].id])
            for batch in ds.Scanner.from_fragment(group, schema=physical, columns=read, use_threads=False).to_batches():
                count = batch.num_rows
                columns: dict[str, pa.Array] = {}
                for name, type_ in self._wanted.items():
                    if name in partition:
                        columns[name] = partition_array(partition[name], type_, count)
                    elif name in here:
                        columns[name] = _cast(batch.column(name), type_)
                    else:
                        columns[name] = pa.nulls(count, type_)
                stays = None if mask is None else pa.array(mask[at : at + count])
                at += count
                passes = passing(self._filters, columns)
                if stays is not None:
                    passes = stays if passes is None else pc.and_(passes, stays)
                names = list(self._schema.names)
                rows = (
                    pa.RecordBatch.from_arrays([columns[n] for n in names], names=names) if names else batch.select([])
                )
                told = batch.column(_KIND) if feed else None
                if passes is not None:
                    rows = (
                        rows.filter(passes)
                        if names
                        else batch.select([0] if batch.num_columns else []).filter(passes).select([])
                    )
                    told = told.filter(passes) if told is not None else None
                if rows.num_rows:
                    yield checked_times(rows, self._schema, self._place.path), told

    def _hint(self, physical: pa.Schema, partition: dict[str, Any]) -> pc.Expression | None:
        """What leaves out row groups; the rows are looked at one by one."""
        found: pc.Expression | None = None
        for one in self._filters:
            there = one.column in physical.names and one.column not in partition
            if not there or one.operator not in _COMPARED or physical.field(one.column).type != one.type.arrow:
                continue
            part = _COMPARED[one.operator](pc.field(one.column), pa.scalar(one.values[0], one.type.arrow))
            found = part if found is None else found & part
        return found


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type == wanted else column.cast(wanted)
