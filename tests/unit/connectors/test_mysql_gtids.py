"""Reading the log by the global numbers of transactions: of a real MariaDB and its replica, and of MySQL by bytes as its
documentation has them."""

from __future__ import annotations

import itertools
import json
import random
import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from connector_tables import changes_of
from postgres_cdc_tables import Contents, all_there_is, error_of, opened

from connectors.mysql.cdc import log
from connectors.mysql.cdc.events import Events
from connectors.mysql.cdc.gtids import Numbers, holds, parsed
from connectors.mysql.cdc.log import LogStream
from connectors.mysql.cdc.positions import Place, Position, TablePosition
from connectors.mysql.cdc.tables import LogTable
from connectors.mysql.cdc.transactions import Transactions
from connectors.mysql.columns import Column
from runtime.core.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import INT
from tests.servers.mariadb import PASSWORD, MariaDatabase, running
from tests.servers.waiting import until
from tests.unit.connectors.test_mysql_cdc import CASES, _something, begun, made, sql_rows, table

__all__ = ["made"]
ONE, OTHER = UUID(int=1), UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
TABLE = TablePosition("d", "t", (("id", "int(11)", "", True),))


@pytest.fixture(scope="module")
def replica_server() -> Iterator[Any]:
    with running("server-id=2\nlog-slave-updates=1\nlog-bin=second") as server:
        yield server


@pytest.fixture
def replica(made: MariaDatabase, replica_server: Any) -> Iterator[MariaDatabase]:
    """The same database on another server, whose files of the log are others."""
    second = MariaDatabase(replica_server, made.name)
    server = made.server
    replica_server.run(
        f"CREATE DATABASE {made.name} CHARACTER SET utf8mb4",
        f"CREATE TABLE {made.name}.t (id INT PRIMARY KEY, name VARCHAR(20), n BIGINT, large LONGTEXT)",
        "FLUSH BINARY LOGS",
        "RESET MASTER",
        f"SET GLOBAL gtid_slave_pos = '{_numbers(made)}'",
        f"CHANGE MASTER TO MASTER_HOST = '{server.host}', MASTER_PORT = {server.port}, MASTER_USER = 'root', "
        f"MASTER_PASSWORD = '{PASSWORD}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
        "START SLAVE",
    )
    made.run("CREATE TABLE other (a INT)")
    _caught_up(made, second)
    yield second
    replica_server.run("STOP SLAVE", "RESET SLAVE ALL", f"DROP DATABASE {made.name}")


def _numbers(database: MariaDatabase) -> str:
    return database.rows("SELECT @@GLOBAL.gtid_binlog_pos")[0][0]


def _caught_up(made: MariaDatabase, replica: MariaDatabase) -> None:
    wanted = _numbers(made)
    until(lambda: _numbers(replica) == wanted, None, 30)


