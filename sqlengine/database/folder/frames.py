"""Frames: the parts of which a file of the log is made, and how they are read after a crash.

A frame is a head of 52 bytes and a body. The head says how long the body is and has the CRC-32 of both; with a key the
body ends with a MAC. The frames of one epoch follow one another and the last says so: an epoch is there whole or not at
all.

A crash leaves a torn end: frames that were never synced, in part or out of order. The head of each frame says up to
where the file was synced when it was written. So a frame that cannot be read is torn when nothing behind it claims that
it was synced, and damage when something does.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.checkpoint.keys import Keys
from runtime.checkpoint.storage import Damage
from runtime.kernels.checksum import crc32

__all__ = ["FENCE", "HEAD_BYTES", "LAST", "OPENING", "Frame", "FrameReader", "frame_of"]

_MAGIC = b"SQLf"
_HEAD = struct.Struct("<4sBxxxIQQQQII")
"""Magic, flags, part, epoch, length of the body, synced, owner, CRC of the body, CRC of the head before it."""
HEAD_BYTES = _HEAD.size
LAST, OPENING, _SIGNED, FENCE = 1, 2, 4, 8
"""Flags: the last frame of its epoch; the frame that opens a file; the body ends with a MAC; the file stands in the way of a
former owner, and stays."""
_MAC_BYTES = 32
_SEARCHED = 1 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that was read.

    Args:
        epoch: the number of the database's epoch; `part` counts its frames from 0.
        synced: how many bytes of the file were synced when it was written.
        owner: the fencing token of the process that wrote it.
        end: where in the file the next one begins.
    """

    flags: int
    part: int
    epoch: int
    synced: int
    owner: int
    body: pa.Buffer
    end: int


def frame_of(
    body: Sequence[bytes | memoryview],
    *,
    epoch: int,
    part: int = 0,
    last: bool = True,
    opening: bool = False,
    fence: bool = False,
    synced: int = 0,
    owner: int = 0,
    keys: Keys,
    identity: str,
) -> list[bytes | memoryview]:
    """The bytes of a frame, in pieces to be written one after another, as those of `body` are."""
    flags = (LAST if last else 0) | (OPENING if opening else 0) | (FENCE if fence else 0) | (_SIGNED if keys else 0)
    pieces = list(body)
    if keys:
        pieces.append(bytes.fromhex(keys.sign(_signed(identity, flags, epoch, part, body))))
    crc = 0
    for piece in pieces:
        crc = crc32(piece, crc)
    length = sum(map(len, pieces))
    head = _HEAD.pack(_MAGIC, flags, part, epoch, length, synced, owner, crc, 0)[:-4]
    return [head + struct.pack("<I", crc32(head)), *pieces]


def _signed(identity: str, flags: int, epoch: int, part: int, body: Iterable[Any]) -> bytes:
    """What the MAC of a frame is about: a frame cannot stand for another one, of this database or of another."""
    digest = hashlib.sha256()
    for piece in body:
        digest.update(piece)
    return b"log\n" + f"{identity}\n{flags} {epoch} {part}\n{digest.hexdigest()}".encode()


class FrameReader:
    """The frames of a file.

    Args:
        data: the whole file.
        place: the file, for messages.
        keys: with which frames must be signed, if there are any.
        identity: that of the database.
    """

    def __init__(self, data: pa.Buffer, place: str, keys: Keys, identity: str) -> None:
        self._data = data
        self._view = memoryview(data).cast("B")
        self._place = place
        self._keys = keys
        self._identity = identity
        self.dropped = False
        """Whether whole frames stood in the torn end: a power cut has taken what was written before them, or, where
        nothing was synced, somebody has damaged it."""

    def frames(self, *, may_be_torn: bool) -> Iterator[Frame]:
        """All whole frames. `may_be_torn`: it is the newest file, so its end may be torn; the frames end before that.

        Raises:
            Damage: a frame that cannot be read is no torn end; or a frame is not signed as it should be.
        """
        at = 0
        while at < len(self._view):
            frame = self._frame(at)
            if frame is None:
                if not may_be_torn or self._synced_behind(at):
                    raise Damage(f"{self._place} is damaged at byte {at:,}")
                return
            yield frame
            at = frame.end

    def _frame(self, at: int) -> Frame | None:
        """The frame at a place; None when there is no whole one with right checksums."""
        head = self._head(at)
        if head is None:
            return None
        flags, part, epoch, length, synced, owner, crc = head
        start = at + HEAD_BYTES
        # The length is compared with what is there before anything is read.
        if length > len(self._view) - start:
            return None
        body = self._data.slice(start, length)
        if crc32(body) != crc:
            return None
        return Frame(flags, part, epoch, synced, owner, self._checked(body, flags, epoch, part, at), start + length)

    def _head(self, at: int) -> tuple[int, int, int, int, int, int, int] | None:
        if len(self._view) - at < HEAD_BYTES:
            return None
        magic, *fields, head_crc = _HEAD.unpack_from(self._view, at)
        if magic != _MAGIC or crc32(bytes(self._view[at : at + HEAD_BYTES - 4])) != head_crc:
            return None
        return tuple(fields)

    def _checked(self, body: pa.Buffer, flags: int, epoch: int, part: int, at: int) -> pa.Buffer:
        """The body without its MAC. Raises Damage when it is not signed with one of the keys."""
        mac = None
        if flags & _SIGNED:
            if body.size < _MAC_BYTES:
                raise Damage(f"{self._place} is damaged at byte {at:,}")
            mac = body.slice(body.size - _MAC_BYTES).to_pybytes().hex()
            body = body.slice(0, body.size - _MAC_BYTES)
        if self._keys:
            refusal = self._keys.refusal(_signed(self._identity, flags, epoch, part, [body]), mac)
            if refusal is not None:
                raise Damage(f"{self._place}, byte {at:,}: it {refusal}")
        return body

    def _synced_behind(self, at: int) -> bool:
        """Whether a head behind a place claims that what stands there was synced."""
        start = at + 1
        while start < len(self._view):
            piece = bytes(self._view[start : start + _SEARCHED + len(_MAGIC) - 1])
            found = piece.find(_MAGIC)
            while found >= 0 and found < _SEARCHED:
                head = self._head(start + found)
                if head is not None:
                    self.dropped = True
                    if head[4] > at:
                        return True
                found = piece.find(_MAGIC, found + 1)
            start += _SEARCHED
        return False
