"""Ctrl-C as the operating system sends it: at each look of a view that takes in what a statement has written, and while a
library works that nobody can stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from runtime.core import attended as attended_module
from runtime.core.attended import attended, attended_items
from runtime.core.cancellation import Cancellation, Stopped, look, whole
from sqlengine import TableEnvironment
from sqlengine.shell.interrupt import StatementInterrupt


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ctrl-C raises, also where the process was started to ignore it, and no earlier test has loaded Spark."""
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class CtrlCAt(Cancellation):
    """Sends the signal at one of the looks, counted from 1."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.looks = 0
        self._at = at

    def look(self) -> None:
        self.looks += 1
        if self.looks == self._at:
            ctrl_c()
        super().look()


STATEMENTS = {
    "insert of constants": "INSERT INTO t VALUES (7, 1), (8, 2)",
    "insert of a query": "INSERT INTO t SELECT v + 100, k FROM t",
    "update": "UPDATE t SET k = k + 1 WHERE v < 2",
    "delete": "DELETE FROM t WHERE v = 1",
    "flush": "FLUSH",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_view_that_is_interrupted_at_any_look_lives_on(name: str) -> None:
    interrupted = 0
    for place in range(3):
        for at in range(1, 100):
            with TableEnvironment.create() as env:
                env.execute_script(
                    "CREATE TABLE t (v INT, k INT); INSERT INTO t VALUES (1, 1), (2, 1), (3, 2);"
                    "CREATE MATERIALIZED VIEW a AS SELECT k, SUM(v) AS s FROM t GROUP BY k;"
                    "CREATE MATERIALIZED VIEW b AS SELECT COUNT(*) AS c, SUM(s) AS s FROM a;"
                    "CREATE MATERIALIZED VIEW c AS SELECT x.v, y.k FROM t AS x JOIN t AS y ON x.k = y.k"
                )
                stop = env.session.views.jobs()[place].job.cancellation = CtrlCAt(at)
                try:
                    env.execute_sql(STATEMENTS[name])
                    # Small changes are taken in when a view is read.
                    for view in "abc":
                        env.execute_sql(f"SELECT * FROM {view}").to_arrow()
                except KeyboardInterrupt:
                    interrupted += 1
                env.session.views.jobs()[place].job.cancellation = Cancellation()
                env.execute_sql("INSERT INTO t VALUES (9, 9)")
                for view, query in (
                    ("a", "SELECT k, SUM(v) AS s FROM t GROUP BY k"),
                    ("b", "SELECT COUNT(*) AS c, SUM(s) AS s FROM (SELECT SUM(v) AS s FROM t GROUP BY k)"),
                    ("c", "SELECT x.v, y.k FROM t AS x JOIN t AS y ON x.k = y.k"),
                ):
                    found, expected = (
                        env.execute_sql(q).to_arrow().to_pylist() for q in (f"SELECT * FROM {view}", query)
                    )
                    assert sorted(map(str, found)) == sorted(map(str, expected))
                if stop.looks < at:
                    break
    assert interrupted >= 6 or name == "flush"


class Library:
    """Something that works on and looks nowhere until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        self.go.wait(60)
        self.ended.set()
        return "done"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attended_module, "LEAVE_SECONDS", 0.01)


def interrupted_within(library: Library) -> None:
    """Ctrl-C once the library works, with Python's own handler."""
    helper = threading.Thread(target=lambda: (library.begun.wait(60), ctrl_c()))
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        attended(library)
    helper.join()


def test_ctrl_c_does_not_wait_for_a_library_and_the_next_call_does(short: None) -> None:
    library = Library()
    interrupted_within(library)
    assert not library.ended.is_set()
    library.go.set()
    assert attended(library.ended.is_set)


def test_what_fails_after_it_was_left_is_told(short: None, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Library):
        def __call__(self) -> str:
            super().__call__()
            raise ValueError("too late")

    library = Failing()
    interrupted_within(library)
    library.go.set()
    attended(lambda: None)
    assert caplog.messages == ["the statement that was interrupted has failed: too late"]


def test_a_job_that_was_asked_to_stop_is_left_when_it_does_not_look(short: None) -> None:
    library = Library()
    stop = Cancellation()

    def work() -> None:
        with stop.governing():
            library()

    before = signal.signal(signal.SIGINT, lambda number, frame: stop.request())
    try:
        helper = threading.Thread(target=lambda: (library.begun.wait(60), ctrl_c()))
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            attended(work)
        helper.join()
    finally:
        signal.signal(signal.SIGINT, before)
        library.go.set()
    assert attended(library.ended.is_set)


def test_what_others_ask_is_waited_for(short: None) -> None:
    library = Library()
    stop = Cancellation()

    def work() -> None:
        with stop.governing():
            library()
            look()

    def ask() -> None:
        library.begun.wait(60)
        stop.request()
        library.go.set()

    helper = threading.Thread(target=ask)
    helper.start()
    with pytest.raises(Stopped):
        attended(work)
    helper.join()


def test_items_that_were_left_are_closed_behind_the_call_at_hand(short: None) -> None:
    library = Library()
    closed: list[int] = []

    def items() -> Iterator[str]:
        try:
            yield "first"
            yield library()
            yield "third"
        finally:
            closed.append(threading.get_ident())

    reading = attended_items(items())
    assert next(reading) == "first"
    helper = threading.Thread(target=lambda: (library.begun.wait(60), ctrl_c()))
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        next(reading)
    helper.join()
    assert closed == []
    library.go.set()
    assert attended(lambda: None) is None
    assert closed and closed[0] != threading.get_ident()


def test_what_is_whole_is_not_interrupted() -> None:
    begun = threading.Event()
    seen: list[str] = []

    def work() -> None:
        with whole():
            begun.set()
            assert calls[0].interruption.wait(60)
            look()
            seen.append("whole")
        look()
        seen.append("never")

    calls: list[attended_module._Call] = []
    plain = attended_module._Call
    patch = pytest.MonkeyPatch()
    patch.setattr(attended_module, "_Call", lambda call: calls.append(plain(call)) or calls[0])
    helper = threading.Thread(target=lambda: (begun.wait(60), ctrl_c()))
    helper.start()
    with patch.context(), pytest.raises(KeyboardInterrupt):
        attended(work)
    patch.undo()
    helper.join()
    attended(lambda: None)
    assert seen == ["whole"]


def test_the_shell_leaves_a_kept_view_alone() -> None:
    with TableEnvironment.create() as env:
        interrupt = StatementInterrupt()
        env.session.on_job = interrupt.watch
        env.execute_script("CREATE TABLE t (v INT); CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS c FROM t")
        with interrupt:
            env.execute_sql("CREATE MATERIALIZED VIEW d AS SELECT COUNT(*) AS c FROM c")
            with pytest.raises(KeyboardInterrupt):
                ctrl_c()
                threading.Event().wait(60)
        env.execute_sql("INSERT INTO t VALUES (1)")
        assert env.execute_sql("SELECT c FROM d").to_arrow().to_pydict() == {"c": [1]}
        assert env.execute_sql("SELECT c FROM c").to_arrow().to_pydict() == {"c": [1]}
