"""What was closed is forgotten: nothing of a database is left when its sessions are closed."""

from __future__ import annotations

import gc
import weakref

import pytest

from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.database.database import Database

FAILS = {
    "nothing": [],
    "a query": ["SELECT 1 / 0 FROM m"],
    "an INSERT": ["INSERT INTO b SELECT 1 / 0 FROM m"],
    "an UPDATE": ["UPDATE m SET a = 1 / 0"],
    "a view": ["CREATE MATERIALIZED VIEW w AS SELECT 1 / a AS b FROM m", "INSERT INTO m VALUES (0)"],
}


def used(statements: list[str]) -> weakref.ref[Database]:
    t_env = TableEnvironment.create()
    t_env.execute_script("""
        CREATE TABLE s (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000');
        CREATE TABLE b (a INT) WITH ('connector' = 'blackhole');
        CREATE TABLE m (a INT);
        INSERT INTO m VALUES (1);
        CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM m""")
    running = t_env.execute_sql("INSERT INTO b SELECT a FROM s")
    for statement in statements:
        try:
            t_env.execute_sql(statement).to_arrow()
        except SqlEngineError as error:
            assert error.__traceback__ is not None
    assert t_env.execute_sql("SELECT * FROM v").to_arrow().num_rows == 1
    found = weakref.ref(t_env.session.database)
    with t_env.new_session() as other:
        other.execute_sql("SELECT * FROM m").to_arrow()
    t_env.close()
    del running
    return found


@pytest.mark.parametrize("case", FAILS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_closed_database_is_collected(case: str) -> None:
    found = used(FAILS[case])
    gc.collect()
    assert found() is None


def test_a_failed_job_still_says_why() -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE m AS SELECT 1 AS a")
        with pytest.raises(SqlEngineError, match="division by zero"):
            t_env.execute_sql("CREATE TABLE n AS SELECT 1 / (a - 1) AS b FROM m")
        rows = t_env.execute_sql("SELECT error_code, error FROM system.jobs WHERE status = 'FAILED'").to_arrow()
        assert rows.to_pylist() == [{"error_code": "E2102", "error": "division by zero"}]
