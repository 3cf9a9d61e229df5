"""Compressed files of text: the option that says how, and an encoder that writes so."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from connectors.options import TableOptions
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import OptionError
from runtime.core.options import text_option
from runtime.spi.format import Encoder, Format

__all__ = ["COMPRESSION", "PackingEncoder", "ending_of", "read_packing"]

COMPRESSION = text_option(
    "compression",
    "auto",
    "how files of text are compressed; 'auto' reads each as its name says, and writes plain ones",
    ("auto", "none", "bz2", "deflate", "gzip", "lz4", "snappy", "xz", "zstd"),
)
_BLOCK = 256 << 10
"""The bytes of a block of Snappy; Hadoop has no larger ones."""


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Kept(io.BytesIO):
    """Arrow closes what it writes to, before the end of it is read."""

    def close(self) -> None:
        """See the class."""


class _Framed:
    """Frames of Arrow."""

    def __init__(self, codec: str) -> None:
        self._packed = _Kept()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._packed, "w"), codec)

    def compress(self, data: bytes, /) -> bytes:
        self._stream.write(data)
        return self._drained()

    def flush(self) -> bytes:
        self._stream.close()
        return self._drained()

    def _drained(self) -> bytes:
        made = self._packed.getvalue()
        self._packed.seek(0)
        self._packed.truncate()
        return made


class _Blocks:
    """Blocks of Snappy, as Hadoop reads them."""

    def __init__(self) -> None:
        self._waiting = b""

    def compress(self, data: bytes, /) -> bytes:
        self._waiting += data
        made: list[bytes] = []
        whole = len(self._waiting) // _BLOCK * _BLOCK
        for begin in range(0, whole, _BLOCK):
            made.append(self._block(self._waiting[begin : begin + _BLOCK]))
        self._waiting = self._waiting[whole:]
        return b"".join(made)

    def flush(self) -> bytes:
        rest, self._waiting = self._waiting, b""
        return self._block(rest) if rest else b""

    def _block(self, data: bytes) -> bytes:
        packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
        return len(data).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed


_PACKERS: Mapping[str, tuple[str, Callable[[], _Packer]]] = {
    "bz2": (".bz2", bz2.BZ2Compressor),
    "deflate": (".deflate", zlib.compressobj),
    "gzip": (".gz", lambda: zlib.compressobj(wbits=31)),
    "lz4": (".lz4", lambda: _Framed("lz4")),
    "snappy": (".snappy", _Blocks),
    "xz": (".xz", lzma.LZMACompressor),
    "zstd": (".zst", lambda: _Framed("zstd")),
}


def read_packing(options: TableOptions, format_: Format) -> str:
    """How files are compressed; raises OptionError for formats that do so themselves."""
    packing = options.get(COMPRESSION).lower()
    if packing not in ("auto", "none") and format_.name in ("avro", "orc", "parquet"):
        own = {"avro": "avro.codec", "orc": "orc.compress", "parquet": "parquet.compression"}[format_.name]
        raise OptionError(
            f"option '{COMPRESSION.key}' cannot be '{packing}': format '{format_.name}' compresses by itself",
            hint=f"set '{own}'",
        )
    return packing


def ending_of(packing: str) -> str:
    """What the names of files that are written end with."""
    return _PACKERS[packing][0] if packing in _PACKERS else ""


class PackingEncoder:
    """What another encoder makes, compressed."""

    def __init__(self, encoder: Encoder, packing: str) -> None:
        self._encoder = encoder
        self._packer: Any = _PACKERS[packing][1]()

    def encode(self, batch: ChangelogBatch) -> bytes:
        made: bytes = self._packer.compress(self._encoder.encode(batch))
        return made

    def finish(self) -> bytes:
        made: bytes = self._packer.compress(self._encoder.finish()) + self._packer.flush()
        return made
