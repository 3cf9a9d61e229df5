"""Files of text that are compressed, in and out."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from connector_tables import Context, drain, end, request, rows_of, sink, source

from connectors.filesystem import packing
from connectors.filesystem.inference import infer_files
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import OptionError, SqlEngineError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING

SCHEMA = Schema.of(("id", BIGINT), ("name", STRING))
ROWS = [(i, f"näme {i}" * (i % 5)) for i in range(400)]
KINDS = ("bz2", "deflate", "gzip", "lz4", "snappy", "xz", "zstd")
ANOTHERS: dict[str, Callable[[bytes], bytes]] = {
    "bz2": bz2.decompress,
    "deflate": zlib.decompress,
    "gzip": gzip.decompress,
    "lz4": lambda data: pa.CompressedInputStream(pa.BufferReader(data), "lz4").read(),
    "xz": lzma.decompress,
    "zstd": lambda data: pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(),
}


def written(path: Path, kind: str, format_: str = "json", **more: str) -> Path:
    table = sink("filesystem", SCHEMA, {"path": str(path), "format": format_, "compression": kind, **more})
    writer = table.open_writer("job")
    for begin in range(0, len(ROWS), 90):
        part = ROWS[begin : begin + 90]
        columns = [pa.array([r[i] for r in part], f.type.arrow) for i, f in enumerate(SCHEMA)]
        writer.write(ChangelogBatch.of(columns, SCHEMA))
    end(writer)
    writer.close()
    (file,) = path.glob("part-*")
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name and by the option; from every position; the columns are found."""
    monkeypatch.setattr(packing, "_BLOCK", 700)
    file = written(tmp_path / "out", kind, "csv", **{"csv.header": "true"})
    assert file.name.endswith(f".csv{packing.ending_of(kind)}")
    options = {"format": "csv", "csv.header": "true"}
    table = source("filesystem", SCHEMA, {"path": str(file), **options})
    assert rows_of(table) == ROWS
    if kind in ANOTHERS:
        assert ANOTHERS[kind](file.read_bytes()).decode().count("\n") == len(ROWS) + 1
    found = infer_files(request(Schema(()), {"path": str(file)}))
    assert found.schema.names == ("id", "name") and found.options["format"] == "csv"
    other = file.rename(tmp_path / "other")
    table = source("filesystem", SCHEMA, {"path": str(other), "compression": kind, **options})
    (split,) = table.splits()
    reader = table.open(split, Context())
    given = 0
    while given < 150:
        batch = reader.poll(37)
        given += 0 if batch is None else len(batch)
    again = table.open(split, Context())
    again.seek(reader.position())
    assert [row for _, row in drain(again)] == ROWS[given:]


@pytest.mark.parametrize("kind", ["lz4", "snappy", "zstd"])
def test_damage_and_bombs(kind: str, tmp_path: Path) -> None:
    file = written(tmp_path / "out", kind)
    whole, rng = file.read_bytes(), random.Random(kind)
    read = source("filesystem", SCHEMA, {"path": str(file), "format": "json"})
    for number in range(40):
        data = bytearray(whole)
        if number % 2:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(1, len(data)) :]
        file.write_bytes(data)
        read.__dict__.pop("_listed", None)
        try:
            rows_of(read)
        except SqlEngineError as error:
            assert error.code in ("E3201", "E3206", "E3207"), error
    packer = packing._PACKERS[kind][1]()
    file.write_bytes(b"".join(packer.compress(bytes(1 << 20)) for _ in range(40)) + packer.flush())
    limit = {"path": str(file), "format": "json", "source.max-decompression-ratio": "2"}
    with pytest.raises(SqlEngineError, match="E3207"):
        rows_of(source("filesystem", SCHEMA, {**limit, "json.ignore-parse-errors": "true"}))


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    for format_, own in (("parquet", "parquet.compression"), ("orc", "orc.compress"), ("avro", "avro.codec")):
        options = {"path": str(tmp_path), "format": format_, "compression": "gzip"}
        for make in (source, sink):
            with pytest.raises(OptionError, match="compresses by itself") as caught:
                make("filesystem", SCHEMA, options)
            assert own in (caught.value.hint or "")
    with pytest.raises(UnsupportedError, match="E1604"):
        sink("filesystem", SCHEMA, {"path": str(tmp_path), "format": "json", "compression": "gzip"}).compact(1)  # type: ignore[attr-defined]
