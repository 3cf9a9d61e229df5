"""Rows that do not change, as a source: what the tables of constants and of snapshots have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.spi.source import EndingInserts
from runtime.spi.statistics import TableStatistics

__all__ = ["FixedRows", "FixedRowsReader"]


class FixedRows(EndingInserts, ABC):
    """A table of such rows: it ends, and has insertions alone."""

    @property
    @abstractmethod
    def num_rows(self) -> int: ...

    def statistics(self) -> TableStatistics:
        return TableStatistics(rows=float(self.num_rows), counted=True)


class FixedRowsReader:
    """A position is the number of rows given."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._at = 0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if self.finished or max_rows <= 0:
            return None
        part = self._rows.slice(self._at, max_rows)
        self._at += part.num_rows
        return ChangelogBatch(part.combine_chunks().to_batches()[0])

    @property
    def finished(self) -> bool:
        return self._at >= self._rows.num_rows

    def position(self) -> int:
        return self._at

    def close(self) -> None:
        self._at = self._rows.num_rows
