"""Materialized tables in a folder, and their schedule: what rests is as it was, what does not is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.core.clock import VirtualClock
from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment

START = 1_700_000_000_000
MADE = (
    "CREATE TABLE people (id INT PRIMARY KEY NOT ENFORCED, dept STRING)",
    "INSERT INTO people VALUES (1, 'a'), (2, 'a'), (3, 'b')",
    "CREATE MATERIALIZED TABLE running FRESHNESS = INTERVAL '1' MINUTE AS SELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
    "CREATE MATERIALIZED TABLE resting FRESHNESS = INTERVAL '1' MINUTE AS SELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
    "CREATE MATERIALIZED TABLE hourly FRESHNESS = INTERVAL '1' HOUR AS SELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
    "CREATE MATERIALIZED VIEW above AS SELECT SUM(n) AS people FROM hourly",
)


def counted(environment: TableEnvironment) -> tuple[int, ...]:
    """How many people each table knows."""
    found: list[int] = []
    for table in ("running", "resting", "hourly"):
        ((n,),) = environment.execute_sql(f"SELECT SUM(n) FROM {table}").collect()
        found.append(n)
    ((n,),) = environment.execute_sql("SELECT people FROM above").collect()
    return (*found, n)


def test_what_rests_is_as_it_was_when_the_database_is_opened_again(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    with TableEnvironment.create(path=tmp_path / "db", clock=clock) as environment:
        for statement in MADE:
            environment.execute_sql(statement).wait()
        environment.execute_sql("ALTER MATERIALIZED TABLE resting SUSPEND")
        environment.execute_sql("INSERT INTO people VALUES (4, 'c')").wait()
        assert counted(environment) == (4, 3, 3, 3)
    for _ in range(2):
        with TableEnvironment.create(path=tmp_path / "db", clock=clock) as environment:
            assert counted(environment) == (4, 3, 3, 3)
    with TableEnvironment.create(path=tmp_path / "db", clock=clock) as environment:
        environment.execute_sql("INSERT INTO people VALUES (5, 'c')").wait()
        environment.execute_sql("ALTER MATERIALIZED TABLE resting RESUME")
        assert counted(environment) == (5, 5, 3, 3)
        clock.advance_to(clock.now() + 3_600_000)
        assert counted(environment) == (5, 5, 5, 5)
        environment.execute_sql("DELETE FROM people WHERE id < 4")
        environment.execute_sql("ALTER MATERIALIZED TABLE hourly REFRESH")
        assert counted(environment) == (2, 2, 2, 2)
    with TableEnvironment.create(path=tmp_path / "db", clock=clock) as environment:
        environment.execute_sql("DELETE FROM people WHERE id = 4")
        assert counted(environment) == (1, 1, 2, 2)


def test_a_table_that_cannot_be_computed_again_stays_as_it_is() -> None:
    clock = VirtualClock(START)
    with TableEnvironment.create(clock=clock) as environment:
        environment.execute_sql("CREATE TABLE texts (t STRING)")
        environment.execute_sql("INSERT INTO texts VALUES ('1'), ('2')").wait()
        environment.execute_sql(
            "CREATE MATERIALIZED TABLE numbers FRESHNESS = INTERVAL '1' HOUR AS SELECT SUM(CAST(t AS INT)) AS n FROM texts"
        )
        environment.execute_sql("INSERT INTO texts VALUES ('three')").wait()
        clock.advance_to(START + 3_600_000)
        result = environment.execute_sql("SELECT n FROM numbers")
        assert [tuple(row) for row in result.collect()] == [(3,)]
        (warning,) = result.warnings
        assert "numbers" in warning and "three" in warning
        with pytest.raises(SqlEngineError, match="three"):
            environment.execute_sql("ALTER MATERIALIZED TABLE numbers REFRESH")
        environment.execute_sql("DELETE FROM texts WHERE t = 'three'")
        environment.execute_sql("INSERT INTO texts VALUES ('4')").wait()
        clock.advance_to(START + 7_200_000)
        assert [tuple(row) for row in environment.execute_sql("SELECT n FROM numbers").collect()] == [(7,)]


def test_sessions_of_one_database_share_the_schedule() -> None:
    clock = VirtualClock(START)
    with TableEnvironment.create(clock=clock) as environment:
        for statement in MADE:
            environment.execute_sql(statement).wait()
        other = environment.new_session()
        other.execute_sql("INSERT INTO people VALUES (4, 'c')").wait()
        other.execute_sql("CREATE DATABASE elsewhere")
        other.execute_sql("USE elsewhere")
        clock.advance_to(START + 3_600_000)
        assert [tuple(row) for row in other.execute_sql("SELECT SUM(n) FROM default_database.hourly").collect()] == [
            (4,)
        ]
        assert counted(environment) == (4, 4, 4, 4)
