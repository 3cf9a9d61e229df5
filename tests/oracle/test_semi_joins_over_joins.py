"""Whether rows have a match may be asked before they are joined or after: the answer is DuckDB's, epoch by epoch."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlengine import TableEnvironment
from tests.oracle.duckdb_oracle import assert_same_rows, connect, rows_like

COLUMNS = {"a": ("k", "g", "x"), "b": ("k", "y"), "c": ("g", "z")}
QUERIES = (
    "SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k WHERE a.g IN (SELECT g FROM c WHERE z > 2)",
    "SELECT a.k, b.y FROM a JOIN b ON a.k = b.k WHERE EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND c.z < a.x)",
    "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.g = a.g AND c.z > 3)",
    "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE b.k IN (SELECT g FROM c GROUP BY g HAVING SUM(z) > 1)",
    "SELECT a.g, COUNT(*) FROM a JOIN b ON a.k = b.k AND a.x <> b.y WHERE a.g NOT IN (SELECT z FROM c WHERE z > 5) GROUP BY a.g",
)


def _write(folder: Path, rng: random.Random, sizes: dict[str, int]) -> None:
    for name, columns in COLUMNS.items():
        rows = sizes[name]
        data = {c: pa.array([rng.choice((None, *range(8))) for _ in range(rows)], pa.int64()) for c in columns}
        (folder / name).mkdir()
        pq.write_table(pa.table(data), folder / name / "part.parquet", row_group_size=20)


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize(("sizes", "asked_first"), [({"a": 60, "b": 90, "c": 4}, 5), ({"a": 300, "b": 2, "c": 100}, 3)])
def test_answers_are_the_same(tmp_path: Path, sizes: dict[str, int], asked_first: int, tasks: int) -> None:
    _write(tmp_path, random.Random(f"{sizes} {tasks}"), sizes)
    duck = connect()
    plans: list[str] = []
    options = {"sqlengine.epoch.max-rows": "7", "parallelism.default": str(tasks)}
    with TableEnvironment.create(options) as environment:
        for name, columns in COLUMNS.items():
            typed = ", ".join(f"{c} BIGINT" for c in columns)
            path = tmp_path / name
            environment.execute_sql(
                f"CREATE TABLE {name} ({typed}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet')"
            )
            duck.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}/*')")
        for query in QUERIES:
            (text,) = next(iter(environment.execute_sql(f"EXPLAIN {query}")))
            plans.append(text.partition("== Physical Plan ==")[2])
            expected = duck.sql(query).to_arrow_table()
            assert expected.num_rows, query
            mine = environment.execute_sql(query).to_arrow()
            assert_same_rows(rows_like(mine, expected.schema), rows_like(expected, expected.schema), query)
    # The plan names the joins from the last to the first.
    first = [plan for plan in plans if plan.index("INNER") < max(plan.rfind("SEMI"), plan.rfind("ANTI"))]
    assert len(first) == asked_first, "\n".join(plans)


def test_the_plan_over_a_folder_that_grows_stays(tmp_path: Path) -> None:
    """A job that goes on from its checkpoint must find the plan that it began with, however many files came meanwhile."""
    _write(tmp_path, random.Random(4), {"a": 300, "b": 2, "c": 100})

    def plan() -> str:
        with TableEnvironment.create() as environment:
            for name, columns in COLUMNS.items():
                typed = ", ".join(f"{c} BIGINT" for c in columns)
                environment.execute_sql(
                    f"CREATE TABLE {name} ({typed}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / name}', "
                    "'format' = 'parquet', 'source.monitor-interval' = '1 s')"
                )
            (text,) = next(iter(environment.execute_sql(f"EXPLAIN {QUERIES[0]}")))
            return text

    before = plan()
    some = [i % 8 for i in range(900)]
    pq.write_table(pa.table({"k": some, "y": some}), tmp_path / "b" / "more.parquet")
    assert plan() == before
