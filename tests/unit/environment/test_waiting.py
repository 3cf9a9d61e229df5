"""Views over connectors and subscribers sleep until they are woken, and hear of everything that concerns them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors import watching
from runtime.core.clock import VirtualClock
from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.database.source_thread import SourceThread
from sqlengine.statements import subscribe

FOLDER = """CREATE TABLE {name} (v INT) WITH
  ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', 'source.monitor-interval' = '1 s')"""


def rows(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in env.execute_sql(query).collect())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What a thread would call once a second to list the folders; nobody does but the test."""
    found: list[Callable[[], None]] = []

    def watch(group: object, call: Callable[[], None], seconds: float) -> Callable[[], None]:
        assert seconds == 1
        found.append(call)
        return lambda: found.remove(call)

    monkeypatch.setattr(watching, "watch", watch)
    return found


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> Iterator[TableEnvironment]:
    # The test takes the turns of the views' thread.
    monkeypatch.setattr(SourceThread, "_run", lambda self: None)
    with TableEnvironment.create() as made:
        yield made


def test_views_over_folders_take_their_turn_when_there_is_a_file(
    env: TableEnvironment, looks: list[Callable[[], None]], tmp_path: Path
) -> None:
    env.execute_sql("CREATE TABLE names (v INT PRIMARY KEY NOT ENFORCED, name STRING)")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.csv").write_text("1\n")
        env.execute_sql(FOLDER.format(name=name, path=tmp_path / name))
        env.execute_sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT v, name FROM {name} NATURAL JOIN names")
    views = env.session.views
    taken: list[str] = []
    for view in views.jobs():

        def advance(path: str = view.path.name, step: Callable[..., bool] = view.advance, **how: bool) -> bool:
            taken.append(path)
            return step(**how)

        view.advance = advance  # type: ignore[method-assign]
    views.sources._take_turns()
    taken.clear()
    # Nothing is due at any time: the thread sleeps until it is woken.
    assert views.sources._agenda._seconds() is None
    for look in looks:
        look()
    assert views.sources._agenda._woken == {}
    (tmp_path / "b" / "2.csv").write_text("2\n")
    for look in looks:
        look()
    views.sources._take_turns()
    assert taken == ["of_b"]
    while views.sources._agenda._seconds() is not None or views.sources._ready:
        views.sources._take_turns()
    assert set(taken) == {"of_b"}
    taken.clear()
    # What a statement changes is taken with the statement, and the thread that it wakes finds nothing to do.
    env.execute_sql("INSERT INTO names VALUES (2, 'two')")
    assert rows(env, "SELECT * FROM of_b") == [(2, "two")]
    taken.clear()
    views.sources._take_turns()
    assert taken == []
    env.execute_sql("DROP MATERIALIZED VIEW of_b")
    assert len(looks) == 1


def test_a_view_with_an_open_window_of_processing_time_is_asked_until_it_closes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, looks: list[Callable[[], None]]
) -> None:
    monkeypatch.setattr(SourceThread, "_run", lambda self: None)
    clock = VirtualClock(500)
    with TableEnvironment.create(clock=clock) as env:
        env.execute_sql(FOLDER.format(name="f", path=tmp_path).replace("(v INT)", "(v INT, t AS PROCTIME())"))
        for kind in ("TUMBLE", "SESSION"):
            window = f"{kind}(TABLE f, DESCRIPTOR(t), INTERVAL '1' SECOND)"
            env.execute_sql(
                f"CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM {window} GROUP BY window_start, window_end"
            )
            (view,) = env.session.views.jobs()
            while view.advance():
                pass
            if kind == "TUMBLE":
                assert view.job.idle_for() is None
                (tmp_path / "1.csv").write_text("1\n")
                looks[0]()
            while view.advance():
                pass
            assert view.job.idle_for() == 0
            clock.advance_to(clock.now() + 2000)
            env.session.views.sources._take_turns()
            assert rows(env, "SELECT n FROM w") == [(1,)]
            assert view.job.idle_for() is None


class _Sleeper(subscribe.Wakeup):
    """Does in place of the sleep what the test says."""

    plan: list[Callable[[], object]] = []
    slept: list[float | None] = []

    def wait(self, seconds: float | None) -> bool:
        self.slept.append(seconds)
        self.plan.pop(0)()
        assert super().wait(0), "nobody would have woken the subscriber"
        return True


def test_subscribers_are_woken_by_changes_drops_failures_and_requests(
    env: TableEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribe, "Wakeup", _Sleeper)
    _Sleeper.slept = []
    env.execute_script(
        "CREATE TABLE w (v INT); CREATE TABLE t (v INT); CREATE MATERIALIZED VIEW total AS SELECT SUM(10 / v) AS s FROM t;"
        "CREATE MATERIALIZED VIEW above AS SELECT s FROM total WHERE s > 0"
    )

    def followed(name: str, *plan: Callable[[], object]) -> list[list[object]]:
        _Sleeper.plan = list(plan)
        subscription = env.execute_sql(f"SUBSCRIBE TO {name}")
        if not plan:
            _Sleeper.plan = [subscription.cancel]
        return [step.column(0).to_pylist() for step in subscription.changes()]

    run = env.execute_sql
    inserts = [lambda: run("INSERT INTO w VALUES (1)"), lambda: run("INSERT INTO w VALUES (2)")]
    assert followed("w", *inserts, lambda: run("ALTER TABLE w RENAME TO other")) == [[1], [2]]
    with pytest.raises(SqlEngineError, match="E1713"):
        followed("above", lambda: run("INSERT INTO t VALUES (0)"))
    followed("other")
    assert set(_Sleeper.slept) == {None}
