"""Reads one Parquet file, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.filesystem.column_filters import may_hold
from connectors.filesystem.column_reader import BATCH_ROWS, ColumnFileReader
from runtime.core.errors import ConnectorError, FormatError

__all__ = ["ParquetFileReader", "open_parquet"]

_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
"""How writers note texts: other libraries have other favourites than Arrow's `string`."""
_BYTES_PER_CODE = 12
"""A text column that takes no more bytes than this for each value, and has a dictionary, has few values."""


def open_parquet(path: str, **options: Any) -> pq.ParquetFile:
    """The file with its footer read; raises ConnectorError or FormatError with the path."""
    try:
        return pq.ParquetFile(path, **options)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConnectorError(
            f"cannot read {path}: {reason}", code="E3104", hint="check that the file exists and may be read"
        ) from error
    except pa.ArrowException as error:
        raise FormatError(
            f"{path} is not a Parquet file: {error}", code="E3204", hint="check the option 'format'"
        ) from error


class ParquetFileReader(ColumnFileReader):
    """Rows of one file, row group by row group (`ColumnFileReader`)."""

    def _open(self) -> None:
        self._file = open_parquet(self._path)

    def _names(self) -> Sequence[str]:
        return self._file.schema_arrow.names

    def _count(self) -> int:
        return self._file.metadata.num_row_groups

    def _rows_of(self, group: int) -> int:
        return self._file.metadata.row_group(group).num_rows

    def _begin_group(self, group: int, columns: list[str]) -> tuple[int, Iterator[pa.RecordBatch]]:
        return self._rows_of(group), self._file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)

    def give_codes(self) -> None:
        """Texts of few values come as they are stored: as Arrow dictionaries."""
        coded = self._coded_columns()
        if coded:
            metadata = self._file.metadata
            self._file.close()
            self._file = open_parquet(self._path, read_dictionary=coded, metadata=metadata)

    def _coded_columns(self) -> list[str]:
        texts = {f.name for f in self._wanted if f.type.arrow == pa.string()}
        texts &= {f.name for f in self._file.schema_arrow if f.type in _TEXTS}
        metadata = self._file.metadata
        leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path in texts]
        found: list[str] = []
        for leaf in leaves:
            chunks = [metadata.row_group(g).column(leaf) for g in self._groups]
            size, values = sum(c.total_uncompressed_size for c in chunks), sum(c.num_values for c in chunks)
            if all(c.has_dictionary_page for c in chunks) and size <= _BYTES_PER_CODE * values:
                found.append(metadata.schema.column(leaf).path)
        return found

    def _useful_groups(self) -> list[int]:
        metadata = self._file.metadata
        leaf_of = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        types = {f.name: f.type for f in self._file.schema_arrow}
        return [
            g
            for g in range(metadata.num_row_groups)
            if metadata.row_group(g).num_rows and may_hold(self._filters, metadata.row_group(g), leaf_of, types)
        ]

    def close(self) -> None:
        self._file.close()
        super().close()
