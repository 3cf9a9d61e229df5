"""Rows in files: segments, each a row of Arrow IPC streams with a checksum, and the files of one checkpoint that hold them.

A small segment shares a file with others of its checkpoint, because a file costs a sync and, in an object store, a
request. A large one has a file of its own, so that its bytes are given back as soon as nothing refers to it.

Measured, 3,680,000 bids of Nexmark (649 MB, two thirds of it texts), one thread: lz4 361 MB, written in 0.7 s of the
processor; zstd 190 MB, 1.1 s; not compressed 0.1 s where the disk takes the bytes from memory. The thread that writes takes from the
job what it needs, so it is one thread, and lz4, or nothing for a disk that is faster than lz4. Arrow encodes into memory
that is used again, without the interpreter's lock. CRC-32 takes 4 to 15 GB/s.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from runtime.checkpoint.arrow_streams import read_streams
from runtime.checkpoint.storage import Damage, NewFile, Storage
from runtime.kernels.checksum import crc32

__all__ = ["Damage", "Segment", "SegmentReader", "SegmentWriter", "batches_of"]

_OWN_FILE_BYTES = 1 << 20
_COMPRESSED_ROWS = 64
_BATCH_ROWS = 65_536
_STREAM_ROWS = 4096
"""A batch of so many rows is a stream of its own."""
_BUFFER_BYTES = 1024
"""More than what the description of a buffer and the compression of what cannot be compressed take."""
_THREADED_ROWS = 16_384
"""Of fewer rows the columns are decompressed faster than they are handed to threads."""
_WRITTEN_BYTES = 1 << 20
_WHOLE_FILE_BYTES = 8 << 20
_CACHE_BYTES = 32 << 20
_TEXT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of bytes of a file, with their CRC-32. `file`: path in the storage; `rows`: how many it holds, 0 when they
    are no rows; `digest`: their SHA-256 where checkpoints are authenticated; `copy`: another file that holds the same at
    the same place, if there is one."""

    file: str
    offset: int
    length: int
    crc: int
    rows: int
    digest: str = ""
    copy: str = ""

    @property
    def turned(self) -> Segment:
        """The same, of the other file; one that has no copy as it is."""
        return replace(self, file=self.copy, copy=self.file) if self.copy else self


