"""Formats of change events: what Flink 2.3 reads of each event, and the same changes written and read again."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from connectors.catalogue import standard_registry
from connectors.formats.event_metadata import CarriesMetadata
from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING, array, map_of, timestamp_ltz

REGISTRY = standard_registry()
SCHEMA = Schema.of(("id", INT), ("a", STRING), ("b", INT))
FORMATS = ("canal-json", "debezium-json", "maxwell-json", "ogg-json")
UNKNOWN = "unknown operation"
NO_ROW = "event without its row ('data')"
NO_ROWS = "event without its rows ('data')"
NO_OLD = "update without what it changed ('old')"
NO_OLDS = "update without what it changed in each row ('old')"
NO_BEFORE = "event without its row before the change (PostgreSQL: REPLICA IDENTITY FULL)"
NO_AFTER = "event without its row after the change"

READ: dict[str, list[tuple[str, Any]]] = {
    "canal-json": [
        ('{"data":[{"id":1,"a":"x","b":5}],"type":"INSERT","database":"d","table":"t"}', [("+I", 1, "x", 5)]),
        ('{"data":[{"id":1,"a":"y","b":5}],"old":[{"a":"x"}],"type":"UPDATE"}', [("-U", 1, "x", 5), ("+U", 1, "y", 5)]),
        (
            '{"data":[{"id":1,"a":"z","b":6}],"old":[{"a":"y","b":null}],"type":"UPDATE"}',
            [("-U", 1, "y", None), ("+U", 1, "z", 6)],
        ),
        (  # Flink: -U 1, NULL, NULL, because the other row has a `b`.
            '{"data":[{"id":1,"a":"z","b":6},{"id":2,"a":"q","b":1}],"old":[{"a":null},{"b":7}],"type":"UPDATE"}',
            [("-U", 1, None, 6), ("+U", 1, "z", 6), ("-U", 2, "q", 7), ("+U", 2, "q", 1)],
        ),
        ('{"data":[{"id":"1","a":"z","b":"6"}],"old":[{"b":null}],"type":"UPDATE"}', [("-U", 1, "z", None), ("+U", 1, "z", 6)]),
        ('{"data":null,"type":"CREATE"}', []),
        ('{"data":[],"type":"INSERT"}', []),
        ('{"data":[{"id":9},{"id":8}],"type":"DELETE"}', [("-D", 9, None, None), ("-D", 8, None, None)]),
        ('{"data":null,"type":"ALTER"}', UNKNOWN),
        ('{"data":[{"id":1}],"type":"insert"}', UNKNOWN),
        ('{"data":[{"id":9}],"type":null}', UNKNOWN),
        ("{}", UNKNOWN),
        ("null", "not a JSON object"),
        ('{"data":null,"type":"INSERT"}', NO_ROWS),
        ('{"data":[null],"type":"INSERT"}', NO_ROWS),
        ('{"data":[{"id":1}],"type":"UPDATE"}', NO_OLDS),
        ('{"data":[{"id":1}],"old":null,"type":"UPDATE"}', NO_OLDS),
        ('{"data":[{"id":1},{"id":2}],"old":[{"id":5}],"type":"UPDATE"}', NO_OLDS),
    ],
    "maxwell-json": [
        ('{"data":{"id":1,"a":"x","b":5},"type":"insert","database":"d","table":"t"}', [("+I", 1, "x", 5)]),
        ('{"data":{"id":1,"a":"y","b":5},"old":{"a":"x"},"type":"update"}', [("-U", 1, "x", 5), ("+U", 1, "y", 5)]),
        (
            '{"data":{"id":1,"a":"z","b":6},"old":{"a":"y","b":null},"type":"update"}',
            [("-U", 1, "y", None), ("+U", 1, "z", 6)],
        ),
        (
            '{"data":{"id":1,"a":"z","b":6},"old":{"A":"y","b":null},"type":"update"}',
            [("-U", 1, "z", None), ("+U", 1, "z", 6)],
        ),
        (
            '[{"data":{"id":1},"type":"insert"},{"data":{"id":1,"b":6},"old":{"b":null},"type":"update"}]',
            [("+I", 1, None, None), ("-U", 1, None, None), ("+U", 1, None, 6)],
        ),
        ('{"data":{"id":9},"type":"delete"}', [("-D", 9, None, None)]),
        ('{"data":{"id":1},"type":"bootstrap-insert"}', UNKNOWN),
        ('{"data":{"id":9}}', UNKNOWN),
        ('{"type":"insert"}', NO_ROW),
        ('{"data":{"id":1},"type":"update"}', NO_OLD),
        ('{"data":{"id":1},"old":null,"type":"update"}', NO_OLD),
    ],
    "ogg-json": [
        ('{"before":null,"after":{"id":1,"a":"x","b":5},"op_type":"I"}', [("+I", 1, "x", 5)]),
        (
            '{"before":{"id":1,"a":"x"},"after":{"id":1,"a":"y","b":5},"op_type":"U"}',
            [("-U", 1, "x", None), ("+U", 1, "y", 5)],
        ),
        ('{"before":{"id":1,"a":"x"},"op_type":"D"}', [("-D", 1, "x", None)]),
        ('{"before":{"id":1,"a":"x"},"op_type":"T"}', UNKNOWN),
        ('{"op_type":"D"}', NO_BEFORE),
        ('{"op_type":"I"}', NO_AFTER),
        ('{"after":{"id":1},"op_type":"U"}', NO_BEFORE),
    ],
    "debezium-json": [
        ('{"before":null,"after":{"id":1,"a":"x","b":5},"op":"c"}', [("+I", 1, "x", 5)]),
        ('{"before":null,"after":{"id":1,"a":"x","b":5},"op":"r"}', [("+I", 1, "x", 5)]),
        ('{"before":{"id":1},"after":null,"op":"d"}', [("-D", 1, None, None)]),
        ('{"before":null,"after":null,"op":"c"}', NO_AFTER),
        ('{"before":null,"after":null,"op":"t"}', UNKNOWN),
        ('{"before":null,"after":null,"op":"m"}', UNKNOWN),
        ('{"before":{"id":1},"after":null,"op":"u"}', NO_AFTER),
        ('{"after":{"id":1},"op":"u"}', NO_BEFORE),
    ],
}  # fmt: skip


def decoder(name: str, options: dict[str, str] | None = None) -> Any:
    return REGISTRY.formats.get(name).create(options or {}).decoder(SCHEMA, "UTC")


def changes(batch: ChangelogBatch) -> list[tuple[Any, ...]]:
    rows = zip(*(c.to_pylist() for c in batch.columns), strict=True)
    return [(KIND_NAMES[k], *row) for k, row in zip(batch.kinds_or_inserts().tolist(), rows, strict=True)]


@pytest.mark.parametrize("name", FORMATS)
def test_each_event_and_all_of_them(name: str) -> None:
    lines, rows, rejected = [], [], []
    for number, (line, expected) in enumerate(READ[name]):
        decoded = decoder(name).decode(line.encode() + b"\n", True)
        if isinstance(expected, str):
            assert (line, [r.reason for r in decoded.rejected]) == (line, [expected])
            assert not len(decoded.batch)
            rejected.append(number)
        else:
            assert (line, changes(decoded.batch), decoded.rejected) == (line, expected, ())
            rows += expected
        lines.append(line)
    decoded = decoder(name).decode("\n\n".join(lines).encode(), True)
    assert changes(decoded.batch) == rows
    assert [r.line // 2 for r in decoded.rejected] == rejected
    assert decoded.whole == sum(len(e) for _, e in READ[name][: rejected[0]] if not isinstance(e, str))


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read_again(name: str) -> None:
    """As by Flink: an update is a deletion and an insertion."""
    rows = pa.record_batch(
        [
            pa.array([1, 1, 1, 2], pa.int32()),
            pa.array(["x", "x", 'y"\n', None]),
            pa.array([None, None, 3, 4], pa.int32()),
        ],
        names=list(SCHEMA.names),
    )
    format_ = REGISTRY.formats.get(name).create({})
    written = format_.encoder(SCHEMA, "UTC").encode(ChangelogBatch(rows, np.array([0, 1, 2, 3], np.int8)))
    assert changes(format_.decoder(SCHEMA, "UTC").decode(written, True).batch) == [
        ("+I", 1, "x", None),
        ("-D", 1, "x", None),
        ("+I", 1, 'y"\n', 3),
        ("-D", 2, None, 4),
    ]


def test_texts_of_flink() -> None:
    rows = pa.record_batch(
        [pa.array([1, 1], pa.int32()), pa.array(["p"] * 2), pa.nulls(2, pa.int32())], names=["id", "a", "b"]
    )
    written = {
        name: REGISTRY.formats.get(name)
        .create({})
        .encoder(SCHEMA, "UTC")
        .encode(ChangelogBatch(rows, np.array([0, 3], np.int8)))
        for name in FORMATS
    }
    assert {name: text.decode().splitlines() for name, text in written.items()} == {
        "canal-json": [
            '{"data":[{"id":1,"a":"p","b":null}],"type":"INSERT"}',
            '{"data":[{"id":1,"a":"p","b":null}],"type":"DELETE"}',
        ],
        "maxwell-json": [
            '{"data":{"id":1,"a":"p","b":null},"type":"insert"}',
            '{"data":{"id":1,"a":"p","b":null},"type":"delete"}',
        ],
        "ogg-json": [
            '{"before":null,"after":{"id":1,"a":"p","b":null},"op_type":"I"}',
            '{"before":{"id":1,"a":"p","b":null},"after":null,"op_type":"D"}',
        ],
        "debezium-json": [
            '{"before":null,"after":{"id":1,"a":"p","b":null},"op":"c"}',
            '{"before":{"id":1,"a":"p","b":null},"after":null,"op":"d"}',
        ],
    }


def test_included_tables() -> None:
    events = [
        {"data": [{"id": i}], "type": "INSERT" if i else "ALTER", "database": d, "table": t}
        for i, (d, t) in enumerate(
            [("other", "t"), ("shop", "orders"), ("shop", "orders_2"), ("Shop", "orders"), (None, "orders")]
        )
    ]
    lines = "\n".join(map(json.dumps, events)).encode()
    for options, expected in (
        ({"database.include": "shop"}, [1, 2]),
        ({"database.include": "(?i)shop", "table.include": "orders"}, [1, 3]),
        ({"table.include": "orders(_\\d)?"}, [1, 2, 3, 4]),
    ):
        decoded = decoder("canal-json", options).decode(lines, True)
        assert (decoded.batch.column(0).to_pylist(), decoded.rejected) == (expected, ())
    with pytest.raises(OptionError, match=r"canal-json.table.include.*no regular expression"):
        decoder("canal-json", {"table.include": "("})


@pytest.mark.parametrize("name", ["canal-json", "maxwell-json"])
def test_updates_that_name_what_has_changed(name: str) -> None:
    """Against a model: the row before is the row after with what `old` says, NULL included."""
    rng = random.Random(name)
    lines, expected = [], []
    for _ in range(500):
        before, after = (
            {"id": 1, "a": rng.choice(["x", "null", None]), "b": rng.choice([1, 2, None])} for _ in range(2)
        )
        old = {k: v for k, v in before.items() if v != after[k]}
        event = {"data": after, "old": old, "type": "update"}
        if name == "canal-json":
            event = {"data": [after], "old": [old], "type": "UPDATE"}
        lines.append(json.dumps(event))
        expected += [("-U", *before.values()), ("+U", *after.values())]
    assert changes(decoder(name).decode("\n".join(lines).encode(), True).batch) == expected


# --- what events tell beside rows
# ---------------------------------------------------------------------------------------------------------------------

TOLD: dict[str, tuple[str, dict[str, tuple[Any, Any]]]] = {
    "debezium-json": (
        '{"before":{"id":1},"after":{"id":1,"a":"x"},"op":"u","ts_ms":1589355606100,'
        '"source":{"db":"shop","schema":"public","table":"t","ts_ms":1589355604000,"lsn":7}}',
        {
            "schema": (STRING, None),
            "ingestion-timestamp": (timestamp_ltz(3), datetime(2020, 5, 13, 7, 40, 6, 100_000, UTC)),
            "source.timestamp": (timestamp_ltz(3), datetime(2020, 5, 13, 7, 40, 4, tzinfo=UTC)),
            "source.database": (STRING, "shop"),
            "source.schema": (STRING, "public"),
            "source.table": (STRING, "t"),
        },
    ),
    "canal-json": (
        '{"data":[{"id":1,"a":"x"}],"old":[{"a":null}],"type":"UPDATE","database":"shop","table":"t",'
        '"ts":1589355606100,"es":1589355604000,"pkNames":["id"],"sqlType":{"id":4}}',
        {
            "database": (STRING, "shop"),
            "table": (STRING, "t"),
            "sql-type": (map_of(STRING, INT), [("id", 4)]),
            "pk-names": (array(STRING), ["id"]),
            "ingestion-timestamp": (timestamp_ltz(3), datetime(2020, 5, 13, 7, 40, 6, 100_000, UTC)),
            "event-timestamp": (timestamp_ltz(3), datetime(2020, 5, 13, 7, 40, 4, tzinfo=UTC)),
        },
    ),
    "maxwell-json": (
        '{"data":{"id":1,"a":"x"},"old":{"a":null},"type":"update","database":"shop","table":"t","ts":1589355606,'
        '"primary_key_columns":["id"]}',
        {
            "database": (STRING, "shop"),
            "table": (STRING, "t"),
            "primary-key-columns": (array(STRING), ["id"]),
            "ingestion-timestamp": (timestamp_ltz(3), datetime(2020, 5, 13, 7, 40, 6, tzinfo=UTC)),
        },
    ),
    "ogg-json": (
        '{"before":{"id":1},"after":{"id":1,"a":"x"},"op_type":"U","table":"SHOP.T","op_ts":"2020-05-13 07:40:04.000001",'
        '"current_ts":"2020-05-13T07:40:06.100000","primary_keys":["id"]}',
        {
            "table": (STRING, "SHOP.T"),
            "primary-keys": (array(STRING), ["id"]),
            "ingestion-timestamp": (timestamp_ltz(6), datetime(2020, 5, 13, 7, 40, 6, 100_000, UTC)),
            "event-timestamp": (timestamp_ltz(6), datetime(2020, 5, 13, 7, 40, 4, 1, UTC)),
        },
    ),
}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_metadata(name: str, wrapped: bool) -> None:
    """With all of it, old rows do not come; with what does not change, they do."""
    event, known = TOLD[name]
    options = {}
    if wrapped:
        if name != "debezium-json":
            return
        event, options = f'{{"schema":{{"type":"struct"}},"payload":{event}}}', {"schema-include": "true"}
        known = {**known, "schema": (STRING, '{"type":"struct"}')}
    format_ = REGISTRY.formats.get(name).create(options)
    assert isinstance(format_, CarriesMetadata)
    assert {*known} == {*format_.metadata} - {"source.properties"}
    columns = [(f"m{i}", key) for i, key in enumerate(known)]
    schema = Schema((*SCHEMA, *Schema.of(*((c, known[key][0]) for c, key in columns))))
    values = tuple(value for _, value in known.values())
    decoded = format_.with_metadata(columns, ["id"]).decoder(schema, "UTC").decode(event.encode(), True)
    assert not decoded.rejected
    assert changes(decoded.batch) == [("+U", 1, "x", None, *values)]
    whole = (
        format_.with_metadata(columns[:1], None)
        .decoder(schema.select((0, 1, 2, 3)), "UTC")
        .decode(event.encode(), True)
    )
    assert [change[:2] for change in changes(whole.batch)] == [("-U", 1), ("+U", 1)]


def test_properties_of_the_source() -> None:
    format_ = REGISTRY.formats.get("debezium-json").create({}).with_metadata([("p", "source.properties")], ["id"])  # type: ignore[attr-defined]
    schema = Schema((*SCHEMA, *Schema.of(("p", map_of(STRING, STRING)))))
    ((_, *_rest, properties),) = changes(
        format_.decoder(schema, "UTC").decode(TOLD["debezium-json"][0].encode(), True).batch
    )
    assert dict(properties)["db"] == "shop" and dict(properties)["lsn"] == "7"


def test_updates_of_keys_without_old_rows() -> None:
    """Against a model: the rows by key after each event."""
    rng = random.Random(3)
    format_ = REGISTRY.formats.get("debezium-json").create({}).with_metadata([("at", "ingestion-timestamp")], ["id"])  # type: ignore[attr-defined]
    schema = Schema((*SCHEMA, *Schema.of(("at", timestamp_ltz(3)))))
    lines: list[str] = []
    rows: dict[Any, Any] = {}
    for number in range(400):
        key, other = rng.randrange(8), rng.randrange(8)
        before, after = rows.get(key), {"id": other, "a": str(number), "b": None}
        if before is None:
            event = {"before": None, "after": {**after, "id": key}, "op": "c"}
        elif rng.random() < 0.3:
            event = {"before": before, "after": None, "op": "d"}
        elif other == key or other not in rows:
            event = {"before": before, "after": after, "op": "u"}
        else:
            continue
        rows.pop(key, None)
        if event["after"]:
            rows[event["after"]["id"]] = event["after"]  # type: ignore[index]
        lines.append(json.dumps({**event, "ts_ms": number}))
    held: dict[Any, Any] = {}
    for kind, id_, a, *_ in changes(format_.decoder(schema, "UTC").decode("\n".join(lines).encode(), True).batch):
        if kind == "-D":
            del held[id_]
        else:
            assert kind == "+U" or id_ not in held
            held[id_] = a
    assert held == {key: value["a"] for key, value in rows.items()}
