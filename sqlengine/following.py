"""Results for programs that do other things meanwhile: callbacks on a thread, and iteration in asyncio."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["Listener", "iterate_async"]

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
        """Whether it may still be called."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """No further call; the query is stopped. Returns when a call at hand has returned, and raises what `join`
        would."""
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


async def iterate_async(items: Iterator[T], stop_items: Callable[[], None]) -> AsyncGenerator[T]:
    """The items of an iterator that blocks, for asyncio: each is awaited on a worker thread. Whoever leaves the
    iteration, or cancels its task, stops the query."""
    # Loaded here: whoever only imports the engine shall not wait for it.
    import asyncio

    ended = False
    try:
        while True:
            pending = asyncio.ensure_future(asyncio.to_thread(next, items, _END))
            try:
                item = await asyncio.shield(pending)
            except asyncio.CancelledError:
                # The worker is inside the iterator: it has to come out before anybody may close that.
                stop_items()
                await asyncio.wait([pending])
                raise
            if item is _END:
                ended = True
                return
            yield item
    finally:
        if not ended:
            stop_items()
            close = getattr(items, "close", None)
            if close is not None:
                close()
