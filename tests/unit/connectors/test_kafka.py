"""Topics as tables. With `KAFKA_BOOTSTRAP=host:port` against a real broker, else against librdkafka's stand-in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from connector_tables import Context, drain, end, read_all, rows_of, sink, source
from kafka_broker import PARTITIONS, Broker

from connectors.kafka import client
from connectors.kafka.options import Place
from connectors.kafka.table import KAFKA, KafkaSource
from runtime.core.changelog import APPEND, DELETE, INSERT, RETRACT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.clock import VirtualClock
from runtime.core.errors import ConnectorError, FormatError, OptionError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BYTES, INT, STRING, map_of, timestamp_ltz
from runtime.local.job import Job
from runtime.spark.simulated import SimulatedCluster
from runtime.spi.source import SourceTable
from sqlengine import TableEnvironment
from sqlengine.testing.connectors.sources import CHECKS

SCHEMA = Schema.of(("id", INT), ("name", STRING))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


def numbered(begin: int, end: int) -> list[str]:
    return [json.dumps({"id": i, "name": f"n{i}"}) for i in range(begin, end)]


def topic_of_json(broker: Broker) -> SourceTable:
    topic = broker.topic()
    broker.send(topic, *numbered(0, 3), None, '{"id": 3,\n "name": "n3"}')
    broker.send(topic, '[{"id": 4}, {"id": 5}]', *numbered(6, 8), partition=2)
    return source("kafka", SCHEMA, broker.options(topic, format="json"))


def topic_of_changes(broker: Broker) -> SourceTable:
    topic = broker.topic()
    old, new = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    events = [
        {"before": None, "after": old, "op": "c"},
        {"before": old, "after": new, "op": "u"},
        {"before": new, "after": None, "op": "d"},
    ]
    broker.send(topic, *map(json.dumps, events))
    schema = Schema((*SCHEMA.fields, *Schema.of(("offset", BIGINT)).fields))
    options = broker.options(topic, format="debezium-json")
    return source("kafka", schema, options, metadata=(("offset", "offset"),))


def topic_by_key(broker: Broker) -> SourceTable:
    topic = broker.topic()
    for key, value in (("1", "a"), ("2", "b"), ("1", "c"), ("2", None), ("7", None)):
        broker.send(topic, None if value is None else json.dumps({"name": value}), key=json.dumps({"id": int(key)}))
    broker.send(topic, None)
    options = broker.options(topic) | {
        "key.format": "json",
        "value.format": "json",
        "value.fields-include": "EXCEPT_KEY",
    }
    del options["scan.startup.mode"]
    schema = Schema((*SCHEMA.fields, *Schema.of(("offset", BIGINT)).fields))
    return source("upsert-kafka", schema, options, primary_key=("id",), metadata=(("offset", "offset"),))


@pytest.mark.parametrize("make", [topic_of_json, topic_of_changes, topic_by_key], ids=lambda m: m.__name__)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_contract(make: Callable[[Broker], SourceTable], check: Callable[[SourceTable], None], broker: Broker) -> None:
    check(make(broker))


def test_changes_know_their_message(broker: Broker) -> None:
    assert read_all(topic_of_changes(broker)) == [
        (INSERT, (1, "a", 0)),
        (UPDATE_BEFORE, (1, "a", 1)),
        (UPDATE_AFTER, (1, "b", 1)),
        (DELETE, (1, "b", 2)),
    ]


def test_the_newest_message_of_a_key_is_its_row(broker: Broker) -> None:
    table = topic_by_key(broker)
    assert table.changelog_mode.is_upsert and table.changelog_mode.key_only_deletes
    assert read_all(table) == [
        (UPDATE_AFTER, (1, "a", 0)),
        (UPDATE_AFTER, (2, "b", 1)),
        (UPDATE_AFTER, (1, "c", 2)),
        (DELETE, (2, None, 3)),
        (DELETE, (7, None, 4)),
    ]


def test_a_deletion_by_key_is_no_lack_of_other_columns(broker: Broker) -> None:
    given, made = broker.topic(), broker.topic()
    for key, value in ((1, "a"), (2, "b"), (1, None)):
        broker.send(given, value and json.dumps({"id": key, "name": value}), key=json.dumps({"id": key}))
    with TableEnvironment.create() as t_env:
        for name, topic in (("given", given), ("made", made)):
            options = broker.options(topic) | {
                "key.format": "json",
                "value.format": "json",
                "connector": "upsert-kafka",
            }
            del options["scan.startup.mode"]
            written = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
            columns = "id INT PRIMARY KEY NOT ENFORCED, name STRING NOT NULL"
            t_env.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({written})")
        t_env.execute_sql("INSERT INTO made SELECT * FROM given").wait()
        assert t_env.execute_sql("SELECT * FROM made").folded().to_pylist() == [{"id": 2, "name": "b"}]


def test_a_changing_answer_is_written_by_key(broker: Broker) -> None:
    given, made = broker.topic(), broker.topic()
    broker.send(
        given, *(json.dumps({"before": None, "after": {"id": i, "name": f"n{i % 2}"}, "op": "c"}) for i in range(3))
    )
    broker.send(given, json.dumps({"before": {"id": 1, "name": "n1"}, "after": None, "op": "d"}))

    def table(name: str, columns: str, connector: str, options: dict[str, str]) -> str:
        given = ", ".join(f"'{k}' = '{v}'" for k, v in {"connector": connector, **options}.items())
        return f"CREATE TABLE {name} ({columns}) WITH ({given})"

    by_key = broker.options(made) | {"key.format": "json", "value.format": "json"}
    del by_key["scan.startup.mode"]
    with TableEnvironment.create({"sqlengine.epoch.max-rows": "1"}) as t_env:
        t_env.execute_sql(table("given", "id INT, name STRING", "kafka", broker.options(given, format="debezium-json")))
        t_env.execute_sql(table("made", "name STRING PRIMARY KEY NOT ENFORCED, n BIGINT", "upsert-kafka", by_key))
        t_env.execute_sql("INSERT INTO made SELECT name, COUNT(*) FROM given GROUP BY name").wait()
        assert t_env.execute_sql("SELECT name, n FROM made").folded().to_pylist() == [{"name": "n0", "n": 2}]
    raw = Schema.of(("name", STRING), ("n", INT))
    options = broker.options(made, format="json")
    messages = rows_of(source("kafka", raw, options))
    assert messages == [("n0", 1), ("n1", 1), ("n0", 2)], "a deletion has no value"


def test_keys_and_metadata_there_and_back(broker: Broker) -> None:
    topic = broker.topic()
    schema = Schema.of(("k_id", INT), ("name", STRING), ("at", timestamp_ltz(3)), ("head", map_of(STRING, BYTES)))
    options = broker.options(topic, format="csv")
    options |= {"key.format": "json", "key.fields": "k_id", "key.fields-prefix": "k_"}
    options |= {"value.fields-include": "EXCEPT_KEY", "sink.partitioner": "fixed"}
    metadata = (("at", "timestamp"), ("head", "headers"))
    written = [
        (1, "two\nlines", datetime(2024, 5, 1, 10, 0, 0, 123000, UTC), [("h", b"\0")]),
        (None, "a,b", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), []),
    ]
    writer = sink("kafka", schema, options, metadata=metadata).open_writer("job")
    columns = [pa.array(values, f.type.arrow) for values, f in zip(zip(*written), schema, strict=True)]
    # A sink's rows may come under other names.
    writer.write(ChangelogBatch(pa.RecordBatch.from_arrays(columns, names=["p", "q", "r", "s"])))
    end(writer)
    assert rows_of(source("kafka", schema, options, metadata=metadata)) == written
    raw = Schema.of(("id", INT), ("topic", STRING), ("partition", INT), ("offset", BIGINT))
    keys = {**options, "key.fields": "id", "key.fields-prefix": "", "csv.ignore-parse-errors": "true"}
    where = tuple((n, n) for n in ("topic", "partition", "offset"))
    with pytest.raises(OptionError, match="has no column that is in the values"):
        source("kafka", raw, keys, metadata=where)
    broker.send(topic, "x", key="not json")
    with pytest.raises(FormatError, match=rf"E3201 {topic}, partition 0, offset 2: .*not json"):
        rows_of(source("kafka", schema, options, metadata=metadata))


def test_malformed_messages(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *numbered(0, 2), "{", *numbered(2, 3), "", "[]")
    schema = Schema.of(("id", INT), ("offset", BIGINT))
    metadata = (("offset", "offset"),)
    with pytest.raises(FormatError, match=rf"E3201 {topic}, partition 0, offset 2: .*: {{"):
        rows_of(source("kafka", schema, broker.options(topic, format="json"), metadata=metadata))
    context = Context()
    options = {**broker.options(topic, format="json"), "json.ignore-parse-errors": "true"}
    read = rows_of(source("kafka", schema, options, metadata=metadata), context=context)
    assert read == [(0, 0), (1, 1), (2, 3)]
    assert [row.raw for row in context.rejected] == ["{"]


def test_long_messages_are_malformed(broker: Broker) -> None:
    topic = broker.topic()
    long = json.dumps({"id": 7, "name": "x" * 2000})
    broker.send(topic, *numbered(0, 2), long, *numbered(2, 3))
    broker.send(topic, "{", long, partition=1)
    schema = Schema.of(("id", INT), ("offset", BIGINT))
    metadata = (("offset", "offset"),)
    options = {**broker.options(topic, format="json"), "source.max-record-size": "1 kb"}
    reason = r"longer than 1024 bytes \('source.max-record-size'\)"
    with pytest.raises(FormatError, match=rf"E3201 {topic}, partition 0, offset 2: {reason}: {{\"id\": 7"):
        rows_of(source("kafka", schema, options, metadata=metadata))
    context = Context()
    options["json.ignore-parse-errors"] = "true"
    read = rows_of(source("kafka", schema, options, metadata=metadata), context=context)
    assert read == [(0, 0), (1, 1), (2, 3)] and len(context.rejected) == 3
    assert all(len(row.raw) < 2100 for row in context.rejected)
    for wrong in ("0", "x"):
        with pytest.raises(OptionError, match="source.max-record-size"):
            source("kafka", schema, {**broker.options(topic, format="json"), "source.max-record-size": wrong})
    keyed = broker.topic()
    broker.send(keyed, '{"name": "a"}', key=long)
    broker.send(keyed, '{"name": "b"}', key='{"id": 1}')
    options = {
        **broker.options(keyed), "key.format": "json", "key.fields": "id", "value.format": "json",
        "value.fields-include": "EXCEPT_KEY", "source.max-record-size": "1 kb",
    }  # fmt: skip
    with pytest.raises(FormatError, match=rf"E3201 {keyed}, partition 0, offset 0: longer than 1024 bytes"):
        rows_of(source("kafka", SCHEMA, options))


@pytest.mark.parametrize("way", ["ignore", "limit"])
def test_a_job_that_a_message_has_ended_goes_on(broker: Broker, tmp_path: Path, way: str) -> None:
    topic = broker.topic()
    bad = "{" if way == "ignore" else json.dumps({"id": 9, "name": "x" * 2000})
    broker.send(topic, *numbered(0, 50), bad, *numbered(50, 60))
    given = broker.options(topic, format="json")

    def insert(more: dict[str, str]) -> TableEnvironment:
        options = ", ".join(f"'{k}' = '{v}'" for k, v in {**given, **more}.items())
        settings = {"execution.checkpointing.dir": str(tmp_path / "state"), "sqlengine.epoch.max-rows": "10",
                    "execution.checkpointing.interval": "1 ms"}  # fmt: skip
        env = TableEnvironment.create(settings)
        env.execute_script(
            f"CREATE TABLE orders (id INT, name STRING) WITH ('connector' = 'kafka', {options});"
            f"CREATE TABLE o (id INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/o', 'format' = 'csv')"
        )
        try:
            env.execute_sql("INSERT INTO o SELECT id FROM orders")
        finally:
            env.close()
        return env

    small = {"source.max-record-size": "1 kb"}
    with pytest.raises(FormatError, match=f"E3201 {topic}, partition 0, offset 50: "):
        insert(small)
    insert({"json.ignore-parse-errors": "true", **small} if way == "ignore" else {"source.max-record-size": "1 mb"})
    ids = sorted(int(line) for file in (tmp_path / "o").glob("[!.]*") for line in file.read_text().split())
    assert ids == sorted([*range(60), *([9] if way == "limit" else [])])


def test_where_reading_begins_and_ends(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *numbered(0, 6))

    def ids(**more: str) -> list[int]:
        options = {**broker.options(topic, format="json"), **{k.replace("_", "."): v for k, v in more.items()}}
        return [row[0] for row in rows_of(source("kafka", SCHEMA, options))]

    begin = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:2"}
    begin["properties.auto.offset.reset"] = "earliest"
    finish = {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:5"}
    assert ids(**begin, **finish) == [2, 3, 4]
    assert ids(**{"scan.startup.mode": "latest-offset"}) == []
    with pytest.raises(ConnectorError, match=r"E3132 the group KafkaSource-t has noted no offset of partition 0"):
        ids(**{"scan.startup.mode": "group-offsets"})
    assert ids(**{"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "latest"}) == []
    if broker.real:  # The stand-in does not look for times.
        now = int(time.time() * 1000)
        broker.send(topic, *numbered(6, 8), timestamp=now + 5000)
        assert KAFKA.from_moment is not None
        assert ids(**KAFKA.from_moment(now + 4000)) == [6, 7]
        assert ids(**{"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": str(now + 4000)}) == [
            *range(6)
        ]


def test_checkpoints_note_offsets_in_the_group(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *numbered(0, 4))
    options = broker.options(topic, format="json", properties_group_id=f"g-{topic}")
    table = source("kafka", SCHEMA, options)
    reader = table.open(table.splits()[0], Context())
    read = 0
    while read < 3:  # The broker may give fewer than are asked for.
        read += len(reader.poll(3 - read) or ())
    reader.checkpoint_complete(reader.position())  # type: ignore[attr-defined]
    asked = client.consumer({"bootstrap.servers": broker.servers, "group.id": f"g-{topic}"})
    place = (asked, {"bootstrap.servers": broker.servers, "group.id": f"g-{topic}"}, topic, 0, Place("group-offsets"))
    noted = 0
    while not noted:  # Nobody waits for it. It is 4, the end, as long as the group knows of nothing.
        noted = client.offset_of(*place, end=True) % 4
    assert noted == 3
    reader.close()
    asked.close()
    again = {**options, "scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "latest"}
    assert rows_of(source("kafka", SCHEMA, again)) == [(3, "n3")]


def test_messages_that_are_gone_are_told(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *numbered(0, 4))
    table = source("kafka", SCHEMA, {**broker.options(topic, format="json"), "scan.bounded.mode": "unbounded"})
    reader = table.open(table.splits()[0], Context())
    reader.seek({"offset": 90, "rows": 0, "end": None})
    with pytest.raises(ConnectorError, match=f"E3132 offset 90 of {topic}, partition 0, is not there"):
        for _ in range(20):
            reader.poll(10)
    reader.close()


def test_partitions_that_come_later_are_read_whole(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *numbered(0, 4), partition=1)
    options = {**broker.options(topic, format="json"), "scan.startup.mode": "latest-offset"}
    table = source("kafka", SCHEMA, options)
    assert isinstance(table, KafkaSource)
    split = table.splits()[1]
    assert drain(table.open(split, Context())) == []
    assert len(drain(table.open(table.discovered(split), Context()))) == 4


def test_a_view_has_what_was_sent_before_a_flush(broker: Broker) -> None:
    topic = broker.topic()
    options = broker.options(topic, format="json") | {"scan.bounded.mode": "unbounded"}
    given = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(f"CREATE TABLE orders (id INT, name STRING) WITH ('connector' = 'kafka', {given})")
        t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, MAX(id) AS m FROM orders")
        for number in range(5):
            broker.send(topic, *numbered(number * 10, number * 10 + 10), partition=number % PARTITIONS)
            t_env.execute_sql("FLUSH").wait()
            (row,) = t_env.execute_sql("SELECT * FROM v").to_arrow().to_pylist()
            assert row == {"n": number * 10 + 10, "m": number * 10 + 9}


def test_sinks(broker: Broker) -> None:
    topic = broker.topic()
    options = broker.options(topic, format="json")
    plain = sink("kafka", SCHEMA, options)
    changes = sink("kafka", SCHEMA, {**options, "format": "debezium-json"})
    assert [plain.accepts(RETRACT), changes.accepts(RETRACT), changes.accepts(APPEND)] == [APPEND, RETRACT, APPEND]
    assert plain.delivery == "at-least-once"
    writer = sink("kafka", SCHEMA, {**options, "sink.partitioner": "round-robin"}).open_writer("job")
    writer.write(ChangelogBatch.of([pa.array(range(6), pa.int32()), pa.nulls(6, pa.string())], SCHEMA))
    assert writer.prepare() is None
    schema = Schema((*SCHEMA.fields, *Schema.of(("partition", INT)).fields))
    read = rows_of(source("kafka", schema, options, metadata=(("partition", "partition"),)))
    assert sorted(read) == [(i, None, i % PARTITIONS) for i in range(6)]


def test_mistakes(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {
        "topic": "t",
        "properties.bootstrap.servers": "h:1",
        "format": "json",
        "scan.startup.mode": "earliest-offset",
    }
    for wrong, kind, message in (
        ({"topic": ""}, OptionError, "E1504 .* needs the option 'topic'"),
        ({"properties.bootstrap.servers": ""}, OptionError, r"E1504 .*'properties.bootstrap.servers'"),
        ({"format": "parquet"}, UnsupportedError, "E1643 format 'parquet' is one of files"),
        ({"csv.header": "true", "format": "csv"}, UnsupportedError, "E1643 format 'csv' with a header"),
        ({"key.format": "json"}, OptionError, "'key.format' and 'key.fields' belong together"),
        ({"scan.startup.mode": "timestamp"}, OptionError, "E1504 .*'scan.startup.timestamp-millis'"),
        ({"scan.startup.mode": "newest"}, OptionError, "cannot be 'newest'"),
        ({"scan.startup.modus": "x"}, OptionError, "E1503 unknown option 'scan.startup.modus'"),
    ):
        with pytest.raises(kind, match=message):
            source("kafka", SCHEMA, {**good, **wrong})
    keyed = {"topic": "t", "properties.bootstrap.servers": "h:1", "key.format": "json", "value.format": "json"}
    for wrong, message in (
        ({"value.format": ""}, "E1504 connector 'upsert-kafka' needs the option 'value.format'"),
        ({"value.format": "debezium-json"}, "'value.format' of t cannot be 'debezium-json'"),
        ({"scan.startup.mode": "earliest-offset"}, "E1503 unknown option 'scan.startup.mode'"),
    ):
        with pytest.raises(OptionError, match=message):
            source("upsert-kafka", SCHEMA, {**keyed, **wrong}, primary_key=("id",))
    with pytest.raises(OptionError, match="E1504 t needs a PRIMARY KEY"):
        sink("upsert-kafka", SCHEMA, keyed)
    with pytest.raises(OptionError, match="does not take these properties: No such configuration property"):
        source("kafka", SCHEMA, {**good, "properties.no.such": "x"}).splits()
    with pytest.raises(ConnectorError, match="E3131 there is no topic none at"):
        source("kafka", SCHEMA, broker.options("none", format="json") | {"topic": "none"}).splits()
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.2)
    with pytest.raises(ConnectorError, match="E3131 Kafka at 127.0.0.1:1: "):
        source("kafka", SCHEMA, {**good, "properties.bootstrap.servers": "127.0.0.1:1"}).splits()


class Stopped(Exception):
    """What ends a run in the middle, as a crash would."""


def run(folder: Path, table: str, cluster: SimulatedCluster | None, until: int | None) -> None:
    """A job that goes on from its checkpoint, up to an epoch or to the end."""
    clock = VirtualClock(1)
    config = {
        "execution.checkpointing.dir": str(folder / "state"),
        "execution.checkpointing.interval": "10 ms",
        "sqlengine.epoch.max-rows": "40",
        "sqlengine.spark.read-in-tasks": "true",
        "parallelism.default": "3",
    }
    with TableEnvironment.create(config, clock=clock) as t_env:
        if cluster is not None:
            t_env.get_config().set("execution.target", "spark")
            t_env.session.target.cluster = cluster
        t_env.execute_sql(table)
        t_env.execute_sql(
            f"CREATE TABLE out (g INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/out', "
            "'format' = 'debezium-json')"
        )

        def watch(job: Job) -> None:
            def tick(job: Job) -> None:
                clock.advance_to(clock.now() + 10)
                if until is not None and job.dataflow.epoch >= until:
                    raise Stopped

            job.on_epoch = tick

        t_env.session.on_job = watch
        insert = "INSERT INTO out SELECT MOD(id, 7) AS g, COUNT(DISTINCT name) FROM orders GROUP BY MOD(id, 7)"
        if until is None:
            t_env.execute_sql(insert)
            return
        with pytest.raises(Stopped):
            t_env.execute_sql(insert)


def test_a_job_goes_on_where_its_checkpoint_is(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    for partition in range(PARTITIONS):
        broker.send(topic, *numbered(partition * 100, partition * 100 + 100), partition=partition)
    options = ", ".join(f"'{k}' = '{v}'" for k, v in broker.options(topic, format="json").items())
    table = f"CREATE TABLE orders (id INT, name STRING) WITH ('connector' = 'kafka', {options})"
    run(tmp_path, table, None, until=3)
    broker.send(topic, *numbered(1000, 1100))  # Where reading ends was settled when the job began.
    run(tmp_path, table, SimulatedCluster(1), until=6)
    run(tmp_path, table, SimulatedCluster(2), until=None)
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            f"CREATE TABLE out (g INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', "
            "'format' = 'debezium-json')"
        )
        rows = t_env.execute_sql("SELECT g, n FROM out").folded().to_pylist()
    expected = [sum(i % 7 == g for i in range(400)) for g in range(7)]
    assert sorted(tuple(row.values()) for row in rows) == list(enumerate(expected))
