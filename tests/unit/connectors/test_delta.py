"""The connector `delta`: the contracts of sources and sinks, merges against the library's own reader, following versions."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import Context, end, rows_of, sink, source
from deltalake import DeltaTable, write_deltalake

import connectors.delta.commits as commits
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import ConnectorError, OptionError, SqlEngineError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, DATE, INT, STRING, TIME, decimal, timestamp
from runtime.expr.nodes import Call, InputRef, Literal
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, some_epochs

SCHEMA = Schema.of(("id", INT), ("name", STRING))
KEYED = Schema.of(("id", INT.not_null()), ("name", STRING))
CASES = int(os.environ.get("LAKE_CASES", "1"))


class Lake:
    """Tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = 0

    def new(self, schema: Schema, partitions: tuple[str, ...] = (), **properties: str) -> str:
        self._made += 1
        path = str(self.folder / f"t{self._made}")
        fields = [pa.field(f.name, f.type.arrow, nullable=f.type.nullable) for f in schema]
        configuration = {f"delta.{k}": v for k, v in properties.items()}
        DeltaTable.create(path, pa.schema(fields), partition_by=list(partitions), configuration=configuration)
        return path

    def sink(self, path: str, schema: Schema, key: tuple[str, ...] = (), **more: str) -> Any:
        return sink("delta", schema, {"table-path": path, **more}, primary_key=key)

    def source(self, path: str, schema: Schema, key: tuple[str, ...] = (), **more: str) -> Any:
        given = {k.replace("_", "-"): v for k, v in more.items()}
        return source("delta", schema, {"table-path": path, **given}, primary_key=key)


def seen(path: str) -> list[tuple[Any, ...]]:
    """The rows as the library reads them, sorted by `repr`."""
    rows = pa.table(DeltaTable(path).scan())
    names = [f.name for f in DeltaTable(path).schema().fields]
    return sorted((tuple(row[n] for n in names) for row in rows.to_pylist()), key=repr)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def batch(schema: Schema, rows: list[tuple[Any, ...]]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)], schema)


def changes(schema: Schema, rows: list[tuple[int, tuple[Any, ...]]]) -> ChangelogBatch:
    made = batch(schema, [row for _, row in rows])
    return ChangelogBatch(made.rows, np.array([kind for kind, _ in rows], np.int8))


def put(table: Any, *batches: ChangelogBatch, job: str = "job", complete: bool = False) -> None:
    """What a job without checkpoints does."""
    writer = table.open_writer(job)
    for one in batches:
        writer.write(one)
    if complete:
        writer.complete()
    end(writer)
    writer.close()


class TestSource(SourceContract):
    connectors = ("delta",)
    types = (
        "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "long_decimal", "string", "bytes",
        "date", "timestamp", "timestamp_ltz", "array", "map", "row",
    )  # fmt: skip

    @pytest.fixture
    def table(self, lake: Lake) -> Any:
        schema = Schema.of(("id", INT), ("name", STRING), ("part", STRING))
        path = lake.new(schema, ("part",))
        for part in range(2):
            rows = [
                (i, None if i % 3 == 0 else f"n{i}", (None, "a", "b/c =%")[i % 3])
                for i in range(part * 5, part * 5 + 5)
            ]
            put(lake.sink(path, schema), batch(schema, rows))
        return lake.source(path, schema)

    @pytest.fixture
    def holding(self, lake: Lake) -> Callable[[Schema, list[tuple[Any, ...]]], Any]:
        def held(schema: Schema, rows: list[tuple[Any, ...]]) -> Any:
            path = lake.new(schema)
            put(lake.sink(path, schema), batch(schema, rows))
            return lake.source(path, schema)

        return held


class TestSink(SinkContract):
    connectors = ("delta",)
    steps = ((commits, "write"),)
    seeds = CASES

    @pytest.fixture
    def make(self, lake: Lake) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            path = lake.new(SCHEMA)
            return SinkCase(lake.sink(path, SCHEMA), lambda: seen(path), *some_epochs(rng, SCHEMA, 3))

        return case


class TestMerges(SinkContract):
    """The law: what the library reads after a checkpoint is what the changes so far amount to."""

    connectors = ("delta",)
    steps = ((commits, "write"),)
    seeds = CASES

    @pytest.fixture
    def make(self, lake: Lake) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            path = lake.new(KEYED)
            epochs, tables = random_changes(rng)
            return SinkCase(
                lake.sink(path, KEYED, ("id",)),
                lambda: seen(path),
                epochs,
                lambda n: sorted(tables[n].items(), key=repr),
            )

        return case


