"""Changes of tables of a real MariaDB: what is read adds up to the table, wherever reading stops and goes on."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import pymysql
import pytest
from connector_tables import changes_of, source
from postgres_cdc_tables import Contents, all_there_is, error_of, opened, rows_until

from connectors.mysql.cdc.table import MysqlCdcSource
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    INT,
    SMALLINT,
    STRING,
    TIME,
    array,
    decimal,
    timestamp,
    timestamp_ltz,
)
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract, every_value
from tests.servers.mariadb import PASSWORD, MariaDatabase
from tests.unit.connectors.mysql_tables import _declared

CASES = int(os.environ.get("CDC_CASES", "1"))
SCHEMA = Schema.of(("id", INT), ("name", STRING), ("n", BIGINT), ("large", STRING))


def table(
    mariadb: MariaDatabase, schema: Schema = SCHEMA, key: tuple[str, ...] = ("id",), **more: Any
) -> MysqlCdcSource:
    metadata = more.pop("metadata", ())
    options = {
        "hostname": mariadb.server.host,
        "port": str(mariadb.server.port),
        "username": "root",
        "password": PASSWORD,
        "database-name": mariadb.name,
        "table-name": "t",
        **{k.replace("_", "-"): v for k, v in more.items()},
    }
    made = source("mysql-cdc", schema, options, primary_key=key, metadata=metadata)
    assert isinstance(made, MysqlCdcSource)
    return made


@pytest.fixture
def made(mariadb: MariaDatabase) -> MariaDatabase:
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), n BIGINT, large LONGTEXT)")
    return mariadb


def sql_rows(mariadb: MariaDatabase) -> list[Any]:
    return sorted(mariadb.rows("SELECT id, name, n, large FROM t"), key=lambda row: row[0])


def begun(made: MysqlCdcSource) -> Any:
    """The position of a reader that has read all."""
    reader = opened(made)
    all_there_is(reader)
    reader.close()
    return reader.position()


class TestSnapshot(SourceContract):
    """The rows as they are, which has an end."""

    connectors = ("mysql-cdc",)
    types = (
        "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "long_decimal", "string",
        "bytes", "date", "time", "timestamp",
    )  # fmt: skip

    @pytest.fixture
    def table(self, made: MariaDatabase) -> MysqlCdcSource:
        made.run("INSERT INTO t SELECT seq, NULLIF(CONCAT('n', seq % 5), 'n3'), seq * 7, NULL FROM seq_1_to_20")
        return table(made, **{"scan.startup.mode": "snapshot"})

    @pytest.fixture
    def away(self, made: MariaDatabase) -> Callable[[], AbstractContextManager[MysqlCdcSource]]:
        @contextmanager
        def gone() -> Iterator[MysqlCdcSource]:
            with made.server.away():
                yield table(made, **{"scan.startup.mode": "snapshot"})

        return gone


def test_every_type_in_the_log(mariadb: MariaDatabase) -> None:
    """The same values as a snapshot has, before and after an update."""
    schema, rows = every_value(TestSnapshot.types)
    columns = ", ".join(f"`{f.name}` {_declared(f.type)}" for f in schema)
    mariadb.run(f"CREATE TABLE t (k BIGINT AUTO_INCREMENT PRIMARY KEY, {columns})")
    with_key = Schema((Schema.of(("k", BIGINT))[0], *schema))
    reader = opened(table(mariadb, with_key, ("k",)))
    assert all_there_is(reader) == []
    with mariadb.connect() as connection, connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(schema))
        cursor.executemany(f"INSERT INTO t VALUES (DEFAULT, {places})", rows)
        cursor.execute("UPDATE t SET id = COALESCE(id, 0) + 1")
        cursor.execute("UPDATE t SET id = id - 1")
        cursor.execute("DELETE FROM t")
    changes = all_there_is(reader)
    reader.close()
    inserted = [(i + 1, *values) for i, values in enumerate(rows)]
    count = len(rows)
    assert changes[:count] == [(INSERT, values) for values in inserted]
    assert [c[1] for c in changes[count : 3 * count : 2]] == inserted
    assert {c[0] for c in changes[count : 3 * count : 2]} == {UPDATE_BEFORE}
    assert {c[0] for c in changes[count + 1 : 3 * count : 2]} == {UPDATE_AFTER}
    deleted = changes[-count:]
    assert [(kind, values[0], values[2:]) for kind, values in deleted] == [(DELETE, v[0], v[2:]) for v in inserted]


def test_types_of_mysql(mariadb: MariaDatabase) -> None:
    """A snapshot, which is text, and the log, which is not, say the same."""
    mariadb.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a TINYINT UNSIGNED, b MEDIUMINT, c MEDIUMINT UNSIGNED, d BIGINT UNSIGNED, "
        "e ENUM('x', 'it''s'), f SET('p', 'q', 'r'), g BIT(12), h JSON, i YEAR, j TIME(2), k TIMESTAMP(6) NULL, "
        "l CHAR(3), m BINARY(4), n VARCHAR(300) CHARACTER SET latin1, o DECIMAL(30, 10), p BIT(1), q TINYINT(1), "
        "r TIME(3), s DATE, u DATETIME(2), v DECIMAL(65, 30), w TIMESTAMP NULL, z GEOMETRY)"
    )
    schema = Schema.of(
        ("id", INT), ("a", SMALLINT), ("b", INT), ("c", INT), ("d", decimal(20, 0)), ("e", STRING), ("f", array(STRING)),
        ("g", BYTES), ("h", STRING), ("i", INT), ("j", STRING), ("k", timestamp_ltz(6)), ("l", STRING), ("m", BYTES),
        ("n", STRING), ("o", decimal(30, 10)), ("p", BOOLEAN), ("q", BOOLEAN), ("r", TIME), ("s", STRING),
        ("u", timestamp(2)), ("v", STRING), ("w", STRING),
    )  # fmt: skip
    reader = opened(table(mariadb, schema))
    assert all_there_is(reader) == []
    with mariadb.connect(init_command="SET sql_mode = '', time_zone = '+02:00'") as connection:
        cursor = connection.cursor()
        point = "ST_GeomFromText('POINT(1 2)')"
        for values in (
            "1, 255, -8388608, 16777215, 18446744073709551615, 'it''s', 'p,r', 0xABC, '{\"a\": 1}', 2155, '-838:59:59.25', "
            "'2020-01-01 12:00:00.123456', 'x', x'0100', 'Grüße', -12345678901234567890.0123456789, 1, 1, '12:34:56.789', "
            f"'0000-00-00', '2020-02-29 23:59:59.99', -0.5, '2001-02-03 04:05:06', {point}",
            "2, 0, -1, 0, 9223372036854775808, 'x', '', 1, '[]', 1901, '838:59:59', '1970-01-01 02:00:01', 'abc', x'01020304', "
            "'', 0.0000000001, 0, 0, '00:00:00', '2020-00-01', '1000-01-01', "
            f"12345678901234567890123456789012345.123456789012345678901234567890, 0, {point}",
            "3, NULL, NULL, NULL, NULL, 'none', NULL, NULL, NULL, 0, '-00:00:00.01', NULL, NULL, NULL, NULL, -1, NULL, NULL, NULL, "
            "'9999-12-31', '9999-12-31 23:59:59.99', 0, NULL, NULL",
        ):
            cursor.execute(f"INSERT INTO t VALUES ({values})")
    found = all_there_is(reader)
    reader.close()
    again = opened(table(mariadb, schema))
    expected = all_there_is(again)
    again.close()
    assert [kind for kind, _ in found] == [INSERT] * 3
    for one, other in zip(found, expected, strict=True):
        assert dict(zip(schema.names, one[1], strict=True)) == dict(zip(schema.names, other[1], strict=True))
    first = dict(zip(schema.names, found[0][1], strict=True))
    assert (first["f"], first["g"], first["j"], first["s"]) == (["p", "r"], b"\x0a\xbc", "-838:59:59.25", "0000-00-00")
    assert first["n"] == "Grüße" and str(first["d"]) == "18446744073709551615"


def _something(rng: random.Random, mariadb: MariaDatabase) -> None:
    """A transaction, perhaps of many changes, also of another table."""
    with mariadb.connect(autocommit=False) as connection:
        cursor = connection.cursor()
        for _ in range(rng.choice((1, 1, 2, 5, 40))):
            key, other = rng.randrange(30), rng.randrange(30)
            large = "x" * rng.choice((0, 10, 3000))
            cursor.execute(
                rng.choice(
                    (
                        f"REPLACE INTO t VALUES ({key}, 'n{rng.random():.3f}', {rng.randrange(99)}, '{large}')",
                        f"REPLACE INTO t SELECT seq, 'many', seq, '{large}' FROM seq_{key}_to_{key + 25}",
                        f"UPDATE t SET n = n + 1 WHERE id > {key}",
                        f"UPDATE IGNORE t SET id = {other} WHERE id = {key}",
                        f"DELETE FROM t WHERE id = {key}",
                        "INSERT INTO other VALUES (1)",
                    )
                )
            )
        if rng.random() < 0.15:
            connection.rollback()
        else:
            connection.commit()


@pytest.mark.parametrize("upsert", [False, True])
@pytest.mark.parametrize("seed", range(CASES))
def test_it_adds_up(made: MariaDatabase, seed: int, upsert: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With readings that are cut off anywhere, in the snapshot too, and a server that crashes."""
    rng = random.Random(seed)
    monkeypatch.setattr("connectors.mysql.cdc.transactions._MOST_BYTES", rng.choice((1, 500, 1 << 20)))
    monkeypatch.setattr("connectors.mysql.connection._BATCH_BYTES", 1)
    made.run("CREATE TABLE other (a INT)", "INSERT INTO t SELECT seq * 3, 'first', 0, '' FROM seq_1_to_9")
    contents = Contents(upsert)
    position: Any = None
    for turn in range(8):
        reader = opened(table(made, changelog_mode="upsert" if upsert else "all"), position)
        if rng.random() < 0.5:
            _something(rng, made)
        if turn == 5:
            with made.server.away():
                pass
        for _ in range(rng.randrange(4)):
            batch = reader.poll(rng.choice((1, 7, 1000)))
            if batch is not None:
                contents.apply(changes_of(batch))
        if turn % 4 == 3:
            contents.apply(all_there_is(reader))
            assert sorted(contents.sorted()) == sql_rows(made)
        position = json.loads(json.dumps(reader.position()))
        reader.close()
        for _ in range(rng.randrange(3)):
            _something(rng, made)
        if rng.random() < 0.2:
            made.run("FLUSH BINARY LOGS")
    reader = opened(table(made, changelog_mode="upsert" if upsert else "all"), position)
    contents.apply(all_there_is(reader))
    reader.close()
    assert contents.sorted() == sql_rows(made)


