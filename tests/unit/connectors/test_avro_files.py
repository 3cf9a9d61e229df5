"""Files of Avro: what polars reads and writes, every type, every codec, and files that are none."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from connector_tables import end, request, rows_of, sink, source

from connectors.filesystem.avro_reader import AvroFileReader
from connectors.filesystem.inference import infer_files
from connectors.filesystem.limits import ReadLimits
from connectors.formats.avro_container import CODECS
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import SqlEngineError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, DOUBLE, INT, STRING, array, row
from runtime.kernels import avro_read
from runtime.spi.source import SourceTable
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract
from sqlengine.testing.connectors.values import EXTREMES

SCHEMA = Schema.of(("id", BIGINT), ("name", STRING), ("price", DOUBLE), ("tags", array(STRING)))
ROWS = [(i, f"n{i}" if i % 3 else None, i / 4, [f"t{j}" for j in range(i % 4)]) for i in range(23)]
HELD = tuple(name for name in EXTREMES if name not in ("time",))


def written(path: Path, rows: list[tuple[Any, ...]], schema: Schema = SCHEMA, **options: str) -> None:
    table = sink("filesystem", schema, {"path": str(path), "format": "avro", **options})
    writer = table.open_writer("job")
    for begin in range(0, len(rows), 7):
        part = rows[begin : begin + 7]
        columns = [pa.array([r[i] for r in part], f.type.arrow) for i, f in enumerate(schema)]
        writer.write(ChangelogBatch.of(columns, schema))
    end(writer)
    writer.close()


def read(path: Path, schema: Schema = SCHEMA, **options: str) -> list[tuple[Any, ...]]:
    return rows_of(source("filesystem", schema, {"path": str(path), "format": "avro", **options}))


class TestAvro(SourceContract):
    connectors = ("filesystem",)
    types = HELD

    @pytest.fixture
    def table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceTable:
        monkeypatch.setattr("connectors.formats.avro_container._BLOCK_BYTES", 60)
        written(tmp_path / "t", ROWS)
        return source("filesystem", SCHEMA, {"path": str(tmp_path / "t"), "format": "avro"})

    @pytest.fixture
    def holding(self, tmp_path: Path) -> Any:
        def made(schema: Schema, rows: list[tuple[Any, ...]]) -> SourceTable:
            written(tmp_path / "every", rows, schema, **{"avro.timestamp_mapping.legacy": "false"})
            return source(
                "filesystem",
                schema,
                {"path": str(tmp_path / "every"), "format": "avro", "avro.timestamp_mapping.legacy": "false"},
            )

        return made


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str, tmp_path: Path) -> None:
    written(tmp_path, ROWS, **{"avro.codec": codec.lower()})
    assert read(tmp_path) == ROWS
    if codec in ("NULL", "DEFLATE", "SNAPPY"):
        (file,) = tmp_path.glob("part-*.avro")
        assert pl.read_avro(file).rows() == ROWS


@pytest.mark.parametrize("codec", ["uncompressed", "deflate", "snappy"])
def test_files_of_polars(codec: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": [r[0] for r in ROWS], "name": [r[1] for r in ROWS], "more": [{"a": 1, "b": "x"}] * 23})
    frame.write_avro(tmp_path / "a.avro", codec)
    schema = Schema.of(("more", row(("a", BIGINT), ("b", STRING))), ("id", BIGINT), ("name", STRING), ("lacking", INT))
    assert read(tmp_path, schema) == [({"a": 1, "b": "x"}, r[0], r[1], None) for r in ROWS]
    found = infer_files(request(Schema(()), {"path": str(tmp_path / "a.avro")}))
    assert found.schema.names == ("id", "name", "more") and found.options["format"] == "avro"


def test_statements(tmp_path: Path) -> None:
    with TableEnvironment.create() as environment:
        run = environment.execute_sql
        run(
            f"CREATE TABLE t (id INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'avro')"
        )
        run("INSERT INTO t VALUES (1, 'a'), (2, NULL)").wait()
        assert run(f"SELECT * FROM '{tmp_path}/t/*.avro' WHERE id = 2").to_arrow().to_pylist() == [
            {"id": 2, "name": None}
        ]
        assert run(f"SELECT COUNT(*) AS c FROM read_avro('{tmp_path}/t')").to_arrow().to_pylist() == [{"c": 2}]
    with pytest.raises(UnsupportedError, match="E1604"):
        sink("filesystem", SCHEMA, {"path": str(tmp_path), "format": "avro"}).compact(1 << 20)  # type: ignore[attr-defined]


def test_an_empty_table_has_a_schema_in_its_decoder() -> None:
    """The decoder of whole files, which other connectors use."""
    from connectors.formats.avro import AvroFormat

    format_ = AvroFormat(True, False)
    encoder = format_.encoder(SCHEMA, "UTC")
    data = encoder.encode(ChangelogBatch.empty(SCHEMA)) + encoder.finish()
    assert len(format_.decoder(SCHEMA, "UTC").decode(data, True).batch) == 0
    assert format_.decoder(SCHEMA, "UTC").decode(b"", False).consumed == 0


def test_the_twin_of_the_kernel_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, ROWS)
    monkeypatch.setattr(avro_read, "_avro_read", None)
    assert read(tmp_path) == ROWS


def test_damage_is_told_wherever_it_is(tmp_path: Path) -> None:
    """A byte is another one, or the file ends: rows are as they were, or an error with a code says so."""
    written(tmp_path, ROWS)
    (file,) = tmp_path.glob("part-*")
    whole, rng = file.read_bytes(), np.random.default_rng(3)
    told = 0
    for number in range(150):
        data = bytearray(whole)
        if number % 3:
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        else:
            del data[rng.integers(len(data)) :]
        file.write_bytes(data)
        try:
            read(tmp_path)
        except SqlEngineError as error:
            assert error.code in ("E3204", "E3205", "E3206", "E3207"), error
            told += 1
    assert told > 90


def test_files_that_are_larger_than_they_look(tmp_path: Path) -> None:
    header = io.BytesIO()
    frame = pl.DataFrame({"name": ["x"]})
    frame.write_avro(header, "deflate")
    begin = header.getvalue()[: header.getvalue().index(b"\x00", 60) + 17]
    sync = begin[-16:]

    def block(records: int, packed: bytes) -> bytes:
        return _long(records) + _long(len(packed)) + packed + sync

    packer = zlib.compressobj(wbits=-15)
    bomb = packer.compress(bytes(64 << 20)) + packer.flush()
    for data, code in (
        (block(1, bomb), "E3207"),
        (block(1 << 40, zlib.compress(b"\x02\x02a")[2:-4]), "E3206"),
        (_long(1) + _long(1 << 50), "E3206"),
    ):
        path = tmp_path / "a.avro"
        path.write_bytes(begin + data)
        with pytest.raises(SqlEngineError) as caught:
            AvroFileReader(str(path), Schema.of(("name", STRING)), ReadLimits()).poll(10)
        assert caught.value.code == code, caught.value


def _long(value: int) -> bytes:
    value, made = 2 * value, bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