class SegmentWriter:
    """Writes the files of one checkpoint.

    Args:
        folder: where in the storage.
        token: part of all file names, so that a name is never used again.
        copies: another folder, to which every file of rows is written as well.
        digests: segments carry their SHA-256.
        first: the number of the first file.
    """

    def __init__(
        self, storage: Storage, folder: str, token: str, *, copies: str = "", digests: bool = False, first: int = 0
    ) -> None:
        self._storage = storage
        self.folders = (folder, copies) if copies else (folder,)
        self._token = token
        self._digests = digests
        self._shared: tuple[str, NewFile] | None = None
        self._open: list[NewFile] = []
        self._made = first
        self._memory: pa.Buffer | None = None
        self.files: dict[str, int] = {}
        """The files made so far with their sizes, complete or not."""

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], nbytes: int) -> Segment:
        """Writes rows; `nbytes` is about how large they are."""
        own = nbytes >= _OWN_FILE_BYTES
        path, file = self._create(".arrow", large=True) if own else self._shared_file()
        stream = _Checked(file, self._digests)
        count = 0
        writer: Any = None
        for batch in batches:
            count += batch.num_rows
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                piece = batch.slice(start, _BATCH_ROWS)
                if piece.num_rows < _STREAM_ROWS:
                    if writer is None:
                        writer = pa.ipc.new_stream(stream, schema, options=_compressed(piece))
                    writer.write_batch(piece)
                    continue
                if writer is not None:
                    writer.close()
                    writer = None
                stream.write(self._encoded(piece, file))
        if not stream.length and writer is None:
            writer = pa.ipc.new_stream(stream, schema)
        if writer is not None:
            writer.close()
        paths = self._paths(path)
        segment = Segment(
            path, self.files[path], stream.length, stream.crc, count, stream.digest, paths[1] if len(paths) > 1 else ""
        )
        for each in paths:
            self.files[each] += stream.length
        if own:
            self._close(file)
        return segment

    def _encoded(self, rows: pa.RecordBatch, file: NewFile) -> pa.Buffer:
        """A stream of these rows, to be written to the file next."""
        buffers = sum(len(column.buffers()) for column in rows.columns)
        size = rows.nbytes + rows.nbytes // 64 + 2 * rows.schema.serialize().size + _BUFFER_BYTES * (64 + buffers)
        memory = file.memory(size)
        if memory is None:
            memory = self._memory
            if memory is None or memory.size < size:
                memory = self._memory = pa.allocate_buffer(size)
        sink = pa.FixedSizeBufferWriter(memory)
        options = pa.ipc.IpcWriteOptions() if self._storage.fast else _compressed(rows)
        with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
            writer.write_batch(rows)
        return memory.slice(0, sink.tell())

    def text(self, text: str, suffix: str, folder: str) -> Segment:
        """Writes a text into a file of its own, which has no copy."""
        path, file = self._create(suffix, folders=(folder,))
        data = text.encode()
        file.write(data)
        self.files[path] = len(data)
        self._close(file)
        return Segment(path, 0, len(data), crc32(data), 0, hashlib.sha256(data).hexdigest() if self._digests else "")

    def close(self) -> None:
        """All files are complete, and survive a crash but for those of the first folder, whose names do not yet."""
        for file in list(self._open):
            self._close(file)
        for folder in {path.rpartition("/")[0] for path in self.files}:
            self._storage.settle(folder)

    def abandon(self) -> None:
        """Deletes all files.

        Raises:
            OSError: some are left.
        """
        for file in self._open:
            file.abandon()
        for path in self.files:
            self._storage.delete(path)

    def _shared_file(self) -> tuple[str, NewFile]:
        if self._shared is None:
            self._shared = self._create(".arrows")
        return self._shared

    def _create(self, suffix: str, *, large: bool = False, folders: Sequence[str] | None = None) -> tuple[str, NewFile]:
        number, self._made = self._made, self._made + 1
        paths = [f"{folder}/state-{self._token}-{number}{suffix}" for folder in folders or self.folders]
        made: list[NewFile] = []
        for path in paths:
            # Known before it is there, so that it is deleted even if making it fails half way.
            self.files[path] = 0
            try:
                made.append(self._storage.create(path, large=large))
            except OSError:
                for file in made:
                    file.abandon()
                raise
        gathered = _Gathered(made[0] if len(made) == 1 else _Both(*made))
        self._open.append(gathered)
        return paths[0], gathered

    def _paths(self, path: str) -> list[str]:
        """The files that hold what is written to one of the first folder."""
        name = path.rpartition("/")[2]
        return [f"{folder}/{name}" for folder in self.folders]

    def _close(self, file: NewFile) -> None:
        self._open.remove(file)
        file.close()


class _Gathered:
    """A file that is written in large parts: Arrow writes a stream in parts of a few bytes."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._waiting: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> int:
        if len(data) >= _WRITTEN_BYTES:
            self._flush()
            return self._file.write(data)
        self._waiting.append(bytes(data))
        self._size += len(data)
        if self._size >= _WRITTEN_BYTES:
            self._flush()
        return len(data)

    def memory(self, size: int) -> pa.Buffer | None:
        self._flush()
        return self._file.memory(size)

    def close(self) -> None:
        try:
            self._flush()
        except OSError:
            self._file.abandon()
            raise
        self._file.close()

    def abandon(self) -> None:
        self._file.abandon()

    def _flush(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            self._file.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))


class _Both:
    """Two files that get the same bytes."""

    def __init__(self, first: NewFile, second: NewFile) -> None:
        self._first = first
        self._second = second

    def write(self, data: bytes) -> int:
        # The bytes may lie in memory of the first file, until something is written to it.
        self._second.write(data)
        return self._first.write(data)

    def memory(self, size: int) -> pa.Buffer | None:
        return self._first.memory(size)

    def close(self) -> None:
        try:
            self._first.close()
        except OSError:
            self._second.abandon()
            raise
        self._second.close()

    def abandon(self) -> None:
        self._first.abandon()
        self._second.abandon()


class _Checked:
    """What streams are written to: a part of a file, its bytes counted and summed."""

    closed = False

    def __init__(self, file: NewFile, digests: bool) -> None:
        self._file = file
        self._digest = hashlib.sha256() if digests else None
        self.length = 0
        self.crc = 0

    @property
    def digest(self) -> str:
        return "" if self._digest is None else self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        self.crc = crc32(data, self.crc)
        if self._digest is not None:
            self._digest.update(data)
        self.length += len(data)
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing: files are synced when they are closed."""

    def close(self) -> None:
        self.closed = True