def test_a_snapshot_at_the_beginning_of_a_file(made: MariaDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first transaction behind it counts."""
    monkeypatch.setattr("connectors.mysql.connection._BATCH_BYTES", 1)
    made.run("INSERT INTO t SELECT seq, 'a', 1, NULL FROM seq_1_to_9")
    reader = opened(table(made))
    while reader.poll(1) is None:
        pass
    position = reader.position()
    reader.close()
    made.run("FLUSH BINARY LOGS")
    again = opened(table(made), position)
    assert [values[0] for _, values in all_there_is(again)] == list(range(2, 10))
    made.run("UPDATE t SET n = 5 WHERE id IN (1, 9)")
    assert [values[0] for _, values in all_there_is(again)] == [1, 1, 9, 9]
    again.close()


def test_where_it_begins(made: MariaDatabase) -> None:
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    latest = opened(table(made, **{"scan.startup.mode": "latest-offset"}))
    assert all_there_is(latest) == []
    ((file, at, *_),) = made.rows("SHOW MASTER STATUS")
    made.run("UPDATE t SET n = 2", "UPDATE t SET id = 7")
    expected = [(UPDATE_BEFORE, (1, "a", 1, None)), (UPDATE_AFTER, (1, "a", 2, None)), (DELETE, (1, "a", 2, None)),
                (INSERT, (7, "a", 2, None))]  # fmt: skip
    assert all_there_is(latest) == expected
    latest.close()
    where = {"scan.startup.mode": "specific-offset", "scan.startup.specific-offset.file": file}
    placed = opened(table(made, **where, **{"scan.startup.specific-offset.pos": str(at)}))
    assert all_there_is(placed) == expected
    placed.close()


def test_metadata(made: MariaDatabase) -> None:
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    schema = Schema.of(("id", INT), ("t", STRING), ("d", STRING), ("at", timestamp_ltz(3)))
    given = table(
        made, schema, changelog_mode="upsert", metadata=(("t", "table_name"), ("d", "database_name"), ("at", "op_ts"))
    )
    reader = opened(given)
    ((_, first),) = all_there_is(reader)
    made.run("UPDATE t SET n = 5")
    ((kind, second),) = all_there_is(reader)
    reader.close()
    assert first[:3] == second[:3] == (1, "t", made.name) and kind == UPDATE_AFTER
    assert first[3].year == 1970 and second[3].year >= 2024


def test_columns_that_come_and_go(made: MariaDatabase) -> None:
    """With names in the log; without them it says where it cannot go on."""
    made.run("SET GLOBAL binlog_row_metadata = FULL")
    try:
        reader = opened(table(made, Schema.of(("id", INT), ("n", BIGINT))))
        all_there_is(reader)
        made.run(
            "INSERT INTO t VALUES (1, 'a', 1, NULL)",
            "ALTER TABLE t ADD COLUMN more INT FIRST",
            "INSERT INTO t VALUES (7, 2, 'b', 2, NULL)",
            "ALTER TABLE t DROP COLUMN name",
            "ALTER TABLE t ADD INDEX (n)",
            "INSERT INTO t VALUES (7, 3, 3, NULL)",
        )
        assert [values for _, values in all_there_is(reader)] == [(1, 1), (2, 2), (3, 3)]
        position = reader.position()
        reader.close()
        made.run("UPDATE t SET n = 4 WHERE id = 3")
        again = opened(table(made, Schema.of(("id", INT), ("n", BIGINT))), position)
        assert all_there_is(again) == [(UPDATE_BEFORE, (3, 3)), (UPDATE_AFTER, (3, 4))]
        position = again.position()
        again.close()
    finally:
        made.run("SET GLOBAL binlog_row_metadata = NO_LOG")
    made.run("ALTER TABLE t MODIFY COLUMN n INT", "INSERT INTO t VALUES (7, 4, 4, NULL)")
    error = error_of(table(made, Schema.of(("id", INT), ("n", BIGINT))), position)
    assert error.code == "E3172" and "column n of" in error.message and "of the log" in error.message


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ("TRUNCATE t", "E3172", "was truncated before log."),
        ("ALTER TABLE t ADD COLUMN z INT FIRST", "E3172", "has other columns behind log."),
        ("ALTER TABLE t CHANGE large larger LONGTEXT", "E3172", "has other columns behind log."),
        ("ALTER TABLE t MODIFY large LONGTEXT AFTER name", "E3172", "has other columns behind log."),
        (
            "SET STATEMENT binlog_row_image = MINIMAL FOR UPDATE t SET n = 9",
            "E3172",
            "rows without all of their columns",
        ),
        ("SET STATEMENT binlog_format = STATEMENT FOR UPDATE t SET n = 9", "E3172", "perhaps written by a statement"),
        ("RENAME TABLE t TO was_t", "E3163", "there is no table"),
    ],
)
def test_what_cannot_be_followed(made: MariaDatabase, change: str, code: str, said: str) -> None:
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL)")
    position = begun(table(made))
    made.run(change)
    if not change.startswith("RENAME"):
        made.run("REPLACE INTO t (id) VALUES (5)")
    error = error_of(table(made), position)
    assert error.code == code and said in error.message, error


def test_a_log_that_is_gone(made: MariaDatabase) -> None:
    position = begun(table(made))
    made.run("INSERT INTO t (id) VALUES (1)", "FLUSH BINARY LOGS")
    ((file, *_),) = made.rows("SHOW MASTER STATUS")
    while made.rows("SHOW BINARY LOGS")[0][0] != file:
        # Those who follow keep files.
        for number, *_ in made.rows("SELECT id FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'"):
            with suppress(pymysql.Error):
                made.run(f"KILL {number}")
        made.run(f"PURGE BINARY LOGS TO '{file}'")
    error = error_of(table(made), position)
    assert error.code == "E3170" and "cannot be read" in error.message
    moved = {**position, "at": {**position["at"], "server": "another", "gtids": None}}
    assert "is another server" in error_of(table(made), moved).message


def test_a_snapshot_without_an_order_is_not_gone_on_with(mariadb: MariaDatabase) -> None:
    mariadb.run("CREATE TABLE t (id INT, name VARCHAR(5))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    made = table(mariadb, Schema.of(("id", INT), ("name", STRING)), ())
    reader = opened(made)
    rows_until(reader, lambda found: len(found) == 2)
    assert len(all_there_is(reader)) == 0
    reader.close()
    again = opened(made)
    while again.poll(1) is None:
        pass
    position = again.position()
    again.close()
    assert error_of(made, position).code == "E3173"


def test_truncated_is_passed_over(made: MariaDatabase) -> None:
    reader = opened(table(made, **{"scan.truncate.mode": "ignore"}))
    all_there_is(reader)
    made.run("INSERT INTO t (id) VALUES (1)", "TRUNCATE t", "INSERT INTO t (id) VALUES (2)")
    assert [values[0] for _, values in all_there_is(reader)] == [1, 2]
    reader.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table-name": "t.*("}, "is no regular expression"),
        ({"database-name": "(?=t).*"}, "matching may take long"),
        ({"server-id": "x"}, "cannot be 'x'"),
        ({"scan.startup.mode": "timestamp"}, "needs the option .scan.startup.timestamp-millis"),
        ({"scan.startup.mode": "specific-offset", "scan.startup.specific-offset.gtid-set": "0-1"}, "cannot be .0-1"),
        ({"scan.startup.mode": "specific-offset"}, "needs the option 'scan.startup.specific-offset.file'"),
        ({"hostname": "a,b"}, "cannot be 'a,b'"),
        ({"hostnam": "a"}, "hostname"),
        ({"changelog-mode": "upsert"}, "needs a PRIMARY KEY"),
    ],
)
def test_options(options: dict[str, str], message: str) -> None:
    plain = {"hostname": "h", "username": "u", "password": "p", "database-name": "d", "table-name": "t"}
    with pytest.raises(OptionError, match=message):
        source("mysql-cdc", SCHEMA, {**plain, **options})


def test_a_view_follows_it(made: MariaDatabase) -> None:
    made.run("INSERT INTO t VALUES (1, 'a', 1, NULL), (2, 'a', 2, NULL)")
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            f"CREATE TABLE t (id INT, name STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'mysql-cdc', "
            f"'hostname' = '127.0.0.1', 'port' = '{made.server.port}', 'username' = 'root', 'password' = '{PASSWORD}', "
            f"'database-name' = '{made.name}', 'table-name' = 't', 'server-id' = '5400-5404')"
        )
        t_env.execute_sql("CREATE MATERIALIZED VIEW sums AS SELECT name, SUM(n) AS s FROM t GROUP BY name")
        made.run(
            "UPDATE t SET n = 5 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 'b', 7, NULL)"
        )
        t_env.execute_sql("FLUSH").wait()
        found = t_env.execute_sql("SELECT * FROM sums ORDER BY name").to_arrow().to_pylist()
    assert [tuple(r.values()) for r in found] == [("a", 5), ("b", 7)]


def test_who_may_not_lock(made: MariaDatabase) -> None:
    made.run(
        "CREATE USER IF NOT EXISTS follower IDENTIFIED BY 'f'", "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO follower"
    )  # fmt: skip
    error = error_of(table(made, username="follower", password="f"))
    assert error.code == "E3161" and "LOCK TABLES" in str(error.hint)
    made.run("GRANT LOCK TABLES ON *.* TO follower")
    assert all_there_is(opened(table(made, username="follower", password="f"))) == []
