"""What the footers of files of columns tell the planner: rows, and of each column its NULLs and its ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.filesystem.files import FileEntry
from connectors.filesystem.orc_reader import open_orc
from connectors.filesystem.parquet_reader import open_parquet
from runtime.spi.table import ColumnStatistics, TableStatistics

__all__ = ["footer_statistics"]

_FOOTERS = 16
"""How many files are opened to estimate rows."""
_CHUNKS = 5_000
"""Of so many pieces of columns statistics are read; more would take longer than a plan may."""


@dataclass(frozen=True)
class _Footer:
    rows: int
    columns: Mapping[str, ColumnStatistics]


def footer_statistics(entries: Sequence[FileEntry], format_name: str) -> TableStatistics:
    """Rows by the footers of the first files, the others by their size; what is known of columns when all files were
    opened. Raises ConnectorError or FormatError for a file that cannot be read."""
    opened = entries[:_FOOTERS]
    footers = [_footer(format_name, e.path, e.size, e.modified) for e in opened]
    rows, size = sum(f.rows for f in footers), sum(e.size for e in opened)
    if len(opened) < len(entries):
        return TableStatistics(rows=rows * sum(e.size for e in entries) / size if size else 0.0)
    names = set.intersection(*(set(f.columns) for f in footers)) if footers else set()
    columns = tuple((name, _together(f.columns[name] for f in footers if f.rows)) for name in sorted(names))
    return TableStatistics(rows=float(rows), columns=columns)


@lru_cache(maxsize=256)
def _footer(format_name: str, path: str, size: int, modified: int) -> _Footer:
    """Read once for each version of a file (`size`, `modified`): a planner asks again and again."""
    return _READERS[format_name](path)


def _orc_footer(path: str) -> _Footer:
    # Arrow tells nothing of the statistics of ORC's columns.
    return _Footer(int(open_orc(path).nrows), {})


def _parquet_footer(path: str) -> _Footer:
    with open_parquet(path) as file:
        metadata = file.metadata
        types = {f.name: f.type for f in file.schema_arrow}
        leaves = [(i, metadata.schema.column(i).path) for i in range(metadata.num_columns)]
        # The leaves of a nested column have paths of several names.
        plain = [(i, name) for i, name in leaves if name in types and _has_ends(types[name])]
        if len(plain) * metadata.num_row_groups > _CHUNKS:
            return _Footer(metadata.num_rows, {})
        groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        groups = [group for group in groups if group.num_rows]
        return _Footer(
            metadata.num_rows,
            {name: _together(_chunk(group, leaf) for group in groups) for leaf, name in plain},
        )


def _has_ends(type_: pa.DataType) -> bool:
    """Whether the ends of a column tell anything of how its values lie."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_date(type_)
        or pa.types.is_timestamp(type_)
    )


def _chunk(group: pq.RowGroupMetaData, leaf: int) -> ColumnStatistics:
    """What is known of one column in one row group: no values, or their ends."""
    statistics = group.column(leaf).statistics
    if statistics is None:
        return ColumnStatistics()
    nulls = statistics.null_count if statistics.has_null_count else None
    if nulls == group.num_rows:
        return ColumnStatistics(distinct=0, nulls=nulls)
    if not statistics.has_min_max:
        return ColumnStatistics(nulls=nulls)
    return ColumnStatistics(nulls=nulls, low=_plain(statistics.min), high=_plain(statistics.max))


def _plain(value: Any) -> Any:
    # Moments that Python's own types cannot hold come as scalars of Arrow.
    return None if isinstance(value, pa.Scalar) else value


def _together(parts: Iterable[ColumnStatistics]) -> ColumnStatistics:
    """Of the parts of a column what is known of the whole: ends where each part has them that has values."""
    found = list(parts)
    nulls = [part.nulls for part in found]
    ends = [end for part in found if part.distinct != 0 for end in (part.low, part.high)]
    # Files may hold a column in different types, whose values have no common order.
    comparable = len({(type(end), getattr(end, "tzinfo", None)) for end in ends}) == 1 and None not in ends
    return ColumnStatistics(
        nulls=None if None in nulls else sum(n for n in nulls if n is not None),
        low=min(ends) if comparable else None,
        high=max(ends) if comparable else None,
    )


_READERS: Mapping[str, Callable[[str], _Footer]] = {"orc": _orc_footer, "parquet": _parquet_footer}
