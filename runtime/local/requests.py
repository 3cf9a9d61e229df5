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
        self._standing: list[tuple[Callable[[], bool], Callable[[], object]]] = []

    def ask(self, call: Callable[[], Any]) -> Future[Any]:
        """From any thread: what the call gives, or raises."""
        done: Future[Any] = Future()
        self._waiting.put((call, done))
        return done

    def each_time(self, call: Callable[[], bool], at_end: Callable[[], object]) -> None:
        """Between epochs: call this after each epoch from now on, as long as it gives True; when the job ends first,
        `at_end`. They raise nothing."""
        self._standing.append((call, at_end))

    def answer(self) -> None:
        """In the job's thread, between epochs: what was asked for since the last one."""
        if self._standing:
            self._standing = [standing for standing in self._standing if standing[0]()]
        with suppress(Empty):
            while True:
                call, done = self._waiting.get_nowait()
                try:
                    done.set_result(call())
                except Exception as error:
                    done.set_exception(error)

    def refuse(self) -> None:
        """The job has ended: whoever waits gets PlanningError E1416."""
        standing, self._standing = self._standing, []
        for _, at_end in standing:
            at_end()
        with suppress(Empty):
            while True:
                ended = PlanningError(f"{self._job} has ended", code="E1416", hint="SHOW JOBS lists the jobs that run")
                self._waiting.get_nowait()[-1].set_exception(ended)