def random_changes(rng: random.Random) -> tuple[list[ChangelogBatch], list[dict[int, Any]]]:
    """Epochs of changes by key, and the table behind each."""
    table: dict[int, Any] = {}
    epochs: list[ChangelogBatch] = []
    tables: list[dict[int, Any]] = [{}]
    for _ in range(4):
        made: list[tuple[int, tuple[Any, ...]]] = []
        for _ in range(rng.choice((0, 1, 5, 12))):
            key = rng.randrange(8)
            if key in table and rng.random() < 0.3:
                made.append((DELETE, (key, None)))
                del table[key]
            else:
                value = rng.choice((None, "a", f"v{rng.randrange(100)}"))
                made.append((UPDATE_AFTER if key in table else INSERT, (key, value)))
                table[key] = value
        epochs.append(changes(KEYED, made))
        tables.append(dict(table))
    return epochs, tables


def follow(lake: Lake, path: str, schema: Schema, key: tuple[str, ...] = (), position: Any = None, **more: str) -> Any:
    """What is there now, of a table that is followed; and the position behind it."""
    table = lake.source(path, schema, key, mode="streaming", **more)
    (split,) = table.splits()
    reader = table.open(split, Context())
    if position is not None:
        reader.seek(position)
    found: list[Any] = []
    while (rows := reader.poll(100)) is not None:
        found += list(zip(rows.kinds_or_inserts().tolist(), (tuple(r.values()) for r in rows.rows.to_pylist())))
    at = reader.position()
    reader.close()
    return found, at


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize("feed", ["true", "false"])
def test_what_is_followed_adds_up_to_the_table(lake: Lake, seed: int, feed: str) -> None:
    rng = random.Random(seed)
    path = lake.new(KEYED, enableChangeDataFeed=feed)
    epochs, tables = random_changes(rng)
    rows: dict[Any, int] = {}
    at = None
    for number, epoch in enumerate(epochs, 1):
        put(lake.sink(path, KEYED, ("id",)), epoch)
        if rng.random() < 0.5 and number < len(epochs):
            continue
        found, at = follow(lake, path, KEYED, ("id",), at)
        for kind, row in found:
            rows[row] = rows.get(row, 0) + (-1 if kind == DELETE else 1)
        assert dict.fromkeys(tables[number].items(), 1) == {row: n for row, n in rows.items() if n}
        put(lake.sink(path, KEYED), job="nothing")
        DeltaTable(path).optimize.compact()


def test_appends_are_followed(lake: Lake) -> None:
    path = lake.new(SCHEMA)
    found, at = follow(lake, path, SCHEMA)
    assert found == []
    put(lake.sink(path, SCHEMA), batch(SCHEMA, [(1, "a")]))
    write_deltalake(path, pa.table({"id": pa.array([2], pa.int32()), "name": ["b"]}), mode="append")
    found, at = follow(lake, path, SCHEMA, position=at)
    assert found == [(INSERT, (1, "a")), (INSERT, (2, "b"))]
    assert follow(lake, path, SCHEMA, position=at)[0] == []
    assert follow(lake, path, SCHEMA, startingVersion="2")[0] == [(INSERT, (2, "b"))]
    assert follow(lake, path, SCHEMA, startingVersion="latest")[0] == []
    DeltaTable(path).delete("id = 1")
    with pytest.raises(ConnectorError, match="E3193 .*takes rows away"):
        follow(lake, path, SCHEMA, position=at)
    assert follow(lake, path, SCHEMA, position=at, streaming_changes="true")[0] == [(DELETE, (1, "a"))]
    os.remove(f"{path}/_delta_log/{3:020}.json")


def test_a_version_that_is_gone_is_told(lake: Lake) -> None:
    path = lake.new(SCHEMA)
    _, at = follow(lake, path, SCHEMA)
    put(lake.sink(path, SCHEMA), batch(SCHEMA, [(1, "a")]))
    DeltaTable(path).create_checkpoint()
    os.remove(f"{path}/_delta_log/{1:020}.json")
    with pytest.raises(ConnectorError, match="E3192 .*not in its log"):
        follow(lake, path, SCHEMA, position=at)


def test_writers_beside_each_other(lake: Lake) -> None:
    path = lake.new(KEYED)
    failures: list[BaseException] = []

    def write(job: int) -> None:
        try:
            writer = lake.sink(path, KEYED, ("id",)).open_writer(f"job{job}")
            for n in range(2):
                writer.write(batch(KEYED, [(job * 100 + n, f"{n}"), (job * 100, f"last {n}")]))
                writer.publish(writer.prepare())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(job,)) for job in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    expected = [(j * 100 + n, "last 1" if n == 0 else f"{n}") for j in (1, 2) for n in range(2)]
    assert seen(path) == sorted(expected, key=repr)


