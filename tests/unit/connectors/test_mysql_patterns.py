"""Several tables of a real MariaDB as one: those whose names match, also when they appear while they are read."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from connector_tables import changes_of
from postgres_cdc_tables import Contents, all_there_is, error_of, opened

from connectors.databases.patterns import name_pattern
from connectors.mysql.cdc.table import MysqlCdcSource
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER
from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING, timestamp_ltz
from tests.servers.mariadb import MariaDatabase
from tests.unit.connectors.test_mysql_cdc import CASES, table

SCHEMA = Schema.of(("id", INT), ("n", BIGINT), ("source", STRING))
METADATA = (("source", "table_name"),)


def shards(mariadb: MariaDatabase, **more: Any) -> MysqlCdcSource:
    options = {"table-name": r"orders_\d+", **more}
    return table(mariadb, options.pop("schema", SCHEMA), options.pop("key", ("id",)), metadata=METADATA, **options)


def _made(number: int) -> str:
    return f"CREATE TABLE orders_{number} (id INT PRIMARY KEY, n BIGINT)"


def _rows(mariadb: MariaDatabase) -> list[Any]:
    names = [n for (n,) in mariadb.rows("SHOW TABLES LIKE 'orders\\_%'") if n != "orders_old"]
    return sorted(row for n in names for row in mariadb.rows(f"SELECT id, n, '{n}' FROM {n}"))


@pytest.fixture
def made(mariadb: MariaDatabase) -> MariaDatabase:
    mariadb.run(_made(1), _made(2), "CREATE TABLE orders_old (id INT PRIMARY KEY, n BIGINT)")
    return mariadb


def _something(rng: random.Random, mariadb: MariaDatabase, tables: list[int]) -> None:
    """A transaction over some of the tables; a new table now and then, which had another name before, perhaps."""
    if rng.random() < 0.3 and len(tables) < 6:
        number = len(tables) + 1
        if rng.random() < 0.5:
            mariadb.run(_made(number))
        else:
            mariadb.run(
                f"CREATE TABLE loaded (id INT PRIMARY KEY, n BIGINT) SELECT seq + {1000 * number} AS id, 5 AS n FROM seq_1_to_9",
                f"RENAME TABLE loaded TO orders_{number}",
            )
        tables.append(number)
    with mariadb.connect(autocommit=False) as connection, connection.cursor() as cursor:
        for _ in range(rng.choice((1, 3, 10))):
            number = rng.choice(tables)
            key = 1000 * number + rng.randrange(20)
            cursor.execute(
                rng.choice(
                    (
                        f"REPLACE INTO orders_{number} VALUES ({key}, {rng.randrange(9)})",
                        f"UPDATE orders_{number} SET n = n + 1",
                        f"DELETE FROM orders_{number} WHERE id < {key}",
                        f"INSERT IGNORE INTO orders_old VALUES ({key}, 1)",
                    )
                )
            )
        connection.commit()


@pytest.mark.parametrize("upsert", [False, True])
@pytest.mark.parametrize("seed", range(CASES))
def test_it_adds_up(made: MariaDatabase, seed: int, upsert: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tables that appear, and readings that are cut off anywhere."""
    rng = random.Random(seed)
    monkeypatch.setattr("connectors.mysql.cdc.transactions._MOST_BYTES", rng.choice((1, 300, 1 << 20)))
    monkeypatch.setattr("connectors.mysql.connection._BATCH_BYTES", 1)
    tables, contents, position = [1, 2], Contents(upsert), None
    for number in tables:
        made.run(f"INSERT INTO orders_{number} SELECT seq * 2 + {1000 * number}, 0 FROM seq_1_to_9")
    for turn in range(9):
        reader = opened(shards(made, changelog_mode="upsert" if upsert else "all"), position)
        for _ in range(rng.randrange(5)):
            batch = reader.poll(rng.choice((1, 7, 1000)))
            if batch is not None:
                contents.apply(changes_of(batch))
            _something(rng, made, tables)
        if turn % 3 == 2:
            contents.apply(all_there_is(reader))
            assert contents.sorted() == _rows(made)
        position = json.loads(json.dumps(reader.position()))
        reader.close()
        for _ in range(rng.randrange(3)):
            _something(rng, made, tables)


