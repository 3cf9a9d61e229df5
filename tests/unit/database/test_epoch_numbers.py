"""The numbers of epochs: they mean the same to all who are told them, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.core.clock import VirtualClock
from runtime.core.errors import SqlEngineError
from runtime.core.wakeup import Wakeup
from sqlengine import TableEnvironment
from sqlengine.catalog.objects import CatalogTable
from sqlengine.server.feeds import Behind, Feeds, Start
from tests.unit.database.test_lasting import rows

KEPT = "WITH ('history.retention' = '1 d')"
TABLE = f"CREATE TABLE t (id INT, n INT) {KEPT}"
VIEW = f"CREATE MATERIALIZED VIEW v {KEPT} AS SELECT id, SUM(n) AS n FROM t GROUP BY id"
COUNT = "SELECT COUNT(*) FROM {} FOR SYSTEM_TIME AS OF EPOCH {}"


def _killed(t_env: TableEnvironment) -> None:
    assert t_env.session.durable is not None
    t_env.session.durable.abandon()


def _newest(t_env: TableEnvironment) -> int:
    return t_env.session.database.shown.epoch


@pytest.mark.parametrize("ends", [TableEnvironment.close, _killed])
def test_numbers_grow_though_the_clock_stands(tmp_path: Path, ends: Callable[[TableEnvironment], None]) -> None:
    clock, told = VirtualClock(1_700_000_000_000), list[int]()
    path = str(tmp_path / "db")
    for turn in range(4):
        t_env = TableEnvironment.create(clock=clock, path=path)
        if turn == 0:
            t_env.execute_sql(TABLE)
            t_env.execute_sql(VIEW)
        for _ in range(3):
            t_env.execute_sql(f"INSERT INTO t VALUES ({len(told)}, 1)")
            told.append(_newest(t_env))
        assert rows(t_env, "SELECT newest_epoch FROM system.history") == [(told[-1],)] * 2
        for count, number in enumerate(told, 1):
            for name in "t", "v":
                assert rows(t_env, COUNT.format(name, number)) == [(count,)], (turn, number)
        assert told == sorted(set(told))
        ends(t_env)


def test_what_only_a_connector_knew_is_not_answered(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = str(tmp_path / "db")
    t_env = TableEnvironment.create(path=path)
    t_env.execute_sql(
        f"CREATE TABLE f (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'csv', "
        "'source.monitor-interval' = '1 ms')"
    )
    t_env.execute_sql(f"CREATE MATERIALIZED VIEW files {KEPT} AS SELECT n FROM f")
    t_env.execute_sql(TABLE)
    t_env.execute_sql("INSERT INTO t VALUES (1, 1)")
    assert t_env.session.durable is not None
    with t_env.session.views.lock:
        t_env.session.durable.checkpoint()
    known = _newest(t_env)
    (tmp_path / "in" / "a.csv").write_text("1\n2\n")
    t_env.flush()
    lost = _newest(t_env)
    assert lost > known and rows(t_env, COUNT.format("files", lost)) == [(2,)]
    _killed(t_env)
    with TableEnvironment.create(path=path) as t_env:
        t_env.flush()
        assert rows(t_env, COUNT.format("files", known)) == []
        assert rows(t_env, COUNT.format("files", _newest(t_env))) == [(2,)]
        with pytest.raises(SqlEngineError, match="does not go back to epoch"):
            rows(t_env, COUNT.format("files", lost))
        assert rows(t_env, COUNT.format("t", lost)) == [(1,)]


def test_a_subscription_goes_on_behind_an_epoch_of_the_process_before(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with TableEnvironment.create(path=path) as t_env:
        t_env.execute_sql(TABLE)
        t_env.execute_sql("CREATE TABLE plain (n INT)")
        t_env.execute_sql("INSERT INTO t VALUES (1, 1), (2, 2)")
        seen = _newest(t_env)
        t_env.execute_sql("UPDATE t SET n = 7 WHERE id = 1")
    with TableEnvironment.create(path=path) as t_env:
        t_env.execute_sql("DELETE FROM t WHERE id = 2")
        session, feeds = t_env.session, Feeds(t_env.session.database)

        def begin(name: str) -> Start:
            found = session.catalogs.get((name,))
            assert isinstance(found, CatalogTable)
            return feeds.subscribe(session, found, Wakeup(), snapshot=False, after=seen, by_history=True)[1]

        start = begin("t")
        assert start.epoch == _newest(t_env) and start.missed is not None
        columns = (c.to_pylist() for c in start.missed.columns)
        found = sorted(zip(start.missed.signs().tolist(), *columns, strict=True))
        assert found == [(-1, 1, 1), (-1, 2, 2), (1, 1, 7)]
        t_env.execute_sql("INSERT INTO t VALUES (3, 3)")
        (entry,), newest = start.follower.take()
        assert entry.epoch == newest == _newest(t_env)
        with pytest.raises(Behind):
            begin("plain")
