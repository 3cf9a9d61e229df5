"""The lock that is given out in the order of asking."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sqlengine.database.turns import TurnLock


def in_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def waiting(lock: TurnLock, count: int) -> None:
    """Until so many threads stand in line."""
    while len(lock._waiting) < count:
        pass


def test_it_is_reentrant_and_belongs_to_its_thread() -> None:
    lock = TurnLock()
    with lock, lock:
        failed: list[BaseException] = []

        def release() -> None:
            try:
                lock.release()
            except RuntimeError as error:
                failed.append(error)

        in_thread(release).join()
        assert failed
    with pytest.raises(RuntimeError):
        lock.release()


def test_whoever_waits_longest_is_next_even_before_the_one_who_releases() -> None:
    lock = TurnLock()
    order: list[str] = []

    def take(name: str) -> None:
        with lock:
            order.append(name)

    lock.acquire()
    threads = []
    for position, name in enumerate("abc", start=1):
        threads.append(in_thread(lambda name=name: take(name)))
        waiting(lock, position)
    lock.release()
    take("main")
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "c", "main"]


def test_given_up_lets_others_in_from_any_depth() -> None:
    lock = TurnLock()
    seen: list[int] = []
    with lock, lock, lock:
        with lock.given_up():
            with lock:
                seen.append(1)
            other = in_thread(lambda: (lock.acquire(), seen.append(2), lock.release()))
            other.join()
        assert seen == [1, 2]
        blocked = in_thread(lambda: (lock.acquire(), seen.append(3), lock.release()))
        waiting(lock, 1)
        assert seen == [1, 2]
    blocked.join()
    assert seen == [1, 2, 3]


def test_many_threads_count_right() -> None:
    lock = TurnLock()
    count = 0

    def add() -> None:
        nonlocal count
        for _ in range(200):
            with lock:
                before = count
                count = before + 1

    threads = [in_thread(add) for _ in range(4)]
    for thread in threads:
        thread.join()
    assert count == 800


class _Together:
    """Threads that wait with a call each behind the one that has the lock."""

    def __init__(self, lock: TurnLock) -> None:
        self.lock = lock
        self.told: list[str] = []
        """What happened, in order."""
        self.by: dict[str, int] = {}
        """The thread that has carried out each call."""
        self.results: dict[str, object] = {}
        self.threads: list[threading.Thread] = []

    def call(self, name: str) -> str:
        self.told.append(name)
        self.by[name] = threading.get_ident()
        if name.startswith("bad"):
            raise ValueError(name)
        return name.upper()

    def run(self, name: str, part: Callable[[], set[str]] | None = None) -> None:
        try:
            self.results[name] = self.lock.together(
                lambda: self.call(name), part, lambda: self.told.append(f"after {name}")
            )
        except ValueError as error:
            self.results[name] = error
        self.told.append(f"{name} knows")

    def begin(self, name: str, part: Callable[[], set[str]] | None = None) -> None:
        before = len(self.lock._waiting)
        self.threads.append(in_thread(lambda: self.run(name, part)))
        waiting(self.lock, before + 1)

    def end(self) -> None:
        for thread in self.threads:
            thread.join()


def test_short_calls_of_others_are_carried_out_by_who_has_the_lock() -> None:
    lock = TurnLock()
    both = _Together(lock)
    lock.acquire()
    for name in ("a", "b", "c"):
        both.begin(name)
    lock.release()
    both.end()
    assert both.results == {"a": "A", "b": "B", "c": "C"}
    assert both.by["a"] == both.by["b"] == both.by["c"]
    # Nobody knows before what comes afterwards has been done, once for all.
    assert both.told[:4] == ["a", "b", "c", "after a"]
    assert sorted(both.told[4:]) == ["a knows", "b knows", "c knows"]
    assert not lock.held
    with lock:
        assert lock.held_once


def test_an_error_of_a_call_is_that_of_who_asked() -> None:
    lock = TurnLock()
    both = _Together(lock)
    lock.acquire()
    for name in ("bad first", "b", "bad third", "d"):
        both.begin(name)
    lock.release()
    both.end()
    assert (both.results["b"], both.results["d"]) == ("B", "D")
    for name in ("bad first", "bad third"):
        assert isinstance(both.results[name], ValueError) and str(both.results[name]) == name


def test_nobody_is_passed_over_by_calls() -> None:
    """Whoever asked for the lock itself comes before the calls behind."""
    lock = TurnLock()
    both = _Together(lock)
    lock.acquire()
    both.begin("a")
    plain = in_thread(lambda: (lock.acquire(), both.told.append("plain"), lock.release()))
    waiting(lock, 2)
    both.begin("c")
    lock.release()
    both.end()
    plain.join()
    told = [t for t in both.told if t in ("a", "plain", "c")]
    assert told == ["a", "plain", "c"]
    assert both.by["a"] != both.by["c"]


def test_a_call_that_needs_what_is_kept_waits_for_it() -> None:
    lock = TurnLock()
    both = _Together(lock)
    lock.acquire()
    with lock.keeping({"x"}):
        lock_free = threading.Event()
        holder = in_thread(lambda: (lock.acquire(lambda: {"y"}), lock_free.wait(), lock.release()))
        while lock._owner != holder.ident:
            pass
        both.begin("of y", lambda: {"y"})
        both.begin("of x", lambda: {"x"})
        both.begin("also of y", lambda: {"y"})
        lock_free.set()
        holder.join()
        both.threads[0].join()
        both.threads[2].join()
        assert set(both.results) == {"of y", "also of y"}
    lock.release()
    both.end()
    assert both.results["of x"] == "OF X"


def test_who_has_the_lock_calls_at_once() -> None:
    lock = TurnLock()
    both = _Together(lock)
    with lock:
        both.run("a")
    assert both.told == ["a", "a knows"]


def test_calls_of_many_threads_are_all_made_once() -> None:
    lock = TurnLock()
    count = 0

    def one() -> int:
        nonlocal count
        before = count
        count = before + 1
        return before

    found: list[int] = []

    def add() -> None:
        for turn in range(200):
            if turn % 7:
                found.append(lock.together(one, None, lambda: None))
            else:
                with lock:
                    found.append(one())

    threads = [in_thread(add) for _ in range(8)]
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1600))