def test_time_travel(lake: Lake) -> None:
    path = lake.new(SCHEMA)
    for n in range(3):
        put(lake.sink(path, SCHEMA), batch(SCHEMA, [(n, None)]))
    history = {h["version"]: h["timestamp"] for h in DeltaTable(path).history()}

    def ids(**options: str) -> list[int]:
        return [row[0] for row in rows_of(lake.source(path, SCHEMA, **options))]

    assert sorted(ids(versionAsOf="2")) == [0, 1]
    assert sorted(row[0] for row in rows_of(lake.source(path, SCHEMA).as_of(history[1]))) == [0]
    for wrong in ({"versionAsOf": "9"}, {"timestampAsOf": "1990-01-01"}, {"timestampAsOf": "x"}):
        with pytest.raises(ConnectorError, match="E3192"):
            ids(**wrong)
    with pytest.raises(OptionError, match="exclude each other"):
        ids(versionAsOf="1", timestampAsOf="2020-01-01")


def test_files_are_skipped(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    import connectors.delta.reading as reading

    schema = Schema.of(("id", INT), ("day", DATE), ("part", INT))
    path = lake.new(schema, ("part",))
    for n in range(4):
        put(lake.sink(path, schema), batch(schema, [(n * 10 + i, None, n % 2) for i in range(10)]))
    read: list[str] = []
    real = reading.FileRows._batches

    def counted(self: Any, file: Any, mask: Any, **more: Any) -> Iterator[Any]:
        read.append(file.path)
        return real(self, file, mask, **more)

    monkeypatch.setattr(reading.FileRows, "_batches", counted)

    def found(column: int, operator: str, value: int) -> tuple[int, int]:
        read.clear()
        condition = Call(operator, (InputRef(column, INT), Literal(value, INT.not_null())), BOOLEAN)
        table, left = lake.source(path, schema).with_filters([condition])
        assert not left
        return len(rows_of(table)), len(read)

    assert found(0, "=", 25) == (1, 1)
    assert found(2, "=", 1) == (20, 2)
    assert found(0, ">=", 30) == (10, 1)


def test_overwrites(lake: Lake) -> None:
    path = lake.new(SCHEMA, ("id",))
    table = lake.sink(path, SCHEMA)
    put(table, batch(SCHEMA, [(1, "a"), (2, "b"), (3, "c")]))
    put(table.with_overwrite({}), batch(SCHEMA, [(2, "d")]), complete=True)
    assert seen(path) == [(1, "a"), (2, "d"), (3, "c")]
    put(table.with_overwrite({"id": 1}), complete=True)
    assert seen(path) == [(2, "d"), (3, "c")]
    put(table.with_replacement(), batch(SCHEMA, [(9, None)]), complete=True)
    assert seen(path) == [(9, None)]


def test_upkeep(lake: Lake) -> None:
    path = lake.new(SCHEMA)
    table = lake.sink(path, SCHEMA)
    for n in range(3):
        put(table, batch(SCHEMA, [(n, "x")]))
    before = seen(path)
    assert [(d.before, d.after) for d in table.compact(1 << 20)] == [(3, 1)]
    assert table.compact(1 << 20) == []
    writer = table.open_writer("failed")
    writer.write(batch(SCHEMA, [(9, "x")]))
    writer.prepare()  # and it is never heard of again
    for folder, _, names in os.walk(path):
        for one in names:
            os.utime(os.path.join(folder, one), (1, 1))
    left = list(table.remove_orphan_files(2_000, True))
    assert len(left) == 1
    assert list(table.remove_orphan_files(2_000, False)) == left
    assert seen(path) == before


def test_types_and_columns_that_are_not_there(lake: Lake) -> None:
    path = lake.new(SCHEMA)
    for schema, told in (
        (Schema.of(("idd", INT)), 'no column "idd"; did you mean'),
        (Schema.of(("id", STRING)), 'column "id" .* is INT, and declared as STRING'),
    ):
        with pytest.raises(UnsupportedError, match=told):
            rows_of(lake.source(path, schema))
    with pytest.raises(UnsupportedError, match="E1616"):
        lake.sink(str(lake.folder / "new"), Schema.of(("t", TIME))).open_writer("job")
    narrow = lake.source(path, Schema.of(("id", BIGINT)))
    put(lake.sink(path, SCHEMA), batch(SCHEMA, [(1, "a")]))
    assert rows_of(narrow) == [(1,)]


# --- statements
# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def t_env(tmp_path: Path) -> Iterator[TableEnvironment]:
    made = TableEnvironment.create()
    made.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'delta', 'path' = '{tmp_path}/lake')")
    made.execute_sql("USE CATALOG lake")
    yield made
    made.close()


