"""The state server: answers that are those of SQL, failures by name, jobs that start again, and messages of strangers.

FUZZ_CASES is the number of broken messages.
"""

from __future__ import annotations

import gc
import os
import random
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from runtime.core.errors import OptionError
from sqlengine import TableEnvironment
from sqlengine.server.state.listener import StateServer
from sqlengine.server.state.wire import Ask, packed, unpacked
from sqlengine.state import (
    JobEnded,
    Malformed,
    NotAllowed,
    NotQueryable,
    NotStarted,
    Overloaded,
    StateClient,
    TimedOut,
    UnknownJob,
    UnknownKey,
    UnknownState,
    Unreachable,
    WrongKey,
    epoch_of,
    serve_state,
)

CASES = int(os.environ.get("FUZZ_CASES", "150"))

SETUP = """
SET 'table.optimizer.delta-join.strategy' = 'NONE';
CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, g STRING, a INT);
CREATE TABLE names (g STRING PRIMARY KEY NOT ENFORCED, name STRING);
CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n, SUM(a) AS s FROM t GROUP BY g;
CREATE MATERIALIZED VIEW named AS SELECT t.id, names.name FROM t LEFT JOIN names ON t.g = names.g;
INSERT INTO t VALUES (1, 'a', 3), (2, 'b', 4), (3, 'a', 5);
INSERT INTO names VALUES ('a', 'apple'), ('b', 'bean')
"""


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        for statement in SETUP.split(";"):
            made.execute_sql(statement)
        yield made


@pytest.fixture
def server(t_env: TableEnvironment) -> Iterator[StateServer]:
    with serve_state(t_env, ports=0) as made:
        yield made


@pytest.fixture
def client(server: StateServer) -> Iterator[StateClient]:
    with StateClient(server.address, timeout=20) as made:
        yield made


def sql(t_env: TableEnvironment, query: str) -> list[dict[str, object]]:
    return t_env.execute_sql(query).to_arrow().to_pylist()


# --- answers


def test_after_every_epoch_the_answer_is_that_of_sql(t_env: TableEnvironment, client: StateClient) -> None:
    chance, epochs = random.Random(3), [0]
    for _ in range(25):
        id_, g = chance.randrange(6), chance.choice("abc")
        t_env.execute_sql(
            chance.choice(
                [
                    f"INSERT INTO t VALUES ({id_}, '{g}', {chance.randrange(9)})",
                    f"DELETE FROM t WHERE id = {id_}",
                    f"UPDATE t SET g = '{g}' WHERE id <= {id_}",
                ]
            )
        )
        expected = {row["g"]: row for row in sql(t_env, "SELECT g, COUNT(*) AS n, SUM(a) AS s FROM t GROUP BY g")}
        asked = ["c", "a", "nobody", "b"]
        found = client.lookup("v", {"g": asked})
        assert found.column("$asked").to_pylist() == [0, 1, 2, 3]
        assert found.column("$found").to_pylist() == [g in expected for g in asked]
        assert [row["n"] for row in found.to_pylist()] == [expected.get(g, {}).get("n") for g in asked]
        state = client.lookup("v", asked, state="groups").to_pylist()
        assert [row["SUM(#1) sum"] for row in state] == [expected.get(g, {}).get("s") for g in asked]
        whole = {row["g"]: row for row in sql(t_env, "SELECT * FROM system.state.`view v`.groups")}
        assert {row["g"]: row["$rows"] for row in state if row["$found"]} == {g: r["$rows"] for g, r in whole.items()}
        epochs.append(epoch_of(found))
    assert epochs == sorted(epochs)


def test_a_key_with_several_rows_has_all_of_them(t_env: TableEnvironment, client: StateClient) -> None:
    found = client.lookup("t", {"g": ["b", "x", "a", "a"]}, columns=["id"])
    assert found.column("$asked").to_pylist() == [0, 1, 2, 2, 3, 3]
    assert found.column("id").to_pylist() == [2, None, 1, 3, 1, 3]
    left = client.lookup("named", {"g": ["a"]}, state="left").to_pylist()
    assert sorted(row["id"] for row in left) == [1, 3]
    assert client.lookup("t", {"id": [1, 1], "g": ["a", "b"]}).column("$found").to_pylist() == [True, False]
    assert client.get("t", 2) == [{"id": 2, "g": "b", "a": 4}]


