"""Rejected rows are all counted, and kept up to a limit."""

from __future__ import annotations

import pyarrow as pa

from runtime.local.rejected import RejectedRows
from runtime.operators.operator import Rejected


def test_rows_beyond_the_limit_are_only_counted() -> None:
    rejected = RejectedRows(limit=5)
    job = rejected.for_job("j")
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2, 3])], names=["v"])
    for _ in range(3):
        job.reject(Rejected("op", "late", rows, 0))
    assert rejected.counts["j", "op", "late"] == rejected.total == 9
    assert rejected.rows().column(5).to_pylist() == ["(1)", "(2)", "(3)", "(1)", "(2)"]
