"""How much a role may take: rows of results, memory and state; where limits are kept, and what is wrong with some."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.database.acting import act_for
from sqlengine.roles.authority import Authority
from sqlengine.roles.limits import NO_LIMITS, Limits
from sqlengine.statements import limited

NUMBERS = (
    "CREATE TEMPORARY TABLE numbers (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '300000', "
    "'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '300000')"
)


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> Iterator[TableEnvironment]:
    monkeypatch.setattr(limited, "_MEASURED_FOR_SECONDS", 0.0)
    with TableEnvironment.create() as made:
        made.execute_sql("CREATE DATABASE d")
        made.execute_sql("CREATE USER ann")
        for privilege in ("CREATE", "SELECT"):
            made.execute_sql(f"GRANT {privilege} ON DATABASE d TO ann")
        made.execute_sql("GRANT USAGE ON CONNECTOR datagen TO ann")
        yield made


def as_ann(env: TableEnvironment) -> TableEnvironment:
    session = env.new_session()
    act_for(session.session, Authority(env.session.database.roles, "ann"))
    session.execute_sql("USE d")
    return session


def code_of(session: TableEnvironment, sql: str) -> str:
    with pytest.raises(SqlEngineError) as caught:
        list(session.execute_sql(sql).changes())
    return caught.value.code


def test_they_are_there_again_and_can_be_taken_away(tmp_path: Path) -> None:
    limits = Limits(3, 1500, 20, 64 << 20, 1 << 30)
    with TableEnvironment.create(path=tmp_path / "shop") as env:
        env.execute_sql(
            "CREATE USER ann CONNECTION LIMIT 3 STATEMENT LIMIT '1500 ms' ROW LIMIT 20 MEMORY LIMIT '64 mb' STATE LIMIT '1 gb'"
        )
        assert env.session.database.roles.roles["ann"].limits == limits
    with TableEnvironment.create(path=tmp_path / "shop") as env:
        roles = env.session.database.roles
        assert roles.roles["ann"].limits == limits
        shown = env.execute_sql("SHOW ROLES").to_arrow().to_pylist()[0]
        assert shown["other limits"] == "1.5 s, 20 rows, 64.0 MiB of memory, 1.0 GiB of state"
        env.execute_sql(
            "ALTER ROLE ann CONNECTION LIMIT -1 STATEMENT LIMIT -1 ROW LIMIT -1 MEMORY LIMIT '-1' STATE LIMIT -1"
        )
        assert roles.roles["ann"].limits == NO_LIMITS


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("STATEMENT LIMIT 'soon'", "E1500"),
        ("STATEMENT LIMIT '0 s'", "E1500"),
        ("MEMORY LIMIT '3 parsecs'", "E1500"),
        ("ROW LIMIT '5'", "E1100"),
        ("ROW LIMIT -2", "E1100"),
        ("ROWS LIMIT 5", "E1100"),
    ],
)
def test_what_is_wrong(env: TableEnvironment, words: str, code: str) -> None:
    with pytest.raises(SqlEngineError) as caught:
        env.execute_sql(f"ALTER ROLE ann {words}")
    assert caught.value.code == code and caught.value.span is not None


def test_rows_of_a_result(env: TableEnvironment) -> None:
    ann = as_ann(env)
    ann.execute_sql(NUMBERS)
    env.execute_sql("ALTER ROLE ann ROW LIMIT 100")
    assert code_of(ann, "SELECT * FROM numbers") == "E1803"
    assert code_of(ann, "SELECT * FROM (SELECT * FROM numbers LIMIT 101)") == "E1803"
    with limited.reading_parts():
        assert ann.execute_sql("SELECT * FROM numbers LIMIT 101").to_arrow().num_rows == 101
    limited.check_rows(ann.session, 100)
    with pytest.raises(SqlEngineError, match="more than 100 rows"):
        limited.check_rows(ann.session, 101)
    assert sum(map(len, ann.execute_sql("SELECT * FROM numbers LIMIT 100").changes())) == 100
    assert len(list(ann.execute_sql("SELECT COUNT(*) FROM (SELECT DISTINCT i FROM numbers)").to_arrow())) == 1
    env.execute_sql("ALTER ROLE ann ROW LIMIT -1")
    assert sum(map(len, ann.execute_sql("SELECT * FROM numbers").changes())) == 300_000


def test_memory_of_tables_views_and_queries(env: TableEnvironment) -> None:
    ann = as_ann(env)
    ann.execute_sql(NUMBERS)
    ann.execute_sql("CREATE TABLE mine (i BIGINT PRIMARY KEY NOT ENFORCED)")
    ann.execute_sql("INSERT INTO mine SELECT i FROM numbers")
    memory, state = limited.taken_by(env.session.database, "ann")
    assert memory > 300_000 * 8 and state == 0
    assert limited.taken_by(env.session.database, "sqlengine") == (0, 0)
    env.execute_sql("ALTER ROLE ann MEMORY LIMIT '1 mb'")
    assert code_of(ann, "INSERT INTO mine VALUES (0)") == "E1804"
    assert code_of(ann, "CREATE TABLE more AS SELECT * FROM mine") == "E1804"
    ann.execute_sql("DELETE FROM mine WHERE i > 10")
    ann.execute_sql("DROP TABLE mine")
    assert code_of(ann, "SELECT COUNT(*) FROM (SELECT i, COUNT(*) AS n FROM numbers GROUP BY i)") == "E1804"
    ann.execute_sql("CREATE TABLE few (i BIGINT)")
    ann.execute_sql("INSERT INTO few VALUES (1)")


def test_state_of_views(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE d.given (i BIGINT PRIMARY KEY NOT ENFORCED)")
    env.execute_sql(NUMBERS)
    env.execute_sql("INSERT INTO d.given SELECT i FROM numbers")
    env.execute_sql("ALTER ROLE ann STATE LIMIT '2 mb'")
    ann = as_ann(env)
    assert code_of(ann, "CREATE MATERIALIZED VIEW v AS SELECT i, COUNT(*) AS n FROM given GROUP BY i") == "E1805"
    assert env.execute_sql("SHOW MATERIALIZED VIEWS").to_arrow().num_rows == 0
    ann.execute_sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM given")
    env.execute_sql("ALTER ROLE ann STATE LIMIT -1")
    ann.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT i, COUNT(*) AS n FROM given GROUP BY i")
    assert limited.taken_by(env.session.database, "ann")[1] > 300_000 * 8
    env.execute_sql("ALTER ROLE ann STATE LIMIT '2 mb'")
    assert code_of(ann, "CREATE MATERIALIZED VIEW x AS SELECT COUNT(*) AS n FROM given") == "E1805"
    env.execute_sql("INSERT INTO d.given VALUES (-1)")
    assert ann.execute_sql("SELECT n FROM w").to_arrow().column(0)[0].as_py() == 300_001
