"""MySQL in statements: tables, catalogs, lookups, inferred columns and Flink's `jdbc`; addresses and TLS."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from connectors.mysql.address import ADDRESS_OPTIONS, Address, read_address
from connectors.mysql.connection import Connection
from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError, SqlEngineError, UnavailableError
from runtime.core.secrets import Secret
from sqlengine import TableEnvironment
from tests.servers.mariadb import PASSWORD, MariaDatabase, running


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        yield made


@pytest.fixture
def shop(mariadb: MariaDatabase) -> MariaDatabase:
    mariadb.run(
        "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, price DECIMAL(10, 2) COMMENT 'in euros', "
        "kinds SET('a', 'b'), UNIQUE (name)) COMMENT 'what is sold'",
        "INSERT INTO items SELECT seq, CONCAT('item ', seq), seq * 1.5, 'a,b' FROM seq_1_to_5",
    )
    return mariadb


def rows(t_env: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in t_env.execute_sql(query).to_arrow().to_pylist()]


def run(t_env: TableEnvironment, statement: str) -> None:
    t_env.execute_sql(statement).wait()


def connected(t_env: TableEnvironment, database: MariaDatabase) -> str:
    """The name of the database in the catalog `my`."""
    run(t_env, f"CREATE CATALOG my WITH ('type' = 'mysql', {database.options})")
    return f"my.{database.name}"


def test_a_catalog(t_env: TableEnvironment, shop: MariaDatabase) -> None:
    here = connected(t_env, shop)
    assert (shop.name,) in rows(t_env, "SHOW DATABASES IN my")
    assert ("mysql",) not in rows(t_env, "SHOW DATABASES IN my")
    assert rows(t_env, f"SHOW TABLES IN {here}") == [("items",)]
    assert [r[:2] for r in rows(t_env, f"DESCRIBE {here}.items")] == [
        ("id", "INT"), ("name", "VARCHAR(20)"), ("price", "DECIMAL(10, 2)"), ("kinds", "STRING"),
    ]  # fmt: skip
    assert (
        rows(t_env, f"SELECT id, price, kinds FROM {here}.items WHERE id > 3 AND name <> 'x' ORDER BY id")[0][2]
        == "a,b"
    )
    shown = rows(t_env, f"SHOW CREATE TABLE {here}.items")[0][0] + rows(t_env, "SHOW CREATE CATALOG my")[0][0]
    assert PASSWORD not in shown and "'password' = '******'" in shown
    assert "what is sold" in shown and "in euros" in shown


def test_tables_are_made_and_dropped(t_env: TableEnvironment, mariadb: MariaDatabase) -> None:
    here = connected(t_env, mariadb)
    run(
        t_env,
        f"CREATE TABLE {here}.`odd.name` (a INT NOT NULL COMMENT 'it''s', b TIMESTAMP_LTZ(3), c BYTES, d DECIMAL(38, 10), "
        "e VARCHAR(7), f TIMESTAMP(6), g BOOLEAN, h TIME(3), PRIMARY KEY (a) NOT ENFORCED) COMMENT 'made here'",
    )
    run(
        t_env,
        f"INSERT INTO {here}.`odd.name` VALUES (1, TO_TIMESTAMP_LTZ(1500, 3), x'00ff', 1.5, 'x', "
        "TIMESTAMP '2020-01-02 03:04:05.000006', TRUE, TIME '01:02:03'), "
        "(2, CAST(NULL AS TIMESTAMP_LTZ(3)), NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    types = [r[1] for r in rows(t_env, f"DESCRIBE {here}.`odd.name`")]
    assert types == [
        "INT", "TIMESTAMP_LTZ(3)", "BYTES", "DECIMAL(38, 10)", "VARCHAR(7)", "TIMESTAMP(6)", "BOOLEAN", "TIME(3)",
    ]  # fmt: skip
    assert mariadb.rows("SELECT UNIX_TIMESTAMP(b), c, e, g FROM `odd.name` WHERE a = 1")[0][1:] == (b"\x00\xff", "x", 1)
    assert rows(t_env, f"SELECT a, e, g, h IS NULL FROM {here}.`odd.name` ORDER BY a") == [
        (1, "x", True, False),
        (2, None, None, True),
    ]
    run(t_env, f"DROP TABLE {here}.`odd.name`")
    run(t_env, f"CREATE DATABASE my.{mariadb.name}_more")
    run(t_env, f"DROP DATABASE my.{mariadb.name}_more")
    assert rows(t_env, f"SHOW TABLES IN {here}") == []


def test_an_aggregate_is_kept_there(t_env: TableEnvironment, shop: MariaDatabase) -> None:
    here = connected(t_env, shop)
    shop.run("CREATE TABLE totals (kind INT PRIMARY KEY, n BIGINT)")
    run(t_env, "CREATE TABLE orders (id INT, kind INT)")
    run(t_env, "INSERT INTO orders VALUES (1, 1), (2, 1), (3, 2)")
    run(t_env, f"INSERT INTO {here}.totals SELECT kind, COUNT(*) FROM orders GROUP BY kind")
    assert shop.rows("SELECT * FROM totals ORDER BY 1") == [(1, 2), (2, 1)]
    # The record of commits is no table of the user's.
    assert rows(t_env, f"SHOW TABLES IN {here}") == [("items",), ("totals",)]


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_flinks_jdbc(t_env: TableEnvironment, shop: MariaDatabase, scheme: str) -> None:
    url = shop.url.replace("mysql:", f"jdbc:{scheme}:") + "?useSSL=false&characterEncoding=utf8"
    where = f"'connector' = 'jdbc', 'url' = '{url}', 'username' = 'root', 'password' = '{PASSWORD}'"
    run(
        t_env,
        "CREATE TABLE items (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH "
        f"({where}, 'table-name' = 'items', 'scan.partition.column' = 'id', 'scan.partition.num' = '3', "
        "'scan.partition.lower-bound' = '2', 'scan.partition.upper-bound' = '4', 'driver' = 'com.mysql.cj.jdbc.Driver')",
    )
    assert rows(t_env, "SELECT id FROM items ORDER BY id") == [(2,), (3,), (4,)]
    # Without columns, the table is as the database describes it.
    run(t_env, f"CREATE TABLE found WITH ({where}, 'table-name' = '{shop.name}.items')")
    assert [r[0] for r in rows(t_env, "DESCRIBE found")] == ["id", "name", "price", "kinds"]
    run(t_env, "INSERT INTO found (id, name) VALUES (2, 'two')")
    assert shop.rows("SELECT name, kinds FROM items WHERE id = 2") == [("two", None)]


def test_flinks_catalog(t_env: TableEnvironment, shop: MariaDatabase) -> None:
    base = shop.url.replace("mysql:", "jdbc:mysql:").rpartition("/")[0]
    run(
        t_env,
        f"CREATE CATALOG my WITH ('type' = 'jdbc', 'base-url' = '{base}', 'default-database' = '{shop.name}', "
        f"'username' = 'root', 'password' = '{PASSWORD}')",
    )
    run(t_env, "USE CATALOG my")
    assert rows(t_env, "SHOW CURRENT DATABASE") == [(shop.name,)]
    assert rows(t_env, "SELECT name FROM items WHERE id = 2") == [("item 2",)]
    assert "'connector' = 'jdbc'" in rows(t_env, "SHOW CREATE TABLE items")[0][0]


def test_lookups(t_env: TableEnvironment, shop: MariaDatabase) -> None:
    here = connected(t_env, shop)
    run(t_env, "CREATE TABLE orders (id INT, item INT, p AS PROCTIME()) WITH ('changelog-mode' = 'append')")
    run(t_env, "INSERT INTO orders VALUES (1, 2), (2, 9), (3, NULL), (4, 2)")
    query = (
        f"SELECT o.id, i.name FROM orders AS o LEFT JOIN {here}.items FOR SYSTEM_TIME AS OF o.p AS i "
        "ON o.item = i.id ORDER BY o.id"
    )
    assert rows(t_env, query) == [(1, "item 2"), (2, None), (3, None), (4, "item 2")]
    assert rows(t_env, query.replace("o.item = i.id", "o.item = i.id AND i.name = 'item 3'"))[0] == (1, None)
    both = query.replace("o.item = i.id", "o.item = i.id AND i.name = CONCAT('item ', CAST(o.id + 1 AS STRING))")
    assert rows(t_env, both) == [(1, "item 2"), (2, None), (3, None), (4, None)]


def test_lookups_by_every_kind_of_key(t_env: TableEnvironment, mariadb: MariaDatabase) -> None:
    """Equal is what the engine calls equal."""
    mariadb.run(
        "CREATE TABLE `keys` (n DECIMAL(10, 2), u UUID, t VARCHAR(9) CHARACTER SET latin1, d DATE, s DATETIME(3), "
        "m ENUM('sad', 'glad'), f FLOAT, b BLOB, j JSON, g BIGINT UNSIGNED, w DOUBLE)",
        "INSERT INTO `keys` VALUES (1.50, '00000000-0000-0000-0000-00000000000a', 'Äb', '2020-01-01', "
        "'2020-01-01 00:00:00.5', 'sad', 0.1, x'00ff', '{}', 18446744073709551615, 1e300)",
    )
    here = connected(t_env, mariadb)
    for column, hit, miss in (
        ("n", "CAST(1.5 AS DECIMAL(10, 2))", "CAST(1.51 AS DECIMAL(10, 2))"),
        ("u", "'00000000-0000-0000-0000-00000000000a'", "'00000000-0000-0000-0000-00000000000b'"),
        ("t", "'Äb'", "'Äb '"),
        ("t", "'Äb'", "'äb'"),
        ("d", "DATE '2020-01-01'", "DATE '2020-01-02'"),
        ("s", "TIMESTAMP '2020-01-01 00:00:00.500'", "TIMESTAMP '2020-01-01 00:00:00.000'"),
        ("m", "'sad'", "'SAD'"),
        ("f", "CAST(0.1 AS FLOAT)", "CAST(0.2 AS FLOAT)"),
        ("w", "1e300", "1e301"),
        ("b", "x'00ff'", "x'00'"),
        ("j", "'{}'", "'{ }'"),
        ("g", "CAST('18446744073709551615' AS DECIMAL(20, 0))", "CAST(1 AS DECIMAL(20, 0))"),
    ):
        for value, found in ((hit, 1), (miss, 0)):
            run(t_env, f"CREATE OR REPLACE TEMPORARY VIEW asked AS SELECT {value} AS k, PROCTIME() AS p")
            query = f"SELECT 1 FROM asked AS a JOIN {here}.`keys` FOR SYSTEM_TIME AS OF a.p AS r ON a.k = r.{column}"
            assert len(rows(t_env, query)) == found, (column, value)


def test_types(t_env: TableEnvironment, mariadb: MariaDatabase) -> None:
    mariadb.run(
        "CREATE TABLE odd (a TINYINT UNSIGNED, b SMALLINT UNSIGNED, c MEDIUMINT UNSIGNED, d INT UNSIGNED, e BIGINT UNSIGNED, "
        "f YEAR, g ENUM('x', 'it''s'), h SET('p', 'q'), i JSON, j BIT(1), k BIT(12), l DECIMAL(50, 3), m CHAR(3), "
        "n TIMESTAMP(2) NULL, o TINYINT(1), p VARBINARY(4), q TIME(6), r INET6, s MEDIUMTEXT, t DOUBLE UNSIGNED)",
        "SET time_zone = '+02:00'",
    )
    with mariadb.connect(init_command="SET time_zone = '+02:00'") as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO odd VALUES (255, 65535, 16777215, 4294967295, 18446744073709551615, 2155, 'it''s', 'p,q', "
            "'[1]', 1, 0xABC, 12345678901234567890123456789012345678901234567.125, 'x', '2020-01-01 12:00:00.25', 1, x'00', "
            "'12:00:00.123456', '::1', 'm', 1e-300)"
        )
        cursor.execute("INSERT INTO odd (a) VALUES (NULL)")
    here = connected(t_env, mariadb)
    assert {r[0]: r[1] for r in rows(t_env, f"DESCRIBE {here}.odd")} == {
        "a": "SMALLINT", "b": "INT", "c": "INT", "d": "BIGINT", "e": "DECIMAL(20, 0)", "f": "INT", "g": "STRING",
        "h": "STRING", "i": "STRING", "j": "BOOLEAN", "k": "BYTES", "l": "STRING", "m": "CHAR(3)",
        "n": "TIMESTAMP_LTZ(2)", "o": "BOOLEAN", "p": "BYTES", "q": "TIME(3)", "r": "STRING", "s": "STRING", "t": "DOUBLE",
    }  # fmt: skip
    (found,) = rows(t_env, f"SELECT * FROM {here}.odd WHERE a IS NOT NULL")
    assert [str(v) for v in found[:13]] == [
        "255", "65535", "16777215", "4294967295", "18446744073709551615", "2155", "it's", "p,q", "[1]", "True",
        str(b"\x0a\xbc"), "12345678901234567890123456789012345678901234567.125", "x  ",
    ]  # fmt: skip
    assert rows(t_env, f"SELECT CAST(n AS STRING) FROM {here}.odd WHERE d = 4294967295") == [
        ("2020-01-01 10:00:00.25",)
    ]
    where = f"'connector' = 'mysql', {mariadb.options}, 'table-name' = 'odd'"
    run(t_env, f"CREATE TABLE other (h ARRAY<STRING>, o TINYINT, f STRING, a BIGINT, n STRING) WITH ({where})")
    assert rows(t_env, "SELECT h, o, f, a, n FROM other WHERE a = 255") == [
        (["p", "q"], 1, "2155", 255, "2020-01-01 10:00:00.25")
    ]


def test_values_that_have_no_twin(t_env: TableEnvironment, mariadb: MariaDatabase) -> None:
    mariadb.run(
        "SET sql_mode = ''",
        "CREATE TABLE old (d DATE, t TIME, n TINYINT(1), e DATETIME, g POINT)",
        "INSERT INTO old VALUES ('0000-00-00', '838:59:59', 2, '2020-00-01', NULL)",
    )
    where = f"WITH ('connector' = 'mysql', {mariadb.options}, 'table-name' = 'old')"
    for column, message in (
        ("d DATE", "E3164 column d of .* has a date with zeros, which is no date here"),
        ("e TIMESTAMP(0)", "E3164 column e of .* has a date with zeros"),
        ("t TIME", "E3164 column t of .* has a value that is no TIME"),
        ("n BOOLEAN", "E3164 column n of .* it is neither 0 nor 1"),
        ("g BYTES", "E3164 column g is point, of which there is no type here"),
        ("d INT", "E3163 column d of .* is date there, which cannot be read as INT"),
        ("x INT", "E3163 .* has no column x"),
    ):
        run(t_env, "DROP TABLE IF EXISTS asked")
        run(t_env, f"CREATE TABLE asked ({column}) {where}")
        with pytest.raises(SqlEngineError, match=message):
            rows(t_env, "SELECT * FROM asked")
    with pytest.raises(SqlEngineError, match="E3164 column g is point, of which there is no type here"):
        run(t_env, f"CREATE TABLE found {where}")
    run(t_env, f"CREATE TABLE texts (d STRING, t STRING, n INT, e STRING) {where}")
    assert rows(t_env, "SELECT * FROM texts WHERE d = '0000-00-00'") == [
        ("0000-00-00", "838:59:59", 2, "2020-00-01 00:00:00")
    ]


# --- where it is


def address(**options: str) -> Address:
    given = {k.replace("_", "-"): v for k, v in options.items()}
    return read_address(TableOptions(given, "connector 'mysql'", ADDRESS_OPTIONS))


def test_urls() -> None:
    found = address(url="jdbc:mysql://db:6000/my%20shop?sslMode=VERIFY_IDENTITY", username="me", password="secret")
    assert (found.host, found.port, found.database, found.user) == ("db", 6000, "my shop", "me")
    assert found.ssl_mode == "verify-full"
    assert "secret" not in f"{found!r} {found}"
    found = address(url="mariadb://ann:p%40@[::1]/x")
    assert (found.host, found.port, found.password, found.ssl_mode) == ("::1", 3306, Secret("p@"), "prefer")
    assert address(url="jdbc:mysql://db/x?useSSL=true&requireSSL=true").ssl_mode == "require"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://good,evil/x",
        "mysql://(host=evil)/x",
        "mysql://good/x?allowLoadLocalInfile=true",
        "mysql://good/x?sslMode=of",
        "mysql://good/x?zeroDateTimeBehavior=round",
        "jdbc:mysql:loadbalance://a/x",
        "mysql:///x",
        "mysql://good/",
        "mysql://good:99999/x",
        "postgresql://good/x",
    ],
)
def test_what_a_url_may_not_say(url: str) -> None:
    with pytest.raises(OptionError, match="E1500"):
        address(url=url)


def test_who_may_not_connect(mariadb: MariaDatabase) -> None:
    for options, error, message in (
        ({"password": "wrong"}, ConnectorError, "E3161 .*Access denied"),
        ({"url": mariadb.url + "x"}, ConnectorError, "E3161 .*Unknown database"),
        ({"url": "mysql://127.0.0.1:1/x"}, UnavailableError, "E3150 .*onnect"),
        ({"ssl_mode": "require"}, ConnectorError, "E3161 .*SSL is required"),
    ):
        with pytest.raises(error, match=message) as caught:
            Connection(address(**{"url": mariadb.url, "username": "root", "password": PASSWORD, **options}))
        assert "wrong" not in str(caught.value)


def test_what_a_session_is_like(mariadb: MariaDatabase) -> None:
    with closing(Connection(address(url=mariadb.url, username="root", password=PASSWORD))) as connection:
        assert connection.asked("SELECT @@time_zone, @@character_set_results") == [("+00:00", "utf8mb4")]


def test_tls() -> None:
    """Of a server whose certificate is its own."""
    with running() as server:
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"]
        subprocess.run([*made, *files], cwd=server.folder, check=True, capture_output=True)
        for name in ("key.pem", "cert.pem"):
            if server.user is not None:
                shutil.chown(server.folder / name, server.user)
        with (server.folder / "settings").open("a") as settings:
            settings.write(f"ssl-cert={server.folder}/cert.pem\nssl-key={server.folder}/key.pem\n")
        with server.away():
            pass
        login = {"username": "root", "password": PASSWORD, "ssl_root_cert_path": str(server.folder / "cert.pem")}
        url, by_name = f"mysql://127.0.0.1:{server.port}/mysql", f"mysql://localhost:{server.port}/mysql"
        for mode, secure in (("disable", False), ("prefer", True), ("require", True), ("verify-ca", True)):
            with closing(Connection(address(url=url, ssl_mode=mode, **login))) as connection:
                assert bool(connection.asked("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]) == secure
                (rows,) = connection.rows("SELECT 1")
                assert rows.to_pylist() == [{"0": b"1"}]
        with closing(Connection(address(url=by_name, ssl_mode="verify-full", **login))) as connection:
            assert connection.asked("SELECT 1") == [(1,)]
        login.pop("ssl_root_cert_path")
        for mode, where in (("verify-full", by_name), ("verify-ca", url)):
            with pytest.raises(ConnectorError, match="E3161 .*certificate"):
                Connection(address(url=where, ssl_mode=mode, **login))
