"""Rejected rows in a table of the user's: `sqlengine.rejected.table`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from runtime.local.dead_letters import check_prepared
from runtime.local.rejected import KEPT_ROWS, Refusals
from runtime.spi.reader import RejectedRow
from sqlengine import TableEnvironment

BAD = KEPT_ROWS + 2_000
LETTERS = """
CREATE TABLE letters (operator STRING NOT NULL, reason STRING, `row` STRING, event_time TIMESTAMP(3), error STRING,
  epoch BIGINT, rejected_at TIMESTAMP_LTZ(3)) WITH ('connector' = 'filesystem', 'path' = '{folder}/letters', 'format' = 'json');
CREATE TABLE readings (id INT, at_ms BIGINT, t AS TO_TIMESTAMP_LTZ(at_ms, 3)) WITH ('connector' = 'filesystem',
  'path' = '{folder}/readings.csv', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true');
CREATE TABLE good (id INT NOT NULL, at_ms BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/good', 'format' = 'json');
SET 'sqlengine.rejected.table' = 'letters';
"""


@pytest.fixture
def env(tmp_path: Path) -> Iterator[TableEnvironment]:
    (tmp_path / "readings.csv").write_text("1,5\nx1,7\n2,\n,3\n")
    with TableEnvironment.create() as t_env:
        t_env.execute_script(LETTERS.replace("{folder}", str(tmp_path)))
        yield t_env


def rows(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in env.execute_sql(query))


def test_what_a_source_and_a_sink_reject_is_in_the_table(env: TableEnvironment) -> None:
    env.execute_sql("SET 'table.exec.sink.not-null-enforcer' = 'DROP'")
    env.execute_sql("INSERT INTO good SELECT id, at_ms FROM readings").wait()
    assert rows(env, "SELECT reason, `row`, epoch FROM letters") == [
        ("NULL in a NOT NULL column", "(NULL, 3)", 0),
        ("column id is not INT", "x1,7", 0),
    ]
    assert rows(env, "SELECT reason, `row` FROM letters") == rows(env, "SELECT reason, `row` FROM system.rejected")
    assert rows(env, "SELECT id FROM good") == [(1,), (2,)]
    assert rows(env, "SELECT COUNT(*) FROM letters WHERE rejected_at > TO_TIMESTAMP_LTZ(0, 3)") == [(2,)]


def test_the_table_has_all_of_them(env: TableEnvironment, tmp_path: Path) -> None:
    """More than `system.rejected` keeps, and in one epoch no more than may wait."""
    (tmp_path / "readings.csv").write_text("".join(f"x{i},1\n" for i in range(BAD)) + "1,1\n")
    env.execute_sql("INSERT INTO good SELECT id, at_ms FROM readings").wait()
    assert rows(env, "SELECT COUNT(*), COUNT(DISTINCT `row`) FROM letters") == [(BAD, BAD)]
    assert rows(env, "SELECT COUNT(*) FROM system.rejected") == [(KEPT_ROWS,)]


def test_tasks_that_read_lose_none(env: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text("".join(f"x{i},1\n{i},1\n" for i in range(BAD)))
    env.execute_sql("SET 'execution.target' = 'processes'")
    env.execute_sql("SET 'parallelism.default' = '2'")
    env.execute_sql("INSERT INTO good SELECT id, at_ms FROM readings").wait()
    env.execute_sql("RESET 'execution.target'")
    assert rows(env, "SELECT COUNT(*), COUNT(DISTINCT `row`) FROM letters") == [(BAD, BAD)]


def test_queries_and_what_fills_a_table_at_once_write_nothing(env: TableEnvironment, tmp_path: Path) -> None:
    env.execute_sql("CREATE TABLE held (id INT, at_ms BIGINT)")
    env.execute_sql("INSERT INTO held SELECT id, at_ms FROM readings").wait()
    assert len(rows(env, "SELECT id FROM readings WHERE id > 0")) == 2
    assert not (tmp_path / "letters").exists()


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("reason STRING, raw STRING", "", 'has a column "raw"'),
        ("resaon STRING", "", 'did you mean "reason"'),
        ("epoch INT", "", 'a column "epoch" of type INT: it is BIGINT'),
        ("event_time TIMESTAMP(3) NOT NULL", "", 'a column "event_time" that is NOT NULL'),
        ("job STRING, PRIMARY KEY (job) NOT ENFORCED", "", "has a primary key"),
        ("job STRING", None, "is no table with a connector"),
    ],
)
def test_a_table_that_does_not_fit_is_told_before_the_job_runs(
    env: TableEnvironment, tmp_path: Path, columns: str, options: str | None, told: str
) -> None:
    connector = f" WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/other', 'format' = 'debezium-json')"
    env.execute_sql(f"CREATE TABLE other ({columns}){'' if options is None else connector}")
    env.execute_sql("SET 'sqlengine.rejected.table' = 'other'")
    with pytest.raises(SqlEngineError, match="E1532") as caught:
        env.execute_sql("INSERT INTO good SELECT id, at_ms FROM readings")
    assert told in f"{caught.value.message}: {caught.value.hint}"
    assert not (tmp_path / "good").exists()


@pytest.mark.parametrize("name", ["nowhere", "not a name", "letters; DROP TABLE letters"])
def test_a_name_that_is_none(env: TableEnvironment, tmp_path: Path, name: str) -> None:
    env.execute_sql(f"SET 'sqlengine.rejected.table' = '{name}'")
    with pytest.raises(SqlEngineError, match="E1202|E1532"):
        env.execute_sql("INSERT INTO good SELECT id, at_ms FROM readings")
    assert not (tmp_path / "letters").exists()


def test_a_source_that_gives_nothing_but_what_is_malformed_ends_before_memory_does() -> None:
    refusals = Refusals(whole=True)
    refusals.add([RejectedRow("malformed", "x")] * KEPT_ROWS)
    assert refusals.is_full
    with pytest.raises(SqlEngineError, match="E3153"):
        refusals.add([RejectedRow("malformed", "x" * 1000)] * (KEPT_ROWS * 31))
    counted = Refusals()
    counted.add([RejectedRow("malformed", "x")] * (KEPT_ROWS + 5))
    assert not counted.is_full
    assert counted.take().more == (("malformed", 5),)


def test_a_checkpoint_with_rows_for_another_table_is_not_gone_on_from() -> None:
    check_prepared(None, {"good": [1]})
    with pytest.raises(SqlEngineError, match="E3414.*c.d.letters"):
        check_prepared(None, {"good": [1], "rejected rows: c.d.letters": [1]})
