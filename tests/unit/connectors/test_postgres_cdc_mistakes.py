"""What a table of PostgreSQL may do to those who follow its changes, and what they are told."""

from __future__ import annotations

import random
import struct
import time
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from postgres_cdc_tables import (
    PATIENCE,
    Contents,
    all_there_is,
    begun,
    error_of,
    made,
    opened,
    rows_until,
    sql_rows,
    table,
    upserts,
)

from connectors.postgres.cdc.changes import ChangeDecoder
from connectors.postgres.cdc.pgoutput import Relation, RelationColumn
from connectors.postgres.cdc.setup import drop_slot
from runtime.core.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING, decimal, row
from sqlengine import TableEnvironment
from tests.servers.postgres import PASSWORD, PostgresDatabase

__all__ = ["made"]


def test_tables_that_cannot_be_followed(postgres: PostgresDatabase) -> None:
    assert "E3163 there is no table public.t" in str(error_of(table(postgres)))
    postgres.run('CREATE TABLE t (id INT PRIMARY KEY, name TEXT, n BIGINT, "large" TEXT)')
    assert "E3171" in str(error_of(table(postgres)))
    assert "REPLICA IDENTITY FULL" in str(error_of(table(postgres)))
    assert "E3171 public.t has the key (id), not (name)" in str(error_of(upserts(postgres, key=("name",))))
    typo = Schema.of(("id", INT), ("nam", STRING))
    assert 'E3163 public.t has no column nam; did you mean "name"' in str(error_of(upserts(postgres, schema=typo)))
    wrong = Schema.of(("id", INT), ("name", decimal(10, 2)))
    assert "E3163 column name of public.t is declared as DECIMAL(10, 2)" in str(
        error_of(upserts(postgres, schema=wrong))
    )
    postgres.run("ALTER TABLE t REPLICA IDENTITY NOTHING")
    assert "REPLICA IDENTITY NOTHING" in str(error_of(upserts(postgres)))
    postgres.run("ALTER TABLE t REPLICA IDENTITY FULL", "CREATE PUBLICATION p", "CREATE VIEW w AS SELECT * FROM t")
    assert "E3171 public.w is no table" in str(error_of(table(postgres, table_name="w")))
    assert "the publication p does not have public.t" in str(error_of(table(postgres, **{"publication.name": "p"})))
    assert "E3171 there is no publication q" in str(error_of(table(postgres, **{"publication.name": "q"})))
    postgres.run("ALTER PUBLICATION p ADD TABLE t WHERE (id > 3)")
    assert "the publication p does not have all changes" in str(error_of(table(postgres, **{"publication.name": "p"})))


def test_options(postgres: PostgresDatabase) -> None:
    for more, text in (
        ({"slot.name": "Slot-1"}, "'slot.name' cannot be 'Slot-1'"),
        ({"hostname": "a,b"}, "cannot be 'a,b'"),
        ({"url": postgres.url}, "'url' and 'hostname' say the same"),
        ({"decoding.plugin.name": "wal2json"}, "'decoding.plugin.name' cannot be 'wal2json'"),
        ({"slot.nam": "x"}, "did you mean"),
    ):
        with pytest.raises(OptionError, match=text):
            table(postgres, **more)
    with pytest.raises(OptionError, match="needs a PRIMARY KEY"):
        upserts(postgres, key=())
    with pytest.raises(Exception, match=r"E1616.*STRING"):
        table(postgres, Schema.of(("id", INT), ("r", row(("a", INT)))))
    assert PASSWORD not in repr(table(postgres)).replace("postgres", "", 1) or "password" not in repr(table(postgres))


