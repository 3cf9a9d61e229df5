"""Small files of columns that would take much memory or time, crafted: `python column_bombs.py FOLDER` reads those of a
folder and prints as JSON what became of each, and the most memory that it took."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from malformed_files import _peak_megabytes, outcome

from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING

__all__ = ["SCHEMA", "craft"]

SCHEMA = Schema.of(("a", BIGINT), ("s", STRING))
ROWS, MORE_ROWS = 2_100_001, 134_000_000
LONG = 160 << 20


def _varint(value: int, width: int = 0) -> bytes:
    """A number as Thrift and Protocol Buffers write it, in so many bytes where it is told."""
    octets: list[int] = []
    while value > 127 or len(octets) < width - 1:
        octets.append(value & 127 | 128)
        value >>= 7
    return bytes([*octets, value])


def _zigzag(value: int, width: int = 0) -> bytes:
    return _varint(value << 1, width)


def _parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=1 << 30, **options)
    return sink.getvalue()


def _orc(table: pa.Table, compression: str) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table, sink, compression=compression, stripe_size=1 << 30)
    return sink.getvalue()


def _lying(data: bytes, what: bytes, instead: bytes, since: int) -> bytes:
    """With numbers in the place of others, from a byte on."""
    assert len(what) == len(instead) and what in data[since:]
    return data[:since] + data[since:].replace(what, instead)


def craft(folder: Path) -> dict[str, str]:
    """Write the files; gives by name the code of the error that each is."""
    zeros = pa.table({"a": np.zeros(ROWS, np.int64)})
    few = _parquet(zeros)
    footer = len(few) - 8 - int.from_bytes(few[-8:-4], "little")
    long = _parquet(pa.table({"s": pa.array(["x" * LONG])}), use_dictionary=False, write_statistics=False)
    since = len(long) - 8 - int.from_bytes(long[-8:-4], "little")
    says = pq.ParquetFile(io.BytesIO(long)).metadata.row_group(0).column(0).total_uncompressed_size
    codes = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), pa.array(["y" * (4 << 20)]))
    numbers = _parquet(pa.table({"a": np.arange(1000)}), dictionary_pagesize_limit=1 << 24)
    plain = _orc(zeros, "uncompressed")
    files = {
        "rows.parquet": (_lying(few, _zigzag(ROWS), _zigzag(MORE_ROWS), footer), "E3207"),
        "page.parquet": (long, "E3207"),
        "lying-page.parquet": (_lying(long, _zigzag(says), _zigzag(1000, len(_zigzag(says))), since), "E3207"),
        "texts.parquet": (_parquet(pa.table({"s": codes}), dictionary_pagesize_limit=1 << 26), ""),
        "dictionary.parquet": (_lying(numbers, _zigzag(1000), _zigzag(8191), 0), "E3206"),
        "stripe.orc": (_orc(pa.table({"a": np.zeros(20_000_000, np.int64)}), "zlib"), "E3207"),
        "rows.orc": (_lying(plain, _varint(ROWS), _varint(MORE_ROWS), len(plain) - 300), "E3207"),
    }
    for name, (data, _) in files.items():
        (folder / name).write_bytes(data)
    return {name: code for name, (_, code) in files.items()}


if __name__ == "__main__":
    found = {
        path.name: outcome(path, path.suffix[1:], SCHEMA)
        for path in sorted(Path(sys.argv[1]).iterdir())
        if path.is_file()
    }
    print(json.dumps({"outcomes": found, "megabytes": _peak_megabytes()}))
