"""Messages of one partition in columns, as they were received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.spi.format import Payloads

__all__ = ["HEADERS", "Received", "received_objects"]

HEADERS = pa.map_(pa.field("key", pa.string(), False), pa.binary())


@dataclass(frozen=True)
class Received:
    """Messages in order.

    Attributes:
        values, keys: their bytes; none where `has_value`, `has_key`, bool (n,), are false.
        offsets, times: int64 (n,), the latter in milliseconds since 1970.
        kinds_of_time: 1 when it was made, 2 when it was appended, 0 unknown; int64 (n,).
        leader_epochs: -1 where it is not known, int64 (n,).
        headers: of each message names and values in order, HEADERS; None where nobody wants them.
    """

    topic: str
    partition: int
    values: Payloads
    has_value: np.ndarray
    keys: Payloads
    has_key: np.ndarray
    offsets: np.ndarray
    times: np.ndarray
    kinds_of_time: np.ndarray
    leader_epochs: np.ndarray
    headers: pa.Array | None

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, chosen: np.ndarray) -> Received:
        """Those messages; one may be there several times."""
        if len(chosen) == len(self) and (chosen == np.arange(len(self))).all():
            return self
        return Received(
            self.topic,
            self.partition,
            self.values.take(chosen),
            self.has_value[chosen],
            self.keys.take(chosen),
            self.has_key[chosen],
            self.offsets[chosen],
            self.times[chosen],
            self.kinds_of_time[chosen],
            self.leader_epochs[chosen],
            None if self.headers is None else self.headers.take(pa.array(chosen)),
        )


def received_objects(topic: str, partition: int, messages: Sequence[Any], headers: bool) -> Received:
    """What the client gives as objects of Python. A loop over messages, since they come one by one."""
    values, has_value = _payloads([m.value() for m in messages])
    keys, has_key = _payloads([m.key() for m in messages])
    times = np.array([m.timestamp() for m in messages], np.int64).reshape(-1, 2)
    epochs = [m.leader_epoch() for m in messages]
    return Received(
        topic,
        partition,
        values,
        has_value,
        keys,
        has_key,
        np.array([m.offset() for m in messages], np.int64),
        times[:, 1],
        times[:, 0],
        np.array([-1 if e is None else e for e in epochs], np.int64),
        pa.array([m.headers() or [] for m in messages], HEADERS) if headers else None,
    )


def _payloads(given: list[bytes | None]) -> tuple[Payloads, np.ndarray]:
    there = np.array([v is not None for v in given], np.bool_)
    return Payloads.of(pa.array([v or b"" for v in given], pa.large_binary())), there
