"""Whether Parquet files hold rows just as a table has them, so that a batch query may read them without our readers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from connectors.filesystem.column_filters import ColumnFilter, filter_expression
from connectors.filesystem.column_reader import refusing_damage
from connectors.filesystem.files import FileEntry
from connectors.filesystem.limits import ReadLimits
from connectors.filesystem.opening import is_text, shown_path
from connectors.filesystem.parquet_reader import chunk_of, open_parquet
from runtime.core.errors import SqlEngineError
from runtime.core.schema import Schema
from runtime.spi.abilities import StoredColumns

__all__ = ["columns_in_files"]

_OTHER_TEXTS = (pa.large_string(), pa.string_view())


def columns_in_files(
    entries: Sequence[FileEntry], schema: Schema, filters: Sequence[ColumnFilter], limits: ReadLimits
) -> StoredColumns | None:
    """The files as they may be read; None when one of them holds a column in another type, or lacks one, or holds more than
    it may, or cannot be read: then our reader says what is wrong."""
    if not entries:
        return None
    wanted = tuple((f.name, f.type.arrow, f.type.nullable) for f in schema)
    for entry in entries:
        plain = not entry.misplaced and is_text(entry.path) and not set(entry.path) & set("*?[")
        if not plain or not _holds(entry.path, entry.size, entry.modified, wanted, limits):
            return None
    conditions = tuple(filter_expression(taken, schema) for taken in filters)
    return StoredColumns(tuple(e.path for e in entries), schema, conditions)


@lru_cache(maxsize=256)
def _holds(
    path: str, size: int, modified: int, wanted: tuple[tuple[str, pa.DataType, bool], ...], limits: ReadLimits
) -> bool:
    """Looked at once for each version of a file (`size`, `modified`)."""
    try:
        with refusing_damage(path), open_parquet(path) as file:
            stored = file.schema_arrow
            for name, type_, _ in wanted:
                at = stored.get_all_field_indices(name)
                if len(at) != 1:
                    return False
                found = stored.field(at[0]).type
                if found != type_ and not (type_ == pa.string() and found in _OTHER_TEXTS):
                    return False
            metadata = file.metadata
            limits.check_rows(shown_path(path), size, metadata.num_rows)
            nullable = {name: null for name, _, null in wanted}
            for leaf in range(metadata.num_columns):
                name = metadata.schema.column(leaf).path
                if name not in nullable:
                    continue
                for group in range(metadata.num_row_groups):
                    chunk = chunk_of(file, group, leaf)
                    limits.check(shown_path(path), chunk.total_compressed_size, chunk.total_uncompressed_size)
                    if not nullable[name] and not (chunk.is_stats_set and chunk.statistics.null_count == 0):
                        return False
    except SqlEngineError:
        return False
    return True