class SegmentReader:
    """Reads segments and checks them. Keeps small files, because their segments are wanted one after another."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cache: OrderedDict[str, pa.Buffer] = OrderedDict()
        self._cached = 0

    def read(self, segment: Segment) -> pa.Buffer:
        """The bytes of a segment, from its copy when its file is damaged.

        Raises:
            Damage: they are not there, or not what was written.
            OSError: the store cannot be read.
        """
        try:
            return self._checked(segment)
        except Damage:
            if not segment.copy:
                raise
        return self._checked(segment.turned)

    def _checked(self, segment: Segment) -> pa.Buffer:
        try:
            data = self._bytes(segment)
        except FileNotFoundError:
            raise Damage(f"{segment.file} is missing") from None
        if data.size != segment.length:
            raise Damage(f"{segment.file} is too short")
        if crc32(data) != segment.crc:
            raise Damage(f"{segment.file} holds other bytes than were written: its checksum differs")
        if segment.digest and hashlib.sha256(data).hexdigest() != segment.digest:
            raise Damage(f"{segment.file} holds other bytes than were written: its SHA-256 differs")
        return data

    def text(self, segment: Segment) -> str:
        if segment.length > _TEXT_BYTES:
            raise Damage(f"{segment.file} is larger than {_TEXT_BYTES} bytes")
        return self.read(segment).to_pybytes().decode()

    def batches(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        """The rows of a segment as they were written, all types kept: the first column holds their slots.

        Nothing is taken on trust: a right checksum says only that somebody has computed it.

        Raises:
            Damage: as `read`; or the bytes are no rows such as a store writes.
        """
        data = self.read(segment)
        count = 0
        try:
            for batch in read_streams(data, threads=segment.rows >= _THREADED_ROWS):
                count += batch.num_rows
                yield batch
        except ValueError as error:
            raise Damage(f"{segment.file} cannot be decoded: {error}") from error
        if count != segment.rows:
            raise Damage(f"{segment.file} holds {count} rows instead of {segment.rows}")

    def _bytes(self, segment: Segment) -> pa.Buffer:
        if segment.length >= _OWN_FILE_BYTES:
            return self._storage.read(segment.file, segment.offset, segment.length)
        whole = self._cache.get(segment.file)
        if whole is None:
            whole = self._storage.read(segment.file, 0, _WHOLE_FILE_BYTES)
            self._cache[segment.file] = whole
            self._cached += whole.size
            while self._cached > _CACHE_BYTES and len(self._cache) > 1:
                _, dropped = self._cache.popitem(last=False)
                self._cached -= dropped.size
        else:
            self._cache.move_to_end(segment.file)
        if segment.offset + segment.length > _WHOLE_FILE_BYTES:
            return self._storage.read(segment.file, segment.offset, segment.length)
        if segment.offset >= whole.size:
            return whole.slice(whole.size)
        return whole.slice(segment.offset, min(segment.length, whole.size - segment.offset))


def _compressed(rows: pa.RecordBatch) -> pa.ipc.IpcWriteOptions:
    codec = "lz4" if rows.num_rows >= _COMPRESSED_ROWS else None
    return pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)


def batches_of(table: pa.Table) -> list[pa.RecordBatch]:
    """The rows of a table in as few batches as Arrow can: one, but for texts of more than 2 GB."""
    return table.combine_chunks().to_batches()
