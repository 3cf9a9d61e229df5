"""A database ends with its last session, also with one that the program has forgotten."""

from __future__ import annotations

import gc
from pathlib import Path

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment


def asked(path: Path) -> list[int]:
    with TableEnvironment.create(path=path) as t_env:
        return [row[0] for row in t_env.execute_sql("SELECT * FROM t").collect()]


def test_sessions_that_nobody_has_any_more_keep_it_no_longer(tmp_path: Path) -> None:
    """They are parts of circles, so that only a collection finds them."""
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        t_env.execute_sql("CREATE TABLE t (n INT)")
        t_env.new_session().execute_sql("INSERT INTO t VALUES (1)")
    assert t_env.session.database.closed.is_set()
    assert asked(tmp_path / "db") == [1]


def test_the_last_session_may_be_forgotten_after_the_first_was_closed(tmp_path: Path) -> None:
    t_env = TableEnvironment.create(path=tmp_path / "db")
    t_env.execute_sql("CREATE TABLE t (n INT)")
    other = t_env.new_session()
    database = t_env.session.database
    t_env.close()
    other.execute_sql("INSERT INTO t VALUES (1)")
    assert not database.closed.is_set()
    del other
    gc.collect()
    assert database.closed.wait(60)
    while True:
        try:
            assert asked(tmp_path / "db") == [1]
            break
        except SqlEngineError as error:
            # Another thread is closing it.
            assert error.code == "E3701"
