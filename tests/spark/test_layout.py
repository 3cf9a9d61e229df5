"""Where operators run on Spark: stages, exchanges, phases."""

from __future__ import annotations

import pytest

from runtime.plan import nodes as p
from runtime.plan.walk import walk_all
from runtime.tasks.layout import HERE, ONE, PREFIX, Layout, lay_out
from sqlengine.api.environment import TableEnvironment
from sqlengine.parse import parse_statement
from sqlengine.statements.planning import plan_query


@pytest.fixture(scope="module")
def t_env() -> TableEnvironment:
    made = TableEnvironment.create({})
    made.execute_script(
        """
        CREATE TABLE a (k INT, g STRING, v BIGINT);
        CREATE TABLE b (k INT, w BIGINT);
        CREATE TABLE e (k INT, at TIMESTAMP(3), WATERMARK FOR at AS at);
        """
    )
    return made


def placed(t_env: TableEnvironment, sql: str) -> tuple[list[p.PhysicalNode], Layout]:
    root = plan_query(t_env.session, parse_statement(sql).query.query).physical
    nodes = walk_all([root])
    numbers = {node: number for number, node in enumerate(nodes)}
    inputs = [tuple(numbers[child] for child in node.inputs) for node in nodes]
    return nodes, lay_out(nodes, inputs, [numbers[root]])


def where(nodes: list[p.PhysicalNode], layout: Layout) -> list[tuple[str, str, int, int]]:
    return [
        (type(n).__name__.removesuffix("Exec"), at.where, at.phase, at.stage)
        for n, at in zip(nodes, layout.placed, strict=True)
    ]


def test_filters_before_an_exchange_are_the_prefix(t_env: TableEnvironment) -> None:
    nodes, layout = placed(t_env, "SELECT g, SUM(v) FROM a WHERE v > 1 GROUP BY g")
    assert where(nodes, layout) == [
        ("Source", "driver", 0, 0),
        ("Calc", "here", 1, PREFIX),
        ("GroupAggregate", "keyed", 1, 0),
        ("Calc", "here", 1, 0),
    ]
    assert [(e.source, e.division, e.stage) for e in layout.edges] == [(0, HERE, PREFIX), (1, (0,), 0)]
    assert layout.to_driver == {3}


def test_each_exchange_begins_a_stage_and_an_operator_without_key_runs_once(t_env: TableEnvironment) -> None:
    nodes, layout = placed(t_env, "SELECT MAX(n) FROM (SELECT COUNT(*) n FROM a JOIN b ON a.k = b.k GROUP BY g) t")
    kinds = [(kind, at, stage) for kind, at, _, stage in where(nodes, layout) if kind not in ("Source", "Calc")]
    assert kinds == [("HashJoin", "keyed", 0), ("GroupAggregate", "keyed", 1), ("GroupAggregate", "one", 2)]
    assert [e.division for e in layout.edges if e.stage == 2] == [ONE]


def test_watermarks_are_the_drivers(t_env: TableEnvironment) -> None:
    nodes, layout = placed(
        t_env,
        "SELECT k, window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(at), INTERVAL '1' MINUTE)) "
        "GROUP BY k, window_start, window_end",
    )
    at = {kind: (place, phase) for kind, place, phase, _ in where(nodes, layout)}
    assert at["Watermark"] == ("driver", 0)
    assert at["WindowAggregate"] == ("keyed", 1)
