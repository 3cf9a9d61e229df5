"""What a connection of libpq gives in COPY, whichever way it goes: many small frames, taken without waiting for each."""

from __future__ import annotations

import select
from typing import Any

__all__ = ["copied", "wait"]


def copied(libpq: Any, most: int, last: int = -1) -> tuple[list[memoryview], bool]:
    """Frames that have come, and whether there will be no more. Raises an error of psycopg when the connection is gone.

    Args:
        libpq: `connection.pgconn`.
        most: bytes; a frame more may come.
        last: a frame that begins with this byte is the last one of those that are given.
    """
    found: list[memoryview] = []
    size, consumed = 0, False
    get, add = libpq.get_copy_data, found.append
    while size < most:
        count, frame = get(1)
        if count > 0:
            consumed = False
            add(frame)
            size += count
            if frame[0] == last:
                break
        elif count < 0:
            return found, True
        elif consumed:
            break
        else:
            libpq.consume_input()
            consumed = True
    return found, False


def wait(libpq: Any, seconds: float) -> None:
    """Until something comes, at most so long."""
    select.select([libpq.socket], [], [], seconds)
