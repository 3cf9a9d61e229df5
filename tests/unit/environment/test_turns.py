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
