"""A connection for questions about names, which is kept."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from runtime.core.errors import UnavailableError

__all__ = ["OneConnection"]


class _Closing(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=_Closing)
T = TypeVar("T")


class OneConnection(Generic[C]):
    """A connection that is made with the first question, and anew when it is lost.

    Args:
        connect: makes it.
    """

    def __init__(self, connect: Callable[[], C]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._open: C | None = None

    def ask(self, question: Callable[[C], T]) -> T:
        """The answer to what is asked with a connection. Raises what it raises; UnavailableError, when that happens twice."""
        with self._lock:
            try:
                return self._asked(question)
            except UnavailableError:
                # It may have been lost since the question before.
                self._open = None
                return self._asked(question)

    def _asked(self, question: Callable[[C], T]) -> T:
        if self._open is None:
            self._open = self._connect()
            weakref.finalize(self, self._open.close)
        return question(self._open)
