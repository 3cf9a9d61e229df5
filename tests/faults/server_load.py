"""Clients of a server that change what it has, and know what they were told."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

import psycopg

__all__ = ["DEFINITIONS", "Client", "clients"]

_COPIED = 50
"""Rows of a COPY."""
_KEYS = 40
_ACCOUNTS = 6
_MONEY = 1000

DEFINITIONS = (
    "CREATE TABLE t (client INT, n INT)",
    "CREATE TABLE kept (k INT PRIMARY KEY NOT ENFORCED, version INT)",
    "CREATE TABLE copied (batch INT, n INT)",
    "CREATE TABLE here (k INT PRIMARY KEY NOT ENFORCED, v INT)",
    "CREATE TABLE there (k INT PRIMARY KEY NOT ENFORCED, v INT)",
    "CREATE TABLE moves (n INT PRIMARY KEY NOT ENFORCED, k INT)",
    *(f"INSERT INTO {table} VALUES " + ", ".join(f"({k}, {_MONEY})" for k in range(_ACCOUNTS)) for table in ("here", "there")),
    "CREATE MATERIALIZED VIEW by_client AS SELECT client, COUNT(*) AS c, SUM(n) AS s FROM t GROUP BY client",
    "CREATE MATERIALIZED VIEW money AS SELECT h.k, h.v + t.v AS v, m.c FROM here h JOIN there t ON h.k = t.k "
    "LEFT JOIN (SELECT k, COUNT(*) AS c FROM moves GROUP BY k) m ON m.k = h.k",
    "CREATE MATERIALIZED VIEW whole AS SELECT batch, COUNT(*) AS c FROM copied GROUP BY batch",
)  # fmt: skip
Connection = psycopg.Connection[tuple[object, ...]]


class Client(ABC):
    """One at a time: what it was told is done, and what it had asked for when the connection ended, of which nobody knows.

    Args:
        told: called behind each thing that was acknowledged.
    """

    def __init__(self, seed: int, told: Callable[[], object]) -> None:
        self.choose = random.Random(f"{type(self).__name__} {seed}")
        self.number = 0
        self.failure: BaseException | None = None
        self._told = told
        self._thread = threading.Thread()

    def start(self, conninfo: str) -> None:
        """Work until the connection ends."""
        self._thread = threading.Thread(target=self._run, args=(conninfo,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the connection. Raises what was none."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self, conninfo: str) -> None:
        try:
            with psycopg.connect(conninfo, autocommit=True) as connection:
                while True:
                    self.number += 1
                    self.step(connection)
                    self._told()
        except psycopg.OperationalError:
            pass
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def step(self, connection: Connection) -> None:
        """Change something."""

    @abstractmethod
    def check(self, connection: Connection) -> None:
        """Compare what is there with what was told. It may be asked again: what was not known is known then."""


class Inserter(Client):
    """Rows one by one, of which every third is deleted."""

    def __init__(self, seed: int, told: Callable[[], object], name: int) -> None:
        super().__init__(seed * 100 + name, told)
        self.name = name
        self.there: set[int] = set()
        self.unknown: set[int] = set()

    def step(self, connection: Connection) -> None:
        gone = self.choose.choice(sorted(self.there)) if self.there and self.number % 3 == 0 else None
        changed = self.number if gone is None else gone
        self.unknown.add(changed)
        statement = "INSERT INTO t VALUES (%s, %s)" if gone is None else "DELETE FROM t WHERE client = %s AND n = %s"
        connection.execute(statement, (self.name, changed))
        self.unknown.discard(changed)
        self.there ^= {changed}

    def check(self, connection: Connection) -> None:
        rows = connection.execute("SELECT n FROM t WHERE client = %s", (self.name,)).fetchall()
        found = {int(str(n)) for (n,) in rows}
        assert len(found) == len(rows), "a row is there twice"
        assert found ^ self.there <= self.unknown, (found ^ self.there, self.unknown)
        self.there, self.unknown = found, set()
        kept = connection.execute("SELECT c, s FROM by_client WHERE client = %s", (self.name,)).fetchall()
        assert kept == ([(len(found), sum(found))] if found else [])


class Keeper(Client):
    """Newer rows of the same keys."""

    def __init__(self, seed: int, told: Callable[[], object]) -> None:
        super().__init__(seed, told)
        self.versions: dict[int, int] = {}
        self.tried: tuple[int, int] | None = None

    def step(self, connection: Connection) -> None:
        self.tried = key, version = self.choose.randrange(_KEYS), self.number
        connection.execute("INSERT INTO kept VALUES (%s, %s)", (key, version))
        self.versions[key] = version
        self.tried = None

    def check(self, connection: Connection) -> None:
        found = {int(str(k)): int(str(v)) for k, v in connection.execute("SELECT k, version FROM kept").fetchall()}
        other = {item for item in found.items() if self.versions.get(item[0]) != item[1]}
        assert other <= {self.tried}, (other, self.tried)
        assert found.keys() >= self.versions.keys()
        self.versions, self.tried = found, None


class Copier(Client):
    """Many rows at once: all or none."""

    def __init__(self, seed: int, told: Callable[[], object]) -> None:
        super().__init__(seed, told)
        self.batches: set[int] = set()
        self.unknown: set[int] = set()

    def step(self, connection: Connection) -> None:
        self.unknown.add(self.number)
        with connection.cursor().copy("COPY copied FROM STDIN") as copy:
            for n in range(_COPIED):
                copy.write_row((self.number, n))
        self.unknown.discard(self.number)
        self.batches.add(self.number)

    def check(self, connection: Connection) -> None:
        counted = "SELECT batch, COUNT(*), COUNT(DISTINCT n) FROM copied GROUP BY batch"
        rows = connection.execute(counted).fetchall()
        assert all(row[1:] == (_COPIED, _COPIED) for row in rows), rows
        found = {int(str(batch)) for batch, *_ in rows}
        assert self.batches <= found <= self.batches | self.unknown, (self.batches ^ found, self.unknown)
        kept = connection.execute("SELECT batch, c FROM whole").fetchall()
        assert sorted(kept) == sorted((batch, _COPIED) for batch in found)  # type: ignore[type-var]
        self.batches, self.unknown = found, set()


class Mover(Client):
    """Transactions over three tables, some of them rolled back."""

    def __init__(self, seed: int, told: Callable[[], object]) -> None:
        super().__init__(seed, told)
        self.moves: set[int] = set()
        self.unknown: set[int] = set()

    def step(self, connection: Connection) -> None:
        key, number = self.choose.randrange(_ACCOUNTS), self.number
        rolled_back = self.choose.random() < 0.2
        if not rolled_back:
            self.unknown.add(number)
        with connection.transaction(force_rollback=rolled_back):
            connection.execute("UPDATE here SET v = v - 1 WHERE k = %s", (key,))
            connection.execute("UPDATE there SET v = v + 1 WHERE k = %s", (key,))
            connection.execute("INSERT INTO moves VALUES (%s, %s)", (number, key))
        if not rolled_back:
            self.unknown.discard(number)
            self.moves.add(number)

    def check(self, connection: Connection) -> None:
        rows = connection.execute("SELECT n, k FROM moves").fetchall()
        found = {int(str(n)) for n, _ in rows}
        assert self.moves <= found <= self.moves | self.unknown, (self.moves ^ found, self.unknown)
        self.moves, self.unknown = found, set()
        counts = {key: sum(k == key for _, k in rows) for key in range(_ACCOUNTS)}
        for table, sign in (("here", -1), ("there", 1)):
            held = dict(connection.execute(f"SELECT k, v FROM {table}").fetchall())  # type: ignore[call-overload, arg-type]
            assert held == {key: _MONEY + sign * count for key, count in counts.items()}, table
        kept = sorted(connection.execute("SELECT k, v, c FROM money").fetchall())  # type: ignore[type-var]
        assert kept == [(key, 2 * _MONEY, count or None) for key, count in counts.items()]


class Definer(Client):
    """Tables with views that come and go."""

    def __init__(self, seed: int, told: Callable[[], object]) -> None:
        super().__init__(seed, told)
        self.there: set[str] = set()
        self.unknown: set[str] = set()

    def step(self, connection: Connection) -> None:
        name = f"made{self.number % 5}"
        self.unknown.add(name)
        if name in self.there:
            connection.execute(f"DROP MATERIALIZED VIEW {name}")  # type: ignore[call-overload]
        else:
            connection.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT client, MAX(n) AS m FROM t GROUP BY client")  # type: ignore[call-overload]
        self.unknown.discard(name)
        self.there ^= {name}

    def check(self, connection: Connection) -> None:
        listed = "SELECT matviewname FROM pg_matviews WHERE matviewname LIKE 'made%'"
        found = {str(name) for (name,) in connection.execute(listed).fetchall()}
        assert found ^ self.there <= self.unknown, (found ^ self.there, self.unknown)
        self.there, self.unknown = found, set()
        expected = sorted(connection.execute("SELECT client, MAX(n) FROM t GROUP BY client").fetchall())  # type: ignore[type-var]
        for name in found:
            assert sorted(connection.execute(f"SELECT client, m FROM {name}").fetchall()) == expected  # type: ignore[call-overload, type-var]


def clients(seed: int, told: Callable[[], object]) -> list[Client]:
    """All that work at once."""
    return [*(Inserter(seed, told, name) for name in range(3)), Keeper(seed, told), Copier(seed, told), Mover(seed, told),
            Definer(seed, told)]  # fmt: skip
