"""What a format implements: whole batches of bytes to columns and back. Formats know nothing of where bytes come
from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.spi.reader import RejectedRow

__all__ = [
    "Decoded",
    "DecodedMessages",
    "Decoder",
    "Encoder",
    "Format",
    "MessageFormat",
    "PayloadDecoder",
    "PayloadEncoder",
    "Payloads",
]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of some bytes, the rows that were not in the format, and how many bytes were used (up to the last whole
    record). `whole`: how many rows come before the first that was not in the format; 0 where nobody knows. `lines`: of which
    line each row is, counted from 0, int64 (n,); None where nobody knows."""

    batch: ChangelogBatch
    rejected: tuple[RejectedRow, ...]
    consumed: int
    whole: int = 0
    lines: npt.NDArray[np.int64] | None = None


@runtime_checkable
class Decoder(Protocol):
    """Bytes to rows. Keeps what belongs to a file (a header), so there is one per file or split."""

    def decode(self, data: bytes, final: bool) -> Decoded:
        """Decode all whole records in `data`; `final` says that no more bytes will come, so that the last record needs
        no line end."""
        ...


class Encoder(Protocol):
    """Rows to bytes."""

    def encode(self, batch: ChangelogBatch) -> bytes:
        """The bytes of all rows; raises PlanningError for row kinds that the format cannot carry."""
        ...

    def finish(self) -> bytes:
        """Bytes that close a file (a footer); empty for line formats."""
        ...


class Format(Protocol):
    """A format with its options read. `changelog_mode` is what its messages can carry: APPEND for plain ones."""

    @property
    def name(self) -> str: ...

    @property
    def changelog_mode(self) -> ChangelogMode: ...

    def decoder(self, schema: Schema, time_zone: str) -> Decoder:
        """A decoder of the columns of `schema`, by name; columns that a record lacks are NULL."""
        ...

    def encoder(self, schema: Schema, time_zone: str) -> Encoder: ...


@dataclass(frozen=True, slots=True)
class Payloads:
    """The bytes of messages: message `i` is `data[starts[i]:ends[i]]`. `data` is uint8, the others are int64 (n,)."""

    data: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @staticmethod
    def of(values: pa.Array) -> Payloads:
        """Those of a large_binary array without NULLs."""
        _, offsets, data = values.buffers()
        if not len(values) or offsets is None:
            return Payloads(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
        bounds = np.frombuffer(offsets, np.int64, count=len(values) + 1, offset=8 * values.offset)
        return Payloads(np.frombuffer(data or b"", np.uint8), bounds[:-1], bounds[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, index: int) -> bytes:
        """The bytes of one message."""
        return self.data[int(self.starts[index]) : int(self.ends[index])].tobytes()

    def array(self) -> pa.Array:
        """The messages as large_binary, copied. They must stand in order."""
        count = len(self)
        bounds = np.empty(2 * count + 1, np.int64)
        bounds[0:-1:2], bounds[1::2], bounds[-1] = self.starts, self.ends, len(self.data)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        gaps = pa.Array.from_buffers(pa.large_binary(), 2 * count, buffers)
        return gaps.take(pa.array(np.arange(count, dtype=np.int64) * 2))

    def take(self, indices: np.ndarray) -> Payloads:
        """Those messages."""
        return Payloads(self.data, self.starts[indices], self.ends[indices])


@dataclass(frozen=True, slots=True)
class DecodedMessages:
    """The rows of messages. `message_of_row`: the number of the message of each row, int64, ascending. `rejected`: messages
    that are malformed, by number."""

    batch: ChangelogBatch
    message_of_row: np.ndarray
    rejected: tuple[tuple[int, RejectedRow], ...]


class PayloadDecoder(Protocol):
    """Messages to rows."""

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        """The rows of messages. Also raises an error that ends the job, such as ConnectorError for a registry that does not
        answer."""
        ...


class PayloadEncoder(Protocol):
    """Rows to messages."""

    def encode_messages(self, batch: ChangelogBatch) -> pa.Array:
        """A message for each row, large_binary."""
        ...


@runtime_checkable
class MessageFormat(Format, Protocol):
    """A format whose records know their length only from outside: each message is a record."""

    def message_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> PayloadDecoder:
        """A decoder that gives the columns `wanted`, in that order, of messages that hold those of `schema`."""
        ...

    def message_encoder(self, schema: Schema, time_zone: str) -> PayloadEncoder: ...
