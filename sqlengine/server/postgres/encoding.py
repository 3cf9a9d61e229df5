"""Pieces of rows as the bytes that go to a client."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.kernels.framing import framed
from sqlengine.server.postgres.binary_values import in_binary
from sqlengine.server.postgres.statements import Piece
from sqlengine.server.postgres.text_values import in_text
from sqlengine.server.postgres.types import Described

__all__ = ["encoded", "formats_for"]


def formats_for(columns: int, asked: Sequence[int]) -> list[int]:
    """The format of each column: none asked is text for all, one is for all."""
    if not asked:
        return [0] * columns
    return [asked[0]] * columns if len(asked) == 1 else list(asked)


def encoded(piece: Piece, columns: Sequence[Described], formats: Sequence[int], time_zone: str) -> bytes | memoryview:
    """DataRow messages of some rows. `formats`: 0 text, 1 binary, for each column."""
    rows = len(piece[0]) if piece else 0
    values = [
        in_binary(column, described.type) if format_ else in_text(column, described.type, time_zone)
        for column, described, format_ in zip(piece, columns, formats, strict=True)
    ]
    return framed(values, rows, b"D")
