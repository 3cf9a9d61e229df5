"""One table of every connector and format that can be read, small and with an end, for the contracts of sources."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from connector_tables import source

from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING, array, decimal, map_of, row, timestamp
from runtime.spi.source import SourceTable

__all__ = ["SOURCES"]

SCHEMA = Schema.of(("id", INT), ("name", STRING), ("price", decimal(10, 2)), ("at", timestamp(3)))
RECORDS = [
    {"id": i, "name": f"n,{i}" if i % 3 else None, "price": i / 4, "at": f"2024-05-01 10:00:{i:02d}.5"}
    for i in range(23)
]


def json_lines(folder: Path) -> SourceTable:
    for part in range(2):
        text = "\n".join(json.dumps(r) for r in RECORDS[part * 12 : part * 12 + 12])
        (folder / f"part-{part}.jsonl").write_text(text + "\n" * part)
    return source("filesystem", SCHEMA, {"path": str(folder), "format": "json"})


def csv_with_header(folder: Path) -> SourceTable:
    lines = ["price,at,name,id"]
    lines += [f'{r["price"]},{r["at"]},"n,{r["id"]}\nsecond line",{r["id"]}' for r in RECORDS]
    (folder / "a.csv").write_text("\n".join(lines))
    return source("filesystem", SCHEMA, {"path": f"{folder}/*.csv", "format": "csv", "csv.header": "true"})


def debezium(folder: Path) -> SourceTable:
    events = []
    for r in RECORDS:
        events.append({"before": None, "after": r, "op": "c"})
        if r["id"] % 3 == 0:
            events.append({"before": r, "after": {**r, "name": "new"}, "op": "u"})
        if r["id"] % 5 == 0:
            events.append({"before": {**r, "name": "new"} if r["id"] % 3 == 0 else r, "after": None, "op": "d"})
    (folder / "events.jsonl").write_text("\n".join(json.dumps(e) for e in events))
    return source("filesystem", SCHEMA, {"path": f"file://{folder}/events.jsonl", "format": "debezium-json"})


def parquet(folder: Path) -> SourceTable:
    table = pa.table({"id": pa.array(range(23), pa.int32()), "name": pa.array([f"n{i}" for i in range(23)])})
    pq.write_table(table, folder / "a.parquet", row_group_size=6)
    return source("filesystem", SCHEMA, {"path": str(folder), "format": "parquet"})


def orc_stripes(folder: Path) -> SourceTable:
    with orc.ORCWriter(str(folder / "a.orc"), stripe_size=1, batch_size=6) as writer:
        for begin in range(0, 23, 6):
            ids = range(begin, min(begin + 6, 23))
            writer.write(pa.table({"id": pa.array(ids, pa.int32()), "name": pa.array([f"n{i}" for i in ids])}))
    assert orc.ORCFile(str(folder / "a.orc")).nstripes > 1
    return source("filesystem", SCHEMA, {"path": str(folder), "format": "orc"})


def partitioned(folder: Path) -> SourceTable:
    for day in ("2024-05-01", "2024-05-02"):
        (folder / f"day={day}").mkdir()
        (folder / f"day={day}" / "x.csv").write_text("1,a\n2,b\n3,c\n")
    schema = Schema.of(("id", INT), ("day", STRING), ("name", STRING), ("file", STRING))
    return source(
        "filesystem",
        schema,
        {"path": str(folder), "format": "csv"},
        partitioned_by=("day",),
        metadata=(("file", "file.name"),),
    )


def datagen(folder: Path) -> SourceTable:
    schema = Schema.of(("id", INT), ("s", STRING), ("a", array(INT)), ("m", map_of(STRING, INT)), ("at", timestamp(3)))
    options = {
        "number-of-rows": "17",
        "seed": "5",
        "fields.s.length": "4",
        "fields.s.var-len": "true",
        "fields.id.null-rate": "0.3",
    }
    return source("datagen", schema, options)


def nexmark_bids(folder: Path) -> SourceTable:
    schema = Schema.of(("auction", BIGINT), ("price", BIGINT), ("channel", STRING), ("dateTime", timestamp(3)))
    return source("nexmark", schema, {"nexmark.table": "bid", "events.num": "57"})


def nexmark_events(folder: Path) -> SourceTable:
    schema = Schema.of(("event_type", INT), ("bid", row(("price", BIGINT))), ("person", row(("name", STRING))))
    return source("nexmark", schema, {"events.num": "57"})


def values(folder: Path) -> SourceTable:
    schema = Schema.of(("id", INT), ("name", STRING))
    data = '{"id": 1, "name": "a"}\n{"op": "-U", "id": 1, "name": "a"}\n{"op": "+U", "id": 1, "name": "b"}\n{"id": 2}'
    return source("values", schema, {"data": data, "changelog-mode": "retract"})


def texts(count: int) -> list[tuple[int, str]]:
    """Texts with everything that a reader may stumble over: characters of several bytes, line ends, quotes."""
    parts = (
        "plain",
        "gr\u00fc\u00dfe",
        "\u65e5\u672c\u8a9e\n",
        "\U0001f600,\U0001f600",
        'a "quoted" word',
        "\r\n",
        "",
        "x" * 70,
    )
    return [(i, parts[i % len(parts)] + parts[i * 3 % len(parts)]) for i in range(count)]


def multi_byte_csv(folder: Path) -> SourceTable:
    lines = ["id,name"]
    lines += [f'{i},"{text.replace(chr(34), chr(34) * 2)}"' for i, text in texts(40)]
    (folder / "a.csv").write_bytes("\n".join(lines).encode())
    schema = Schema.of(("id", INT), ("name", STRING))
    return source("filesystem", schema, {"path": str(folder), "format": "csv", "csv.header": "true"})


def multi_byte_json(folder: Path) -> SourceTable:
    lines = [json.dumps({"id": i, "name": text}, ensure_ascii=False) for i, text in texts(40)]
    (folder / "a.jsonl").write_bytes("\r\n".join(lines).encode())
    return source("filesystem", Schema.of(("id", INT), ("name", STRING)), {"path": str(folder), "format": "json"})


def compressed(folder: Path) -> SourceTable:
    def csv(begin: int) -> bytes:
        rows = texts(begin + 12)[begin:]
        return "".join(f'{i},"{text.replace(chr(34), chr(34) * 2)}"\n' for i, text in rows).encode()

    (folder / "a.csv.gz").write_bytes(gzip.compress(csv(0)[:100]) + gzip.compress(csv(0)[100:]))
    (folder / "b.csv.bz2").write_bytes(bz2.compress(csv(12)))
    (folder / "c.csv.xz").write_bytes(lzma.compress(csv(24)))
    (folder / "d.csv.zst").write_bytes(pa.compress(csv(36), "zstd", asbytes=True))
    (folder / "e.csv.deflate").write_bytes(zlib.compress(csv(48)))
    (folder / "f.csv.gz").write_bytes(gzip.compress(b""))
    schema = Schema.of(("id", INT), ("name", STRING))
    return source("filesystem", schema, {"path": str(folder), "format": "csv"})


def duckdb_table(folder: Path) -> SourceTable:
    with duckdb.connect(str(folder / "a.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i::INT AS id, CASE WHEN i % 3 > 0 THEN 'n' || i END AS name, "
            "(i / 4)::DECIMAL(10, 2) AS price, TIMESTAMP '2024-05-01 10:00:00.5' + i * INTERVAL 1 SECOND "
            "AS at FROM range(23) AS r (i)"
        )
    return source("duckdb", SCHEMA, {"path": str(folder / "a.duckdb"), "table-name": "t"})


SOURCES = (
    duckdb_table,
    json_lines,
    csv_with_header,
    debezium,
    parquet,
    orc_stripes,
    partitioned,
    datagen,
    nexmark_bids,
    nexmark_events,
    values,
    multi_byte_csv,
    multi_byte_json,
    compressed,
)