def test_scans_with_bounds(client: StateClient) -> None:
    assert client.scan("t", column="id", above=1, columns=["id"]).column("id").to_pylist() == [2, 3]
    assert client.scan("t", column="id", at_least=2, below=3, columns=["id"]).column("id").to_pylist() == [2]
    assert client.scan("names", column="name", prefix="be").to_pylist() == [{"g": "b", "name": "bean"}]
    assert client.scan("t", limit=2).num_rows == 2
    assert client.scan("v", state="groups", column="g", at_most="a").column("$rows").to_pylist() == [2]


def test_what_can_be_asked_is_listed(client: StateClient, server: StateServer) -> None:
    listed = {(row["of"], row["state"]): row for row in client.states().to_pylist()}
    assert listed["default_catalog.default_database.t", None]["key"] == ["id"]
    (groups,) = [row for (of, state), row in listed.items() if of == "view v" and state.endswith(".groups")]
    assert groups["key"] == ["g"]
    for of, state in listed:
        assert client.describe(of, state=state or "").columns.names == listed[of, state]["columns"]
    plain = flight.FlightClient(f"grpc+tcp://{server.address}")
    infos = list(plain.list_flights())
    assert len(infos) == len(listed)
    rows = [plain.do_get(info.endpoints[0].ticket).read_all().num_rows for info in infos]
    assert sum(rows) >= 10
    plain.close()


def test_many_keys_go_in_several_requests(client: StateClient) -> None:
    found = client.lookup("t", list(range(-100_000, 100_010)), columns=["id"])
    assert found.num_rows == 200_010
    assert found.column("$asked").to_pylist() == list(range(200_010))
    assert found.filter(found.column("$found")).column("id").to_pylist() == [1, 2, 3]
    long = client.lookup("names", ["x" * 2_000_000] * 9 + ["a"])
    assert long.column("$found").to_pylist() == [False] * 9 + [True]


def test_figures(t_env: TableEnvironment, client: StateClient) -> None:
    client.lookup("t", [1, 2, 3])
    with pytest.raises(UnknownJob):
        client.scan("nothing")
    figures = {
        (row["name"], *dict(row["labels"]).values()): row["value"]  # type: ignore[call-overload]
        for row in sql(t_env, "SELECT * FROM system.metrics WHERE name LIKE 'sqlengine_state%'")
    }
    assert figures["sqlengine_state_keys_total",] == 3
    assert (
        figures["sqlengine_state_requests_total", "lookup"] == figures["sqlengine_state_answers_total", "lookup"] == 1
    )
    assert figures["sqlengine_state_failures_total", "E4100"] == 1
    assert figures["sqlengine_state_request_seconds_count", "lookup"] == 1


def test_memory_has_an_owner(t_env: TableEnvironment, client: StateClient) -> None:
    client.lookup("t", {"g": ["a"]})
    client.lookup("v", ["a"], state="groups")
    parts = {
        (row["owner_kind"], row["part"]): row
        for row in sql(t_env, "SELECT * FROM system.memory WHERE part LIKE 'lookups%' OR part LIKE '%followed'")
    }
    index = parts["TABLE", "lookups by g"]
    assert (index["owner"], index["rows"]) == ("default_catalog.default_database.t", 3)
    ((_, followed),) = [(kind, row) for (kind, _), row in parts.items() if kind == "VIEW"]
    assert (followed["owner"], followed["rows"]) == ("default_catalog.default_database.v", 2)
    assert re.fullmatch(r"groups of GroupAggregate\[.*\], followed", str(followed["part"]))
    assert min(row["bytes"] for row in parts.values()) > 0  # type: ignore[type-var]


# --- failures


