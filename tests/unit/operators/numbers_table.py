"""A table of no rows that can be read, and in which every number is found once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["NUMBERS", "NumbersTable"]

NUMBERS = Schema.of(("number", BIGINT))


@dataclass(eq=False)
class NumbersTable:
    """See the module. Looked up by its first column."""

    schema: Schema
    bounded: bool = False
    changelog_mode: ChangelogMode = APPEND

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return []

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        raise NotImplementedError

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        return pa.array(np.arange(keys.num_rows)), pa.RecordBatch.from_arrays(keys.columns, names=["number"])

    def describe(self) -> dict[str, Any]:
        return {}