@pytest.mark.parametrize("seed", range(CASES))
def test_another_server_goes_on(
    made: MariaDatabase, replica: MariaDatabase, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From anywhere: in the snapshot, and within transactions."""
    rng = random.Random(seed)
    monkeypatch.setattr("connectors.mysql.cdc.transactions._MOST_BYTES", rng.choice((1, 500, 1 << 20)))
    monkeypatch.setattr("connectors.mysql.connection._BATCH_BYTES", 1)
    made.run("INSERT INTO t SELECT seq * 3, 'first', 0, '' FROM seq_1_to_9")
    contents = Contents(False)
    position: Any = None
    servers: set[str] = set()
    for turn in range(9):
        _caught_up(made, replica)
        reader = opened(table(rng.choice((made, replica))), position)
        for _ in range(rng.randrange(4)):
            batch = reader.poll(rng.choice((1, 7, 1000)))
            if batch is not None:
                contents.apply(changes_of(batch))
        if turn % 3 == 2:
            contents.apply(all_there_is(reader))
            assert contents.sorted() == sql_rows(made)
        position = json.loads(json.dumps(reader.position()))
        reader.close()
        servers.add((position["at"] or {}).get("server", ""))
        for _ in range(rng.randrange(3)):
            _something(rng, made)
        if rng.random() < 0.2:
            rng.choice((made, replica)).run("FLUSH BINARY LOGS")
    assert len(servers - {""}) == 2
    _caught_up(made, replica)
    reader = opened(table(replica), position)
    contents.apply(all_there_is(reader))
    reader.close()
    assert contents.sorted() == sql_rows(made)


def test_a_server_that_is_behind_is_waited_for(
    made: MariaDatabase, replica: MariaDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica.run("STOP SLAVE")
    made.run("INSERT INTO t (id) VALUES (1)")
    position = begun(table(made))
    reader = opened(table(replica), position)
    until(lambda: reader.poll(1) is None and reader.tries > 0, None, 30)
    replica.run("START SLAVE")
    made.run("INSERT INTO t (id) VALUES (2)")
    until(
        lambda: bool(changes := reader.poll(1)) and changes_of(changes) == [(INSERT, (2, None, None, None))], None, 30
    )
    reader.close()


def test_a_checkpoint_of_before_goes_on_and_gets_numbers(made: MariaDatabase) -> None:
    made.run("INSERT INTO t (id) VALUES (1)")
    position = begun(table(made))
    known = _numbers(made)
    assert position["at"].pop("gtids") == known
    ((_, _, columns, *_),) = position["at"].pop("tables")
    ranges = [[None, position["at"]["file"], position["at"]["at"]]]
    position["at"] |= {"columns": columns, "ranges": ranges, "reading": False, "stuck": False}
    made.run("UPDATE t SET n = 1", "FLUSH BINARY LOGS")
    reader = opened(table(made), position)
    assert [kind for kind, _ in all_there_is(reader)] == [UPDATE_BEFORE, UPDATE_AFTER]
    now = reader.position()["at"]
    reader.close()
    assert now["gtids"] == _numbers(made) != known and now["tables"][0][3:] == [[], False, False]


def test_where_it_begins_by_numbers_and_times(made: MariaDatabase) -> None:
    made.run("INSERT INTO t (id) VALUES (1)")
    before = _numbers(made)
    made.run("FLUSH BINARY LOGS", "INSERT INTO t (id) VALUES (2)")
    with made.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET TIMESTAMP = 2000000000")
        cursor.execute("INSERT INTO t (id) VALUES (3)")
    ways: list[tuple[dict[str, str], list[int]]] = [
        ({"mode": "specific-offset", "specific-offset.gtid-set": before}, [2, 3]),
        ({"mode": "timestamp", "timestamp-millis": "2000000000000"}, [3]),
        ({"mode": "timestamp", "timestamp-millis": "2000000000001"}, []),
        ({"mode": "timestamp", "timestamp-millis": "0"}, [1, 2, 3]),
        ({"mode": "earliest-offset"}, [1, 2, 3]),
    ]
    for options, expected in ways:
        reader = opened(table(made, **{f"scan.startup.{k}": v for k, v in options.items()}))
        assert [values[0] for _, values in all_there_is(reader)] == expected, options
        position = reader.position()
        reader.close()
        assert position["at"]["gtids"] == _numbers(made), options


def test_what_is_refused(made: MariaDatabase) -> None:
    """A server of the same number is no replica, whatever its numbers are; and MySQL's are no numbers of MariaDB."""
    position = begun(table(made))
    number = position["at"]["server"].partition("/")[2]
    other = {**position, "at": {**position["at"], "server": f"other/{number}"}}
    assert error_of(table(made), other).code == "E3170"
    of_mysql = {**position, "at": {**position["at"], "gtids": f"{OTHER}:1-5"}}
    assert "has no GTIDs such as" in error_of(table(made), of_mysql).message
    with pytest.raises(ConnectorError, match="another source"):
        Position.of({**position["at"], "gtids": "0-1"}, ("d", "t"))


def test_a_keyless_table_moves_between_transactions_alone(made: MariaDatabase) -> None:
    made.run("CREATE TABLE u (id INT)")
    given = table(made, Schema.of(("id", INT)), (), **{"table-name": "u"})
    position = begun(given)["at"] | {"server": "other/9"}
    reader = opened(given, {"at": position, "rows": 0})
    assert all_there_is(reader) == [] and reader.position()["at"]["server"] != "other/9"
    reader.close()
    assert "without a primary key" in str(error_of(given, {"at": position | {"within": "0-9-1"}, "rows": 1}).hint)
    keyed = begun(table(made))["at"] | {"server": "other/9", "within": "0-9-1"}
    made.run("INSERT INTO t (id) VALUES (1)")
    error = error_of(table(made), {"at": keyed, "rows": 1})
    assert error.code == "E3170" and "does not come next" in error.message


# --- sets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (f"{ONE}:1-5:7-9", f"{ONE}:1-5:7-9"),
        (f"{ONE}:4-6:1-3:7", f"{ONE}:1-7"),
        (f"{ONE}:1-2:4:6-9:2-7", f"{ONE}:1-9"),
        (f"{OTHER}:23,\n{ONE}:1".upper(), f"{ONE}:1,{OTHER}:23"),
        (str(ONE).replace("-", "") + ":5", f"{ONE}:5"),
    ],
)
def test_sets_of_mysql(text: str, expected: str) -> None:
    assert str(parsed(text, maria=False)) == expected


