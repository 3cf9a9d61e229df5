"""Parameters behind FOR SYSTEM_TIME AS OF: the value is a part of the plan, and another value has another one."""

from __future__ import annotations

import datetime as dt

import pytest

from runtime.core.clock import VirtualClock
from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment

START = dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)
QUERY = "SELECT n FROM t FOR SYSTEM_TIME AS OF ? AS o WHERE o.id = ?"


def at(seconds: int) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


@pytest.fixture
def t_env() -> TableEnvironment:
    begin = int(START.timestamp() * 1000)
    clock = VirtualClock(begin)
    made = TableEnvironment.create(clock=clock)
    made.execute_sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, n INT) WITH ('history.retention' = '1 d')")
    for n in range(3):
        clock.advance_to(begin + n * 10_000 + 1)
        made.execute_sql(f"INSERT INTO t VALUES (1, {n})")
    clock.advance_to(begin + 30_000)
    return made


@pytest.mark.parametrize(
    "moment",
    [at(5), at(5).replace(tzinfo=None), "2024-06-01 12:00:05", at(5).astimezone(dt.timezone(dt.timedelta(hours=3)))],
)
def test_a_moment_is_given(t_env: TableEnvironment, moment: object) -> None:
    assert [row[0] for row in t_env.execute_sql(QUERY, [moment, 1])] == [0]


def test_a_prepared_query_has_the_past_of_each_value(t_env: TableEnvironment) -> None:
    prepared = t_env.prepare(QUERY)
    found = [[row[0] for row in prepared.execute([at(seconds), 1])] for seconds in (5, 15, 25, 5, 5, 15)]
    assert found == [[0], [1], [2], [0], [0], [1]]
    t_env.execute_sql("PREPARE q AS SELECT n FROM t FOR SYSTEM_TIME AS OF CAST($1 AS TIMESTAMP(3)) AS o")
    texts = [f"EXECUTE q('2024-06-01 12:00:{second}')" for second in ("05", "15", "05")]
    assert [[row[0] for row in t_env.execute_sql(text)] for text in texts] == [[0], [1], [0]]


@pytest.mark.parametrize(("moment", "code"), [(None, "E1233"), (7, "E1233"), ("x", "E1308"), (at(60), "E1721")])
def test_what_is_no_moment_is_refused(t_env: TableEnvironment, moment: object, code: str) -> None:
    with pytest.raises(SqlEngineError) as refused:
        t_env.execute_sql(QUERY, [moment, 1])
    assert refused.value.code == code


def test_a_parameter_stands_alone(t_env: TableEnvironment) -> None:
    with pytest.raises(SqlEngineError) as refused:
        t_env.execute_sql("SELECT * FROM t FOR SYSTEM_TIME AS OF ? - INTERVAL '1' HOUR AS o", [at(5)])
    assert refused.value.code in ("E1250", "E1301")
    assert refused.value.span is not None
