"""Many sessions on one database: money moves between accounts of two tables, views and tables come and go, many rows are
written beside, statements are stopped. With every other seed each commit, and each view that is filled, works beside the
others, however few rows there are.

Whatever the threads do, each reader sees a whole number of transfers: the sum of all accounts never changes, in tables, in
views, and in what subscribers hear. In the end each account has what the acknowledged transfers have left there.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.database import filling, views
from tests.faults.stopping import StopAtLook

SEEDS = range(int(os.environ.get("FAULT_SEEDS", "20")) // 10)
SESSIONS, STATEMENTS, ACCOUNTS, MONEY = 50, 4, 6, 1000
TOTAL = 2 * ACCOUNTS * MONEY
Account = tuple[str, int]
_SUMS = (
    "SELECT SUM(v) AS total FROM (SELECT v FROM a UNION ALL SELECT v FROM b)",
    "SELECT total FROM whole",
    "SELECT SUM(v) AS total FROM halves",
    "SELECT total FROM renewed",
    f"SELECT {TOTAL} + total AS total FROM beside",
    f"SELECT total + {TOTAL} AS total FROM (SELECT SUM(v) AS total FROM c)",
)
_RENEWED = (
    _SUMS[0],
    "SELECT SUM(s) AS total FROM (SELECT k, SUM(v) AS s FROM (SELECT * FROM a UNION ALL SELECT * FROM b) GROUP BY k)",
    "SELECT a.s + b.s AS total FROM (SELECT SUM(v) AS s FROM a) AS a, (SELECT SUM(v) AS s FROM b) AS b",
)


class _Bank:
    """What the sessions do, and what they were told."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.moved: Counter[Account] = Counter()
        self.wrong: list[str] = []
        self._guard = threading.Lock()

    def acknowledged(self, source: Account, target: Account, amount: int) -> None:
        with self._guard:
            self.moved[source] -= amount
            self.moved[target] += amount

    def saw(self, what: str, total: object) -> None:
        if total != TOTAL:
            self.wrong.append(f"{what}: {total}")

    def run(self, number: int, session: TableEnvironment) -> None:
        choose = random.Random(f"{self.seed} {number}")
        for step in range(STATEMENTS):
            act: Callable[[TableEnvironment, random.Random], None] = choose.choices(
                (self._transfer, self._read, self._write, self._define, self._renew, self._copy), (12, 6, 3, 1, 1, 1)
            )[0]
            try:
                act(session, choose)
            except BaseException as error:
                self.wrong.append(f"session {number}, statement {step}: {error!r}")
                return

    def _transfer(self, session: TableEnvironment, choose: random.Random) -> None:
        (source, target), amount = (
            choose.sample([(t, k) for t in "ab" for k in range(ACCOUNTS)], 2),
            choose.randint(1, 9),
        )
        while True:
            session.execute_sql("BEGIN EPOCH")
            try:
                if choose.random() < 0.2:
                    with StopAtLook(choose.randint(1, 6)).governing():
                        self._move(session, source, target, amount)
                else:
                    self._move(session, source, target, amount)
                if choose.random() < 0.15:
                    session.execute_sql("ROLLBACK EPOCH")
                    return
                session.execute_sql("END EPOCH")
            except SqlEngineError as error:
                if error.code == "E1633":
                    # A statement was stopped: the epoch is as it was before it, and given up.
                    session.execute_sql("ROLLBACK EPOCH")
                elif error.code != "E1716":
                    raise
                continue
            self.acknowledged(source, target, amount)
            return

    def _move(self, session: TableEnvironment, source: Account, target: Account, amount: int) -> None:
        for (table, key), change in ((source, -amount), (target, amount)):
            session.execute_sql(f"UPDATE {table} SET v = v + ({change}) WHERE k = {key}")

    def _read(self, session: TableEnvironment, choose: random.Random) -> None:
        sql = choose.choice(_SUMS)
        result = session.execute_sql(sql)
        # Others go on between the statement and the moment when its rows are read.
        session.execute_sql("SELECT 1").to_arrow()
        self.saw(sql, result.to_arrow()["total"][0].as_py())

    def _write(self, session: TableEnvironment, choose: random.Random) -> None:
        """Rows that add up to nothing, in a table of which views know nothing that read the accounts."""
        values = ", ".join(f"({x}), ({-x})" for x in (choose.randint(1, 99) for _ in range(choose.choice((1, 50)))))
        session.execute_sql(f"INSERT INTO c VALUES {values}")

    def _renew(self, session: TableEnvironment, choose: random.Random) -> None:
        session.execute_sql(f"CREATE OR REPLACE MATERIALIZED VIEW renewed AS {choose.choice(_RENEWED)}")

    def _copy(self, session: TableEnvironment, choose: random.Random) -> None:
        name = f"copy{choose.randint(0, 2)}"
        session.execute_sql(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM a UNION ALL SELECT * FROM b")
        sql = f"SELECT SUM(v) AS total FROM {name}"
        self.saw(sql, session.execute_sql(sql).to_arrow()["total"][0].as_py())

    def _define(self, session: TableEnvironment, choose: random.Random) -> None:
        name = f"v{choose.randint(0, 3)}"
        try:
            session.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {_SUMS[0]}")
            self.saw(name, session.execute_sql(f"SELECT total FROM {name}").to_arrow()["total"][0].as_py())
            session.execute_sql(f"DROP MATERIALIZED VIEW {name}")
        except SqlEngineError as error:
            # Another session has made it, or dropped it before.
            if error.code not in ("E1401", "E1202"):
                raise


@contextmanager
def _heard(bank: _Bank, session: TableEnvironment, view: str) -> Iterator[None]:
    """What a subscriber hears of a view while a block runs: each step leaves a whole sum."""
    result = session.execute_sql(f"SUBSCRIBE TO {view}")
    held: Counter[tuple[object, ...]] = Counter()

    def hear(rows: list[object]) -> None:
        for row in rows:
            held[tuple(row)] += 1 if row.get_row_kind().value in ("+I", "+U") else -1  # type: ignore[attr-defined, arg-type]
        bank.saw(f"a step of {view}", sum(values[-1] * count for values, count in held.items()))  # type: ignore[operator, misc]

    listener = result.listen(hear)
    try:
        yield
    finally:
        listener.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_transfers_of_many_sessions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        for module in (filling, views):
            monkeypatch.setattr(module, "MOST_GATHERED", 0)
    bank = _Bank(seed)
    with TableEnvironment.create() as t_env:
        for table in "ab":
            t_env.execute_sql(f"CREATE TABLE {table} (k INT PRIMARY KEY NOT ENFORCED, v INT)")
            t_env.execute_sql(f"INSERT INTO {table} VALUES " + ", ".join(f"({k}, {MONEY})" for k in range(ACCOUNTS)))
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW whole AS {_SUMS[0]}")
        t_env.execute_sql(
            "CREATE MATERIALIZED VIEW halves AS SELECT 'a' AS t, SUM(v) AS v FROM a UNION ALL SELECT 'b', SUM(v) FROM b"
        )
        t_env.execute_sql("CREATE TABLE c (v INT)")
        t_env.execute_sql("INSERT INTO c VALUES (0)")
        t_env.execute_sql("CREATE MATERIALIZED VIEW beside AS SELECT SUM(v) AS total FROM c")
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW renewed AS {_RENEWED[0]}")
        sessions = [t_env.new_session() for _ in range(SESSIONS)]
        with (
            _heard(bank, t_env.new_session(), "whole"),
            _heard(bank, t_env.new_session(), "halves"),
            _heard(bank, t_env.new_session(), "renewed"),
        ):
            half = SESSIONS // 2
            threads = [
                threading.Thread(target=bank.run, args=(number, session))
                for number, session in enumerate(sessions[:half])
            ]
            for thread in threads:
                thread.start()
            asyncio.run(_together(bank, sessions[half:], half))
            for thread in threads:
                thread.join()
        assert not bank.wrong
        for table in "ab":
            rows = t_env.execute_sql(f"SELECT k, v FROM {table}").to_arrow().to_pylist()
            assert {(table, r["k"]): r["v"] - MONEY for r in rows} == {
                (table, k): bank.moved[table, k] for k in range(ACCOUNTS)
            }
        for sql in _SUMS:
            assert t_env.execute_sql(sql).to_arrow()["total"].to_pylist() == [TOTAL]
        for session in sessions:
            session.close()


async def _together(bank: _Bank, sessions: list[TableEnvironment], first: int) -> None:
    await asyncio.gather(
        *(asyncio.to_thread(bank.run, number, session) for number, session in enumerate(sessions, first))
    )
