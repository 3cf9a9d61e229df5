"""Rows of tables, and of the answers of views, as pieces of files.

A piece is a range of a file (`runtime/checkpoint/segments.py`): all rows of a table at some epoch, or what has changed
since the piece before. Pieces that are there are used again. When `FAN` pieces at the end are of one size class (classes
grow by `FAN`) they become one, so that a row is written again once for each class, and a table has few pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from runtime.checkpoint.members import as_integer, as_list
from runtime.checkpoint.segments import Segment, SegmentReader, SegmentWriter
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import ChangelogBatch
from sqlengine.database.folder.changes import batch_of, rows_of

__all__ = [
    "FILE",
    "FOLDER",
    "RowChanges",
    "RowPiece",
    "is_cheaper_anew",
    "pieces_json",
    "pieces_of",
    "read_rows",
    "row_pieces",
    "segment_json",
    "segment_of",
]

FOLDER = "checkpoints"
FAN = 16
_SMALLEST_CLASS = 256
_LARGEST_CLASS = 1 << 20
_SLACK = 64
FILE = re.compile(rf"{FOLDER}/state-[0-9a-f]+-\d+\.arrows?")
_DIGEST = re.compile(r"(?:[0-9a-f]{64})?")
_MOST = 1 << 50


@dataclass(frozen=True, slots=True)
class RowPiece:
    """Rows in a file; `kinds`: they are changes that may update and delete."""

    segment: Segment
    kinds: bool


@dataclass(slots=True)
class RowChanges:
    """What a checkpoint writes of some rows: those of `batches` stand behind `pieces`, which were written before."""

    pieces: list[RowPiece] = field(default_factory=list)
    batches: list[ChangelogBatch] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows are to be written."""
        return sum(map(len, self.batches))


def is_cheaper_anew(pieces: Sequence[RowPiece], changes: Sequence[ChangelogBatch], live: int) -> bool:
    """Whether all rows, of which there are `live`, are to be written in the place of changes: they are fewer than those, or
    than half of what a start would read."""
    changed = sum(map(len, changes))
    undoes = any(batch.kinds is not None for batch in changes)
    return undoes and (changed > live or sum(p.segment.rows for p in pieces) + changed > 2 * live + _SLACK)


def row_pieces(changes: RowChanges, writer: SegmentWriter, reader: SegmentReader) -> list[RowPiece]:
    """Write changes; gives all pieces. Raises OSError, and Damage for older ones that were to be merged."""
    kept, batches = list(changes.pieces), changes.batches
    start = _merge_start([*(p.segment.rows for p in kept), changes.rows]) if batches else len(kept)
    if start < len(kept):
        batches = [*read_rows(reader, kept[start:]), *batches]
        if any(b.kinds is not None for b in batches):
            batches = [ChangelogBatch(b.decoded().rows, b.kinds_or_inserts()) for b in batches]
    return [*kept[:start], *_written(writer, batches)]


def _merge_start(rows: Sequence[int]) -> int:
    """The first of the pieces, the new one being the last, that are to become one; the last itself when none are."""
    limit = _SMALLEST_CLASS
    while limit <= _LARGEST_CLASS:
        run = 0
        while run < len(rows) and rows[-1 - run] <= limit:
            run += 1
        if sum(count > limit // FAN or limit == _SMALLEST_CLASS for count in rows[len(rows) - run :]) >= FAN:
            return len(rows) - run
        limit *= FAN
    return len(rows) - 1


def _written(writer: SegmentWriter, batches: Sequence[ChangelogBatch]) -> Iterator[RowPiece]:
    """Neighbours of one kind become one piece, so that order is kept. One that is too large to be merged ends there: whoever
    reads it has all of it in memory."""
    start = 0
    while start < len(batches):
        end, count = start + 1, len(batches[start])
        while (
            end < len(batches)
            and count <= _LARGEST_CLASS
            and (batches[end].kinds is None) == (batches[start].kinds is None)
        ):
            count += len(batches[end])
            end += 1
        rows = [rows_of(b.decoded()) for b in batches[start:end]]
        kinds = batches[start].kinds is not None
        yield RowPiece(writer.rows(rows[0].schema, rows, sum(r.nbytes for r in rows)), kinds)
        start = end


def read_rows(reader: SegmentReader, pieces: Sequence[RowPiece]) -> Iterator[ChangelogBatch]:
    """The rows of pieces.

    Raises:
        Damage: they are not those that were written.
        OSError: a file cannot be read.
    """
    for piece in pieces:
        for rows in reader.batches(piece.segment):
            yield batch_of(rows, kinds=piece.kinds, where=piece.segment.file)


def pieces_json(pieces: Sequence[RowPiece]) -> list[object]:
    """Pieces as JSON."""
    return [[*segment_json(p.segment), p.kinds] for p in pieces]


def pieces_of(value: object, where: str) -> list[RowPiece]:
    """The reverse of `pieces_json`. Raises Damage."""
    found: list[RowPiece] = []
    for piece in as_list(value, "pieces", where):
        parts = as_list(piece, "a piece", where)
        if len(parts) != 7 or not isinstance(parts[6], bool):
            raise Damage(f"{where} has a piece of no file")
        found.append(RowPiece(segment_of(parts[:6], where), parts[6]))
    return found


def segment_json(segment: Segment) -> list[object]:
    """A segment as JSON."""
    return [segment.file, segment.offset, segment.length, segment.crc, segment.rows, segment.digest]


def segment_of(value: object, where: str) -> Segment:
    """The reverse of `segment_json`. Raises Damage."""
    parts = as_list(value, "a segment", where)
    if len(parts) != 6 or not isinstance(parts[0], str) or not isinstance(parts[5], str):
        raise Damage(f"{where} has a piece of no file")
    file, offset, length, crc, rows, digest = parts
    if not FILE.fullmatch(file):
        raise Damage(f"{where} names a file that is none of a checkpoint: {file[:60]!r}")
    at, size, checksum, count = (as_integer(n, "a number", where, 0, _MOST) for n in (offset, length, crc, rows))
    if not _DIGEST.fullmatch(digest):
        raise Damage(f"{where} has a piece of {file} that cannot be")
    return Segment(file, at, size, checksum, count, digest)
