"""What is made of something for one client, and is there for the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

__all__ = ["MadeOnce"]

T = TypeVar("T")
_InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class MadeOnce:
    """Something of which the same is made for many clients: bytes of rows, in a few forms."""

    def __init__(self) -> None:
        self._made: dict[object, Any] = {}
        self._coming: dict[object, asyncio.Future[Any]] = {}
        """What threads make now, for tasks of a loop."""
        self._keeps = True
        self._guard = threading.Lock()

    def made(self, key: object, make: Callable[[], T]) -> T:
        """What `make` gives, or has given for the same key. From any thread."""
        with self._guard:
            found = self._made.get(key, self)
            if found is self:
                found = make()
                if self._keeps:
                    self._made[key] = found
            return found

    async def made_aside(self, key: object, make: Callable[[], T], in_thread: _InThread) -> T:
        """The same for a task, which waits while a thread makes it, for this task or for another."""
        found = self._made.get(key, self)
        if found is not self:
            return found  # type: ignore[return-value]
        at = key, asyncio.get_running_loop()
        coming = self._coming.get(at)
        if coming is None:
            coming = self._coming[at] = asyncio.ensure_future(in_thread(lambda: self.made(key, make)))
            coming.add_done_callback(lambda _: self._coming.pop(at, None))
        return await asyncio.shield(coming)

    @property
    def made_bytes(self) -> int:
        """The size of what was made, of what is bytes."""
        return sum(len(made) for made in tuple(self._made.values()) if isinstance(made, bytes))

    def forget(self) -> None:
        """What was made is made again for each who asks."""
        self._keeps = False
        self._made = {}