def test_rows_of_several_tables_keep_their_order(made: MariaDatabase) -> None:
    """A row that moves from one table to another, in one transaction, with the same key."""
    schema = Schema.of(("id", INT), ("n", BIGINT), ("source", STRING), ("kind", STRING), ("at", timestamp_ltz(3)))
    metadata = (*METADATA, ("kind", "row_kind"), ("at", "op_ts"))
    given = table(made, schema, changelog_mode="upsert", metadata=metadata, **{"table-name": "orders_[12]"})
    reader = opened(given)
    assert all_there_is(reader) == []
    with made.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders_2 VALUES (7, 1)")
        cursor.execute("DELETE FROM orders_2")
        cursor.execute("INSERT INTO orders_1 VALUES (7, 1)")
        cursor.execute("UPDATE orders_1 SET n = 2")
        connection.commit()
    found = [(kind, *values[:4]) for kind, values in all_there_is(reader)]
    reader.close()
    assert found == [
        (INSERT, 7, 1, "orders_2", "+I"), (DELETE, 7, 1, "orders_2", "-D"), (INSERT, 7, 1, "orders_1", "+I"),
        (UPDATE_AFTER, 7, 2, "orders_1", "+U"),
    ]  # fmt: skip


def test_databases_by_pattern(made: MariaDatabase) -> None:
    """Their rows may have the same key: it is not declared."""
    made.run("INSERT INTO orders_1 VALUES (1, 5)", "INSERT INTO orders_2 VALUES (1, 6)")
    schema = Schema.of(("id", INT), ("n", BIGINT), ("source", STRING), ("db", STRING))
    options = {"database-name": f"{made.name}|none.*", "table-name": r"orders_\d"}
    metadata = (*METADATA, ("db", "database_name"))
    given = table(made, schema, (), metadata=metadata, **options)
    reader = opened(given)
    assert sorted(values for _, values in all_there_is(reader)) == [
        (1, 5, "orders_1", made.name), (1, 6, "orders_2", made.name)
    ]  # fmt: skip
    made.run("DELETE FROM orders_2")
    ((kind, values),) = all_there_is(reader)
    assert kind == DELETE and values == (1, 6, "orders_2", made.name)
    reader.close()


@pytest.mark.parametrize(
    ("before", "change", "code", "said"),
    [
        (["CREATE TABLE orders_3 (id INT PRIMARY KEY)"], [], "E3163", "orders_3 has no column n"),
        ([], ["CREATE TABLE orders_3 (id INT PRIMARY KEY, n TEXT)"], "E3163", "column n of"),
        ([], ["TRUNCATE orders_2"], "E3172", "orders_2 was truncated"),
        ([], ["DROP TABLE orders_2"], "E3163", "there is no table"),
        ([], ["ALTER TABLE orders_1 MODIFY n INT"], "E3172", "column n of"),
    ],
)
def test_what_is_an_error_at_its_place(
    made: MariaDatabase, before: list[str], change: list[str], code: str, said: str
) -> None:
    made.run(*before)
    position = None
    if change:
        reader = opened(shards(made))
        all_there_is(reader)
        position = reader.position()
        reader.close()
        made.run(*change, "INSERT INTO orders_1 VALUES (9, 9)")
    error = error_of(shards(made), position)
    assert error.code == code and said in error.message, error


def test_no_table_matches(made: MariaDatabase) -> None:
    error = error_of(shards(made, **{"table-name": "order_.*"}))
    assert error.code == "E3163" and "whose name matches" in error.message


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("orders", ["orders"]),
        ("orders$1", ["orders$1"]),
        ("orders.*", ["orders", "orders$1", "ordersx"]),
        ("orders|x", ["orders"]),
        (r"\Qorders\E", ["orders"]),
        (r"(a*)*b", []),
    ],
)
def test_whole_names_match(text: str, names: list[str]) -> None:
    pattern = name_pattern("table-name", text)
    given = ["orders", "orders$1", "ordersx", "my_orders", "orders\n", "a" * 64]
    assert pattern.chosen(given) == names == [name for name in given if pattern.matches(name)]


@pytest.mark.parametrize("text", ["a(", "(?!a).*", r"(a)\1", "a*+", "a" * 1000 + "."])
def test_expressions_that_are_refused(text: str) -> None:
    """Those that are none, and those whose matching is not bounded."""
    with pytest.raises(OptionError, match="table-name"):
        name_pattern("table-name", text)