@pytest.mark.parametrize(
    "text", ["1", f"{ONE}", f"{ONE}:", f"{ONE}:0", f"{ONE}:5-3", f"{ONE}:tag:1", f"{ONE}:1,", f"{ONE}:-1", "0-1-1:2"]
)
def test_what_is_no_set(text: str) -> None:
    with pytest.raises(ValueError):
        parsed(text, maria=False)


def test_sets_are_sets() -> None:
    """Against Python's."""
    rng = random.Random(4)
    sets: list[tuple[str, set[int]]] = []
    for _ in range(60):
        numbers, known = set[int](), parsed("", maria=False)
        for _ in range(rng.randrange(12)):
            first = rng.randrange(1, 30)
            numbers.update(range(first, first + rng.randrange(1, 4)))
        for number in rng.sample(sorted(numbers), len(numbers)):
            known.add((ONE.int, 0, number))
        assert all(known.has((ONE.int, 0, n)) == (n in numbers) for n in range(35))
        assert str(parsed(str(known), maria=False)) == str(known)
        sets.append((str(known), numbers))
    for one, numbers in sets:
        for other, others in sets:
            assert holds(one, other) == (others <= numbers)


def test_sets_of_mariadb() -> None:
    known = parsed("1-2-30,0-1-5", maria=True)
    assert (
        str(known) == "0-1-5,1-2-30" and known.has((0, 7, 5)) and not known.has((0, 1, 6)) and not known.has((2, 1, 1))
    )
    known.add((0, 3, 6))
    assert str(known) == "0-3-6,1-2-30" and holds(str(known), "0-1-6") and not holds("0-1-5", str(known))
    with pytest.raises(ValueError):
        parsed("0-1-5,x", maria=True)


# --- bytes of MySQL


def _event(kind: int, body: bytes, end: int, seconds: int = 1_700_000_000) -> bytes:
    return struct.pack("<IBIIIH", seconds, kind, 1, 19 + len(body), end, 0) + body


def _events(*events: bytes) -> Events:
    ends = [*itertools.accumulate(map(len, events))]
    return Events(b"".join(events), [0, *ends[:-1]], ends)


def _packed(*ranges: tuple[UUID, int, int]) -> bytes:
    """A set, with one range for each server."""
    parts = (s.bytes + struct.pack("<QQQ", 1, first, last + 1) for s, first, last in ranges)
    return struct.pack("<Q", len(ranges)) + b"".join(parts)


def _transaction(number: int, at: int) -> list[bytes]:
    """The insertion of a row, whose value is the number."""
    statement = struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"d\0BEGIN"
    described = struct.pack("<IHH", 70, 0, 1) + b"\x01d\0\x01t\0" + bytes([1, 3, 0, 1])
    row = struct.pack("<IHHH", 70, 0, 1, 2) + bytes([1, 1, 0]) + struct.pack("<i", number)
    bodies = [
        (33, b"\0" + OTHER.bytes + struct.pack("<QBQQ", number, 2, 0, 0)),
        (2, statement), (19, described), (30, row), (16, bytes(8)),
    ]  # fmt: skip
    found: list[bytes] = []
    for kind, body in bodies:
        at += 19 + len(body)
        found.append(_event(kind, body, at))
    return found


def _of_mysql(position: Position, *, wanted: bool = True) -> Transactions:
    from connector_tables import source

    options = {"hostname": "h", "username": "u", "password": "p", "database-name": "d", "table-name": "t"}
    given: Any = source("mysql-cdc", Schema.of(("id", INT)), options)
    numbers = Numbers(position.place.gtids, maria=False, wanted=wanted)
    one = LogTable(given, (), position.tables[0], lambda: ([Column("id", "int(11)", True)], False))
    return Transactions(given, position, [one], 0, numbers)


def _rotate(file: str) -> bytes:
    return _event(4, struct.pack("<Q", 4) + file.encode(), 0)


