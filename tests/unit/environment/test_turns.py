"""The lock that is given out in the order of asking."""

from __future__ import annotations

import threading

import pytest

from sqlengine.turns import TurnLock


def _waiter(lock: TurnLock, name: str, seen: list[str]) -> threading.Thread:
    """A thread that waits in line when this returns."""
    def run() -> None:
        with lock, lock:
            seen.append(name)

    before = len(lock._waiting)
    thread = threading.Thread(target=run)
    thread.start()
    while len(lock._waiting) == before:
        pass
    return thread


def test_whoever_waits_longest_is_next_even_before_the_one_that_released() -> None:
    lock, seen = TurnLock(), []
    with lock:
        threads = [_waiter(lock, name, seen) for name in "abc"]
        with lock.given_up():
            pass
        assert seen == ["a", "b", "c"]
        seen.append("me")
    for thread in threads:
        thread.join()
    assert seen == ["a", "b", "c", "me"]
    with pytest.raises(RuntimeError):
        lock.release()


@pytest.mark.parametrize("late", [False, True])
def test_a_turn_interrupted_is_given_up(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the thread waits, or just after its turn has come."""
    lock, caught = TurnLock(), []
    wait = threading.Event.wait

    def interrupted(self: threading.Event, timeout: float | None = None) -> bool:
        if threading.current_thread().name != "pressed":
            return wait(self, timeout)
        if late:
            wait(self)
        raise KeyboardInterrupt

    def run() -> None:
        try:
            lock.acquire()
        except KeyboardInterrupt:
            caught.append(True)

    lock.acquire()
    thread = threading.Thread(target=run, name="pressed")
    monkeypatch.setattr(threading.Event, "wait", interrupted)
    thread.start()
    while not lock._waiting and not caught:
        pass
    lock.release()
    thread.join()
    assert caught
    with lock:
        assert not lock._waiting