def test_failures_have_names(
    t_env: TableEnvironment, client: StateClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownJob, match='did you mean "names"') as told:
        client.lookup("nams", ["a"])
    assert told.value.code == "E4100"
    with pytest.raises(UnknownState, match="there is: "):
        client.lookup("v", ["a"], state="grops")
    with pytest.raises(UnknownKey):
        client.get("v", {"g": "zz"})
    for keys in ({"g": [1]}, {"x": ["a"]}, ["a"], {}, {"g": ["a"], "n": [1, 2]}):
        with pytest.raises(WrongKey):
            client.lookup("v", keys)
    with pytest.raises(WrongKey):
        client.lookup("v", {"n": [1]}, state="groups")
    with pytest.raises(WrongKey):
        client.scan("t", column="id", at_least="x")
    t_env.execute_sql(
        f"CREATE TABLE f (x INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    with pytest.raises(NotQueryable):
        client.lookup("f", {"x": [1]})
    monkeypatch.setattr("sqlengine.state.client._PASSING", ())
    with StateClient("127.0.0.1:1", timeout=30) as nobody, pytest.raises(Unreachable):
        nobody.states()


def test_what_a_server_is_not_told_by_its_client_it_finds_itself(server: StateServer) -> None:
    plain = flight.FlightClient(f"grpc+tcp://{server.address}")

    def refused(ask: Ask, keys: pa.RecordBatch | None = None) -> str:
        with pytest.raises(flight.FlightServerError) as told:
            plain.do_get(flight.Ticket(packed(ask, keys))).read_all()
        return str(told.value.extra_info)

    wrong = pa.RecordBatch.from_pydict({"g": pa.array([1], pa.int64())})
    assert '"code": "E4103"' in refused(Ask(request="r7", of="v"), wrong)
    assert '"request": "r7"' in refused(Ask(request="r7", of="v"), wrong)
    assert "E4103" in refused(Ask(of="v", columns=("nix",)), wrong)
    assert "E4103" in refused(Ask(of="v"), pa.RecordBatch.from_pydict({}))
    assert "E4108" in refused(Ask(of="v"))
    assert "E4108" in refused(Ask(operation="drop", of="v"))
    assert "E4108" in refused(Ask(operation="scan", of="v", column="g"))
    assert "E4101" in refused(Ask(of="view v"), wrong)
    with pytest.raises(flight.FlightServerError, match="E4108"):
        list(plain.do_action("anything"))
    with pytest.raises(flight.FlightServerError, match="E4108"):
        plain.do_exchange(flight.FlightDescriptor.for_path("v"))[1].read_chunk()
    plain.close()


def test_a_server_with_too_much_to_do_says_so(t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    held, entered = threading.Event(), threading.Event()
    with serve_state(t_env, ports=0) as server:
        find = server.requests.states.find

        def waits(of: str, state: str, who: object = None) -> object:
            entered.set()
            assert held.wait(30)
            return find(of, state)

        server.requests.states.find = waits  # type: ignore[method-assign,assignment]
        server.requests._most = 1
        answers: list[int] = []

        def ask() -> None:
            with StateClient(server.address, timeout=30) as client:
                answers.append(client.lookup("t", [1]).num_rows)

        thread = threading.Thread(target=ask)
        thread.start()
        assert entered.wait(30)
        with monkeypatch.context() as patient, StateClient(server.address, timeout=30) as client:
            patient.setattr("sqlengine.state.client._PASSING", ())
            with pytest.raises(Overloaded):
                client.lookup("t", [1])
        held.set()
        thread.join()
        assert answers == [1]


# --- jobs


def stream(t_env: TableEnvironment, folder: Path) -> str:
    """Begins a job that counts what comes into a folder; its name."""
    folder.mkdir(exist_ok=True)
    t_env.execute_sql(
        f"CREATE TABLE src (g STRING, a INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv', "
        "'source.monitor-interval' = '10 ms')"
    )
    t_env.execute_sql("CREATE TABLE counts (g STRING PRIMARY KEY NOT ENFORCED, n BIGINT)")
    t_env.execute_sql("INSERT INTO counts SELECT g, COUNT(*) FROM src GROUP BY g")
    return list(t_env.session.database.jobs.jobs)[-1]


def until(client: StateClient, of: str, key: str, wanted: int) -> None:
    """The state comes to a count, asked again and again; each question waits for the server."""
    for _ in range(20_000):
        found = client.lookup(of, [key], state="groups").to_pylist()[0]
        if found["COUNT(*) count"] == wanted:
            return
    raise AssertionError(found)


def come(path: Path, text: str) -> None:
    """A file comes whole: one that grows while a job looks at it is refused."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.rename(path)


def test_the_state_of_a_running_job(
    t_env: TableEnvironment, server: StateServer, client: StateClient, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    name = stream(t_env, folder)
    come(folder / "1.csv", "a,1\nb,1\na,2\n")
    until(client, name, "a", 2)
    come(folder / "2.csv", "a,1\n")
    until(client, name, "a", 3)
    until(client, name, "b", 1)
    assert server.requests.states.nbytes > 0
    t_env.session.database.jobs.jobs[name].stop()
    assert server.requests.states.nbytes == 0
    with pytest.raises(JobEnded):
        client.lookup(name, ["a"], state="groups")


def test_a_job_that_starts_again_is_found_again(
    t_env: TableEnvironment, server: StateServer, client: StateClient, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    t_env.execute_sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'")
    t_env.execute_sql("SET 'execution.checkpointing.interval' = '10 ms'")
    t_env.execute_sql("SET 'restart-strategy.type' = 'fixed-delay'")
    t_env.execute_sql("SET 'restart-strategy.fixed-delay.delay' = '300 ms'")
    t_env.execute_sql("SET 'restart-strategy.fixed-delay.attempts' = '5'")
    name = stream(t_env, folder)
    come(folder / "1.csv", "a,1\nb,1\n")
    until(client, name, "a", 1)
    job = t_env.session.database.jobs.jobs[name].job
    before = job.dataflow

    def fail() -> bool:
        raise OSError("a disk that comes and goes")

    job.requests.each_time(fail, lambda: None)
    job.wake()
    while job.dataflow is before:
        try:
            with StateClient(server.address, timeout=0.01) as hasty:
                hasty.lookup(name, ["a"], state="groups")
        except (NotStarted, TimedOut):
            pass
    job.requests._standing = [standing for standing in job.requests._standing if standing[0] is not fail]
    come(folder / "2.csv", "a,1\n")
    until(client, name, "a", 2)
    assert job.attempts >= 1


def test_state_on_disk_is_read_between_epochs(t_env: TableEnvironment, client: StateClient, tmp_path: Path) -> None:
    t_env.execute_sql("SET 'state.backend.type' = 'rocksdb'")
    t_env.execute_sql("SET 'sqlengine.state.keys-in-memory' = '1'")
    t_env.execute_sql("CREATE MATERIALIZED VIEW cold AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
    for id_, g in ((5, "c"), (6, "a"), (7, "d")):
        t_env.execute_sql(f"INSERT INTO t VALUES ({id_}, '{g}', 1)")
        found = client.lookup("cold", ["a", "nobody", "b", "a", g], state="groups")
        expected = {row["g"]: row["n"] for row in sql(t_env, "SELECT g, COUNT(*) AS n FROM t GROUP BY g")}
        counts = [expected["a"], None, expected["b"], expected["a"], expected[g]]
        assert found.column("COUNT(*) count").to_pylist() == counts
    with pytest.raises(NotQueryable):
        client.lookup("cold", {"g": ["a"]})
    with pytest.raises(NotQueryable):
        client.scan("cold", state="groups")
    name = stream(t_env, tmp_path / "in")
    come(tmp_path / "in" / "1.csv", "a,1\nb,1\na,2\nc,1\n")
    until(client, name, "a", 2)
    until(client, name, "b", 1)


def test_a_view_that_is_replaced_has_another_state(t_env: TableEnvironment, client: StateClient) -> None:
    assert client.get("v", "a", state="groups")[0]["$rows"] == 2
    t_env.execute_sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    assert client.get("v", 4, state="groups")[0]["$rows"] == 1
    assert client.get("v", {"a": 5}) == [{"a": 5, "n": 1}]
    t_env.execute_sql("DROP MATERIALIZED VIEW v")
    with pytest.raises(UnknownJob):
        client.get("v", {"a": 5})


def test_a_server_that_comes_back_is_found_again(t_env: TableEnvironment) -> None:
    server = serve_state(t_env, ports=0)
    with StateClient(server.address, timeout=30) as client:
        assert client.get("t", 1)[0]["g"] == "a"
        host, _, port = server.address.partition(":")
        server.close()
        begun: list[StateServer] = []
        timer = threading.Timer(0.1, lambda: begun.append(serve_state(t_env, host, int(port))))
        timer.start()
        assert client.get("t", 1)[0]["g"] == "a"
        timer.join()
    begun[0].close()


def test_of_several_ports_the_first_that_is_free(t_env: TableEnvironment) -> None:
    with serve_state(t_env, ports=0) as first:
        port = int(first.address.rpartition(":")[2])
        with serve_state(t_env, ports=range(port, port + 20)) as second:
            assert int(second.address.rpartition(":")[2]) > port
        with pytest.raises(OSError, match="in use"):
            serve_state(t_env, ports=port)


def test_whoever_lets_others_in_needs_a_password(t_env: TableEnvironment) -> None:
    with pytest.raises(OptionError, match="nobody would need a password"):
        serve_state(t_env, "0.0.0.0", 0)
    t_env.execute_sql("CREATE ROLE ann LOGIN PASSWORD 'secret'")
    t_env.execute_sql("GRANT SELECT ON t TO ann")
    with serve_state(t_env, "0.0.0.0", 0) as server:
        address = server.address.replace("0.0.0.0", "127.0.0.1")
        for user, password in ((None, ""), ("ann", "wrong"), ("bob", "secret")):
            with StateClient(address, user=user, password=password) as client, pytest.raises(NotAllowed):
                client.get("t", 1)
        with StateClient(address, token="sqe_nothing") as client, pytest.raises(NotAllowed):
            client.get("t", 1)
        with StateClient(address, user="ann", password="secret") as client:
            assert client.get("t", 1)[0]["g"] == "a"


# --- strangers


def test_messages_of_strangers(t_env: TableEnvironment, server: StateServer, client: StateClient) -> None:
    chance = random.Random(11)
    keys = pa.RecordBatch.from_pydict({"g": ["a", "b", "c"]})
    good = [
        packed(Ask(request="r", of="v"), keys),
        packed(
            Ask(operation="scan", of="t", column="id"), pa.RecordBatch.from_pydict({"from": pa.array([1], pa.int32())})
        ),
        packed(Ask(operation="states")),
        packed(Ask(of="v", state="groups"), keys),
    ]
    plain = flight.FlightClient(f"grpc+tcp://{server.address}")
    refused = 0
    for number in range(CASES):
        data = bytearray(chance.choice(good))
        for _ in range(chance.choice([1, 1, 2, 8])):
            at = chance.randrange(len(data))
            match chance.randrange(5):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    del data[at : at + chance.choice([1, 4, 64])]
                case 2:
                    data[at:at] = chance.randbytes(chance.choice([1, 8, 64]))
                case 3:
                    data[at : at + 4] = chance.choice(
                        [b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f"]
                    )
                case _:
                    data = data[:at]
            data = data or bytearray(b"s")
        try:
            plain.do_get(flight.Ticket(bytes(data))).read_all()
        except flight.FlightServerError as error:
            refused += 1
            assert b'"code": "E4' in error.extra_info, (number, bytes(data), error)
    assert refused > CASES // 4
    assert client.get("t", 1)[0]["g"] == "a"
    plain.close()


def test_connections_that_speak_something_else(server: StateServer, client: StateClient) -> None:
    chance, host, port = random.Random(2), *server.address.split(":")
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    held: list[socket.socket] = []
    for number in range(30):
        connection = socket.create_connection((host, int(port)), 10)
        connection.sendall(
            [b"", greeting, b"GET / HTTP/1.1\r\n\r\n"][number % 3] + chance.randbytes(chance.choice([0, 9, 500]))
        )
        # Half of them stay as they are.
        held.append(connection) if number % 2 else connection.close()
    assert client.get("t", 1)[0]["g"] == "a"
    for connection in held:
        connection.close()


def test_sizes_are_compared_before_anything_is_read() -> None:
    for ticket in (b"", b"sqst", b"xxxx\x01" + bytes(10), b"sqst\x02" + bytes(10), b"sqst\x01\xff\xff\xff\xff{}"):
        with pytest.raises(Malformed):
            unpacked(ticket)
    with pytest.raises(Malformed, match="may have"):
        unpacked(b"sqst\x01" + bytes(17 << 20))
    with pytest.raises(Malformed, match="100000 keys"):
        unpacked(packed(Ask(of="t"), pa.RecordBatch.from_pydict({"id": pa.nulls(100_001, pa.int8())})))
    header = b'{"of": "t", "do": "__import__"}'
    with pytest.raises(Malformed, match="unknown member"):
        unpacked(b"sqst\x01" + len(header).to_bytes(4, "little") + header)


def test_scans_that_nobody_reads_are_bounded(
    t_env: TableEnvironment, server: StateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlengine.server.state.requests._MOST_SCANS", 2)
    ask = packed(Ask(operation="scan", of="t"))
    held = [server.requests.answer(ask) for _ in range(2)]
    with pytest.raises(Overloaded):
        server.requests.answer(ask)
    assert sum(batch.num_rows for batch in held.pop().batches) == 3
    gc.collect()
    assert sum(batch.num_rows for batch in server.requests.answer(ask).batches) == 3
