"""A request to stop reaches whoever works, also when it interrupts the very thread that waits for it."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from runtime.core.cancellation import Cancellation


def interrupted(call: Callable[[], object], at: int, handler: Callable[[], object]) -> bool:
    """Run something, and a handler in its thread before its instruction number `at`, where a signal might have come;
    tells whether there was one."""
    left = at

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                sys.settrace(None)
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return left <= 0


def test_a_handler_may_ask_wherever_it_interrupts_the_one_who_waits() -> None:
    for at in itertools.count(1):
        stop = Cancellation()
        reached = interrupted(lambda stop=stop: stop.wait(0.0), at, stop.request)
        assert stop.requested == reached
        assert stop.wait(0.0) == reached
        if not reached:
            break
    assert at > 10


def test_a_handler_may_ask_while_its_thread_asks() -> None:
    for at in itertools.count(1):
        stop = Cancellation()
        reached = interrupted(stop.request, at, stop.request)
        assert stop.wait(0.0)
        if not reached:
            break
    assert at > 5


def test_all_who_wait_hear_of_it() -> None:
    stop = Cancellation()
    heard: list[bool] = []
    threads = [threading.Thread(target=lambda: heard.append(stop.wait(60))) for _ in range(3)]
    for thread in threads:
        thread.start()
    stop.request()
    for thread in threads:
        thread.join()
    assert heard == [True, True, True]


def test_nobody_asked() -> None:
    stop = Cancellation()
    assert not stop.wait(0.001)
    assert not stop.requested


def test_the_shortest_wait_ends() -> None:
    for _ in range(2000):
        assert not Cancellation().wait(2e-5)
