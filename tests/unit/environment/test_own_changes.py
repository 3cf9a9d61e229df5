"""What a statement changes in memory is in every view when it returns, in those that read a stream, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.listing import Listing
from sqlengine import SqlEngineError, TableEnvironment

SETUP = """
CREATE TABLE orders (id INT, customer STRING) WITH
  ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv', 'source.monitor-interval' = '1 h');
CREATE TABLE names (customer STRING PRIMARY KEY NOT ENFORCED, full_name STRING);
CREATE MATERIALIZED VIEW named AS SELECT id, full_name FROM orders JOIN names ON orders.customer = names.customer;
CREATE MATERIALIZED VIEW counted AS SELECT full_name, COUNT(*) AS n FROM named GROUP BY full_name;
CREATE MATERIALIZED VIEW beside AS SELECT full_name, n FROM counted UNION ALL SELECT customer, -id FROM orders;
"""


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of listings: the folder is listed again when an hour of it has passed."""
    seconds = [0.0]
    monkeypatch.setattr(Listing.__init__, "__defaults__", (lambda: seconds[0],))
    return seconds


@pytest.fixture
def env(tmp_path: Path, now: list[float]) -> Iterator[TableEnvironment]:
    (tmp_path / "1.csv").write_text("1,ann\n2,bob\n3,ann\n")
    with TableEnvironment.create() as made:
        made.execute_script(SETUP.format(folder=tmp_path))
        made.flush()
        yield made


def rows(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in env.execute_sql(query).collect())


def test_changes_of_a_statement_are_in_views_over_a_stream(env: TableEnvironment) -> None:
    env.execute_sql("INSERT INTO names VALUES ('ann', 'Ann'), ('bob', 'Bob')")
    assert rows(env, "SELECT * FROM counted") == [("Ann", 2), ("Bob", 1)]
    assert rows(env, "SELECT * FROM beside WHERE n > 0") == [("Ann", 2), ("Bob", 1)]
    env.execute_sql("UPDATE names SET full_name = 'Ann Smith' WHERE customer = 'ann'")
    assert rows(env, "SELECT * FROM counted") == [("Ann Smith", 2), ("Bob", 1)]
    env.execute_sql("BEGIN EPOCH")
    env.execute_sql("DELETE FROM names WHERE customer = 'bob'")
    env.execute_sql("INSERT INTO names VALUES ('bob', 'Robert')")
    # What it makes of the changes is not known before they are published, and the old answer would be wrong.
    with pytest.raises(SqlEngineError, match="E1714"):
        rows(env, "SELECT * FROM counted")
    env.execute_sql("END EPOCH")
    assert rows(env, "SELECT * FROM beside WHERE n > 0") == [("Ann Smith", 2), ("Robert", 1)]


def test_the_stream_itself_waits_for_its_turn(env: TableEnvironment, tmp_path: Path, now: list[float]) -> None:
    (tmp_path / "2.csv").write_text("4,ann\n")
    env.execute_sql("INSERT INTO names VALUES ('ann', 'Ann')")
    assert rows(env, "SELECT * FROM counted") == [("Ann", 2)]
    now[0] += 1
    assert rows(env, "SELECT * FROM counted") == [("Ann", 2)]


def test_flush_reads_what_has_come_before_the_folder_was_due(env: TableEnvironment, tmp_path: Path) -> None:
    env.execute_sql("INSERT INTO names VALUES ('ann', 'Ann')")
    for number in (2, 3):
        (tmp_path / f"{number}.csv").write_text(f"{number + 2},ann\n")
        env.flush()
        assert rows(env, "SELECT * FROM counted") == [("Ann", number + 1)]
