"""Connections that answer parts of a table side by side."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pyarrow as pa

from connectors.databases.parts import Part

__all__ = ["Answering", "Workers"]

_WAITING = 2
"""How many batches of a part may wait."""
_LOOK_SECONDS = 0.2


class Answering(Protocol):
    """A connection that gives rows in columns."""

    def rows(self, query: str) -> Iterator[pa.RecordBatch]: ...

    def cancel(self) -> None:
        """Ends what is being asked, from another thread."""
        ...


class _Stopped(Exception):
    """Nobody wants the rest: the connection is in the middle of an answer."""


class Workers:
    """Connections that see the same rows and answer parts side by side.

    A worker takes the next part that nobody has taken; so the one whose rows are given now is always at work, and others
    wait when as many of their batches wait as may.

    Args:
        number: how many connections.
        lend: gives one that sees what the others do; when that ends with an error it may be in the middle of an answer.
    """

    def __init__(
        self, name: str, parts: Sequence[Part], number: int, lend: Callable[[], AbstractContextManager[Answering]]
    ) -> None:
        self._lend = lend
        self._answers: dict[str, queue.Queue[Any]] = {part.sql: queue.Queue(_WAITING) for part in parts}
        self._open = deque(parts)
        self._stop = threading.Event()
        self._connections: list[Answering] = []
        self._threads = [
            threading.Thread(target=self._work, name=f"fetch {name} {i}", daemon=True)
            for i in range(min(len(parts), number))
        ]

    def __enter__(self) -> Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for connection in list(self._connections):
            with contextlib.suppress(Exception):
                connection.cancel()
        for thread in self._threads:
            thread.join()

    def rows_of(self, part: Part, after: int, stop: threading.Event) -> Iterator[pa.RecordBatch]:
        """The rows of a part behind its first ones; raises what its worker did. Ends early when somebody stops it."""
        answers = self._answers[part.sql]
        while not stop.is_set():
            try:
                found = answers.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            if found.num_rows > after:
                yield found.slice(after)
            after = max(0, after - found.num_rows)

    def _work(self) -> None:
        part: Part | None = None
        try:
            with self._lend() as connection:
                self._connections.append(connection)
                while not self._stop.is_set():
                    try:
                        part = self._open.popleft()
                    except IndexError:
                        break
                    for batch in connection.rows(part.sql):
                        if not self._put(part, batch):
                            raise _Stopped
                    self._put(part, None)
                self._connections.remove(connection)
        except _Stopped:
            return
        except BaseException as error:
            # A worker that had no part yet fails those that nobody has taken.
            for failed in [part] if part is not None else [*self._open]:
                self._put(failed, error)

    def _put(self, part: Part, answer: Any) -> bool:
        while not self._stop.is_set():
            try:
                self._answers[part.sql].put(answer, timeout=_LOOK_SECONDS)
                return True
            except queue.Full:
                continue
        return False
