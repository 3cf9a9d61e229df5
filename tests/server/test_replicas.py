"""Read replicas: what is shown is what the leader has after one epoch, and nothing can be changed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from runtime.core.errors import SqlEngineError
from runtime.core.wakeup import Wakeup
from sqlengine import TableEnvironment
from sqlengine.database.folder.changes import EpochChanges, bodies_of, changes_of
from sqlengine.database.replica_state import ReplicaState
from sqlengine.roles.authority import Authority
from sqlengine.roles.privileges import Target
from sqlengine.server.feeds import Feeds
from sqlengine.server.replication import people
from sqlengine.server.replication.following import Replica
from sqlengine.server.replication.sending import Cuts
from tests.server.conftest import started, stop
from tests.server.test_standby import free_port, until

_CASES = int(os.environ.get("REPLICA_CASES", "1"))
_TYPES = """CREATE TABLE all_types (a BOOLEAN, b TINYINT, c BIGINT, d DOUBLE, e DECIMAL(38, 18), f STRING, g CHAR(3), h BYTES,
 i DATE, j TIME, k TIMESTAMP(6), l TIMESTAMP_LTZ(3), m ARRAY<INT>, n MAP<STRING, INT>, o ROW<x INT, y STRING>)"""
_VALUES = """INSERT INTO all_types VALUES (TRUE, CAST(-128 AS TINYINT), 9223372036854775807, 1.5E300,
 CAST('12345678901234567890.123456789012345678' AS DECIMAL(38, 18)), 'ä€😀', 'abc', X'00FF', DATE '0001-01-01',
 TIME '23:59:59', TIMESTAMP '9999-12-31 23:59:59.999999', TO_TIMESTAMP_LTZ(-1, 3), ARRAY[1, NULL], MAP['k', 1],
 ROW(1, 'y'))"""


class Pair:
    """A leader and a replica in one process: `cut` brings the replica to where the leader is."""

    def __init__(self) -> None:
        self.leader = TableEnvironment.create()
        self.copy = TableEnvironment.create()
        self.replica = Replica(self.copy, "postgresql://leader")
        self.feeds = Feeds(self.leader.session.database)
        self.connect()

    def connect(self) -> None:
        """The replica begins anew, as after a lost connection."""
        self.cuts, self.first = Cuts(self.leader.session, self.feeds, Wakeup()), True

    def cut(self) -> None:
        _, changes = self.cuts.take()
        whole = EpochChanges()
        for body in bodies_of(changes):
            part = changes_of(pa.py_buffer(b"".join(body)), "a cut")
            whole.definitions.update(part.definitions)
            whole.tables += part.tables
        self.replica._apply(whole, first=self.first)
        self.first = False

    def rows(self, environment: TableEnvironment, name: str) -> list[str]:
        return sorted(map(str, environment.execute_sql(f"SELECT * FROM {name}").to_arrow().to_pylist()))

    def agrees(self, names: list[str]) -> None:
        for name in names:
            assert self.rows(self.copy, name) == self.rows(self.leader, name), name
        found = self.copy.session.catalogs.objects("default_catalog", "default_database")
        assert sorted(thing.path.name for thing in found) == sorted(names)


@pytest.mark.parametrize("seed", range(_CASES))
def test_a_replica_has_what_the_leader_has(seed: int) -> None:
    rng, pair, there = random.Random(seed), Pair(), set[str]()
    definitions = {
        "k": "CREATE TABLE k (id INT PRIMARY KEY NOT ENFORCED, x INT)",
        "b": "CREATE TABLE b (id INT, x INT)",
        "a": "CREATE TABLE a (id INT, x INT) WITH ('changelog-mode' = 'append')",
        "v": "CREATE MATERIALIZED VIEW v AS SELECT x % 3 AS g, COUNT(*) AS n FROM k GROUP BY x % 3",
        "p": "CREATE VIEW p AS SELECT id + x AS s FROM k",
    }

    def run(sql: str) -> None:
        pair.leader.execute_sql(sql).wait()

    run(definitions["k"])
    there.add("k")
    for _ in range(60):
        name = rng.choice("kkba")
        kind = rng.randrange(10)
        if name not in there or kind == 0:
            new = rng.choice("bavp")
            if new in there and rng.random() < 0.5:
                run(f"DROP {'MATERIALIZED VIEW' if new == 'v' else 'VIEW' if new == 'p' else 'TABLE'} {new}")
                there.discard(new)
            elif new not in there:
                run(definitions[new])
                there.add(new)
        elif kind < 6 or name == "a":
            rows = ", ".join(f"({rng.randrange(20)}, {rng.randrange(9)})" for _ in range(rng.randrange(1, 5)))
            run(f"INSERT INTO {name} VALUES {rows}")
        elif kind < 8:
            run(f"UPDATE {name} SET x = x + 1 WHERE id > {rng.randrange(20)}")
        else:
            run(f"DELETE FROM {name} WHERE id < {rng.randrange(8)}")
        if rng.random() < 0.1:
            pair.connect()
        if rng.random() < 0.6:
            pair.cut()
            pair.agrees(sorted(there))
    pair.leader.close()
    pair.copy.close()


def test_types_and_names_are_the_same_and_what_cannot_be_there_is_not() -> None:
    pair = Pair()
    for statement in (
        _TYPES,
        _VALUES,
        "INSERT INTO all_types VALUES (" + ", ".join(["NULL"] * 15) + ")",
        "CREATE DATABASE `an``other`",
        "CREATE TABLE `an``other`.`a b` (`c d` INT NOT NULL)",
        "INSERT INTO `an``other`.`a b` VALUES (1)",
        "CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')",
        "CREATE VIEW of_g AS SELECT n FROM g",
        "CREATE MATERIALIZED VIEW m AS SELECT e, m, o FROM all_types",
    ):
        pair.leader.execute_sql(statement).wait()
    pair.cut()
    for name in ("all_types", "`an``other`.`a b`", "m"):
        assert pair.rows(pair.copy, name) == pair.rows(pair.leader, name)
        copied, original = (e.execute_sql(f"SELECT * FROM {name}").schema for e in (pair.copy, pair.leader))
        assert copied == original
    names = {thing.path.name for thing in pair.copy.session.catalogs.objects("default_catalog", "default_database")}
    assert names == {"all_types", "m", "of_g"}
    with pytest.raises(SqlEngineError, match='unknown table "default_catalog.default_database.g"'):
        pair.copy.execute_sql("SELECT * FROM of_g")
    # A view that has failed is not there until it is made anew.
    pair.leader.execute_sql("CREATE TABLE t (n INT)")
    pair.leader.execute_sql("CREATE MATERIALIZED VIEW f AS SELECT 1 / n AS q FROM t")
    pair.cut()
    assert pair.rows(pair.copy, "f") == []
    pair.leader.execute_sql("INSERT INTO t VALUES (0)").wait()
    pair.cut()
    assert "f" not in {thing.path.name for thing in pair.copy.session.catalogs.all_objects()}
    pair.leader.close()
    pair.copy.close()


def test_roles_and_functions_are_those_of_the_leader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "there_too.py").write_text("def twice(n: int) -> int:\n    return 2 * n\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    pair = Pair()
    pair.copy.execute_sql("CREATE ROLE own LOGIN")  # As --init of the replica makes one.

    def texts(environment: TableEnvironment) -> dict[tuple[str, ...], str]:
        return dict(people.sent(environment.session.database))

    def cut(*statements: str) -> None:
        for statement in statements:
            pair.leader.execute_sql(statement).wait()
        pair.cut()
        places = [p for p in texts(pair.copy) if p[0] != "role" or p[1] not in ("own", "sqlengine")]
        there = [p for p in texts(pair.leader) if p != ("role", "sqlengine")]
        assert {p: texts(pair.copy)[p] for p in places} == {p: texts(pair.leader)[p] for p in there}

    cut(
        "CREATE TABLE t (n INT)",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE FUNCTION twice AS 'there_too.twice' LANGUAGE PYTHON",
        "CREATE VIEW v AS SELECT twice(n) AS m FROM t",
        "CREATE ROLE readers",
        "CREATE ROLE ann LOGIN PASSWORD 'of ann alone' CONNECTION LIMIT 3 ROW LIMIT 5",
        "GRANT readers TO ann",
        "GRANT SELECT ON TABLE t TO readers",
        "CREATE TOKEN reading FOR ann",
        "CREATE SECRET s AS 'zq9-kept-there'",
    )
    assert pair.rows(pair.copy, "v") == pair.rows(pair.leader, "v") == ["{'m': 2}", "{'m': 4}"]
    known = pair.copy.session.database.roles
    verifier = known.roles["ann"].verifier
    assert verifier is not None and verifier.accepts("of ann alone") and not known.secrets
    authority = Authority(known, "ann")
    table = Target("table", ("default_catalog", "default_database", "t"))
    assert authority.may("SELECT", table) and not authority.may("INSERT", table)
    cut("ALTER ROLE ann CONNECTION LIMIT 4", "GRANT INSERT ON TABLE t TO ann")
    assert authority.may("SELECT", table) and authority.may("INSERT", table)
    assert "reading" in known.tokens and known.roles["ann"].limits.connections == 4
    cut("REVOKE readers FROM ann", "DROP TOKEN reading")
    assert not authority.may("SELECT", table) and not known.tokens
    pair.connect()
    cut("DROP ROLE ann", "DROP VIEW v", "DROP FUNCTION twice")
    assert set(known.roles) == {"sqlengine", "own", "readers"}
    with pytest.raises(SqlEngineError):
        pair.copy.execute_sql("SELECT twice(n) FROM t")
    pair.leader.close()
    pair.copy.close()


def test_how_far_behind_it_is_needs_no_clocks_that_agree() -> None:
    now = 100.0
    state = ReplicaState("leader", lambda: now)
    assert state.rows() == [("leader", "starting", None, 0.0)]
    now = 101.0
    state.shows(1, 500_000)
    assert state.behind_seconds == 0
    now = 103.0
    assert state.behind_seconds == 2
    # It has taken a second longer than the fastest one.
    state.shows(2, 501_000)
    assert state.behind_seconds == 1
    state.is_connected = True
    assert state.rows() == [("leader", "following", 2, 1.0)]


@pytest.fixture
def replica_of() -> Iterator[Callable[[str], tuple[int, int]]]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(uri: str) -> tuple[int, int]:
        ports = free_port(), free_port()
        where = [f"--postgres=127.0.0.1:{ports[0]}", f"--web=127.0.0.1:{ports[1]}"]
        command = [sys.executable, "-m", "sqlengine", "serve", "--replica-of", uri, *where]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        return ports

    yield start
    for process in processes:
        process.terminate()
        assert process.wait(30) == 0


def connected(port: int) -> psycopg.Connection:
    found: list[psycopg.Connection] = []

    def connect() -> bool:
        try:
            found.append(psycopg.connect(f"host=127.0.0.1 port={port} user=sqlengine", autocommit=True))
        except psycopg.OperationalError:
            return False
        return True

    until(connect)
    return found[0]


def test_reads_are_never_torn_and_go_on_without_the_leader(
    tmp_path: Path, replica_of: Callable[[str], tuple[int, int]]
) -> None:
    place = str(tmp_path / "shop")
    process, host, port = started(place)
    writer = psycopg.connect(f"host={host} port={port} user=sqlengine", autocommit=True)
    for statement in (
        "CREATE TABLE here (id INT PRIMARY KEY NOT ENFORCED, amount INT)",
        "CREATE TABLE there (id INT PRIMARY KEY NOT ENFORCED, amount INT)",
        "INSERT INTO here VALUES (0, 500), (1, 500)",
        "INSERT INTO there VALUES (0, 500), (1, 500)",
        "CREATE MATERIALIZED VIEW total AS SELECT SUM(amount) AS s FROM here",
    ):
        writer.execute(statement)  # type: ignore[call-overload]
    ports = replica_of(f"postgresql://sqlengine@{host}:{port}")
    ended = threading.Event()

    def move() -> None:
        number = 0
        while not ended.wait(0.01):
            number += 1
            with writer.transaction():
                writer.execute("UPDATE here SET amount = amount - 1 WHERE id = %s", (number % 2,))
                writer.execute("UPDATE there SET amount = amount + 1 WHERE id = %s", (number % 2,))

    moving = threading.Thread(target=move)
    moving.start()
    reader = connected(ports[0])
    both = "SELECT h.s, t.s, v.s FROM (SELECT SUM(amount) AS s FROM here) h, (SELECT SUM(amount) AS s FROM there) t, total v"
    seen = set()
    for _ in range(12):
        ((first, second, kept),) = reader.execute(both).fetchall()
        assert first + second == 2000 and kept == first
        seen.add(first)
    ended.set()
    moving.join()
    assert len(seen) > 3
    # Nothing can be changed, and clients can tell.
    assert reader.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
    assert reader.info.parameter_status("in_hot_standby") == "on"
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"host=127.0.0.1 port={ports[0]} user=sqlengine target_session_attrs=read-write")
    for statement in ("INSERT INTO here VALUES (9, 9)", "CREATE TABLE x (n INT)", "DROP TABLE here", "CREATE ROLE ann"):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as refused:
            reader.execute(statement)  # type: ignore[call-overload]
        assert f"connect to the server that it follows, {host}:{port}" in str(refused.value)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), reader.cursor().copy("COPY here FROM STDIN") as copy:
        copy.write("1\t2\n")
    (status,) = reader.execute("SELECT leader, state, behind_seconds < 5 FROM system.replication").fetchall()
    assert status == (f"{host}:{port}", "following", True)
    with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/metrics") as answer:
        assert b"sqlengine_replica_behind_seconds " in answer.read()
    # Without the leader it answers as before, and goes on when that is there again.
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    until(lambda: reader.execute("SELECT state FROM system.replication").fetchone() == ("disconnected",))
    assert len(reader.execute(both).fetchall()) == 1
    process, host, _ = started(place, "--postgres", f"127.0.0.1:{port}")
    with psycopg.connect(f"host={host} port={port} user=sqlengine", autocommit=True) as writer:
        writer.execute("INSERT INTO here VALUES (7, 7)")
        expected = writer.execute("SELECT s FROM total").fetchone()
    until(lambda: reader.execute("SELECT s FROM total").fetchone() == expected)
    reader.close()
    assert stop(process) == 0
