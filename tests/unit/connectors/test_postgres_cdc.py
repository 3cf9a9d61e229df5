"""Changes of tables of a real PostgreSQL: what is read adds up to the table, wherever reading stops and goes on."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from connector_tables import changes_of
from postgres_cdc_tables import (
    PATIENCE,
    SCHEMA,
    Contents,
    all_there_is,
    error_of,
    made,
    opened,
    rows_until,
    sql_rows,
    table,
    upserts,
)

from connectors.postgres.cdc.table import PostgresCdcSource
from runtime.core.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BYTES, INT, STRING, array, timestamp_ltz
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract, every_value
from tests.servers.postgres import PostgresDatabase

__all__ = ["made"]
CASES = int(os.environ.get("CDC_CASES", "1"))


class TestSnapshot(SourceContract):
    """The rows as they are, which has an end."""

    connectors = ("postgres-cdc",)
    types = (
        "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "long_decimal", "string", "bytes",
        "date", "time", "timestamp", "timestamp_ltz",
    )  # fmt: skip

    @pytest.fixture
    def table(self, made: PostgresDatabase) -> PostgresCdcSource:
        made.run("INSERT INTO t SELECT i, nullif('n' || i % 5, 'n3'), i * 7, NULL FROM generate_series(1, 20) AS i")
        return _snapshot(made)

    @pytest.fixture
    def away(self, made: PostgresDatabase) -> Callable[[], AbstractContextManager[PostgresCdcSource]]:
        @contextmanager
        def gone() -> Iterator[PostgresCdcSource]:
            with made.server.away():
                yield _snapshot(made)

        return gone

    @pytest.fixture
    def holding(self, postgres: PostgresDatabase) -> Callable[[Schema, list[tuple[Any, ...]]], PostgresCdcSource]:
        def make(schema: Schema, rows: list[tuple[Any, ...]]) -> PostgresCdcSource:
            with_key = _typed_table(postgres, schema)
            with postgres.connect() as connection:
                places = ", ".join(["%s"] * len(schema))
                connection.cursor().executemany(f"INSERT INTO t VALUES (DEFAULT, {places})", rows)
            found = _snapshot(postgres, with_key)
            return found.with_columns(schema.names)

        return make


def _snapshot(postgres: PostgresDatabase, schema: Schema = SCHEMA) -> PostgresCdcSource:
    return table(postgres, schema, ("id",) if schema is SCHEMA else ("k",), **{"scan.startup.mode": "snapshot"})


_NAMES: Mapping[str, str] = {
    "TINYINT": "SMALLINT",
    "STRING": "TEXT",
    "BYTES": "BYTEA",
    "DOUBLE": "FLOAT8",
    "FLOAT": "FLOAT4",
}


def _typed_table(postgres: PostgresDatabase, schema: Schema) -> Schema:
    def spelled(type_: Any) -> str:
        text = str(type_.not_null()).replace(" NOT NULL", "").replace("TIMESTAMP_LTZ", "TIMESTAMPTZ")
        return _NAMES.get(text, text)

    columns = ", ".join(f'"{f.name}" {spelled(f.type)}' for f in schema)
    postgres.run(f"CREATE TABLE t (k BIGSERIAL PRIMARY KEY, {columns})")
    return Schema((Schema.of(("k", BIGINT))[0], *schema))


def test_every_type_in_the_log(postgres: PostgresDatabase) -> None:
    """The same values as a snapshot has, before and after an update."""
    schema, rows = every_value(TestSnapshot.types)
    with_key = _typed_table(postgres, schema)
    postgres.run("ALTER TABLE t REPLICA IDENTITY FULL")
    reader = opened(table(postgres, with_key, ("k",)))
    assert all_there_is(reader) == []
    with postgres.connect() as connection:
        places = ", ".join(["%s"] * len(schema))
        connection.cursor().executemany(f"INSERT INTO t VALUES (DEFAULT, {places})", rows)
        connection.execute("UPDATE t SET k = k")
    changes = all_there_is(reader)
    reader.close()
    inserted = [(i + 1, *values) for i, values in enumerate(rows)]
    assert changes[: len(rows)] == [(INSERT, values) for values in inserted]
    assert changes[len(rows) :: 2] == [(UPDATE_BEFORE, values) for values in inserted]
    assert changes[len(rows) + 1 :: 2] == [(UPDATE_AFTER, values) for values in inserted]


def test_arrays_and_other_types_as_texts(postgres: PostgresDatabase) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'it''s fine')",
        "CREATE TABLE t (k INT PRIMARY KEY, i INT[], s TEXT[], b BYTEA[], u UUID, j JSONB, m mood, c CHAR(3), a INET, "
        "v INTERVAL, e BOOLEAN)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    schema = Schema.of(("k", INT), ("i", array(INT)), ("s", array(STRING)), ("b", array(BYTES)))
    schema = Schema((*schema, *Schema.of(*((n, STRING) for n in ("u", "j", "m", "c", "a", "v", "e")))))
    insert = (
        "INSERT INTO t VALUES ({k}, '{{1,NULL,-3}}', ARRAY['a\"b', 'c,\\d', 'NULL', NULL, '', '{{}}'], ARRAY['\\x00ff'::bytea], "
        "'0e37df36-f698-11e6-8dd4-cb9ced3df976', '{{\"a\": 1}}', 'it''s fine', 'x', '10.0.0.1', '1 day 2 hours', true), "
        "({k} + 1, '{{}}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    postgres.run(insert.format(k=1))
    reader = opened(table(postgres, schema, ("k",)))
    before = all_there_is(reader)
    postgres.run(insert.format(k=3))
    after = all_there_is(reader)
    reader.close()
    expected = (
        [1, None, -3], ['a"b', "c,\\d", "NULL", None, "", "{}"], [b"\x00\xff"],
        "0e37df36-f698-11e6-8dd4-cb9ced3df976", '{"a": 1}', "it's fine", "x  ", "10.0.0.1", "P1DT2H", "t",
    )  # fmt: skip
    nothing = ([], *[None] * 9)
    assert [values for _, values in before] == [(1, *expected), (2, *nothing)]
    assert [values for _, values in after] == [(3, *expected), (4, *nothing)]


# --- random transactions
# ---------------------------------------------------------------------------------------------------------------------


class Writer:
    """Transactions at random: keys that move and come again, savepoints that are rolled back, large values."""

    def __init__(self, rng: random.Random, connection: psycopg.Connection, upsert: bool) -> None:
        self.rng = rng
        self.connection = connection
        self.upsert = upsert

    def transaction(self) -> None:
        with self.connection.transaction(force_rollback=self.rng.random() < 0.1):
            for _ in range(self.rng.randrange(1, 6)):
                with self.connection.transaction(force_rollback=self.rng.random() < 0.2):
                    self._statement()

    def _statement(self) -> None:
        rng, run = self.rng, self.connection.execute
        key, other = rng.randrange(30), rng.randrange(30)
        # Without the whole old row, a large value must be sent with each update.
        large = None if rng.random() < 0.7 else str(rng.random()) * rng.choice([1, 2000])
        values = [rng.choice(["a", "b", None, "grüße"]), rng.choice([None, rng.randrange(5)]), large]
        kind = rng.random()
        if kind < 0.35:
            run("INSERT INTO t VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING", [key, *values])
        elif kind < 0.55:
            run('UPDATE t SET name = %s, n = %s, "large" = %s WHERE id = %s', [*values, key])
        elif kind < 0.65 and not self.upsert:
            run("UPDATE t SET n = n + 1 WHERE id %% 5 = %s", [key % 5])
        elif kind < 0.8:
            again = ', "large" = NULL' if self.upsert else ""
            run(
                f"UPDATE t SET id = %s{again} WHERE id = %s AND NOT EXISTS (SELECT 1 FROM t WHERE id = %s)",
                [other, key, other],
            )
        elif kind < 0.97:
            run("DELETE FROM t WHERE id = %s", [key])
        else:
            run(
                "INSERT INTO t SELECT i, 'many', i, NULL FROM generate_series(%s, %s + 5) AS i ON CONFLICT DO NOTHING",
                [key, key],
            )


@pytest.mark.parametrize("upsert", [False, True], ids=["all", "upsert"])
@pytest.mark.parametrize("seed", range(CASES))
def test_random_transactions(seed: int, upsert: bool, made: PostgresDatabase) -> None:
    """While others write, reading stops anywhere, also in the middle of the snapshot and of transactions, and goes on from
    what a checkpoint would hold."""
    rng = random.Random(seed)
    if upsert:
        made.run("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    read = upserts(made) if upsert else table(made)
    contents = Contents(upsert)
    position: Any = None
    with made.connect() as one, made.connect() as other:
        writers = [Writer(rng, one, upsert), Writer(rng, other, upsert)]
        for _ in range(20):
            writers[0].transaction()
        for _ in range(8):
            reader = opened(read, position)
            for _ in range(rng.randrange(4)):
                batch = reader.poll(rng.choice([1, 2, 7, 1000]))
                if batch is not None:
                    contents.apply(changes_of(batch))
                if rng.random() < 0.5:
                    reader.checkpoint_complete(json.loads(json.dumps(reader.position())))  # type: ignore[attr-defined]
                rng.choice(writers).transaction()
            position = reader.position()
            reader.close()
            for _ in range(rng.randrange(3)):
                rng.choice(writers).transaction()
    reader = opened(read, position)
    contents.apply(all_there_is(reader))
    reader.close()
    assert contents.sorted() == sql_rows(made)


def test_a_snapshot_that_stops_goes_on_behind_its_last_key(made: PostgresDatabase) -> None:
    """Rows that were read move behind the place where reading stopped, and the other way round; none comes twice."""
    made.run("INSERT INTO t SELECT i, 'x', i, NULL FROM generate_series(1, 6000) AS i")
    contents, position = Contents(upsert=False), None
    for stop in range(4):
        reader = opened(table(made), position)
        contents.apply(rows_until(reader, lambda found: len(found) >= 1000))
        position = reader.position()
        assert position["at"]["reading"] and len(position["at"]["seen"]) == stop + 1
        reader.close()
        made.run(
            f"UPDATE t SET id = id + {100_000 * (stop + 1)} WHERE id % 100 = {stop} AND id < 6000",
            f"UPDATE t SET id = id - {100_000 * stop} WHERE id / 100000 = {stop} AND id % 3 = 0 AND {stop} > 0",
            "DELETE FROM t WHERE id % 77 = 0",
            "INSERT INTO t SELECT i, 'new', 0, NULL FROM generate_series(6001, 30000, 333) AS i ON CONFLICT DO NOTHING",
            "UPDATE t SET n = n + 1 WHERE id % 10 = 7",
        )
    reader = opened(table(made), position)
    contents.apply(all_there_is(reader))
    assert reader.position()["at"]["seen"] == []
    reader.close()
    assert contents.sorted() == sql_rows(made)


def test_the_slot_moves_with_checkpoints_alone(made: PostgresDatabase) -> None:
    def flushed() -> str:
        ((lsn,),) = made.rows(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
        )
        return lsn

    reader: Any = opened(table(made))
    all_there_is(reader)
    begin = flushed()
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    assert len(all_there_is(reader)) == 1
    position = reader.position()
    made.run("INSERT INTO t VALUES (2, 'b', 2, NULL)")
    assert len(all_there_is(reader)) == 1
    assert flushed() == begin
    reader.checkpoint_complete(position)
    reader.close()
    until = time.monotonic() + PATIENCE
    while flushed() == begin:
        assert time.monotonic() < until
    # Closed without a checkpoint, or killed: what comes behind the one that is there comes again.
    reader = opened(table(made), position)
    assert [values[0] for _, values in all_there_is(reader)] == [2]
    reader.close()
    # What others write moves it, too, so that the log is not kept for ever.
    reader = opened(table(made), reader.position())
    all_there_is(reader)
    made.run("CREATE TABLE other AS SELECT i FROM generate_series(1, 1000) AS i")
    assert all_there_is(reader) == []
    assert reader.position()["at"]["lsn"] != position["at"]["lsn"]
    reader.close()


def test_an_idle_table_of_a_busy_server(
    made: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a view in a folder: what others write moves its slot, and the log goes."""
    monkeypatch.setattr("sqlengine.database.durable.OUTSIDE_SECONDS", 0.05)
    monkeypatch.setattr("connectors.postgres.cdc.reader._MOVE_SECONDS", 0.05)
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)", "CREATE TABLE other (i INT)")
    with TableEnvironment.create(path=str(tmp_path / "database")) as t_env:
        t_env.execute_sql(
            "CREATE TABLE t (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'postgres-cdc', "
            f"{made.options}, 'schema-name' = 'public', 'table-name' = 't', 'slot.name' = '{made.name}_slot')"
        )
        t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS n FROM t")
        t_env.execute_sql("FLUSH")
        made.run("INSERT INTO other SELECT i FROM generate_series(1, 100) AS i")
        ((lsn,),) = made.rows("SELECT pg_current_wal_lsn()")
        until = time.monotonic() + PATIENCE
        passed = f"SELECT confirmed_flush_lsn >= '{lsn}' FROM pg_replication_slots WHERE database = current_database()"
        while made.rows(passed) != [(True,)]:
            assert time.monotonic() < until
            made.run("INSERT INTO other VALUES (1)")
        made.run("UPDATE t SET n = 5")
        t_env.execute_sql("FLUSH")
        assert t_env.execute_sql("SELECT n FROM v").to_arrow().to_pylist() == [{"n": 5}]


