"""Nexmark and TPC-H in the tasks of a cluster: after each epoch the answers are those of the embedded runtime, and of
DuckDB. The cluster is simulated; with SPARK_MATRIX=1 (`make spark-matrix`) it is a real Spark on this machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import VirtualClock
from runtime.spark.cluster import Cluster
from runtime.spark.session import spark_session
from runtime.spark.simulated import SimulatedCluster
from sqlengine import TableEnvironment
from sqlengine.results.result import fold
from tests.oracle.duckdb_oracle import connect, rows_like
from tests.oracle.test_nexmark import QUERIES, ROOT, START_OF_CLOCK, Cuts, parts
from tests.oracle.test_tpch import EXAMPLES, compare, create_views, data
from tests.oracle.tpch_changes import TABLES, Shop

__all__ = ["data"]

EPOCHS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster | SimulatedCluster]:
    if not os.environ.get("SPARK_MATRIX"):
        yield SimulatedCluster(11)
        return
    session = spark_session("local[2,4]")
    yield Cluster(session)
    session.stop()


def contents(name: str, cluster: Cluster | SimulatedCluster | None) -> list[list[str]]:
    """What a query's changes fold to after each epoch that has any, and at the end."""
    header, insert = parts(name)
    clock = VirtualClock()
    clock.advance_to(START_OF_CLOCK)
    with TableEnvironment.create(clock=clock) as t_env:
        t_env.session.harness.checked = True
        t_env.session.harness.cut = Cuts(1000, 4000)
        if cluster is not None:
            t_env.get_config().set("execution.target", "spark").set("parallelism.default", "2")
            t_env.session.target.cluster = cluster
        t_env.execute_script(header)
        result = t_env.execute_sql(re.sub(r"INSERT INTO \w+\n", "", insert))
        changes: list[ChangelogBatch] = []
        found: list[list[str]] = []
        for change in result.changes():
            changes.append(change)
            rows = rows_like(pa.Table.from_batches([fold(changes, result.schema)]), result.schema.arrow)
            found.append(sorted(map(str, rows)))
        return found


@pytest.mark.parametrize("name", QUERIES)
def test_nexmark_as_embedded_after_each_epoch(
    name: str, cluster: Cluster | SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    expected = contents(name, None)
    assert expected
    assert contents(name, cluster) == expected


def test_tpch_views_follow_changes(
    cluster: Cluster | SimulatedCluster, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duck = connect()
    for name in TABLES:
        duck.execute(f"CREATE TABLE {name} AS SELECT * FROM '{data}/sql_examples/tpch/data/{name}.parquet'")
    monkeypatch.chdir(data)
    with TableEnvironment.create({"parallelism.default": "2"}) as t_env:
        t_env.execute_script((EXAMPLES / "schema.sql").read_text())
        t_env.execute_script((EXAMPLES / "load.sql").read_text())
        t_env.get_config().set("execution.target", "spark")
        t_env.session.target.cluster = cluster
        create_views(t_env, 0)
        create_views(t_env, 1)
        shop = Shop(t_env, duck, np.random.default_rng(7))
        compare(shop, "after the load")
        for epoch in range(EPOCHS):
            done = shop.change()
            compare(shop, f"after epoch {epoch} ({'; '.join(done)})")
