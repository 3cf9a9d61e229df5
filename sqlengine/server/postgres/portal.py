"""A statement that has begun to give rows: as many at a time as somebody asks for."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

from sqlengine.server.postgres.statements import Outcome, Piece

__all__ = ["Portal", "Pump"]

_AHEAD = 16
"""Pieces that a cursor of a subscription holds before its subscription waits."""


class Portal:
    """The rows of an outcome, read from one thread at a time."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._pieces = iter(outcome.pieces)
        self._left: Piece | None = None
        self.count = 0
        """How many rows were given since the portal was made."""
        self.ended = outcome.columns is None
        """Whether there are no more rows."""

    def take(self, most: int | None) -> Iterator[Piece]:
        """The next rows, at most so many; None: all."""
        left = most
        while left is None or left > 0:
            piece = self._left if self._left is not None else next(self._pieces, None)
            self._left = None
            if piece is None:
                self.ended = True
                return
            size = len(piece[0]) if piece else 0
            if left is not None and size > left:
                self._left = [column.slice(left) for column in piece]
                piece, size = [column.slice(0, left) for column in piece], left
            self.count += size
            left = None if left is None else left - size
            yield piece

    def counted(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Pieces that somebody else takes from where this one's come from."""
        for piece in pieces:
            self.count += len(piece[0]) if piece else 0
            yield piece

    def peek(self) -> bool:
        """Whether another row follows; waits for it."""
        if self._left is None and not self.ended:
            self._left = next(self._pieces, None)
            self.ended = self._left is None
        return self._left is not None

    def close(self) -> None:
        """Nobody reads on: what runs is stopped."""
        if not self.ended and self.outcome.stop is not None:
            self.outcome.stop()
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()
        self.ended = True


class Pump:
    """The pieces of a subscription, read ahead by a thread, so that a cursor can wait for them for some time only."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self._ahead: queue.Queue[Piece | BaseException | None] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._run, name="cursor of a subscription", daemon=True)
        self._stopped = False
        self._ended = False
        self._deadline: float | None = None
        self._given = False
        self._thread.start()

    def wait_until(self, seconds: float | None) -> None:
        """The next fetch waits so long for its first rows; None: until there are some. It does not wait for more."""
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._given = False

    def __iter__(self) -> Pump:
        return self

    def __next__(self) -> Piece:
        """The next piece; StopIteration when there is none within the time."""
        if self._ended:
            raise StopIteration
        try:
            if self._given:
                found = self._ahead.get_nowait()
            elif self._deadline is None:
                found = self._ahead.get()
            else:
                found = self._ahead.get(timeout=max(0.0, self._deadline - time.monotonic()))
        except queue.Empty:
            raise StopIteration from None
        if found is None or isinstance(found, BaseException):
            self._ended = True
            if found is None:
                raise StopIteration
            raise found
        self._given = True
        return found

    def close(self) -> None:
        """Called once the subscription was stopped."""
        self._stopped = True

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            for piece in self._pieces:
                self._put(piece)
                if self._stopped:
                    break
        except BaseException as error:
            last = error
        self._put(last)

    def _put(self, item: Piece | BaseException | None) -> None:
        while not self._stopped:
            try:
                self._ahead.put(item, timeout=0.5)
            except queue.Full:
                continue
            return
