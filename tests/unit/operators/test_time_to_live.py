"""With a time to live no operator keeps rows for good: what is idle is gone when the time has passed, bytes and all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numbers_table import NUMBERS, NumbersTable

from runtime.core.changelog import APPEND, RETRACT, UPSERT, ChangelogBatch, ChangelogMode
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, TimeAttribute, timestamp
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import InputRef
from runtime.local.dataflow import Dataflow, SourceInput
from runtime.local.rejected import RejectedRows
from runtime.plan import nodes as p
from runtime.plan.nodes import AggregateSpec, JoinKind, PhysicalNode, RankFunction, SortSpec

ROW = Schema.of(("id", BIGINT), ("v", BIGINT), ("ts", timestamp(3, TimeAttribute.ROWTIME)))
PAIR = Schema((*ROW.fields, *ROW.fields))
TTL = 1000
KEYS = 4_000


def source(name: str, mode: ChangelogMode = APPEND) -> p.SourceExec:
    return p.SourceExec(NumbersTable(ROW), name, ROW, mode)


def count(function: str, distinct: bool = False) -> AggregateSpec:
    return AggregateSpec(function, (1,), (BIGINT,), BIGINT, distinct)


COUNTED = Schema.of(("id", BIGINT), ("n", BIGINT))
REMEMBERED = Schema((*ROW.fields, *Schema.of(("w", BIGINT)).fields))
LOOKED_UP = Schema((*ROW.fields, *NUMBERS.fields))
A, B, R, U = source("a"), source("b"), source("r", RETRACT), source("u", UPSERT)
BY_V = (SortSpec(1),)
NODES: dict[str, PhysicalNode] = {
    "group": p.GroupAggregateExec(A, (0,), (count("SUM"),), COUNTED, RETRACT, TTL),
    "distinct": p.GroupAggregateExec(A, (0,), (count("COUNT", True),), COUNTED, RETRACT, TTL),
    "join": p.HashJoinExec(A, B, JoinKind.INNER, (0,), (0,), (False,), None, None, None, PAIR, APPEND, TTL, TTL),
    "left join": p.HashJoinExec(A, B, JoinKind.LEFT, (0,), (0,), (False,), None, None, None, PAIR, RETRACT, TTL, TTL),
    "temporal": p.TemporalJoinExec(A, U, JoinKind.LEFT, (0,), (0,), 2, 2, None, PAIR, APPEND, TTL),
    "lookup": p.LookupJoinExec(
        R, NumbersTable(NUMBERS), "n", JoinKind.LEFT, ((InputRef(0, BIGINT), 0),), None, LOOKED_UP, RETRACT, TTL
    ),
    "top 1": p.TopNExec(A, RankFunction.ROW_NUMBER, (0,), BY_V, 1, 1, False, None, ROW, RETRACT, TTL),
    "top 1 of changes": p.TopNExec(R, RankFunction.ROW_NUMBER, (0,), BY_V, 1, 1, False, None, ROW, RETRACT, TTL),
    "first": p.DeduplicateExec(A, (0,), None, False, ROW, APPEND, TTL),
    "last": p.DeduplicateExec(A, (0,), None, True, ROW, RETRACT, TTL),
    "last of changes": p.DeduplicateExec(R, (0,), None, True, ROW, RETRACT, TTL),
    "limit": p.LimitExec(R, 0, 10, ROW, RETRACT, TTL),
    "intersect": p.SetOperationExec(A, B, "INTERSECT", False, ROW, APPEND, TTL),
    "normalize": p.ChangelogNormalizeExec(U, (0,), ROW, RETRACT, TTL),
    "remember": p.RememberExec(R, (InputRef(0, BIGINT),), None, REMEMBERED, RETRACT, TTL),
    "remember by key": p.RememberExec(R, (InputRef(0, BIGINT),), (0,), REMEMBERED, RETRACT, TTL),
    "materialize": p.SinkMaterializeExec(R, (0,), ROW, UPSERT, TTL),
}


def rows(first: int, number: int) -> ChangelogBatch:
    ids = np.arange(first, first + number)
    times = pa.array(np.zeros(number, np.int64), pa.timestamp("us"))
    return ChangelogBatch.of([pa.array(ids), pa.array(ids % 7), times], ROW)


IN_MEMORY: dict[str, str] = {}
ON_DISK = {"state.backend.type": "rocksdb", "sqlengine.state.keys-in-memory": "500"}


def flow_of(node: PhysicalNode, options: dict[str, str]) -> Dataflow:
    return Dataflow([node], Options(options), builtin_functions(), "UTC", RejectedRows().for_job("job", "UTC"))


@pytest.mark.parametrize("options", [IN_MEMORY, ON_DISK], ids=["memory", "rocksdb"])
@pytest.mark.parametrize("name", NODES)
def test_idle_state_is_gone(name: str, options: dict[str, str]) -> None:
    flow = flow_of(NODES[name], options)
    inputs = flow.sources
    for epoch in range(20):
        flow.step({s: SourceInput(rows(epoch * KEYS, KEYS), watermark=0) for s in inputs}, epoch)
    full, many = flow.state_bytes, flow.state_rows
    assert many >= 20 * KEYS
    for epoch in range(100):
        flow.step({s: SourceInput(rows(10**6, 1), watermark=0) for s in inputs}, 10 * TTL + epoch)
    assert flow.state_rows <= 400
    # With rocksdb memory is what admitting and sending away takes, which is little from the start.
    assert flow.state_bytes < full / (4 if options is IN_MEMORY else 2)
    flow.abort()