def test_the_server_goes_away(made: PostgresDatabase) -> None:
    """In the middle of the changes and of what was read of them."""
    reader: Any = opened(table(made))
    contents = Contents(upsert=False)
    made.run("INSERT INTO t SELECT i, 'x', i, NULL FROM generate_series(1, 500) AS i")
    contents.apply(rows_until(reader, lambda found: len(found) == 500))
    with made.server.away():
        reader.poll(10)
    made.run("UPDATE t SET n = n + 1", "DELETE FROM t WHERE id > 400")
    contents.apply(all_there_is(reader))
    reader.close()
    assert contents.sorted() == sql_rows(made)
    assert reader.tries > 0


def test_partitioned_tables(postgres: PostgresDatabase) -> None:
    postgres.run(
        'CREATE TABLE t (id INT PRIMARY KEY, name TEXT, n BIGINT, "large" TEXT) PARTITION BY RANGE (id)',
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (100)",
        "INSERT INTO t VALUES (1, 'a', 1), (11, 'b', 2)",
    )
    assert "and each of its partitions" in str(error_of(table(postgres)))
    postgres.run(*(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("t", "t1", "t2")))
    reader = opened(table(postgres))
    contents = Contents(upsert=False)
    contents.apply(all_there_is(reader))
    postgres.run("UPDATE t SET id = id + 20", "UPDATE t SET n = 9")
    contents.apply(all_there_is(reader))
    reader.close()
    assert contents.sorted() == sql_rows(postgres) == [(21, "a", 9, None), (31, "b", 9, None)]


