"""Lookup joins are done by tasks where their table can be asked from anywhere. On a simulated cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.schema import Schema
from runtime.spark.simulated import SimulatedCluster
from runtime.spi.registry import ConnectorFactory
from runtime.tasks import divided
from sqlengine.api.environment import TableEnvironment

asked: Counter[str] = Counter()
opened: Counter[str] = Counter()
said: Counter[str] = Counter()


@dataclass(frozen=True)
class Service:
    """Doubles a number; knows those that do not end in 3. `at`: where it is asked from."""

    schema: Schema
    anywhere: bool
    at: str = "driver"
    changes: ClassVar[bool] = False

    @property
    def distributed_lookups(self) -> bool:
        return self.anywhere

    def __reduce__(self) -> tuple[Any, ...]:
        return _elsewhere, (self.schema, self.anywhere)

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        asked[self.at] += keys.num_rows
        assert list(key_columns) == ["k"]
        found = keys.column(0).to_numpy()
        there = np.flatnonzero(found % 10 != 3)
        if self.changes:
            twice = np.arange(len(there)) + said["answers"] + 1
            said["answers"] += len(there)
        else:
            twice = found[there] * 2
        columns = [pa.array(found[there]), pa.array(twice)]
        return pa.array(there), pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def describe(self) -> dict[str, Any]:
        return {"connector": "service"}


def _elsewhere(schema: Schema, anywhere: bool) -> Service:
    opened["tasks"] += 1
    return Service(schema, anywhere, "tasks")


def rows(
    cluster: SimulatedCluster | None, query: str, *, anywhere: bool = True, **options: str
) -> list[tuple[Any, ...]]:
    asked.clear()
    opened.clear()
    with TableEnvironment.create({"sqlengine.epoch.max-rows": "300", **options}) as t_env:
        if cluster is not None:
            t_env.get_config().set("execution.target", "spark")
            t_env.get_config().set("parallelism.default", "3")
            t_env.session.target.cluster = cluster
        factory = ConnectorFactory(
            name="service", document="a test", lookup=lambda request: Service(request.schema, anywhere)
        )
        t_env.session.registry.connectors.add(factory)
        t_env.execute_script(
            """CREATE TABLE bid (k BIGINT, v BIGINT, at AS PROCTIME()) WITH ('connector' = 'datagen', 'seed' = '5',
              'number-of-rows' = '1500', 'fields.k.min' = '0', 'fields.k.max' = '99', 'fields.v.min' = '0', 'fields.v.max' = '9');
            CREATE TABLE service (k BIGINT, twice BIGINT) WITH ('connector' = 'service');"""
        )
        found = t_env.execute_sql(query).folded().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)


ENRICHED = """SELECT b.k, b.v, s.twice FROM bid AS b
LEFT JOIN service FOR SYSTEM_TIME AS OF b.at AS s ON b.k = s.k WHERE b.v > 2"""
BEHIND = """SELECT s.twice, COUNT(*), SUM(t.v) FROM
(SELECT k, v, PROCTIME() AS at FROM (SELECT a.k, a.v FROM bid AS a JOIN bid AS b ON a.k = b.v)) AS t
JOIN service FOR SYSTEM_TIME AS OF t.at AS s ON t.k = s.k GROUP BY s.twice"""


@pytest.mark.parametrize("query", [ENRICHED, BEHIND])
def test_tasks_ask(monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    expected = rows(None, query)
    assert len(expected) > 8 and asked["driver"]
    monkeypatch.setattr(divided, "PREFIX_ROWS", 10)
    assert rows(SimulatedCluster(3), query) == expected
    assert asked["tasks"] and not asked["driver"]
    assert rows(SimulatedCluster(3), query, anywhere=False) == expected
    assert asked["driver"] and not asked["tasks"]
    assert rows(SimulatedCluster(3), query, **{"sqlengine.spark.look-up-in-tasks": "false"}) == expected
    assert asked["driver"] and not asked["tasks"]


UPDATED = """SELECT s.twice, COUNT(*) AS n FROM (SELECT k, COUNT(*) AS n, PROCTIME() AS at FROM bid GROUP BY k) AS t
JOIN service FOR SYSTEM_TIME AS OF t.at AS s ON t.k = s.k WHERE t.n > 2 GROUP BY s.twice"""
AGAIN = """SELECT /*+ LOOKUP('table' = 's', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay',
  'fixed-delay' = '10 ms', 'max-attempts' = '2') */ t.k, t.n, s.twice
FROM (SELECT k, COUNT(*) AS n, PROCTIME() AS at FROM bid GROUP BY k) AS t
LEFT JOIN service FOR SYSTEM_TIME AS OF t.at AS s ON t.k = s.k"""


@pytest.mark.parametrize("query", [UPDATED, AGAIN])
def test_tasks_keep_answers(query: str) -> None:
    """Of rows that are taken back, and of such as wait to be asked for again."""
    expected = rows(None, query)
    assert len(expected) > 8
    assert rows(SimulatedCluster(3), query) == expected
    assert asked["tasks"] and not asked["driver"]


@pytest.mark.parametrize("seed", [1, 3])
def test_answers_are_those_of_one_attempt(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A table that says something else each time it is asked: rows are taken back with what they came with."""
    monkeypatch.setattr(Service, "changes", True)
    taken = """SELECT times, COUNT(*) AS answers FROM (SELECT s.twice, COUNT(*) AS times
      FROM (SELECT k, COUNT(*) AS n, PROCTIME() AS at FROM bid GROUP BY k) AS t
      JOIN service FOR SYSTEM_TIME AS OF t.at AS s ON t.k = s.k GROUP BY s.twice) AS f GROUP BY times"""
    # Each of the 90 keys that are known has one row, with an answer of its own.
    assert rows(SimulatedCluster(seed), taken) == [(1, 90)]


def test_tasks_keep_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with its table is opened once, and not by each of five epochs in each of three partitions."""
    monkeypatch.setattr(divided, "PREFIX_ROWS", 10)
    rows(SimulatedCluster(None), ENRICHED)
    assert opened["tasks"] == 1


def test_few_rows_are_not_worth_a_task() -> None:
    rows(SimulatedCluster(None), ENRICHED)
    assert asked["driver"] and not asked["tasks"]