def test_the_log_of_mysql_by_numbers() -> None:
    position = Position("uuid", Place("", 0, f"{OTHER}:1-4"), (TABLE,))
    taken = _of_mysql(position)
    events = [_rotate("bin.000007"), _event(35, _packed((OTHER, 1, 2)), 200)]
    for number in (5, 6, 7):
        events += _transaction(number, 1000 * number)
    assert list(taken.take(_events(*events))) == []
    fetched = taken.flush()
    assert isinstance(fetched.after, dict) and fetched.after["gtids"] == f"{OTHER}:1-7"
    assert changes_of(fetched.rows) == [(INSERT, (5,)), (INSERT, (6,)), (INSERT, (7,))]  # type: ignore[arg-type]
    assert fetched.within is not None
    at, rows = fetched.within(2)
    assert (at["gtids"], at["at"], at["within"], rows) == (f"{OTHER}:1-6", 7000, None, 0)
    assert taken.has_reached(Place("bin.000009", 4, f"{OTHER}:3-7"))
    assert not taken.has_reached(Place("bin.000009", 4, f"{OTHER}:1-8"))
    taken_up = [_event(27, b"bin.000009", 300), _rotate("bin.000009"), _event(27, b"bin.000009", 300)]
    list(taken.take(_events(*taken_up)))
    assert taken.has_reached(Place("bin.000009", 300, f"{OTHER}:1-8"))


def test_numbers_are_taken_up_where_a_file_begins() -> None:
    position = Position("uuid", Place("bin.000001", 4), (TABLE,))
    files = [_event(35, _packed((ONE, 3, 9), (OTHER, 1, 4)), 200), *_transaction(5, 1000)]
    for wanted, expected in ((True, f"{ONE}:3-9,{OTHER}:1-5"), (False, None)):
        taken = _of_mysql(position, wanted=wanted)
        list(taken.take(_events(*files)))
        fetched = taken.flush()
        assert fetched.after["gtids"] == expected
    taken = _of_mysql(position)
    # One with a tag has no number that positions have.
    list(taken.take(_events(*files, _event(42, bytes(40), 1100), _event(16, bytes(8), 1200))))
    assert taken.flush().after["gtids"] is None
    list(taken.take(_events(_event(35, struct.pack("<Q", 1 << 56 | 1), 1300))))
    assert taken.flush().after["gtids"] is None


@pytest.mark.parametrize("kind", [33, 35, 162])
def test_events_that_are_too_short(kind: int) -> None:
    taken = _of_mysql(Position("uuid", Place("bin.000001", 4), (TABLE,)))
    with pytest.raises(ConnectorError, match="too short"):
        list(taken.take(_events(_event(kind, struct.pack("<Q", 3) if kind == 35 else b"\0", 200))))


def test_what_mysql_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands and sets of its protocol, as a fake has recorded them."""
    said: list[Any] = []

    class Raw:
        _rfile = type("File", (), {"read1": None})

        _sock = None

        def _execute_command(self, command: int, body: bytes) -> None:
            said.append((command, body))

    class Connection:
        raw = Raw()

        def __init__(self, address: Any, what: str) -> None:
            self.address = address

        def run(self, statement: str) -> None:
            said.append(statement)

        def asked(self, query: str) -> list[tuple[str]]:
            return [("CRC32",)]

    monkeypatch.setattr(log, "Connection", Connection)
    address: Any = None
    LogStream(address, "d.t", Place("bin.000007", 99, f"{OTHER}:1-5:7,{ONE}:23"), 5400, maria=False)
    body = struct.pack("<Q", 2) + ONE.bytes + struct.pack("<QQQ", 1, 23, 24)
    body += OTHER.bytes + struct.pack("<QQQQQ", 2, 1, 6, 7, 8)
    assert said.pop() == (0x1E, struct.pack("<HIIQI", 0, 5400, 0, 4, len(body)) + body)
    LogStream(address, "d.t", Place("bin.000007", 99), 5400, maria=False)
    assert said.pop() == (0x12, struct.pack("<IHI", 99, 0, 5400) + b"bin.000007")
    LogStream(address, "d.t", Place("log.000001", 99, "0-1-5"), 5400, maria=True)
    assert said.pop() == (0x12, struct.pack("<IHI", 4, 0, 5400)) and "@slave_connect_state = '0-1-5'" in said.pop()
