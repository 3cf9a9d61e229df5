"""A file of another machine: bytes are asked for by their place. Several requests are on their way at once, because each
takes long, and little is held."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["FetchedFile"]

PART = 4 << 20
"""Bytes that a file which is read in order is fetched in."""
_AHEAD = 2
"""So many parts are on their way while one is being read."""
_LEAST = 256 << 10
"""A request for fewer bytes takes as long."""
_PIECE = 8 << 20
_GAP = 64 << 10
"""Bytes that nobody wants between two ranges: fewer are fetched with them."""
_SIDE_BY_SIDE = 6

Fetch = Callable[[int, int], bytes]
"""Gives the bytes from a begin to an end, all of them, or raises ConnectorError."""


class FetchedFile(io.RawIOBase):
    """A `RangedFile`, for one thread.

    Args:
        size: of the file, in bytes.
        fetch: called in any thread.
        in_order: the file is read from the front; then some parts ahead of what is read are held, else only what was read
            last and what `load` was told of.
        first: the first bytes, where they are known.
    """

    def __init__(self, size: int, fetch: Fetch, in_order: bool, first: bytes = b"") -> None:
        super().__init__()
        self._size = size
        self._fetch = fetch
        self._in_order = in_order
        self._at = 0
        self._parts: dict[int, _Call] = {}
        self._last = (0, first)
        """Where the bytes begin that were fetched last, and these."""
        self._loaded: list[tuple[int, bytes]] = []
        self._first = first if in_order else b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        begin = min(self._at, self._size)
        end = self._size if size is None or size < 0 else min(self._size, begin + size)
        data = self._bytes(begin, end) if end > begin else b""
        self._at = begin + len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._parts.clear()
        self._loaded = []
        self._last, self._first = (0, b""), b""
        super().close()

    def load(self, ranges: Sequence[tuple[int, int]]) -> None:
        """See `RangedFile`."""
        self._loaded = []
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(ranges):
            end = min(end, self._size)
            if merged and begin <= merged[-1][1] + _GAP:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            elif begin < end:
                merged.append((begin, end))
        pieces = [(at, min(at + _PIECE, end)) for begin, end in merged for at in range(begin, end, _PIECE)]
        found = dict(zip(pieces, _side_by_side(self._fetch, pieces), strict=True))
        for begin, end in merged:
            data = b"".join(found.pop((at, min(at + _PIECE, end))) for at in range(begin, end, _PIECE))
            self._loaded.append((begin, data))

    def _bytes(self, begin: int, end: int) -> bytes:
        for start, data in (*self._loaded, self._last):
            if start <= begin and end <= start + len(data):
                return data[begin - start : end - start]
        if self._in_order:
            return b"".join(self._of_parts(begin, end))
        wanted = min(self._size, max(end, begin + _LEAST))
        self._last = begin, self._fetch(begin, wanted)
        return self._last[1][: end - begin]

    def _of_parts(self, begin: int, end: int) -> Iterable[bytes]:
        for number in range(begin // PART, -(-end // PART)):
            start = number * PART
            yield self._part(number)[max(0, begin - start) : end - start]

    def _part(self, number: int) -> bytes:
        if number == 0 and len(self._first) == min(PART, self._size):
            return self._first
        ahead = number + _AHEAD if number else number
        for wanted in range(number, ahead + 1):
            begin = wanted * PART
            if wanted not in self._parts and begin < self._size:
                self._parts[wanted] = _Call(self._fetch, begin, min(begin + PART, self._size))
        for passed in [n for n in self._parts if not number <= n <= number + _AHEAD]:
            del self._parts[passed]
        try:
            return self._parts[number].result()
        except BaseException:
            self._parts.clear()
            raise


class _Call:
    """A fetch in a thread of its own, which no process waits for at its end."""

    def __init__(self, fetch: Fetch, begin: int, end: int) -> None:
        self._asked = fetch, begin, end
        self._data = b""
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fetch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        fetch, begin, end = self._asked
        try:
            self._data = fetch(begin, end)
        except BaseException as error:
            self._error = error

    def result(self) -> bytes:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._data


def _side_by_side(fetch: Fetch, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """What several fetches give, of which some are on their way at once."""
    if len(ranges) == 1:
        return [fetch(*ranges[0])]
    found: list[bytes] = []
    calls: deque[_Call] = deque()
    for begin, end in ranges:
        if len(calls) == _SIDE_BY_SIDE:
            found.append(calls.popleft().result())
        calls.append(_Call(fetch, begin, end))
    return found + [call.result() for call in calls]
