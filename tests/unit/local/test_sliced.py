"""Projections and filters on threads: the same rows in the same order, and the error of the first row that has one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import SqlEngineError
from runtime.local.sliced import SlicedOperator
from runtime.operators.operator import EpochTime, Operator
from sqlengine import TableEnvironment

ROWS = 50_001


def _answer(tasks: int, query: str) -> list[tuple[object, ...]]:
    with TableEnvironment.create({"parallelism.default": str(tasks)}) as t_env:
        numbers = pa.table({"n": pa.array(range(ROWS), pa.int64())})
        t_env.create_temporary_view("numbers", t_env.from_arrow(numbers))
        return [tuple(row) for row in t_env.execute_sql(query).collect()]


def test_rows_and_their_order_are_those_of_one_task() -> None:
    query = "SELECT n, UPPER(CONCAT('r', CAST(n AS STRING))) AS t FROM numbers WHERE MOD(n, 3) <> 1"
    assert _answer(3, query) == _answer(1, query)


def test_coded_texts_are_computed_in_slices_too(tmp_path: Path) -> None:
    """Each slice computes on its own dictionary, in which values may be equal then."""
    texts = pa.array([f"t{n // 7 % 60}" if n % 2 else f"T{n % 90}" for n in range(ROWS)])
    pq.write_table(pa.table({"t": texts, "n": pa.array(range(ROWS), pa.int64())}), tmp_path / "texts.parquet")
    table = (
        "CREATE TABLE texts (t STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'parquet',"
        f" 'path' = '{tmp_path / 'texts.parquet'}')"
    )
    calc = "SELECT UPPER(SUBSTRING(t FROM 1 FOR 2)) AS k, CONCAT(t, '!') AS u, n FROM texts WHERE t <> 'T1'"
    for query in (calc, f"SELECT k, COUNT(*) AS c, MAX(u) AS m FROM ({calc}) AS x GROUP BY k"):
        given: list[list[tuple[object, ...]]] = []
        for tasks in (1, 3):
            with TableEnvironment.create({"parallelism.default": str(tasks)}) as t_env:
                t_env.execute_sql(table)
                given.append(sorted(tuple(row.values()) for row in t_env.execute_sql(query).to_arrow().to_pylist()))
        assert given[0] == given[1] and given[0]


def test_the_error_is_that_of_the_first_row() -> None:
    query = (
        "SELECT CAST(CASE WHEN n IN (100, 49000) THEN CONCAT('x', CAST(n AS STRING)) ELSE '1' END AS INT) FROM numbers"
    )
    with pytest.raises(SqlEngineError, match="x100"):
        _answer(3, query)


def test_what_counts_its_calls_is_not_sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """RAND with a seed is a sequence over the rows."""
    made: list[Operator] = []
    start = SlicedOperator.__init__

    def noted(self: SlicedOperator, inner: Operator, slices: int, workers: ThreadPoolExecutor) -> None:
        made.append(inner)
        start(self, inner, slices, workers)

    monkeypatch.setattr(SlicedOperator, "__init__", noted)
    _answer(2, "SELECT n, RAND(7) AS r FROM numbers")
    assert not made
    _answer(2, "SELECT n + 1 AS m FROM numbers")
    assert made


def test_kinds_stay_with_their_rows() -> None:
    class Doubled(Operator):
        def step(self, inputs: list[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:  # type: ignore[override]
            (batch,) = inputs
            return batch

    kinds = pa.array([0, 1, 2, 3] * 10_000, pa.int8()).to_numpy()
    batch = ChangelogBatch(pa.record_batch({"n": pa.array(range(40_000))}), kinds)
    with ThreadPoolExecutor(2) as workers:
        found = SlicedOperator(Doubled(), 3, workers).step([batch], EpochTime(1, 0, 0, 0))
    assert found is not None
    assert found.rows.equals(batch.rows) and found.kinds_or_inserts().tolist() == kinds.tolist()
