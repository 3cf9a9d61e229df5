"""Formats that decode only the columns asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.spi.format import Decoded, Decoder, Format

__all__ = [
    "DecodesLines",
    "DecodesPlain",
    "LimitsRecords",
    "ProjectingFormat",
    "SplitsAtReturns",
    "StartsAtHead",
    "projected_decoder",
]


@runtime_checkable
class ProjectingFormat(Protocol):
    """A format that needs to know all columns of a record and which are wanted (positions in CSV)."""

    def projecting_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> Decoder:
        """A decoder that gives the columns `wanted`, in that order, of records with the columns of `schema`."""
        ...


@runtime_checkable
class StartsAtHead(Protocol):
    """A decoder that must see the first bytes of a file when it begins in the middle of it."""

    def begin_at(self, head: bytes) -> None: ...


@runtime_checkable
class LimitsRecords(Protocol):
    """A decoder of texts that can be told how long a record may be."""

    def limit_records(self, most: int) -> None:
        """Records of more bytes are malformed."""
        ...


@runtime_checkable
class DecodesLines(Protocol):
    """A decoder of records that may span lines, which can take each line for itself."""

    def decode_lines(self, data: bytes) -> Decoded:
        """Each line is one record or malformed."""
        ...


@runtime_checkable
class DecodesPlain(Protocol):
    """A decoder that has a fast way for records that are plain, wherever they stand."""

    def decode_plain(
        self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray
    ) -> tuple[ChangelogBatch, np.ndarray] | None:
        """The rows of plain records, one each, and which records were left, bool (n,); None where it is of no use."""
        ...


@runtime_checkable
class SplitsAtReturns(Protocol):
    """A decoder for which a carriage return ends a line, with a line feed or without."""

    splits_at_returns: bool


def projected_decoder(format_: Format, schema: Schema, wanted: Sequence[str], time_zone: str) -> Decoder:
    """A decoder of some columns, for formats of any kind."""
    if isinstance(format_, ProjectingFormat):
        return format_.projecting_decoder(schema, wanted, time_zone)
    decoder = format_.decoder(schema, time_zone)
    return decoder if tuple(wanted) == schema.names else _Selecting(decoder, [schema.index_of(n) for n in wanted])


class _Selecting:
    def __init__(self, decoder: Decoder, positions: list[int]) -> None:
        self._decoder = decoder
        self._positions = positions

    def limit_records(self, most: int) -> None:
        """See `LimitsRecords`."""
        if isinstance(self._decoder, LimitsRecords):
            self._decoder.limit_records(most)

    def decode(self, data: bytes, final: bool) -> Decoded:
        decoded = self._decoder.decode(data, final)
        rows = decoded.batch.rows
        columns = [rows.column(i) for i in self._positions]
        if not columns:
            return decoded
        kept = pa.RecordBatch.from_arrays(columns, names=[rows.schema.names[i] for i in self._positions])
        return Decoded(ChangelogBatch(kept, decoded.batch.kinds), decoded.rejected, decoded.consumed, 0, decoded.lines)
