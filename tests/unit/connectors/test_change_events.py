"""Formats of change events: what Flink 2.3 reads of each event, and the same changes written and read again."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from connectors.catalogue import standard_registry
from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING

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
