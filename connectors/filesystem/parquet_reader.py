"""Reads one Parquet file, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.filesystem.column_filters import may_hold
from connectors.filesystem.column_reader import BATCH_ROWS, ColumnFileReader, refusing_damage
from connectors.filesystem.opening import is_text, plain_status, shown_path
from connectors.filesystem.parquet_pages import pages
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileSystem, RangedFile
from runtime.core.errors import ConnectorError, FormatError
from runtime.expr.time_range import has_times_beyond_nanoseconds

__all__ = ["ParquetFileReader", "chunk_of", "open_parquet"]

_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
"""How writers note texts: other libraries have other favourites than Arrow's `string`."""
_TEXT_BYTES = 128 << 20
"""So much the texts of a batch may take, about."""
_BYTES_PER_CODE = 12
"""A text column that takes no more bytes than this for each value, and has a dictionary, has few values."""


def open_parquet(
    path: str, system: FileSystem = LOCAL, opened: BinaryIO | None = None, **options: Any
) -> pq.ParquetFile:
    """The file with its footer read; raises ConnectorError or FormatError with the path. `opened`: the same, open already,
    of which a system that is not local reads."""
    if system.local:
        plain_status(path)
    try:
        # Arrow takes names of files as text; of other ones it gets the file.
        where: Any = path
        if not (system.local and is_text(path)):
            where = opened or system.open(path, in_order=False)[0]
        return pq.ParquetFile(where, page_checksum_verification=True, **options)
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise ConnectorError(
                f"cannot read {shown_path(path)}: {error.strerror or error}",
                code="E3104",
                hint="check that the file exists and may be read",
            ) from error
        raise FormatError(
            f"{shown_path(path)} is not a Parquet file: {error}", code="E3204", hint="check the option 'format'"
        ) from error


def chunk_of(file: pq.ParquetFile, group: int, leaf: int) -> pq.ColumnChunkMetaData:
    """What the footer says of a column in a row group. Raises ValueError where it says of which type the column is, and
    means another: Arrow would end the process."""
    chunk = file.metadata.row_group(group).column(leaf)
    if chunk.physical_type != file.metadata.schema.column(leaf).physical_type:
        raise ValueError(f"column {leaf + 1} is of another type in row group {group + 1}")
    return chunk


def _begin_of(chunk: pq.ColumnChunkMetaData) -> int:
    """Where the bytes of a column in a row group begin."""
    first = chunk.dictionary_page_offset
    return first if first is not None and 0 < first < chunk.data_page_offset else chunk.data_page_offset


