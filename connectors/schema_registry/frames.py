"""Confluent's framing: a zero, four bytes of a schema's id, the record.

Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html, "Wire format".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from connectors.formats.records import shown_hex
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.spi.format import DecodedMessages, Payloads
from runtime.spi.reader import RejectedRow

__all__ = ["FRAME", "ByWriter", "FramedDecoder", "Undecodable", "frame", "without_frames"]

FRAME = 5
"""Bytes before a record."""


class Undecodable(Exception):
    """Records of a schema cannot become the columns; the message says why."""


class ByWriter(Protocol):
    """Decodes records that were all written under one schema."""

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        """The rows of records without their frames."""
        ...


def frame(number: int) -> bytes:
    """What stands before a record of this schema."""
    return b"\x00" + number.to_bytes(4, "big")


def schema_ids(payloads: Payloads) -> np.ndarray:
    """The id of the schema of each message, int64 (n,); -1 for one without a frame."""
    ids = np.full(len(payloads), -1, np.int64)
    long_enough = np.flatnonzero(payloads.ends - payloads.starts >= FRAME)
    at = payloads.starts[long_enough]
    framed = payloads.data[at] == 0
    at = at[framed]
    number = np.zeros(len(at), np.int64)
    for byte in range(1, FRAME):
        number = number << 8 | payloads.data[at + byte]
    ids[long_enough[framed]] = number
    return ids


def without_frames(payloads: Payloads) -> Payloads:
    """The records; each message must have a frame."""
    return Payloads(payloads.data, payloads.starts + FRAME, payloads.ends)


class FramedDecoder:
    """Messages to rows, each by the schema of its id.

    Args:
        opened: a decoder for the records of an id; raises Undecodable.
    """

    def __init__(self, schema: Schema, opened: Callable[[int], ByWriter]) -> None:
        self._schema = schema
        self._opened = opened
        self._decoders: dict[int, ByWriter | str] = {}

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        """Raises UnavailableError E3133 when the registry does not answer."""
        ids = schema_ids(payloads)
        parts: list[tuple[ChangelogBatch, np.ndarray]] = []
        rejected: list[tuple[int, RejectedRow]] = []
        for number in np.unique(ids).tolist():
            chosen = np.flatnonzero(ids == number)
            decoder = self._decoder(number)
            if isinstance(decoder, str):
                rejected += [(i, RejectedRow(decoder, shown_hex(payloads.raw(i)))) for i in chosen.tolist()]
                continue
            found = decoder.decode_messages(without_frames(payloads.take(chosen)))
            parts.append((found.batch, chosen[found.message_of_row]))
            rejected += [(int(chosen[i]), row) for i, row in found.rejected]
        rejected.sort(key=lambda pair: pair[0])
        if not parts:
            return DecodedMessages(ChangelogBatch.empty(self._schema), np.empty(0, np.int64), tuple(rejected))
        batch, of_row = ChangelogBatch.concat([b for b, _ in parts]), np.concatenate([n for _, n in parts])
        if len(parts) > 1:
            order = np.argsort(of_row, kind="stable")
            batch, of_row = batch.take(order), of_row[order]
        return DecodedMessages(batch, of_row, tuple(rejected))

    def _decoder(self, number: int) -> ByWriter | str:
        """What decodes records of an id, or why nothing does."""
        if number < 0:
            return "no message of a schema registry: it does not begin with a zero and the id of a schema"
        if number not in self._decoders:
            if len(self._decoders) > 1000:
                self._decoders.clear()
            try:
                self._decoders[number] = self._opened(number)
            except Undecodable as error:
                self._decoders[number] = f"schema {number}: {error}"
        return self._decoders[number]
