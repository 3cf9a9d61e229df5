"""Results for programs that do other things meanwhile: callbacks on a thread, iterators that any thread may close."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["Listener", "Turns"]

T = TypeVar("T")
_END: Any = object()


class Listener(Generic[T]):
    """Calls a function with each item of an iterator, on a thread of its own, until it ends or somebody stops it.

    Args:
        items: read on the thread.
        call: what is called; an error that it raises ends the listening.
        stop_items: makes the iterator end.
    """

    def __init__(self, items: Iterator[T], call: Callable[[T], object], stop_items: Callable[[], None]) -> None:
        self._items = items
        self._call = call
        self._stop_items = stop_items
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="result listener", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for item in self._items:
                if self._stopped.is_set():
                    break
                self._call(item)
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()

    @property
    def is_running(self) -> bool:
        """Whether the function may still be called."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop the query; the function is not called again. Returns when a call at hand has returned, and raises what
        `join` would."""
        self._stopped.set()
        self._stop_items()
        if threading.current_thread() is not self._thread:
            self.join()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the query has ended. Raises what made it, or the function, fail, and TimeoutError when it still
        runs after `timeout` seconds."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"the query still runs after {timeout:g} s")
        if self._error is not None:
            raise self._error


class Turns(Generic[T]):
    """An iterator that several threads may read, one item at a time, and any thread may close at any moment.

    A generator may do neither: whoever calls it while it runs gets "generator already executing". Here a reader waits for
    the one before it, and when somebody closes what is being read, the reader does it once it comes out.

    Args:
        items: what is read.
        stop_items: makes a reader come out soon.
    """

    def __init__(self, items: Iterator[T], stop_items: Callable[[], None]) -> None:
        self._items = items
        self._stop_items = stop_items
        self._reading = threading.RLock()
        self._runs = False
        self._closed = False

    def next(self, default: Any = _END) -> Any:
        """The next item, `default` at the end and when it is closed. Raises what the iterator raises."""
        with self._reading:
            if self._closed:
                return default
            self._runs = True
            try:
                return next(self._items, default)
            finally:
                self._runs = False
                if self._closed:
                    self._finish()

    def close(self) -> None:
        """No further item; harmless when repeated."""
        self._closed = True
        self._stop_items()
        if self._reading.acquire(blocking=False):
            try:
                # It may be this very thread that reads: a signal handler, a function of the query.
                if not self._runs:
                    self._finish()
            finally:
                self._reading.release()

    def _finish(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            close()
