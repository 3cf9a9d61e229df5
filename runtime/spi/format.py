"""What a format implements: whole batches of bytes to columns and back. Formats know nothing of where bytes come
from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.spi.reader import RejectedRow

__all__ = ["Decoded", "Decoder", "Encoder", "Format"]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of some bytes, the rows that were not in the format, and how many bytes were used (up to the last whole
    record). `whole`: how many rows come before the first that was not in the format; 0 where nobody knows."""

    batch: ChangelogBatch
    rejected: tuple[RejectedRow, ...]
    consumed: int
    whole: int = 0


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
