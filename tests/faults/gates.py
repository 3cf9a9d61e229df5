"""Who is held in the middle of something, and who must go on meanwhile.

Who is slow waits within a function of the program until it is let go, so that nothing depends on how fast anything is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlengine import TableEnvironment

__all__ = ["LONG", "Beside", "Gate"]

LONG = 60
"""Seconds after which a test has failed: nobody waits so long unless something is wrong."""


class Gate:
    """Holds whoever comes through while it is shut."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._reached = threading.Event()

    def __call__(self, x: int) -> int:
        if not self._open.is_set():
            self._reached.set()
            assert self._open.wait(LONG)
        return x

    @contextmanager
    def held(self, work: Callable[[], object]) -> Iterator[None]:
        """Somebody's work stands in the gate while a block runs, and has ended behind it."""
        self._open.clear()
        self._reached.clear()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)
                self._reached.set()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert self._reached.wait(LONG)
            assert not failed
            yield
        finally:
            self._open.set()
            thread.join(LONG)
        assert not thread.is_alive() and not failed


class Beside:
    """Another session, on a thread of its own: what it does must end while others are held."""

    def __init__(self, session: TableEnvironment) -> None:
        self._session = session

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        found: list[list[tuple[object, ...]]] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                found.append(
                    [tuple(r.values()) for r in self._session.execute_sql(sql).to_arrow().to_pylist()],
                )
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(LONG / 3)
        assert not thread.is_alive(), f"{sql} waits"
        if failed:
            raise failed[0]
        return sorted(found[0], key=str)
