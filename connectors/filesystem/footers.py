"""What the footers of files of columns tell the planner: rows, and of each column its NULLs, its ends and, by the size of
its dictionaries, how many values it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.filesystem.column_reader import refusing_damage
from connectors.filesystem.files import FileEntry
from connectors.filesystem.orc_reader import open_orc
from connectors.filesystem.parquet_reader import chunk_of, open_parquet
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileSystem
from runtime.spi.statistics import ColumnStatistics, TableStatistics

__all__ = ["footer_statistics"]

_FOOTERS = 16
"""How many files are opened to estimate rows."""
_CHUNKS = 5_000
"""Of so many pieces of columns, of all files together, statistics are read: some 50 ms. More would take longer than a plan
may."""
_HEADER = 16
"""The bytes of a dictionary page that are no values, about."""
_LARGEST_DICTIONARY = 900_000
"""Writers give up dictionaries of a megabyte: one of nearly that size may hold only the first of the values."""
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "INT96": 12}


@dataclass(frozen=True)
class _Piece:
    """One column in one row group. `distinct`: its values, where a dictionary tells; `ends`: the least and the greatest."""

    rows: int
    distinct: float | None
    nulls: int | None
    ends: tuple[Any, Any] | None


@dataclass(frozen=True)
class _Footer:
    rows: int
    pieces: Mapping[str, tuple[_Piece, ...]]


def footer_statistics(entries: Sequence[FileEntry], format_name: str, system: FileSystem = LOCAL) -> TableStatistics:
    """Rows by the footers of the first files, the others by their size; what is known of columns when all files were
    opened. Raises ConnectorError or FormatError for a file that cannot be read."""
    opened = entries[:_FOOTERS]
    most = _CHUNKS // max(1, len(opened))
    footers = [_footer(format_name, system, e.path, e.size, e.modified, most) for e in opened]
    rows, size = sum(f.rows for f in footers), sum(e.size for e in opened)
    if len(opened) < len(entries):
        return TableStatistics(rows=rows * sum(e.size for e in entries) / size if size else 0.0)
    filled = [f for f in footers if f.rows]
    names = sorted(set.intersection(*(set(f.pieces) for f in filled))) if filled else []
    columns = {name: [piece for f in filled for piece in f.pieces[name]] for name in names}
    return TableStatistics(float(rows), tuple((name, _statistics(pieces)) for name, pieces in columns.items()))


@lru_cache(maxsize=256)
def _footer(format_name: str, system: FileSystem, path: str, size: int, modified: int, most: int) -> _Footer:
    """Read once for each version of a file (`size`, `modified`): a planner asks again and again. Nothing is told of columns
    that have more than `most` pieces together."""
    with refusing_damage(path):
        return _READERS[format_name](path, system, most)


def _orc_footer(path: str, system: FileSystem, most: int) -> _Footer:
    # Arrow tells nothing of the statistics of ORC's columns.
    return _Footer(int(open_orc(path, system).nrows), {})


def _parquet_footer(path: str, system: FileSystem, most: int) -> _Footer:
    with open_parquet(path, system) as file:
        metadata = file.metadata
        groups = [g for g in range(metadata.num_row_groups) if metadata.row_group(g).num_rows]
        # The leaves of a nested column have paths of several names.
        leaves = [(metadata.schema.column(i).path, i) for i in range(metadata.num_columns)]
        plain = [(name, leaf) for name, leaf in leaves if name in file.schema_arrow.names]
        if len(plain) * len(groups) > most:
            return _Footer(metadata.num_rows, {})
        rows = [metadata.row_group(g).num_rows for g in groups]
        pieces = {
            name: tuple(_piece(count, chunk_of(file, g, leaf)) for g, count in zip(groups, rows, strict=True))
            for name, leaf in plain
        }
        return _Footer(metadata.num_rows, pieces)


def _piece(rows: int, chunk: pq.ColumnChunkMetaData) -> _Piece:
    statistics = chunk.statistics
    if statistics is None:
        return _Piece(rows, None, None, None)
    nulls = statistics.null_count if statistics.has_null_count else None
    ends = (statistics.min, statistics.max) if statistics.has_min_max else None
    return _Piece(rows, 0.0 if nulls == rows else _distinct(chunk, ends), nulls, ends)


def _distinct(chunk: pq.ColumnChunkMetaData, ends: tuple[Any, Any] | None) -> float | None:
    """The values of a column in a row group by the size of its dictionary, in which each stands once: as large as it was
    before it was compressed like the rest, divided by the size of a value."""
    begin, end = chunk.dictionary_page_offset, chunk.data_page_offset
    if not chunk.has_dictionary_page or begin is None or not begin < end or not chunk.total_compressed_size:
        return None
    width: float | None = _WIDTHS.get(chunk.physical_type)
    if chunk.physical_type == "BYTE_ARRAY" and ends is not None and isinstance(ends[0], str | bytes):
        width = 4 + (len(ends[0]) + len(ends[1])) / 2
    size = (end - begin - _HEADER) * chunk.total_uncompressed_size / chunk.total_compressed_size
    return None if width is None or size > _LARGEST_DICTIONARY else max(1.0, size / width)


def _statistics(pieces: Sequence[_Piece]) -> ColumnStatistics:
    """Of a whole column."""
    rows, nulls = sum(p.rows for p in pieces), [p.nulls for p in pieces]
    valued = [p for p in pieces if p.distinct != 0.0]
    absent = None if None in nulls else sum(n for n in nulls if n is not None)
    ends = _ends(valued)
    if ends is None:
        return ColumnStatistics(nulls=absent)
    return ColumnStatistics(_distinct_of_all(valued, rows, *ends), absent, *ends)


def _ends(pieces: Sequence[_Piece]) -> tuple[Any, Any] | None:
    """The least and the greatest value of all; None where one piece does not tell its own."""
    ends: list[Any] = [end for piece in pieces for end in piece.ends or (None,)]
    # Files may hold a column in different types, whose values have no common order. Scalars of Arrow, for moments that no
    # type of Python holds, have none either.
    kinds = {(type(end), getattr(end, "tzinfo", None)) for end in ends}
    if len(kinds) != 1 or ends[0] is None or isinstance(ends[0], pa.Scalar):
        return None
    return min(ends), max(ends)


def _distinct_of_all(pieces: Sequence[_Piece], rows: int, low: Any, high: Any) -> float | None:
    """The values of a column with so many in each piece.

    Pieces whose ranges lie side by side have values of their own; those that overlap draw theirs from the same ones, of
    which more are seen in more rows. Texts count as overlapping.
    """
    counted = [p.distinct for p in pieces if p.distinct is not None]
    if len(counted) < len(pieces):
        return None
    apart = len(pieces) / _overlap(pieces, low, high)
    each = sum(counted) / len(pieces)
    found = apart * _seen(each, sum(p.rows for p in pieces) / len(pieces), rows / apart)
    if isinstance(low, int) and not isinstance(low, bool):
        found = min(found, float(high - low + 1))
    return min(found, float(rows))


def _overlap(pieces: Sequence[_Piece], low: Any, high: Any) -> float:
    """In how many of the pieces' ranges a value lies, on average."""
    if isinstance(low, str | bytes | bool) or low == high:
        return float(len(pieces))
    covered = sum(float((p.ends[1] - p.ends[0]) / (high - low)) for p in pieces if p.ends is not None)
    return min(max(covered, 1.0), float(len(pieces)))


def _seen(distinct: float, rows: float, more: float) -> float:
    """How many values are seen in more rows when so many are in some: as if each row drew one of equally many."""
    if more <= rows:
        return distinct
    if distinct >= 0.95 * rows:
        return distinct / rows * more
    low, high = distinct, 100 * rows
    for _ in range(40):
        values = (low + high) / 2
        low, high = (values, high) if -math.expm1(-rows / values) * values < distinct else (low, values)
    return -math.expm1(-more / low) * low


_READERS: Mapping[str, Callable[[str, FileSystem, int], _Footer]] = {"orc": _orc_footer, "parquet": _parquet_footer}