def test_a_slot_that_is_gone_or_has_moved(made: PostgresDatabase) -> None:
    slot = f"{made.name}_slot"
    position = begun(made, table(made))
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    made.run(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    assert "the job goes on from" in str(error_of(table(made), position))
    address = table(made).options.address
    reader = opened(table(made))
    all_there_is(reader)
    with pytest.raises(UnavailableError, match="is being read"):
        drop_slot(address, slot, None)
    other = made.connect()
    with pytest.raises(psycopg.Error):
        other.execute(f"SELECT pg_drop_replication_slot('{slot}')")
    other.close()
    reader.close()
    drop_slot(address, slot, f"{slot}_publication")
    assert made.rows("SELECT pubname FROM pg_publication") == []
    told = error_of(table(made), position)
    assert told.code == "E3170" and f"there is no slot {slot} any more" in str(told) and "--fresh" in (told.hint or "")
    made.run(f"SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')")
    assert "is of the plugin test_decoding" in str(error_of(table(made)))


def _drop_slot(made: PostgresDatabase) -> None:
    """The reader may be back before the slot is gone; then once more."""
    while True:
        made.run(
            "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE database = current_database()"
        )
        with suppress(psycopg.errors.ObjectInUse):
            made.run(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
            )
            return


def test_a_slot_that_is_dropped_while_it_is_read(made: PostgresDatabase) -> None:
    reader: Any = opened(table(made))
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    all_there_is(reader)
    reader.checkpoint_complete(reader.position())
    _drop_slot(made)
    with pytest.raises(ConnectorError, match="E3170 there is no slot"):
        rows_until(reader, lambda found: False)
    reader.close()


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        (["TRUNCATE t"], "E3172 public.t was truncated at"),
        (["ALTER TABLE t DROP COLUMN n", "INSERT INTO t VALUES (7)"], "E3172 public.t has no column n from"),
        (["ALTER TABLE t RENAME COLUMN n TO m", "DELETE FROM t"], "E3172 public.t has no column n from"),
        (["ALTER TABLE t ALTER n TYPE TEXT", "DELETE FROM t"], "E3172 column n of public.t has another type from"),
        (["ALTER TABLE t RENAME TO u", "DELETE FROM u"], "E3172 public.t is called public.u at"),
        (["ALTER TABLE t REPLICA IDENTITY DEFAULT", "DELETE FROM t"], "E3172 PostgreSQL does not send the whole old row"),
        (["INSERT INTO t VALUES (9, 'a', 5000000000)", "DELETE FROM t"], "E3164 column n of public.t is INT"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_said_at_its_place(statements: list[str], text: str, made: PostgresDatabase) -> None:
    """Rows before it come, and the error names the place in the log; in one transaction or in several."""
    narrow = Schema.of(("id", INT), ("n", INT if "E3164" in text else BIGINT))
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    reader = opened(table(made, narrow))
    assert len(all_there_is(reader)) == 1
    with made.connect(autocommit=False) as connection:
        connection.execute("INSERT INTO t VALUES (2, 'b', 2, NULL)")
        connection.commit()
        connection.execute("INSERT INTO t VALUES (3, 'c', 3, NULL)")
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    with pytest.raises(ConnectorError) as raised:
        rows_until(reader, lambda found: False)
    assert text in str(raised.value) and raised.value.hint
    reader.close()


def test_columns_that_are_added_and_truncations_that_are_ignored(made: PostgresDatabase) -> None:
    reader = opened(table(made, **{"scan.truncate.mode": "ignore"}))
    all_there_is(reader)
    made.run(
        "INSERT INTO t VALUES (1, 'a', 1, NULL)",
        "ALTER TABLE t ADD COLUMN more INT DEFAULT 5",
        "UPDATE t SET n = 2",
        "TRUNCATE t",
        "INSERT INTO t VALUES (2, 'b', 3, NULL)",
    )
    kinds = [(kind, values[0], values[2]) for kind, values in all_there_is(reader)]
    reader.close()
    assert kinds == [(INSERT, 1, 1), (UPDATE_BEFORE, 1, 1), (UPDATE_AFTER, 1, 2), (INSERT, 2, 3)]


def test_large_values_that_have_not_changed(made: PostgresDatabase) -> None:
    """With REPLICA IDENTITY FULL they come of the old row; without, nobody knows them."""
    large = "SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1000) AS i"
    made.run(f"INSERT INTO t VALUES (1, 'a', 1, ({large}))")
    reader, other = opened(table(made)), opened(upserts(made, **{"slot.name": f"{made.name}_other"}))
    ((_, first),) = all_there_is(reader)
    all_there_is(other)
    made.run("UPDATE t SET n = 2")
    assert [values for _, values in all_there_is(reader)] == [first, (1, "a", 2, first[3])]
    assert [values for _, values in all_there_is(other)] == [(1, "a", 2, first[3])]
    made.run("ALTER TABLE t REPLICA IDENTITY DEFAULT", "UPDATE t SET n = 3")
    with pytest.raises(
        ConnectorError, match=r"E3172 the value of column large of public.t is large and has not changed"
    ):
        rows_until(other, lambda found: False)
    reader.close()
    other.close()


def test_a_snapshot_without_key_cannot_go_on(postgres: PostgresDatabase) -> None:
    postgres.run(
        'CREATE TABLE t (id INT, name TEXT, n BIGINT, "large" TEXT)',
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT 1, 'x', 1, NULL FROM generate_series(1, 3)",
    )
    read = table(postgres, key=())
    reader = opened(read)
    assert len(rows_until(reader, lambda found: bool(found))) == 3
    reader.close()
    whole = begun(postgres, read)
    reader = opened(read)
    until = time.monotonic() + PATIENCE
    while reader.poll(1) is None:
        assert time.monotonic() < until
    position = reader.position()
    reader.close()
    assert position["at"]["stuck"]
    assert error_of(read, position).code == "E3173"
    postgres.run("UPDATE t SET n = 2")
    reader = opened(read, whole)
    contents = Contents(upsert=False)
    contents.rows.update([(1, "x", 1, None)] * 3)
    contents.apply(all_there_is(reader))
    reader.close()
    assert contents.sorted() == sql_rows(postgres)


def test_what_the_server_keeps_is_released(made: PostgresDatabase) -> None:
    slot = f"{made.name}_slot"
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            "CREATE TABLE t (id INT) WITH ('connector' = 'postgres-cdc', "
            f"{made.options}, 'schema-name' = 'public', 'table-name' = 't', 'slot.name' = '{slot}')"
        )
        t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        t_env.execute_sql("FLUSH")
        with pytest.raises(ConnectorError, match=r"E3150.*is being read"):
            t_env.execute_sql("CALL sys.release('t')")
        t_env.execute_sql("DROP MATERIALIZED VIEW v")
        released = t_env.execute_sql("CALL sys.release('t')").to_arrow().to_pylist()
        assert [tuple(row.values()) for row in released] == [
            ("replication slot", slot),
            ("publication", f"{slot}_publication"),
        ]
        assert t_env.execute_sql("CALL sys.release('t')").to_arrow().num_rows == 0


def _frame(rng: random.Random) -> bytes:
    """A message of two columns, perhaps damaged."""

    def cells() -> bytes:
        kinds = [rng.choice([b"n", b"u", b"t"]) for _ in range(2)]
        texts = [b"%d" % rng.randrange(1000) for _ in kinds]
        return struct.pack(">H", 2) + b"".join(
            k + (struct.pack(">I", len(t)) + t if k == b"t" else b"") for k, t in zip(kinds, texts, strict=True)
        )

    kind = rng.choice([b"I", b"U", b"D"])
    old = rng.choice([b"O", b"K"]) + cells() if kind == b"D" or (kind == b"U" and rng.random() < 0.5) else b""
    message = kind + struct.pack(">I", 7) + old + (b"N" + cells() if kind != b"D" else b"")
    return bytes(25) + message


def test_messages_that_are_damaged() -> None:
    """Whatever is wrong in them, it is an error of ours, and nothing is read beyond them."""
    rng = random.Random(5)
    columns = (RelationColumn("id", 23, -1, True), RelationColumn("name", 25, -1, False))
    decoder = ChangeDecoder(
        "t",
        Schema.of(("id", INT), ("name", STRING)),
        ["id"],
        upsert=True,
        relation=Relation(7, "public", "t", "d", columns),
        lsn=0,
    )
    good = 0
    for _ in range(400):
        frames = [_frame(rng) for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.7:
            at = rng.randrange(len(frames))
            damaged = bytearray(frames[at])
            for _ in range(rng.randrange(1, 3)):
                place = rng.randrange(25, len(damaged))
                damaged[place] = rng.choice([0, 255, rng.randrange(256)])
            frames[at] = bytes(damaged[: rng.randrange(26, len(damaged) + 1)] if rng.random() < 0.3 else damaged)
        try:
            decoder.decode([memoryview(frame) for frame in frames], 0)
            good += 1
        except ConnectorError as error:
            assert error.code in ("E3164", "E3170", "E3172")
    assert good > 20
