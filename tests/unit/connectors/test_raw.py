"""Lines and messages as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import Context, end, read_all, rows_of, sink, source

from connectors.formats.raw import RawFormat
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError, SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import BYTES, INT, STRING
from runtime.spi.format import Payloads
from runtime.spi.source import SourceTable
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract

LINES = Schema.of(("line", STRING))
DATA = Schema.of(("line", BYTES))


def table_of(path: Path, schema: Schema = LINES, **options: str) -> Any:
    return source("filesystem", schema, {"path": str(path), "format": "raw", **options})


class TestLines(SourceContract):
    connectors = ("filesystem",)

    @pytest.fixture
    def table(self, tmp_path: Path) -> SourceTable:
        (tmp_path / "a.txt").write_text("".join(f"line {i} ä\n" for i in range(30)))
        return table_of(tmp_path)


def test_every_line_is_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("one\r\n\n  two  \nä\r\r\nlast".encode())
    assert rows_of(table_of(path)) == [("one",), ("",), ("  two  ",), ("ä\r",), ("last",)]
    path.write_bytes(b"\xff\x00\n\xfe")
    assert rows_of(table_of(path, DATA)) == [(b"\xff\x00",), (b"\xfe",)]
    path.write_bytes(b"")
    assert rows_of(table_of(path)) == []
    path.write_bytes("é\nab\nü".encode("latin-1"))
    assert rows_of(table_of(path, **{"raw.charset": "ISO-8859-1"})) == [("é",), ("ab",), ("ü",)]


def test_what_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\xff\n" + b"x" * 3000 + b"\ntwo\n")
    with pytest.raises(FormatError, match=r"E3201 .*a\.txt:2: not text in UTF-8"):
        rows_of(table_of(path))
    context, options = Context(), {"raw.ignore-parse-errors": "true", "source.max-record-size": "1 kb"}
    assert [row for _, row in read_all(table_of(path, **options), context=context)] == [("one",), ("two",)]
    assert [r.reason.partition(" (")[0] for r in context.rejected] == ["not text in UTF-8", "longer than 1024 bytes"]
    path.write_bytes("a\nä\n".encode())
    with pytest.raises(FormatError, match="not text in US-ASCII"):
        rows_of(table_of(path, **{"raw.charset": "us-ascii"}))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for schema, values, more in (
        (LINES, ["a", "", " ä "], {}),
        (LINES, ["é", "b"], {"raw.charset": "ISO-8859-1"}),
        (DATA, [b"\xff", b""], {"compression": "gzip"}),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        writer = sink("filesystem", schema, {"path": str(folder), "format": "raw", **more}).open_writer("job")
        writer.write(ChangelogBatch.of([pa.array(values, schema[0].type.arrow)], schema))
        end(writer)
        writer.close()
        assert [row[0] for row in rows_of(table_of(folder, schema, **more))] == values
        assert next(folder.glob("part-*")).name.endswith(".txt" + (".gz" if "compression" in more else ""))


@pytest.mark.parametrize(
    ("value", "says"), [(None, "NULL"), ("a\nb", "line break"), ("a\r", "line break"), ("ж", "hold")]
)
def test_what_cannot_be_written(value: str | None, says: str) -> None:
    encoder = RawFormat("ISO-8859-1", False).encoder(LINES, "UTC")
    with pytest.raises(FormatError, match=f"E3203 .*{says}"):
        encoder.encode(ChangelogBatch.of([pa.array([value], pa.string())], LINES))


def test_messages() -> None:
    format_ = RawFormat("UTF-8", False)
    sent = format_.message_encoder(LINES, "UTC").encode_messages(ChangelogBatch.of([pa.array(["a\nb", ""])], LINES))
    decoder = format_.message_decoder(LINES, ("line",), "UTC")
    got = decoder.decode_messages(Payloads.of(sent))
    assert got.batch.column(0).to_pylist() == ["a\nb", ""] and not got.rejected
    got = decoder.decode_messages(Payloads.of(pa.array([b"a", b"\xff", b"c"], pa.large_binary())))
    assert got.message_of_row.tolist() == [0, 2] and got.rejected[0][0] == 1


def test_tables_that_it_cannot_hold(tmp_path: Path) -> None:
    for schema in (Schema.of(("a", STRING), ("b", STRING)), Schema.of(("a", INT))):
        for make in (source, sink):
            with pytest.raises(SqlEngineError, match="E1616"):
                make("filesystem", schema, {"path": str(tmp_path), "format": "raw"})


def test_a_query_over_a_log(tmp_path: Path) -> None:
    (tmp_path / "shop.log").write_text("INFO started\nERROR no money\n")
    with TableEnvironment.create() as environment:
        found = environment.execute_sql(f"SELECT line FROM '{tmp_path}/shop.log' WHERE line LIKE 'ERROR%'").to_arrow()
        assert found.to_pylist() == [{"line": "ERROR no money"}]
