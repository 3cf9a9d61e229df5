"""Messages of RabbitMQ as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.formats.message_table import MessageTable, RowsOfMessages
from runtime.core.changelog import ChangelogBatch
from runtime.core.types import BIGINT, BOOLEAN, STRING, timestamp_ltz
from runtime.spi.reader import RejectedRow

__all__ = ["METADATA", "Delivered", "rows_of_delivered", "stream_offset"]

METADATA = {
    "message-id": STRING,
    "correlation-id": STRING,
    "exchange": STRING.not_null(),
    "routing-key": STRING.not_null(),
    "redelivered": BOOLEAN.not_null(),
    "timestamp": timestamp_ltz(3),
    "offset": BIGINT,
}

Delivered = tuple[Any, Any, bytes]
"""What the client gives of a message: its delivery, its properties, its bytes."""


def stream_offset(properties: Any) -> int | None:
    """Where a message is in its stream; None for one of a queue."""
    found = (properties.headers or {}).get("x-stream-offset")
    return None if found is None else int(found)


def rows_of_delivered(
    table: MessageTable,
) -> Callable[[Sequence[Delivered]], tuple[ChangelogBatch | None, list[RejectedRow], npt.NDArray[np.int64]]]:
    """What makes rows of messages, and tells of which message each is."""
    decode = RowsOfMessages(table)

    def rows(
        messages: Sequence[Delivered],
    ) -> tuple[ChangelogBatch | None, list[RejectedRow], npt.NDArray[np.int64]]:
        return decode.with_messages(
            pa.array([body for _, _, body in messages], pa.large_binary()),
            lambda key: _metadata(messages, key),
            lambda number: messages[number][1].message_id or stream_offset(messages[number][1]) or number,
        )

    return rows


def _metadata(messages: Sequence[Delivered], key: str) -> pa.Array:
    type_ = METADATA[key].arrow
    match key:
        case "message-id":
            return pa.array([p.message_id for _, p, _ in messages], type_)
        case "correlation-id":
            return pa.array([p.correlation_id for _, p, _ in messages], type_)
        case "exchange":
            return pa.array([d.exchange for d, _, _ in messages], type_)
        case "routing-key":
            return pa.array([d.routing_key for d, _, _ in messages], type_)
        case "redelivered":
            return pa.array([d.redelivered for d, _, _ in messages], type_)
        case "offset":
            return pa.array([stream_offset(p) for _, p, _ in messages], type_)
        case _:
            times = [None if p.timestamp is None else datetime.fromtimestamp(p.timestamp, UTC) for _, p, _ in messages]
            return pa.array(times, pa.timestamp("us", "UTC")).cast(type_)
