"""EXPLAIN STATE against the state that the queries of Nexmark, and some more, have when their input is read: within a factor of two."""

from __future__ import annotations

import pytest

from planner.cost.row_facts import row_facts
from planner.cost.state_size import state_sizes
from runtime.core.clock import VirtualClock
from runtime.local.job_settings import EPOCH_MAX_ROWS
from runtime.plan.estimates.rows import RowFacts
from runtime.plan.nodes import PhysicalNode
from sqlengine import TableEnvironment
from tests.benchmarks.nexmark_events import COLUMNS
from tests.benchmarks.suites import nexmark_texts

EVENTS = 200_000
SMALL = 1 << 19
"""Bytes of which less is not looked at: an index has its least size."""
STATEFUL = ("q3", "q4", "q5", "q6", "q7", "q8", "q9", "q11", "q12", "q15", "q16", "q17", "q18", "q19", "q20")


MORE = {
    "lists": "SELECT bidder, LISTAGG(channel), COUNT(*) FROM bid GROUP BY bidder",
    "texts once": "SELECT bidder, 'x', COUNT(DISTINCT url) FROM bid GROUP BY bidder",
}


@pytest.mark.parametrize("query", [*STATEFUL, *MORE])
def test_state_is_as_large_as_it_was_expected(query: str) -> None:
    with TableEnvironment.create(clock=VirtualClock()) as environment:
        for kind, columns in COLUMNS.items():
            environment.execute_sql(
                f"CREATE TABLE {kind} ({columns}, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND) "
                f"WITH ('connector' = 'nexmark', 'nexmark.table' = '{kind}', 'events.num' = '{EVENTS}')"
            )
        if query in MORE:
            environment.execute_sql("CREATE TABLE o (k BIGINT, t STRING, n BIGINT) WITH ('connector' = 'blackhole')")
            environment.execute_sql(f"INSERT INTO o {MORE[query]}").wait()
        else:
            texts = nexmark_texts(query, "WITH ('connector' = 'blackhole')")
            environment.execute_script(texts.declarations)
            environment.execute_sql(texts.measured).wait()
        flow = list(environment.session.jobs.jobs.values())[-1].job.dataflow
        facts: dict[PhysicalNode, RowFacts] = {}
        measured = []
        for vertex in flow.vertices:
            inputs = [row_facts(source, {}, EPOCH_MAX_ROWS.default, facts) for source in vertex.node.inputs]
            sizes = state_sizes(vertex.node, inputs)
            if sizes and vertex.operator is not None:
                expected = sum(size.bytes for size in sizes)
                measured.append((vertex.name, expected, vertex.operator.state_size.bytes))
        assert measured
        for name, expected, found in measured:
            ratio = max(expected, SMALL) / max(found, SMALL)
            assert 0.5 <= ratio <= 2, f"{name}: {expected:,.0f} bytes were expected, {found:,} are there"
