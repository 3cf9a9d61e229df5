"""The progress line of statements that take more than a second, by a clock that the test drives."""

from __future__ import annotations

import itertools

import pytest

from runtime.core.cancellation import watching
from sqlengine import TableEnvironment
from sqlengine.terminal.progress import StatementProgress

STATEMENTS = {
    "SELECT COUNT(*) FROM n a JOIN n b ON a.k = b.k": "in 1k of 1k (",
    "INSERT INTO m SELECT a.k FROM n a JOIN n b ON a.k = b.k WHERE a.k + b.k = 17": "in 1k of 1k (",
    "CREATE TABLE c AS SELECT k FROM n": "in 1k of 1k (",
    "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS c FROM n a JOIN n b ON a.k = b.k": "view v | epoch 0 | in 1k of 1k (",
    "DELETE FROM n WHERE k = 3": "change | epoch 0 | in 1k of 1k (",
    "ANALYZE TABLE n COMPUTE STATISTICS FOR ALL COLUMNS": "in 1k of 1k (",
}


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_is_shown_once_it_has_taken_a_second(sql: str) -> None:
    rows = ", ".join(["(1)"] * 1000)
    with TableEnvironment.create() as env:
        env.execute_script(f"CREATE TABLE n (k INT); INSERT INTO n VALUES {rows}; CREATE TABLE m (k INT)")
        for step, shows in ((0.0, False), (0.6, True)):
            lines: list[str] = []
            clock = itertools.count()
            with watching(StatementProgress(lines.append, lambda clock=clock, step=step: next(clock) * step)):
                result = env.execute_sql(sql)
                if result.is_query:
                    result.keep()
            if shows:
                assert any(STATEMENTS[sql] in line for line in lines), lines
                assert all(line.endswith(" s | Ctrl-C stops it") for line in lines)
            else:
                assert lines == []
            if not result.is_query:
                env.execute_script("DROP TABLE IF EXISTS c; DROP MATERIALIZED VIEW IF EXISTS v")
