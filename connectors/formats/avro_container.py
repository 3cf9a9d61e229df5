"""Files of Avro: a header with the schema, then blocks of records, each compressed for itself.

    'Obj' 1 | map: avro.schema, avro.codec | 16 bytes that stand behind each block
    records (long) | bytes (long) | that many bytes | the 16 bytes

Source: Apache Avro 1.12, Specification, "Object Container Files".
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from connectors.formats.avro_reading import Unresolved, reading_program
from connectors.formats.avro_schema import AvroType, BadSchema, parse_schema, schema_text
from connectors.formats.avro_writing import encode_records
from connectors.formats.row_kinds import require_append
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.kernels.avro_read import read_stream, reason_of
from runtime.spi.format import Decoded

__all__ = ["CODECS", "Block", "ContainerDecoder", "ContainerEncoder", "Header", "read_block", "read_header", "unpacked"]

_MAGIC = b"Obj\x01"
_SYNC = 16
_MOST_HEADER = 16 << 20
_MOST_ENTRIES = 10_000
_BLOCK_BYTES = 1 << 20
_LZMA_MEMORY = 128 << 20
_MOST_BLOCK = 128 << 20
_FREE_RECORDS = 1 << 16
"""So many records may a block have that take no bytes."""
CODECS = ("NULL", "DEFLATE", "SNAPPY", "ZSTANDARD", "BZIP2", "XZ")


@dataclass(frozen=True)
class Header:
    """What a file says of itself: its schema, how blocks are compressed, what stands behind each, and where the first one
    begins."""

    schema: AvroType
    codec: str
    sync: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Block:
    """So many records in these bytes, packed; `end` is where the next block begins."""

    records: int
    packed: bytes
    end: int


def read_header(file: BinaryIO) -> Header:
    """Of an open file. Raises ValueError when it is none of Avro."""
    file.seek(0)
    source = _Source(file, _MOST_HEADER)
    if source.bytes(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as one")
    meta: dict[str, bytes] = {}
    while count := source.integer():
        if count < 0:
            source.integer()  # the bytes of this part
        if abs(count) > _MOST_ENTRIES:
            raise ValueError("its header has too many entries")
        for _ in range(abs(count)):
            key = source.bytes(source.length()).decode()
            meta[key] = source.bytes(source.length())
    sync = source.bytes(_SYNC)
    codec = meta.get("avro.codec", b"null").decode()
    if codec.upper() not in CODECS:
        raise ValueError(f"its blocks are compressed as {codec[:40]!r}, which is not known")
    try:
        schema = parse_schema(meta.get("avro.schema", b"").decode())
    except BadSchema as error:
        raise ValueError(f"its schema cannot be read: {error}") from error
    if schema.kind != "record":
        raise ValueError(f"it holds no records but values of type {schema.shown}")
    return Header(schema, codec, sync, source.taken)


def read_block(file: BinaryIO, header: Header, begin: int, size: int, most: int) -> Block:
    """The block at a place of a file of so many bytes. Raises ValueError when there is none, or it has more than `most`
    bytes."""
    file.seek(begin)
    source = _Source(file, size - begin)
    records, packed = source.integer(), source.integer()
    if records < 0 or packed < 0 or packed + _SYNC > size - begin - source.taken:
        raise ValueError("a block says that it has another size")
    if packed > most:
        raise ValueError(f"a block has {packed:,} bytes")
    data = source.bytes(packed)
    if source.bytes(_SYNC) != header.sync:
        raise ValueError("a block does not end where it says")
    return Block(records, data, begin + source.taken)


class _Source:
    """The next bytes of a file, `most` at most; each call raises ValueError when it ends before."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self._most = most
        self.taken = 0

    def bytes(self, size: int) -> bytes:
        if size > self._most - self.taken:
            raise ValueError("it ends too early")
        data = self._file.read(size)
        if len(data) < size:
            raise ValueError("it ends too early")
        self.taken += size
        return data

    def integer(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self.bytes(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise ValueError("a number of it has more than 64 bits")

    def length(self) -> int:
        value = self.integer()
        if value < 0:
            raise ValueError("a length of it is negative")
        return value


def unpacked(codec: str, packed: bytes, most: int) -> bytes:
    """The records of a block. Raises ValueError when they take more than `most` bytes, or are damaged."""
    try:
        data = _UNPACK[codec.upper()](packed, most)
    except (zlib.error, lzma.LZMAError, EOFError, OSError, pa.ArrowException, IndexError) as error:
        raise ValueError(f"a block cannot be unpacked: {error}") from error
    if len(data) > most:
        raise ValueError(f"a block unpacks to more than {most:,} bytes")
    return data


class ContainerDecoder:
    """A whole file in memory; nothing is decoded before the last byte has come."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def decode(self, data: bytes, final: bool) -> Decoded:
        """Raises FormatError E3204 for what is no such file, E3205 for columns of another type."""
        if not final:
            return Decoded(ChangelogBatch.empty(self._schema), (), 0)
        batches: list[ChangelogBatch] = []
        try:
            file = io.BytesIO(data)
            header = read_header(file)
            program, at = reading_program(header.schema, self._schema), header.size
            while at < len(data):
                block = read_block(file, header, at, len(data), len(data))
                records = np.frombuffer(unpacked(header.codec, block.packed, _MOST_BLOCK), np.uint8)
                if block.records > max(len(records), _FREE_RECORDS):
                    raise ValueError(f"a block says that it has {block.records:,} records in {len(records):,} bytes")
                columns, state, _ = read_stream(program, records, 0, block.records)
                if state.any():
                    raise ValueError(reason_of(program, int(state[np.flatnonzero(state)[0]])))
                batches.append(ChangelogBatch.of(columns, self._schema))
                at = block.end
        except Unresolved as error:
            raise FormatError(str(error), code="E3205") from error
        except ValueError as error:
            raise FormatError(f"not an Avro file: {error}", code="E3204") from error
        batch = ChangelogBatch.concat(batches) if batches else ChangelogBatch.empty(self._schema)
        return Decoded(batch, (), len(data))


def _inflated(packed: bytes, most: int) -> bytes:
    return zlib.decompressobj(-15).decompress(packed, most + 1)


def _unsnapped(packed: bytes, most: int) -> bytes:
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > most:
        raise ValueError(f"a block unpacks to more than {most:,} bytes")
    data: bytes = pa.decompress(packed[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(data).to_bytes(4, "big") != packed[-4:]:
        raise ValueError("the checksum of a block is wrong")
    return data


def _of_zstandard(packed: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return bytes(stream.read(most + 1))


_UNPACK: Mapping[str, Callable[[bytes, int], bytes]] = {
    "NULL": lambda packed, most: packed,
    "DEFLATE": _inflated,
    "SNAPPY": _unsnapped,
    "ZSTANDARD": _of_zstandard,
    "BZIP2": lambda packed, most: bz2.BZ2Decompressor().decompress(packed, most + 1),
    "XZ": lambda packed, most: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY).decompress(packed, most + 1),
}


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


_PACK: Mapping[str, Callable[[bytes], bytes]] = {
    "NULL": lambda data: data,
    "DEFLATE": _deflated,
    "SNAPPY": lambda data: pa.compress(data, codec="snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "ZSTANDARD": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "BZIP2": bz2.compress,
    "XZ": lzma.compress,
}


class ContainerEncoder:
    """Rows to a file. A block ends when its records have about a megabyte."""

    def __init__(self, schema: Schema, written: AvroType, codec: str) -> None:
        self._schema = schema
        self._written = written
        self._codec = codec
        self._sync = os.urandom(_SYNC)
        self._begun = False
        self._waiting: list[Any] = []
        self._records = self._bytes = 0

    def encode(self, batch: ChangelogBatch) -> bytes:
        """Raises FormatError E3203 for a value that the schema does not hold, PlanningError E1720 for updates."""
        require_append(batch, "avro")
        records = encode_records(self._schema, batch.columns, self._written, len(batch))
        offsets = memoryview(records.buffers()[1]).cast("i" if pa.types.is_binary(records.type) else "q")
        first, last = offsets[records.offset], offsets[records.offset + len(records)]
        self._waiting.append(memoryview(records.buffers()[2] or b"")[first:last])
        self._records += len(batch)
        self._bytes += last - first
        return self._begin() + (self._block() if self._bytes >= _BLOCK_BYTES else b"")

    def finish(self) -> bytes:
        return self._begin() + (self._block() if self._records else b"")

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        meta = {"avro.schema": schema_text(self._written), "avro.codec": self._codec.lower()}
        pairs = b"".join(_text(key) + _text(value) for key, value in meta.items())
        return _MAGIC + _integer(len(meta)) + pairs + _integer(0) + self._sync

    def _block(self) -> bytes:
        packed = _PACK[self._codec](b"".join(self._waiting))
        made = _integer(self._records) + _integer(len(packed)) + packed + self._sync
        self._waiting, self._records, self._bytes = [], 0, 0
        return made


def _integer(value: int) -> bytes:
    """Of a number that is not negative."""
    value, made = 2 * value, bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _text(text: str) -> bytes:
    data = text.encode()
    return _integer(len(data)) + data
