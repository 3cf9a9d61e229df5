"""Messages of a stream as rows, in the background.

A position is `{"after": the sequence of the last message that was looked at, "end": of the last one to be read, or null}`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.message_rows import MessageRows
from connectors.kit.prefetch import Fetched
from connectors.nats.address import connected
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FormatError
from runtime.core.types import BIGINT, BYTES, STRING, map_of, timestamp_ltz
from runtime.spi.format import Payloads
from runtime.spi.reader import RejectedRow

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
_SHOWN = 160


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
    decode = _Rows(table)
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
            rows, rejected = decode(messages)
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


class _Rows:
    """Rows of messages: objects of Python, as the client gives them, one by one; their bytes are decoded together."""

    def __init__(self, table: NatsTable) -> None:
        self._table = table
        stored = [n for n in table.schema.names if table.value.index_of(n) >= 0]
        self._wanted = tuple(stored) or table.value.names[:1]
        self._value = MessageRows.of(table.format, table.value, self._wanted, table.time_zone, table.most)

    def __call__(self, messages: Sequence[Any]) -> tuple[ChangelogBatch | None, list[RejectedRow]]:
        table = self._table
        decoded = self._value.decode(Payloads.of(pa.array([m.data for m in messages], pa.large_binary())))
        if decoded.rejected and not getattr(table.format, "ignore_parse_errors", False):
            number, row = decoded.rejected[0]
            raw = row.raw if len(row.raw) <= _SHOWN else row.raw[: _SHOWN - 3] + "..."
            raise FormatError(
                f"{table.place()}, message {messages[number].metadata.sequence.stream}: {row.reason}: {raw}",
                code="E3201",
                hint=f"set '{table.format.name}.ignore-parse-errors' = 'true' on the table to keep such records in "
                "system.rejected and go on",
            )
        rejected = [row for _, row in decoded.rejected]
        if not len(decoded.batch):
            return None, rejected
        found = dict(zip(self._wanted, decoded.batch.columns, strict=True))
        for name, key in table.metadata:
            if table.schema.index_of(name) >= 0:
                found[name] = _metadata(key, messages).take(pa.array(decoded.message_of_row))
        columns = [found[name] for name in table.schema.names]
        return ChangelogBatch.of(columns, table.schema, decoded.batch.kinds), rejected


def _metadata(key: str, messages: Sequence[Any]) -> pa.Array:
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
