"""COPY FROM STDIN: the rows that a client sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sqlengine.server.postgres import messages as m
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Outcome
from sqlengine.server.postgres.wire import Wire

__all__ = ["take_copy"]

_GATHERED = 1024 * 1024
"""CopyData of a client are often a line each: so many bytes are taken at once."""
_Work = Callable[[Callable[[], Any]], Awaitable[Any]]


async def take_copy(outcome: Outcome, wire: Wire, work: _Work, in_thread: _Work) -> None:
    """Rows from the client, until it says that they end. Raises what makes them no rows; the rest is passed over.

    Args:
        work: does a piece of the statement, so that it can be cancelled.
        in_thread: does what is done also when it was.
    """
    take = outcome.copy_in
    assert take is not None and outcome.copy_out is not None
    wire.send(m.copy_in(outcome.copy_in_columns, outcome.copy_out.format == "binary"))
    await wire.drain()
    try:
        await _taken(take, wire, work)
    except Exception:
        if outcome.stop is not None:
            await in_thread(outcome.stop)
        raise


async def _taken(take: Callable[[bytes | None], int], wire: Wire, work: _Work) -> None:
    failure: Exception | None = None
    gathered = bytearray()
    while True:
        read = await wire.read()
        if read is None:
            raise PgError("08006", "the client has gone within COPY")
        type_, payload = read
        if type_ in (b"H", b"S"):
            continue
        if type_ == b"f":
            failure = failure or PgError("57014", f"COPY from stdin failed: {payload.text()}")
        elif type_ not in (b"d", b"c"):
            raise m.Malformed(f"a message of type {type_!r} within COPY")
        if type_ == b"d" and failure is None:
            gathered += payload.take(payload.left)
            if len(gathered) < _GATHERED:
                continue
        data, gathered = bytes(gathered), bytearray()
        if failure is None:
            failure = await _fed(take, work, data, ended=type_ == b"c")
        if type_ != b"d":
            break
    if failure is not None:
        raise failure


async def _fed(take: Callable[[bytes | None], int], work: _Work, data: bytes, *, ended: bool) -> Exception | None:
    try:
        if data:
            await work(lambda: take(data))
        if ended:
            await work(lambda: take(None))
    except Exception as error:
        return error
    return None