def rows(t_env: TableEnvironment, sql: str) -> list[Any]:
    return [tuple(r.values()) for r in t_env.execute_sql(sql).to_arrow().to_pylist()]


def test_tables_are_made_and_changed(t_env: TableEnvironment, tmp_path: Path) -> None:
    t_env.execute_sql("CREATE DATABASE shop")
    t_env.execute_sql(
        "CREATE TABLE shop.orders (id BIGINT, city STRING COMMENT 'where', PRIMARY KEY (id) NOT ENFORCED) COMMENT 'all' "
        "PARTITIONED BY (city) WITH ('delta.enableChangeDataFeed' = 'true')"
    )
    t_env.execute_sql("INSERT INTO shop.orders VALUES (1, 'Ulm'), (2, 'Bonn')")
    t_env.execute_sql("INSERT INTO shop.orders VALUES (1, 'Jena')")
    assert rows(t_env, "SELECT * FROM shop.orders ORDER BY id") == [(1, "Jena"), (2, "Bonn")]
    shown = rows(t_env, "SHOW CREATE TABLE shop.orders")[0][0]
    assert "PRIMARY KEY (`id`)" in shown and "COMMENT 'all'" in shown and "COMMENT 'where'" in shown
    t_env.execute_sql("ALTER TABLE shop.orders ADD (price DECIMAL(10, 2))")
    t_env.execute_sql("INSERT INTO shop.orders VALUES (3, NULL, 1.5)")
    assert rows(t_env, "SELECT id, price FROM shop.orders WHERE city IS NULL OR id = 2 ORDER BY id")[0] == (2, None)
    assert rows(t_env, "SELECT COUNT(*) FROM shop.orders FOR SYSTEM_TIME AS OF CURRENT_TIMESTAMP") == [(3,)]
    assert rows(t_env, "SHOW TABLES FROM shop") == [("orders",)]
    place = f"{tmp_path}/lake/shop/orders"
    t_env.execute_sql(
        f"CREATE TABLE default_catalog.default_database.o WITH ('connector' = 'delta', 'table-path' = '{place}')"
    )
    assert rows(t_env, "SELECT COUNT(*) FROM default_catalog.default_database.o") == [(3,)]
    for sql, code in (
        ("ALTER TABLE shop.orders RENAME city TO town", "E1627"),
        ("ALTER TABLE shop.orders ADD (x INT NOT NULL)", "E1627"),
        ("CREATE TABLE t (a TIME)", "E1616"),
        ("CREATE TABLE t (a INT) WITH ('delt.x' = 'y')", "E1503"),
        ("SELECT * FROM shop.orders FOR SYSTEM_TIME AS OF TIMESTAMP '1990-01-01 00:00:00'", "E3192"),
    ):
        with pytest.raises(SqlEngineError) as told:
            t_env.execute_sql(sql).to_arrow()
        assert told.value.code == code
    t_env.execute_sql("DROP TABLE shop.orders")
    t_env.execute_sql("DROP DATABASE shop")


def test_times_in_partitions(lake: Lake) -> None:
    import datetime as dt

    schema = Schema.of(("id", INT), ("at", timestamp(6)), ("day", DATE))
    path = lake.new(schema, ("at", "day"))
    given = [(1, dt.datetime(2024, 1, 2, 3, 4, 5, 678901), dt.date(2024, 1, 2)), (2, None, None)]
    put(lake.sink(path, schema), batch(schema, given))
    assert sorted(rows_of(lake.source(path, schema))) == given
    assert seen(path) == sorted(given, key=repr)


def test_keys_of_several_columns(lake: Lake) -> None:
    schema = Schema.of(("a", STRING.not_null()), ("b", INT.not_null()), ("v", decimal(10, 2)))
    path = lake.new(schema, ("a",), enableChangeDataFeed="true")
    table = lake.sink(path, schema, ("a", "b"))
    put(table, batch(schema, [("x", 1, 1), ("x", 2, 2), ("y", 1, 3)]))
    put(table, changes(schema, [(DELETE, ("x", 2, None)), (DELETE, ("z", 2, None)), (UPDATE_AFTER, ("y", 1, 4))]))
    assert [row[:2] for row in seen(path)] == [("x", 1), ("y", 1)]
    assert sorted(rows_of(lake.source(path, schema))) == sorted(seen(path))
