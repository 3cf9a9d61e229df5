"""Tables of MariaDB as sources: the contract, types, snapshots, and servers that go away."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from connectors.databases.options import Partition
from connectors.kit.prefetch import Fetched
from connectors.mysql.table import MysqlTable
from connectors.mysql.wire import Packets, text_columns
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.secrets import Secret
from runtime.core.types import BYTES, INT, STRING, decimal
from sqlengine.testing.connectors import Context, SourceContract, changes_of, drain
from tests.servers.mariadb import MariaDatabase
from tests.unit.connectors.mysql_tables import TYPES, filled, table_of


class TestSource(SourceContract):
    connectors = ("mysql",)
    # TIMESTAMP there begins a second after 1970 and ends in 2038.
    types = TYPES

    @pytest.fixture
    def table(self, mariadb: MariaDatabase) -> MysqlTable:
        schema = Schema.of(("id", INT), ("name", STRING), ("price", decimal(10, 2)))
        rows = [(i, None if i % 3 == 0 else f"n{i}", None if i % 4 == 0 else Decimal(i) / 4) for i in range(12)]
        return filled(mariadb, schema, rows, partition=Partition("id", 2, 0, 100))

    @pytest.fixture
    def holding(self, mariadb: MariaDatabase) -> Callable[[Schema, list[tuple[Any, ...]]], MysqlTable]:
        return lambda schema, rows: filled(mariadb, schema, rows)


WIDE = Schema.of(("id", INT), ("name", STRING))


@pytest.fixture
def wide(mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch) -> MysqlTable:
    """A table that is read in many parts."""
    monkeypatch.setattr("connectors.mysql.reading._ROWS_OF_PART", 150)
    mariadb.run(
        "CREATE TABLE wide (id INT PRIMARY KEY, name VARCHAR(200) CHARACTER SET latin1)",
        "INSERT INTO wide SELECT seq, CONCAT(REPEAT('\u00fc', 100), seq) FROM seq_1_to_3000",
        "ANALYZE TABLE wide",
    )
    return table_of(mariadb, "wide", WIDE)


def ids(batches: list[Fetched]) -> list[int]:
    return [i for b in batches if b.rows is not None for i in b.rows.column(0).to_pylist()]  # type: ignore[union-attr]


def begun(table: MysqlTable, rows: int) -> tuple[list[Fetched], Iterator[Fetched]]:
    """The first rows, and the rest."""
    rest = table.fetched(None, threading.Event())
    found: list[Fetched] = []
    while len(ids(found)) < rows:
        found.append(next(rest))
    return found, rest


def test_all_parts_are_of_one_snapshot(mariadb: MariaDatabase, wide: MysqlTable) -> None:
    found, rest = begun(wide, 100)
    mariadb.run("UPDATE wide SET id = -id", "DELETE FROM wide WHERE id < -2000", "INSERT INTO wide VALUES (0, '')")
    found = [*found, *rest]
    assert len(found) > 10
    assert ids(found) == list(range(1, 3001))


def test_who_may_not_lock_reads_by_one_connection(mariadb: MariaDatabase, wide: MysqlTable) -> None:
    mariadb.run("CREATE USER IF NOT EXISTS reader IDENTIFIED BY 'r'", f"GRANT SELECT ON {mariadb.name}.* TO reader")
    reader = replace(wide.address, user="reader", password=Secret("r"))
    found = [*replace(wide, address=reader).fetched(None, threading.Event())]
    assert ids(found) == list(range(1, 3001))


def test_it_goes_on_from_anywhere(mariadb: MariaDatabase, wide: MysqlTable) -> None:
    found = [*wide.fetched(None, threading.Event())]
    for place in (0, 1, 5, len(found) - 1):
        position = json.loads(json.dumps(found[place].after))
        rest = [*replace(wide, parallel=1 + place % 3).fetched(position, threading.Event())]
        assert ids([*found[: place + 1], *rest]) == list(range(1, 3001))


def test_the_rest_is_of_the_new_snapshot(mariadb: MariaDatabase, wide: MysqlTable) -> None:
    """What was given is the same there, or it does not go on."""
    found, rest = begun(wide, 100)
    rest.close()  # type: ignore[attr-defined]
    position = found[-1].after
    mariadb.run("INSERT INTO wide VALUES (4000, 'new')", "DELETE FROM wide WHERE id = 2999")
    assert ids([*found, *wide.fetched(position, threading.Event())]) == [*range(1, 2999), 3000, 4000]
    for change, back in (
        (
            "UPDATE wide SET name = 'y' WHERE id = 50",
            "UPDATE wide SET name = CONCAT(REPEAT('\u00fc', 100), 50) WHERE id = 50",
        ),
        ("INSERT INTO wide VALUES (0, '')", "DELETE FROM wide WHERE id = 0"),
        ("DELETE FROM wide WHERE id > 20", "SELECT 1"),
    ):
        mariadb.run(change)
        with pytest.raises(ConnectorError, match="E3105 rows of .* that were read before are others now"):
            list(wide.fetched(position, threading.Event()))
        mariadb.run(back)


def test_a_view_is_gone_on_with(mariadb: MariaDatabase, wide: MysqlTable) -> None:
    mariadb.run("CREATE VIEW seen AS SELECT * FROM wide")
    view = table_of(mariadb, "seen", WIDE)
    found, rest = begun(view, 100)
    assert ids([*found, *rest]) == list(range(1, 3001))
    assert ids([*found, *view.fetched(found[-1].after, threading.Event())]) == list(range(1, 3001))


def test_the_server_goes_away(mariadb: MariaDatabase, wide: MysqlTable) -> None:
    """In the middle of reading: it is asked again, and every row comes once."""
    reader = wide.open(wide.splits()[0], Context())
    rows = []
    while not rows:
        batch = reader.poll(10)
        rows += [] if batch is None else changes_of(batch)
    with mariadb.server.away():
        pass
    rows += drain(reader)
    assert [row[0] for _, row in rows] == list(range(1, 3001))
    reader.close()


def test_a_limit_is_one_of_all_parts(wide: MysqlTable) -> None:
    assert len(ids([*wide.with_limit(500).fetched(None, threading.Event())])) == 500


def test_long_rows(mariadb: MariaDatabase) -> None:
    """Longer than a read from the socket, and than a packet."""
    mariadb.run("CREATE TABLE long_ones (id INT PRIMARY KEY, data LONGBLOB)")
    table = table_of(mariadb, "long_ones", Schema.of(("id", INT), ("data", BYTES)))
    with mariadb.connect(max_allowed_packet=1 << 26) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL max_allowed_packet = 67108864")
    with mariadb.connect(max_allowed_packet=1 << 26) as connection, connection.cursor() as cursor:
        sizes = [0, 250, 251, 65_535, 65_536, (1 << 24) + 5, 3]
        for place, size in enumerate(sizes):
            cursor.execute(f"INSERT INTO long_ones VALUES ({place}, REPEAT('x', {size}))")
    found = [(r[0], len(r[1])) for _, r in drain(table.open(table.splits()[0], Context()))]
    assert found == list(enumerate(sizes))


def test_what_no_server_sends() -> None:
    """Bytes that are no rows are an error, and nothing is looked at beyond them."""
    for data in (b"\x05ab", b"\xfe" + b"\xff" * 8, b"\xfc\xff", b"", b"\x01a\x01b\x01c"):
        with pytest.raises(ConnectorError, match="E3164"):
            text_columns(data, [0], [len(data)], 2)
    stream = io.BytesIO(b"\xff\xff\xff\x00" * 3)
    with pytest.raises(EOFError):
        Packets(stream.read, stream.read).some()
