"""Tables of connectors in lookup joins, from SQL to the rows: what is found, remembered and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.spi import AsyncLookupTable, ConnectorFactory, Schema

ORDERS = "CREATE TABLE o (id INT, k INT, p AS PROCTIME()) WITH ('changelog-mode' = 'append')"
JOINED = "CREATE MATERIALIZED VIEW v AS SELECT {hint} o.id, d.name FROM o LEFT JOIN c FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.id"


def rows(t_env: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    with t_env.execute_sql(query).collect() as found:
        return sorted(tuple(row) for row in found)


def figures(t_env: TableEnvironment) -> dict[str, float]:
    begin = "sqlengine_lookup_cache_"
    found = {row["name"]: row["value"] for row in t_env.metrics().to_pylist()}
    return {name.removeprefix(begin): value for name, value in found.items() if name.startswith(begin)}


@pytest.mark.parametrize(
    "cache",
    [
        "'lookup.cache' = 'NONE'",
        "'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '10'",
        "'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 h'",
    ],
)
def test_a_table_of_duckdb_that_has_none_of_the_keys(tmp_path: Path, cache: str) -> None:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as shop:
        shop.execute("CREATE TABLE c AS SELECT 1 AS id, 'ann' AS name")
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(ORDERS)
        t_env.execute_sql(
            "CREATE TABLE c (id INT, name STRING) WITH "
            f"('connector' = 'duckdb', 'path' = '{path}', 'table-name' = 'c', {cache})"
        )
        t_env.execute_sql(JOINED.format(hint=""))
        t_env.execute_sql("INSERT INTO o VALUES (1, 8), (2, 9)")
        t_env.execute_sql("INSERT INTO o VALUES (3, 8), (4, 1)")
        assert rows(t_env, "SELECT * FROM v WHERE name IS NOT NULL") == [(4, "ann")]
        found = figures(t_env)
        if "PARTIAL" in cache:
            assert (found["hits_total"], found["misses_total"], found["rows"]) == (1, 3, 3)
            ((held,),) = rows(t_env, "SELECT bytes FROM system.memory WHERE part LIKE 'cache of LookupJoin%'")
            assert held == found["bytes"] > 0
        elif "FULL" in cache:
            assert (found["hits_total"], found["loads_total"], found["rows"]) == (4, 1, 1)
        else:
            assert not found


class Service:
    """Has a name for each even number, and answers one at a time."""

    asked: list[int]

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.asked = []

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        wanted = keys.column(0).to_pylist()
        self.asked += wanted
        found = [(i, k) for i, k in enumerate(wanted) if k % 2 == 0]
        columns = [pa.array([k for _, k in found], pa.int32()), pa.array([f"n{k}" for _, k in found], pa.string())]
        return pa.array([i for i, _ in found], pa.int64()), pa.RecordBatch.from_arrays(columns, names=["id", "name"])

    async def lookup_async(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        if keys.column(0)[0].as_py() == 13:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return self.lookup(key_columns, keys)

    def describe(self) -> dict[str, Any]:
        return {"connector": "service"}


@contextmanager
def with_service(hint: str) -> Iterator[tuple[TableEnvironment, list[Service]]]:
    """An environment with the view over a table of a service, and what was opened of it."""
    made: list[Service] = []

    def lookup(request: Any) -> AsyncLookupTable:
        made.append(Service(request.schema))
        return made[-1]

    with TableEnvironment.create() as t_env:
        t_env._session.registry.connectors.add(ConnectorFactory(name="service", document="a test", lookup=lookup))
        t_env.execute_sql(ORDERS)
        t_env.execute_sql("CREATE TABLE c (id INT, name STRING) WITH ('connector' = 'service')")
        t_env.execute_sql(JOINED.format(hint=hint))
        yield t_env, made


def test_a_service_is_asked_for_several_keys_at_once() -> None:
    with with_service("/*+ LOOKUP('table' = 'd', 'capacity' = '2') */") as (t_env, made):
        t_env.execute_sql("INSERT INTO o VALUES (1, 4), (2, 5), (3, 4), (4, NULL), (5, 6)")
        assert rows(t_env, "SELECT * FROM v WHERE name IS NOT NULL") == [(1, "n4"), (3, "n4"), (5, "n6")]
        assert rows(t_env, "SELECT COUNT(*) FROM v") == [(5,)]
        assert sorted(key for service in made for key in service.asked) == [4, 5, 6]


def test_a_service_that_does_not_answer_fails_the_view() -> None:
    with with_service("/*+ LOOKUP('table' = 'd', 'timeout' = '1 ms') */") as (t_env, _):
        with pytest.warns(UserWarning, match=r"longer than 0\.001 s"):
            t_env.execute_sql("INSERT INTO o VALUES (6, 13)")
        with pytest.raises(SqlEngineError, match="E1713"):
            rows(t_env, "SELECT * FROM v")