class ParquetFileReader(ColumnFileReader):
    """Rows of one file, row group by row group (`ColumnFileReader`)."""

    def _open(self) -> None:
        self._file = self._opened()
        metadata = self._file.metadata
        if sum(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)) != metadata.num_rows:
            raise ValueError("its row groups have another number of rows than it says")
        self._coded: frozenset[str] = frozenset()
        self._old_times, self._options = self._read_old_times()
        if self._options:
            self._reopen()
        self._limits.check_rows(shown_path(self._path), self._stamp.size, metadata.num_rows)

    def _opened(self, **options: Any) -> pq.ParquetFile:
        return open_parquet(self._path, self._system, self._bytes, **options)

    def _read_old_times(self) -> tuple[list[str], dict[str, Any]]:
        """The columns of INT96 whose values are to be looked at first, and how the file is to be opened.

        INT96 is how Spark and Hive wrote times. Arrow makes nanoseconds of it and takes no notice of those that do not fit;
        it can make microseconds, too, which all fit. So nanoseconds are read only where a column is declared with them.
        """
        metadata = self._file.metadata
        leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        old = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
        wanted = [f for f in self._wanted if f.name in old]
        if any("timestamp[ns" in str(f.type.arrow) for f in wanted):
            return [f.name for f in wanted], {}
        return [], {"coerce_int96_timestamp_unit": "us"} if wanted else {}

    def _check_old_times(self, group: int, columns: list[str]) -> None:
        """Raises FormatError E3205 for a time that nanoseconds do not reach."""
        names = [name for name in self._old_times if name in columns]
        if not names:
            return
        with self._opened(coerce_int96_timestamp_unit="us") as file:
            for rows in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=names):
                for name, column in zip(rows.schema.names, rows.columns, strict=True):
                    if has_times_beyond_nanoseconds(column):
                        raise FormatError(
                            f"{shown_path(self._path)}: column {name} has a time that nanoseconds do not reach",
                            code="E3205",
                            hint="they reach from 1677 to 2262: declare it as TIMESTAMP(6)",
                        )

    def _reopen(self, **options: Any) -> None:
        metadata = self._file.metadata
        self._file.close()
        self._file = self._opened(metadata=metadata, **options, **self._options)

    def _names(self) -> Sequence[str]:
        return self._file.schema_arrow.names

    def _count(self) -> int:
        return self._file.metadata.num_row_groups

    def _rows_of(self, group: int) -> int:
        return self._file.metadata.row_group(group).num_rows

    def _begin_group(self, group: int, columns: list[str]) -> tuple[int, Iterator[pa.RecordBatch]]:
        metadata = self._file.metadata
        leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path.split(".")[0] in columns]
        if isinstance(self._bytes, RangedFile):
            chunks = (chunk_of(self._file, group, leaf) for leaf in leaves)
            self._bytes.load([(begin := _begin_of(c), begin + c.total_compressed_size) for c in chunks])
        for leaf in leaves:
            chunk = chunk_of(self._file, group, leaf)
            flat = metadata.schema.column(leaf).max_repetition_level == 0
            if flat and chunk.num_values != self._rows_of(group):
                raise ValueError(f"column {leaf + 1} has another number of values than there are rows")
            self._limits.check(shown_path(self._path), chunk.total_compressed_size, chunk.total_uncompressed_size)
            self._check_pages(chunk)
        self._check_old_times(group, columns)
        rows = self._batch_rows(group, columns)
        return self._rows_of(group), self._file.iter_batches(rows, row_groups=[group], columns=columns)

    def _check_pages(self, chunk: pq.ColumnChunkMetaData) -> None:
        """Raises FormatError E3207 when the pages of a column hold more than they may, whatever the footer says of them,
        ValueError when they are none."""
        begin = _begin_of(chunk)
        path, unpacked = shown_path(self._path), 0
        for page in pages(self._bytes, begin, chunk.total_compressed_size):
            unpacked += page.unpacked
            self._limits.check(path, chunk.total_compressed_size, unpacked)
            self._limits.check_page(path, "a page", page.unpacked)
            if page.dictionary_values > page.unpacked:
                raise ValueError("a dictionary has more values than bytes")

    def _batch_rows(self, group: int, columns: list[str]) -> int:
        """How many rows are read at once: few where texts are so long that many would take much memory, because a row
        takes a byte where its text is in a dictionary."""
        metadata = self._file.metadata
        longest = 0
        for leaf in range(metadata.num_columns):
            path, name = metadata.schema.column(leaf).path, metadata.schema.column(leaf).name
            if path not in columns or metadata.schema.column(leaf).physical_type != "BYTE_ARRAY" or name in self._coded:
                continue
            chunk = chunk_of(self._file, group, leaf)
            if (
                chunk.has_dictionary_page
                and min(BATCH_ROWS, chunk.num_values) * chunk.total_uncompressed_size > _TEXT_BYTES
            ):
                longest = max(longest, self._longest(group, path))
        return BATCH_ROWS if longest * BATCH_ROWS <= _TEXT_BYTES else max(1, _TEXT_BYTES // longest)

    def _longest(self, group: int, column: str) -> int:
        """The bytes of the longest text in the dictionary of a column."""
        file = self._opened(read_dictionary=[column], metadata=self._file.metadata)
        with file:
            first = next(file.iter_batches(1, row_groups=[group], columns=[column]), None)
        texts: pa.Array | None = None if first is None else first.column(0)
        if texts is None or not pa.types.is_dictionary(texts.type) or not len(texts.dictionary):
            return 0
        return pc.max(pc.binary_length(texts.dictionary)).as_py() or 0

    def use_dictionaries(self) -> None:
        """Texts of few values come as they are stored: as Arrow dictionaries."""
        with refusing_damage(self._path):
            coded = self._coded_columns()
            if coded:
                self._reopen(read_dictionary=coded)
                self._coded = frozenset(coded)

    def _coded_columns(self) -> list[str]:
        texts = {f.name for f in self._wanted if f.type.arrow == pa.string()}
        texts &= {f.name for f in self._file.schema_arrow if f.type in _TEXTS}
        metadata = self._file.metadata
        leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path in texts]
        found: list[str] = []
        for leaf in leaves:
            chunks = [chunk_of(self._file, g, leaf) for g in self._groups]
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
            if metadata.row_group(g).num_rows
            and may_hold(
                self._filters,
                metadata.row_group(g).num_rows,
                lambda leaf, g=g: chunk_of(self._file, g, leaf).statistics,
                leaf_of,
                types,
            )
        ]

    def close(self) -> None:
        self._file.close()
        super().close()
