"""A table with a rate limit gives so many rows a second of the engine's clock, whatever reads it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors.kit.prefetch import Fetched, PrefetchingReader
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.clock import VirtualClock
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.local.rejected import RejectedRows
from runtime.local.source_inputs import SourceContext, SourceInputs
from runtime.plan.nodes import SourceExec
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from sqlengine import TableEnvironment

SCHEMA = Schema.of(("n", BIGINT))


class Numbers:
    """0 to 99, fetched in the background."""

    schema, changelog_mode, bounded = SCHEMA, APPEND, False

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("all")]

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        def fetched(position: int | None, stop: object):
            yield Fetched(pa.record_batch({"n": pa.array(range(position or 0, 100), pa.int64())}), 100)
            yield Fetched(None, 100)

        return PrefetchingReader("numbers", fetched, context, bounded=False)

    def describe(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize(("of_the_table", "of_the_session", "rate"), [(10, 0, 10), (10, 4, 4), (10, 50, 10), (0, 4, 4)])
def test_rows_come_with_the_clock(of_the_table: int, of_the_session: int, rate: int) -> None:
    mode: ChangelogMode = APPEND
    node = SourceExec(schema=SCHEMA, name="numbers", table=Numbers(), mode=mode, rate_limit=of_the_table)
    clock = VirtualClock(5_000)
    context = SourceContext("UTC", "numbers", RejectedRows().for_job("job"))
    inputs = SourceInputs(node, context, clock, rows_per_second=of_the_session)
    given = 0

    def poll() -> int:
        batch = inputs.poll(1000).batch
        return 0 if batch is None else len(batch)

    assert poll() == 0
    assert inputs.available_in() is None  # until the clock moves
    for moment in (5_500, 5_500, 5_510, 7_000, 7_999, 9_000):
        clock.advance_to(moment)
        given += poll()
        assert given == (moment - 5_000) * rate // 1000
    clock.advance_to(1_000_000)
    assert given + poll() == 100
    inputs.close()


def test_a_hint_and_explain() -> None:
    table = "CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'scan.rate-limit' = '5')"
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(table)
        assert t_env.explain_sql("SELECT * FROM t").endswith("(a) at most 5 rows/s  [I]")
        hinted = "SELECT * FROM t /*+ OPTIONS('scan.rate-limit' = '{}') */"
        assert "at most 9 rows/s" in t_env.explain_sql(hinted.format(9))
        assert "rows/s" not in t_env.explain_sql(hinted.format(0))
