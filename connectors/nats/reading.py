"""Messages of a stream as rows, in the background.

A position is `{"after": the sequence of the last message that was looked at, "end": of the last one to be read, or null}`.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.message_table import RowsOfMessages
from connectors.kit.prefetch import Fetched
from connectors.nats.address import connected
from runtime.core.errors import ConnectorError
from runtime.core.types import BIGINT, BYTES, STRING, map_of, timestamp_ltz

if TYPE_CHECKING:
    from connectors.nats.table import NatsTable

__all__ = ["METADATA", "messages_behind", "read_messages"]

METADATA = {
    "subject": STRING.not_null(),
    "sequence": BIGINT.not_null(),
    "timestamp": timestamp_ltz(3).not_null(),
    "headers": map_of(STRING.not_null(), BYTES).not_null(),
}
_AT_ONCE = 1000
_WAIT_SECONDS = 0.2
_IDLE_SECONDS = 60.0


def read_messages(table: NatsTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """See `Fetching`: the thread has a loop of its own, which runs while something is fetched."""
    loop = asyncio.new_event_loop()
    try:
        fetched = _read(table, position, stop)
        try:
            while (found := loop.run_until_complete(anext(fetched, None))) is not None:
                yield found
        finally:
            loop.run_until_complete(fetched.aclose())
    finally:
        loop.close()


async def _read(table: NatsTable, position: Any, stop: threading.Event) -> AsyncGenerator[Fetched]:
    decode = RowsOfMessages(table)
    async with connected(table.address, table.place()) as client:
        stream = client.jetstream()
        at = dict(position) if position is not None else await _begin(table, stream)
        if position is None:
            # Where reading ends is settled before anything is read.
            yield Fetched(None, dict(at))
        consumer = await _consumer(table, stream, at["after"] + 1)
        while not stop.is_set():
            if at["end"] is not None and at["after"] >= at["end"]:
                return
            state = (await stream.stream_info(table.stream)).state
            messages = await _next(consumer)
            _check(table, at["after"], state, messages)
            if not messages:
                # Nothing of its subject has come up to here.
                at["after"] = max(at["after"], state.last_seq)
                if at["end"] is None:
                    yield Fetched(None, dict(at))
                continue
            if at["end"] is not None:
                messages = [m for m in messages if m.metadata.sequence.stream <= at["end"]]
                if not messages:
                    return
            at["after"] = messages[-1].metadata.sequence.stream
            rows, rejected = decode(
                pa.array([m.data for m in messages], pa.large_binary()),
                functools.partial(_metadata, messages),
                lambda number, found=messages: found[number].metadata.sequence.stream,
            )
            yield Fetched(rows, dict(at), rejected)


async def _begin(table: NatsTable, stream: Any) -> dict[str, Any]:
    state = (await stream.stream_info(table.stream)).state
    after = state.last_seq if table.starts == "latest" else max(0, state.first_seq - 1)
    return {"after": after, "end": state.last_seq if table.bounded else None}


async def _consumer(table: NatsTable, stream: Any, first: int) -> Any:
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=first,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=_IDLE_SECONDS,
    )
    return await stream.pull_subscribe(table.subject or ">", stream=table.stream, config=config)


async def _next(consumer: Any) -> list[Any]:
    try:
        return list(await consumer.fetch(_AT_ONCE, _WAIT_SECONDS))
    except TimeoutError:
        return []


async def messages_behind(table: NatsTable, stream: Any, after: int) -> AsyncGenerator[Any]:
    """Those of the table's subject that are there behind a sequence."""
    last = (await stream.stream_info(table.stream)).state.last_seq
    if after >= last:
        return
    consumer = await _consumer(table, stream, after + 1)
    while messages := await _next(consumer):
        for message in messages:
            yield message
        if messages[-1].metadata.sequence.stream >= last:
            return


def _check(table: NatsTable, after: int, state: Any, messages: Sequence[Any]) -> None:
    """Raises ConnectorError E3246 where messages that were not read may be gone."""
    came = messages[0].metadata.sequence.stream if messages else state.last_seq + 1
    if state.last_seq < after or (state.first_seq > after + 1 and came > after + 1 and state.last_seq > after):
        raise ConnectorError(
            f"{table.place()}: messages behind {after} are gone before they were read",
            code="E3246",
            hint="the stream keeps messages for a shorter time than the job stood still, or was made anew; begin anew",
        )


def _metadata(messages: Sequence[Any], key: str) -> pa.Array:
    type_ = METADATA[key].arrow
    match key:
        case "subject":
            return pa.array([m.subject for m in messages], type_)
        case "sequence":
            return pa.array(np.array([m.metadata.sequence.stream for m in messages], np.int64), type_)
        case "timestamp":
            return pc.cast(
                pa.array([m.metadata.timestamp for m in messages], pa.timestamp("us", "UTC")), type_, safe=False
            )
        case _:
            heads = [[(name, value.encode()) for name, value in (m.headers or {}).items()] for m in messages]
            return pa.array(heads, pa.map_(pa.string(), pa.binary())).cast(type_)
