"""What ANALYZE TABLE has found of a table: of the whole, or of each partition; and what that amounts to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from runtime.spi.statistics import ColumnStatistics, TableStatistics

__all__ = ["MeasuredTable", "PartitionKey"]

PartitionKey = tuple[tuple[str, object], ...]
"""The values of all partition columns, in order; empty for a table without partitions."""


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """Statistics by partition. `complete`: all partitions that there were have been measured, so that the sum of their
    rows is the table's."""

    partitions: Mapping[PartitionKey, TableStatistics] = field(default_factory=dict)
    complete: bool = False

    def with_partitions(self, found: Mapping[PartitionKey, TableStatistics], *, complete: bool) -> MeasuredTable:
        """These measurements in the place of those of the same partitions; of all, when `complete`. Columns that were
        not measured this time are as they were."""
        merged = {key: _kept_columns(self.partitions.get(key), new) for key, new in found.items()}
        if complete:
            return MeasuredTable(merged, True)
        return MeasuredTable({**self.partitions, **merged}, self.complete)

    def of_columns(self, names: Collection[str]) -> MeasuredTable | None:
        """What is left when only these columns are as they were; None when nothing of use is."""
        if not self.partitions:
            return None
        keys = {name for key in self.partitions for name, _ in key}
        if not keys <= set(names):
            return None
        parts = {
            key: replace(known, columns=tuple((n, c) for n, c in known.columns if n in names))
            for key, known in self.partitions.items()
        }
        return MeasuredTable(parts, self.complete)

    def table(self) -> TableStatistics:
        """The statistics of the whole table. Rows are unknown unless all partitions are measured; the different values
        of a column are at least those of the partition that has most, of a partition column those that there are."""
        parts = list(self.partitions.values())
        rows = sum(p.rows or 0.0 for p in parts) if self.complete else None
        shared = (
            [n for n, _ in parts[0].columns if all(any(n == m for m, _ in p.columns) for p in parts)] if parts else []
        )
        columns = [(name, _merged([(p.rows or 0.0, p.column(name)) for p in parts])) for name in shared]
        places = list(zip(*(key for key in self.partitions), strict=True))
        by_partition = {place[0][0]: float(len({v for _, v in place} - {None})) for place in places}
        return TableStatistics(
            rows, tuple((n, replace(c, distinct=by_partition.get(n, c.distinct))) for n, c in columns)
        )


def _kept_columns(before: TableStatistics | None, after: TableStatistics) -> TableStatistics:
    if before is None:
        return after
    return replace(after, columns=tuple({**dict(before.columns), **dict(after.columns)}.items()))


def _merged(parts: list[tuple[float, ColumnStatistics]]) -> ColumnStatistics:
    columns = [c for _, c in parts]
    distinct = [c.distinct for c in columns if c.distinct is not None]
    nulls = [c.nulls for c in columns if c.nulls is not None]
    lows = [c.low for c in columns if c.low is not None]
    highs = [c.high for c in columns if c.high is not None]
    lengths = [(r - (c.nulls or 0.0), c.average_length) for r, c in parts if c.average_length is not None]
    present = sum(weight for weight, _ in lengths)
    return ColumnStatistics(
        max(distinct) if distinct else None,
        sum(nulls) if nulls else None,
        min(lows) if lows else None,
        max(highs) if highs else None,
        sum(weight * length for weight, length in lengths) / present if present else None,
    )
