"""An iterator that blocks, read from asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

__all__ = ["AsyncItems"]

T = TypeVar("T")
_END: Any = object()
_END_SECONDS = 1.0


class _Worker(Generic[T]):
    """Reads the items on a thread, each when it is asked for. The iterator is touched by that thread alone, so that
    nobody can close it while it runs."""

    def __init__(self, items: Iterator[T], stop_items: Callable[[], None]) -> None:
        self._items = items
        self._stop_items = stop_items
        self._asked: SimpleQueue[Callable[[Any, BaseException | None], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def ask(self, answer: Callable[[Any, BaseException | None], None]) -> None:
        """Have the next item, or what making it has raised, handed over by the thread."""
        self._asked.put(answer)
        if self._thread is None:
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._run,), name="async result", daemon=True)
            self._thread.start()

    def stop(self, answer: Callable[[Any, BaseException | None], None] | None = None) -> None:
        """Ask for no more; the query is stopped. Tells when the iterator is closed."""
        if not self._stopped:
            self._stopped = True
            self._stop_items()
            self._asked.put(None)
        if answer is not None:
            self.ask(answer)

    def join(self) -> None:
        """Wait a little for the end of the thread."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        while (answer := self._asked.get()) is not None:
            item, error = _END, None
            try:
                item = next(self._items, _END)
            except BaseException as raised:
                error = raised
            answer(item, error)
        error = None
        try:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
        except BaseException as raised:
            error = raised
        with suppress(Exception):
            self._asked.get_nowait()(_END, error)  # type: ignore[misc]


class AsyncItems(Generic[T]):
    """The items of an iterator that blocks, for asyncio: `async for`, or `async with`, then `async for`.

    They are made on a thread of its own, so that any number of iterations goes on side by side. Whoever ends the iteration
    (`aclose`, the end of an `async with`, a task that is cancelled while it waits for an item) stops the query and waits
    for its end; an iteration that nobody has any more is stopped, too. Not an asynchronous generator: one that is forgotten
    cannot close another one inside it.
    """

    def __init__(self, items: Iterator[T], stop_items: Callable[[], None]) -> None:
        self._worker = _Worker(items, stop_items)
        self._over = False

    def __aiter__(self) -> AsyncItems[T]:
        return self

    async def __anext__(self) -> T:
        if self._over:
            raise StopAsyncIteration
        try:
            item = await self._answered(self._worker.ask)
        except GeneratorExit:  # The event loop has gone.
            raise
        except BaseException:
            await self.aclose()
            raise
        if item is _END:
            await self.aclose()
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> AsyncItems[T]:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop, and wait until the query has ended, also when the task is cancelled again and again meanwhile: anyio does
        so until the task has left its scope. Harmless when repeated. Raises what ending the query raises."""
        if self._over:
            return
        self._over = True
        waiting = self._answered(self._worker.stop)
        cancelled: asyncio.CancelledError | None = None
        while not waiting.done():
            try:
                await asyncio.wait([waiting])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            waiting.exception()
            raise cancelled
        waiting.result()

    @staticmethod
    def _answered(ask: Callable[[Callable[[Any, BaseException | None], None]], None]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(item: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(item)

        def answer(item: Any, error: BaseException | None) -> None:
            # A loop that is closed has nobody who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, item, error)

        ask(answer)
        return future

    def __del__(self) -> None:
        if not self._over:
            self._worker.stop()
            self._worker.join()
