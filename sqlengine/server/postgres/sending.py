"""Rows on their way to a client: in which form, and those of a subscription as they come.

Who follows a table or view has no thread that waits: the loop is told that there are changes, once for all who follow,
and a thread makes the bytes of an epoch, once for all who want them in one form.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlengine.server.postgres import messages as m
from sqlengine.server.postgres.copying import copy_header, copy_piece, first_binary_piece
from sqlengine.server.postgres.encoding import encoded, formats_for
from sqlengine.server.postgres.portal import Portal
from sqlengine.server.postgres.statements import Copying, Outcome, Piece, SharedPiece
from sqlengine.server.postgres.subscribing import Subscription
from sqlengine.server.postgres.types import Described
from sqlengine.server.postgres.wire import Wire

__all__ = ["Calls", "Form", "begin_copy", "follow"]

_Work = Callable[[Callable[[], Any]], Awaitable[Any]]


class Form:
    """How rows go to a client.

    Args:
        asked: the formats of the columns, as messages say them; of no meaning for COPY.
        copying: of COPY; None for rows of a query.
    """

    def __init__(
        self, columns: Sequence[Described], asked: Sequence[int], copying: Copying | None, time_zone: str
    ) -> None:
        self._columns = columns
        self._formats = formats_for(len(columns), asked)
        self._copying = copying
        self._time_zone = time_zone
        self._signed = copying is not None and copying.format == "binary"

    def begins(self, piece: Piece, portal: Portal) -> bool:
        """Whether a piece that the portal has counted is one that begins otherwise than others."""
        return self._signed and portal.count == len(piece[0])

    def key(self, begins: bool) -> Hashable:
        """The same for all forms that make the same bytes."""
        return self._copying, tuple(self._formats), self._time_zone, begins

    def of(self, piece: Piece, begins: bool) -> bytes | memoryview:
        """The messages."""
        if self._copying is None:
            return encoded(piece, self._columns, self._formats, self._time_zone)
        if begins:
            return first_binary_piece(piece, self._columns, self._copying)
        return copy_piece(piece, self._columns, self._copying, self._time_zone)

    def made(self, piece: Piece, portal: Portal) -> bytes | memoryview:
        """The messages, which others may have had made."""
        begins = self.begins(piece, portal)
        if isinstance(piece, SharedPiece):
            return piece.made(self.key(begins), partial(self.of, piece, begins))
        return self.of(piece, begins)


def begin_copy(outcome: Outcome) -> bytes:
    """What stands before the rows of COPY TO."""
    assert outcome.columns is not None and outcome.copy_out is not None
    copying = outcome.copy_out
    begun = m.copy_out(len(outcome.columns), copying.format == "binary")
    if copying.header and copying.format != "binary":
        begun += m.message(b"d", copy_header(outcome.columns, copying) + b"\n")
    return begun


class Calls:
    """What threads have a loop call: all that has gathered, in one of its turns. Made in the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: list[Callable[[], object]] = []
        self._guard = threading.Lock()

    def add(self, call: Callable[[], object]) -> None:
        """From any thread; harmless when the loop has ended."""
        with self._guard:
            self._due.append(call)
            first = len(self._due) == 1
        if first:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._make)

    def _make(self) -> None:
        with self._guard:
            due, self._due = self._due, []
        for call in due:
            call()


async def follow(
    subscription: Subscription, portal: Portal, form: Form, wire: Wire, calls: Calls, in_thread: _Work
) -> None:
    """Send what changes, behind the rows that were there, until the subscription ends. Raises what makes it end before."""
    woken, told = asyncio.Event(), -1
    subscription.wakeup.on_wake = partial(calls.add, woken.set)

    async def send(piece: Piece) -> None:
        portal.count += len(piece[0])
        begins = form.begins(piece, portal)
        make = partial(form.of, piece, begins)
        shared = isinstance(piece, SharedPiece)
        wire.send(await (piece.made_aside(form.key(begins), make, in_thread) if shared else in_thread(make)))
        await wire.drain()

    while not subscription.over:
        woken.clear()
        there = subscription.look()
        entries, complete = (
            await in_thread(subscription.take) if subscription.progress else (subscription.changes(), -1)
        )
        for entry in entries:
            for piece in await entry.made_aside("pieces", partial(subscription.made, entry), in_thread):
                if subscription.over:
                    return
                await send(piece)
        if complete > told:
            await send(subscription.progress_row(complete))
            told = complete
        if not there:
            return
        if not entries:
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), subscription.patience)
