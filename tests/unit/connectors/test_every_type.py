"""Values at the edges of each type, and NULL, there and back through every format and connector that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from connector_tables import end, rows_of, sink, source
from kafka_broker import Broker

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from sqlengine.testing.connectors import EXTREMES, every_value


def batch(schema: Schema, rows: list[tuple[Any, ...]]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)], schema)


@pytest.mark.parametrize(
    ("format_", "without"),
    [
        ("json", set()),
        ("csv", {"map", "row", "array"}),  # NULLs within them have no text.
        ("debezium-json", set()),
        ("canal-json", set()),
        ("maxwell-json", set()),
        ("ogg-json", set()),
        ("parquet", set()),
        ("orc", {"time", "timestamp"}),  # It has no fractions of seconds before 1970.
    ],
)
def test_files(format_: str, without: set[str], tmp_path: Path) -> None:
    names = [name for name in EXTREMES if name not in without]
    schema, rows = every_value(names)
    options = {"path": str(tmp_path / "out"), "format": format_}
    if format_ == "csv":
        options["csv.null-literal"] = "NULL"
    writer = sink("filesystem", schema, options).open_writer("job")
    writer.write(batch(schema, rows))
    end(writer)
    assert rows_of(source("filesystem", schema, options)) == rows


def test_messages(tmp_path: Path) -> None:
    broker = Broker()
    schema, rows = every_value()
    options = broker.options(broker.topic(), format="json") | {"sink.partitioner": "fixed"}
    writer = sink("kafka", schema, options).open_writer("job")
    writer.write(batch(schema, rows))
    end(writer)
    assert rows_of(source("kafka", schema, options)) == rows


def test_duckdb(tmp_path: Path) -> None:
    schema, rows = every_value()
    stored = pa.Table.from_batches([batch(schema, rows).rows])
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.register("given", stored)
        connection.execute("SET TimeZone = 'UTC'; CREATE TABLE t AS SELECT * FROM given")
    assert rows_of(source("duckdb", schema, {"path": str(tmp_path / "a.duckdb"), "table-name": "t"})) == rows
