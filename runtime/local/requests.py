"""What others ask of a job's thread: calls between two epochs, when nothing is in flight."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from runtime.core.errors import PlanningError

__all__ = ["Requests"]


class Requests:
    """The calls that wait for the end of an epoch. `job`: its name, for messages."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._waiting: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._standing: list[Callable[[], bool]] = []

    def ask(self, call: Callable[[], Any]) -> Future[Any]:
        """From any thread: what the call gives, or raises."""
        done: Future[Any] = Future()
        self._waiting.put((call, done))
        return done

    def each_time(self, call: Callable[[], bool]) -> None:
        """Between epochs: call this after each epoch from now on, as long as it gives True. It raises nothing."""
        self._standing.append(call)

    def answer(self) -> None:
        """In the job's thread, between epochs: what was asked for since the last one."""
        if self._standing:
            self._standing = [call for call in self._standing if call()]
        with suppress(Empty):
            while True:
                call, done = self._waiting.get_nowait()
                try:
                    done.set_result(call())
                except Exception as error:
                    done.set_exception(error)

    def refuse(self) -> None:
        """The job has ended: whoever waits gets PlanningError E1416."""
        with suppress(Empty):
            while True:
                ended = PlanningError(f"{self._job} has ended", code="E1416", hint="SHOW JOBS lists the jobs that run")
                self._waiting.get_nowait()[-1].set_exception(ended)
