"""Damaged files, read in a process of their own: `python malformed_files.py FORMAT FOLDER` reads a hundred of them, or
large ones, and prints as JSON what became of each, and the most memory that it took."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from connector_tables import Context, source

from runtime.core.errors import SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, array
from runtime.spi.reader import DictionaryReader

__all__ = ["ROWS", "packed"]

ROWS = 600
SCHEMA = Schema.of(("a", INT), ("s", STRING), ("u", STRING), ("d", DOUBLE), ("l", array(BIGINT)), ("b", BOOLEAN))


def packed(suffix: str, data: bytes) -> bytes:
    """Bytes as a file with this suffix holds them."""
    if suffix == "zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    pack: dict[str, Callable[[bytes], bytes]] = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "deflate": zlib.compress,
    }
    return pack[suffix](data)


def _whole(format_: str) -> bytes:
    rows = pa.table(
        {
            "a": pa.array([None if i % 7 == 0 else i for i in range(ROWS)], pa.int32()),
            "s": pa.array([f"text {i % 50}" for i in range(ROWS)]),
            "u": pa.array([f"u{i}" for i in range(ROWS)]),
            "d": pa.array([i / 3 for i in range(ROWS)]),
            "l": pa.array([[i] * (i % 3) for i in range(ROWS)], pa.list_(pa.int64())),
            "b": pa.array([i % 2 == 0 for i in range(ROWS)]),
        }
    )
    sink = io.BytesIO()
    if format_ == "parquet":
        pq.write_table(rows, sink, row_group_size=250, compression="zstd", write_page_checksum=True)
    else:
        orc.write_table(rows, sink, stripe_size=16384, compression="zlib")
    return sink.getvalue()


def _damages(data: bytes, footer: int) -> Iterator[tuple[str, bytes]]:
    """A hundred damages of a file whose last bytes are its footer."""
    rng = random.Random(9)
    yield "empty", b""
    yield "zeros", bytes(len(data))
    yield "text", b"1,x\n" * 100
    yield "twice", data + data
    yield "more behind", data + b"\n"
    yield "more before", b"\n" + data
    yield "without its magic", b"XXXX" + data[4:]
    yield "without its end", data[:-4]
    yield "nothing but its end", data[-8:]
    yield "nothing but its footer", data[-footer:]
    yield "a footer of another length", data[:-8] + b"\xff\xff\xff\x7f" + data[-4:]
    yield "a footer without a length", data[:-8] + b"\0\0\0\0" + data[-4:]
    for number in range(15):
        yield f"cut {number}", data[: len(data) * number // 15]
    for number in range(25):
        yield f"flipped {number}", _flipped(data, rng.randrange(len(data)), rng)
    for number in range(25):
        yield f"flipped in the footer {number}", _flipped(data, len(data) - 8 - rng.randrange(1, footer), rng)
    for number in range(12):
        begin = rng.randrange(len(data) - 100)
        yield f"overwritten {number}", data[:begin] + rng.randbytes(50) + data[begin + 50 :]
    for number in range(12):
        begin = rng.randrange(len(data) - 100)
        yield f"a piece is gone {number}", data[:begin] + data[begin + rng.randrange(1, 90) :]


def _flipped(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def outcome(path: Path, format_: str, schema: Schema, **options: str) -> dict[str, Any]:
    """The rows of a file, those that were rejected, and the code and message of an error."""
    context, rows = Context(), 0
    try:
        given = {"path": str(path), "format": format_, **{k.replace("__", "."): v for k, v in options.items()}}
        table = source("filesystem", schema, {k.replace("_", "-"): v for k, v in given.items()})
        table.statistics()
        for split in table.splits():
            reader = table.open(split, context)
            if isinstance(reader, DictionaryReader):
                reader.use_dictionaries()
            while not reader.finished:
                batch = reader.poll(100_000)
                rows += 0 if batch is None else len(batch)
            reader.close()
    except SqlEngineError as error:
        return {"rows": rows, "rejected": len(context.rejected), "code": error.code, "message": error.message}
    return {"rows": rows, "rejected": len(context.rejected), "code": "", "message": ""}


def _large(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Files that would take much memory: what they hold is far more than the limits."""
    mega = 1 << 20
    schema = Schema.of(("a", INT), ("s", STRING))
    lenient = {"csv__ignore_parse_errors": "true", "json__ignore_parse_errors": "true"}
    texts = {
        "a line of 40 MB": lambda f: [f.write(b"x" * mega) for _ in range(40)],
        "a quote that is not closed": lambda f: (
            f.write(b'1,"x\n'),
            [f.write(b"1,x\n" * (mega // 4)) for _ in range(30)],
        ),
        "zeros": lambda f: [f.write(bytes(mega)) for _ in range(40)],
        "nothing but line ends": lambda f: [f.write(b"\n" * mega) for _ in range(8)],
        "malformed lines": lambda f: f.write(b"{\n" * 200_000),
    }
    for name, write in texts.items():
        path = folder / "large"
        with path.open("wb") as file:
            write(file)
        for format_ in ("csv",) if "quote" in name else ("csv", "json"):
            options = {k: v for k, v in lenient.items() if k.startswith(format_)}
            yield f"{format_}: {name}", outcome(path, format_, schema, **options)
    for suffix in ("gz", "bz2", "xz", "zst", "deflate"):
        path = folder / f"bomb.{suffix}"
        path.write_bytes(packed(suffix, bytes(40 * mega)))
        yield f"a bomb of {suffix}", outcome(path, "json", schema, json__ignore_parse_errors="true")
        path.unlink()


def _peak_megabytes() -> int:
    """The most memory that this program has taken. (`ru_maxrss` also counts what the process was before it began.)"""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    return int(peak[1]) >> 10


def main(what: str, folder: Path) -> None:
    found: dict[str, Any] = {}
    if what == "large":
        found.update(_large(folder))
    else:
        data = _whole(what)
        footer = int.from_bytes(data[-8:-4], "little") if what == "parquet" else 300
        path = folder / f"damaged.{what}"
        for name, damage in _damages(data, footer):
            path.write_bytes(damage)
            found[name] = outcome(path, what, SCHEMA)
    print(json.dumps({"outcomes": found, "megabytes": _peak_megabytes()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