def test_other_starts(made: PostgresDatabase) -> None:
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    assert "'initial' makes one" in str(error_of(table(made, **{"scan.startup.mode": "committed-offset"})))
    reader = opened(table(made, **{"scan.startup.mode": "latest-offset"}))
    assert all_there_is(reader) == []
    made.run("INSERT INTO t VALUES (2, 'b', 2, NULL)")
    assert [values[0] for _, values in all_there_is(reader)] == [2]
    reader.close()
    reader = opened(table(made, **{"scan.startup.mode": "committed-offset"}))
    assert [values[0] for _, values in all_there_is(reader)] == [2]
    reader.close()
    # A job that begins anew with the slot of another reads the rows as they are, and nothing twice.
    reader = opened(table(made))
    assert [values[0] for _, values in all_there_is(reader)] == [1, 2]
    reader.close()


def test_metadata(made: PostgresDatabase) -> None:
    keys = ("database_name", "schema_name", "table_name", "op_ts")
    metadata = tuple((f"m{i}", key) for i, key in enumerate(keys))
    schema = Schema((*SCHEMA, *Schema.of(*((f"m{i}", STRING) for i in range(3)), ("m3", timestamp_ltz(3)))))
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    reader = opened(
        table(made, schema, metadata=metadata, changelog_mode="upsert").with_columns(["m3", "m2", "m0", "id"])
    )
    ((_, first),) = all_there_is(reader)
    made.run("UPDATE t SET n = 2")
    ((kind, second),) = all_there_is(reader)
    reader.close()
    assert first[0].year == 1970 and abs(second[0].timestamp() - time.time()) < 60
    assert (kind, second[1:]) == (UPDATE_AFTER, ("t", made.name, 1))
    with pytest.raises(OptionError, match="'op_ts' needs 'changelog-mode' = 'upsert'"):
        table(made, schema, metadata=metadata)
