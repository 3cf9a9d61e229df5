"""A stream of RabbitMQ, by the offsets of its messages.

A position is `{"next": the offset of the message that comes next, "end": that behind the last one to be read, or null}`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from connectors.kit.prefetch import Fetched
from connectors.rabbitmq.address import connected
from connectors.rabbitmq.messages import Delivered, rows_of_delivered, stream_offset
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.rabbitmq.table import RabbitTable

__all__ = ["read_stream"]

_CREDIT = 4000
"""So many messages are on their way."""
_MOST_CREDIT = 65_535
_WAIT_SECONDS = 0.2


def read_stream(table: RabbitTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """See `Fetching`."""
    decode = rows_of_delivered(table)
    at = dict(position) if position is not None else _begin(table)
    if position is None:
        # Where reading begins, and ends, is settled before anything is read.
        yield Fetched(None, dict(at))
    if at["end"] is not None and at["next"] >= at["end"]:
        return
    with connected(table.address, table.place()) as channel:
        came = _consumed(channel, table.queue, at["next"], _CREDIT)
        first = True
        while not stop.is_set():
            channel.connection.process_data_events(_WAIT_SECONDS)
            found, came[:] = [m for m in came if (stream_offset(m[1]) or 0) >= at["next"]], []
            if found:
                channel.basic_ack(found[-1][0].delivery_tag, multiple=True)
            offsets = [stream_offset(m[1]) or 0 for m in found]
            if first and offsets and offsets[0] > at["next"] and (at["next"] or position is not None):
                raise ConnectorError(
                    f"{table.place()}: messages {at['next']} to {offsets[0] - 1} are gone before they were read",
                    code="E3258",
                    hint="the stream keeps messages for a shorter time than the job stood still; begin anew",
                )
            if not found:
                if at["end"] is None:
                    yield Fetched(None, dict(at))
                continue
            first = False
            if at["end"] is not None:
                found = [m for m, offset in zip(found, offsets, strict=True) if offset < at["end"]]
                at["next"] = min(offsets[-1] + 1, at["end"])
            else:
                at["next"] = offsets[-1] + 1
            if found:
                rows, rejected, _ = decode(found)
                yield Fetched(rows, dict(at), rejected)
            if at["end"] is not None and at["next"] >= at["end"]:
                return


def _consumed(channel: Any, queue: str, offset: Any, credit: int) -> list[Delivered]:
    """What comes of a stream from an offset on; the list grows."""
    came: list[Delivered] = []
    channel.basic_qos(prefetch_count=credit)
    channel.basic_consume(queue, lambda _, d, p, body: came.append((d, p, body)), arguments={"x-stream-offset": offset})
    return came


def _begin(table: RabbitTable) -> dict[str, Any]:
    """Where reading begins, and where it ends."""
    with connected(table.address, table.place()) as channel:
        last = _edge(channel, table.queue, "last", max)
    end = 0 if last is None else last + 1
    if table.starts == "latest":
        return {"next": end, "end": end if table.bounded else None}
    with connected(table.address, table.place()) as channel:
        first = _edge(channel, table.queue, "first", min)
    return {"next": first or 0, "end": end if table.bounded else None}


def _edge(channel: Any, queue: str, where: str, chosen: Any) -> int | None:
    """The first or last offset; None for a stream without messages."""
    came = _consumed(channel, queue, where, 1 if where == "first" else _MOST_CREDIT)
    # What is there is sent before the answer to what is asked next.
    channel.queue_declare(queue, passive=True)
    channel.connection.process_data_events(0)
    offsets = [stream_offset(p) for _, p, _ in came]
    if offsets and offsets[0] is None:
        raise ConnectorError(
            f"queue {queue} is no stream", code="E3257", hint="leave 'queue-type' out, and it is read as a queue"
        )
    return chosen(o for o in offsets if o is not None) if offsets else None
