"""Messages that are change events: whose key is whose row's, and what events tell as metadata columns."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from connector_tables import read_all, source
from kafka_broker import Broker

from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING, timestamp_ltz
from sqlengine import TableEnvironment

SCHEMA = Schema.of(("id", INT), ("name", STRING))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


def test_messages_of_several_rows_and_of_none(broker: Broker) -> None:
    """Each row has the offset and the key of its own message, also where the numbers of rows and messages are the same."""
    topic = broker.topic()
    two = '{"type":"INSERT","data":[{"id":1},{"id":2}]}'
    none = '{"type":"CREATE","data":null}'
    update = '{"type":"UPDATE","data":[{"id":2,"name":"b"}],"old":[{"name":null}]}'
    for number, value in enumerate((two, none, None, update, "{", two)):
        broker.send(topic, value, key=json.dumps({"k": number}))
    schema = Schema((*SCHEMA, *Schema.of(("k", INT), ("offset", BIGINT))))
    options = broker.options(topic) | {
        "value.format": "canal-json",
        "key.format": "json",
        "key.fields": "k",
        "value.fields-include": "EXCEPT_KEY",
        "value.canal-json.ignore-parse-errors": "true",
    }
    rows = read_all(source("kafka", schema, options, metadata=(("offset", "offset"),)))
    assert [(kind, row[0], row[2], row[3]) for kind, row in rows] == [
        (0, 1, 0, 0),
        (0, 2, 0, 0),
        (1, 2, 3, 3),
        (2, 2, 3, 3),
        (0, 1, 5, 5),
        (0, 2, 5, 5),
    ]


def test_metadata_of_events(broker: Broker) -> None:
    """Old rows have the time of the new one, so a view over them would be wrong: rows come by key."""
    topic = broker.topic()
    source_ = {"db": "shop", "table": "t", "ts_ms": 1000}
    events = [
        {"before": None, "after": {"id": 1, "name": "a"}, "op": "c", "ts_ms": 1000},
        {"before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": "b"}, "op": "u", "ts_ms": 2000},
        {"before": None, "after": {"id": 2, "name": "c"}, "op": "c", "ts_ms": 3000},
        {"before": {"id": 2, "name": "c"}, "after": None, "op": "d", "ts_ms": 4000},
        {"before": {"id": 1, "name": "b"}, "after": {"id": 3, "name": "b"}, "op": "u", "ts_ms": 5000},
    ]
    broker.send(topic, *(json.dumps({**event, "source": source_}) for event in events), None)
    with_ = ", ".join(f"'{k}' = '{v}'" for k, v in broker.options(topic, format="debezium-json").items())
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            "CREATE TABLE t (id INT, name STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL, "
            "origin STRING METADATA FROM 'value.source.table' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED) "
            f"WITH ('connector' = 'kafka', {with_})"
        )
        t_env.execute_sql(
            "CREATE MATERIALIZED VIEW v AS SELECT at, COUNT(*) AS n, MAX(name) AS name FROM t GROUP BY at"
        )
        t_env.execute_sql("FLUSH")
        rows = t_env.execute_sql("SELECT name, n, EXTRACT(SECOND FROM at) AS s FROM v").to_arrow().to_pylist()
        assert rows == [{"name": "b", "n": 1, "s": 5}]
        rows = t_env.execute_sql("SELECT id, origin FROM t").to_arrow().to_pylist()
        assert rows == [{"id": 3, "origin": "t"}]


@pytest.mark.parametrize(
    ("metadata", "type_", "text"),
    [
        ("value.ingestion-timestamp", timestamp_ltz(3), "PRIMARY KEY of t"),
        ("value.source.table", INT, "metadata 'value.source.table' is STRING, and column m INT"),
        ("value.source.tabel", STRING, 'did you mean "value.source.table"'),
        ("ofset", BIGINT, 'did you mean "offset"'),
    ],
)
def test_metadata_that_cannot_be(metadata: str, type_: object, text: str, broker: Broker) -> None:
    schema = Schema((*SCHEMA, *Schema.of(("m", type_))))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=text):
        source("kafka", schema, broker.options("t", format="debezium-json"), metadata=(("m", metadata),))
