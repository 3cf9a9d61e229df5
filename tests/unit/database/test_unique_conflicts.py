"""INSERT .. ON CONFLICT by the columns of a UNIQUE, against PostgreSQL. FUZZ_CASES is how many runs there are."""

from __future__ import annotations

import os
import random

import psycopg

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from tests.servers.postgres import PostgresDatabase

CASES = max(6, int(os.environ.get("FUZZ_CASES", "0")) // 10)
ACTIONS = (
    "DO NOTHING",
    "(u) DO NOTHING",
    "(w) DO NOTHING",
    "ON CONSTRAINT t_u_key DO NOTHING",
    "(u) DO UPDATE SET v = EXCLUDED.v",
    "(u) DO UPDATE SET v = t.v + EXCLUDED.v",
    "ON CONSTRAINT t_w_key DO UPDATE SET v = t.v + 1 WHERE t.v < 3",
)
STATES = {"E2015": "23505", "E2018": "21000", "E2025": "23505"}


def _statement(choose: random.Random) -> str:
    match choose.randint(0, 5):
        case 0:
            return f"DELETE FROM t WHERE u = {choose.randint(0, 3)}"
        case 1:
            return f"UPDATE t SET v = v + 1 WHERE w = {choose.randint(0, 3)}"
        case _:
            cells = ["NULL", "0", "1", "2", "3", "4"]
            rows = [
                f"(CAST({choose.choice(cells)} AS INT), CAST({choose.choice(cells)} AS INT), {choose.randint(0, 4)})"
                for _ in range(choose.randint(1, 4))
            ]
            return f"INSERT INTO t (u, w, v) VALUES {', '.join(rows)} ON CONFLICT {choose.choice(ACTIONS)}"


def _carried(run: object, text: str) -> str:
    """The SQLSTATE of what is wrong; "" for nothing."""
    try:
        run(text)  # type: ignore[operator]
    except psycopg.Error as error:
        return error.sqlstate or ""
    except SqlEngineError as error:
        return STATES[error.code]
    return ""


def test_rows_are_those_of_postgresql(postgres: PostgresDatabase) -> None:
    choose = random.Random(CASES)
    with postgres.connect() as connection:
        for case in range(CASES):
            t_env = TableEnvironment.create()
            key = "id SERIAL PRIMARY KEY, " if case % 2 else ""
            for run in (connection.execute, t_env.execute_sql):
                run(f"CREATE TABLE t ({key}u INT UNIQUE, w INT UNIQUE, v INT)")
            is_open = False
            for _ in range(14):
                text = _statement(choose)
                if choose.random() < 0.2:
                    is_open, text = not is_open, "COMMIT" if is_open else "BEGIN"
                wanted = _carried(connection.execute, text)
                # Of several things that are wrong PostgreSQL tells the one of the first row.
                assert bool(_carried(t_env.execute_sql, text)) == bool(wanted), text
                if wanted and is_open:
                    is_open = False
                    for run in (connection.execute, t_env.execute_sql):
                        run("ROLLBACK")
                rows = [sorted(map(repr, map(tuple, run("SELECT u, w, v FROM t"))))
                        for run in (connection.execute, t_env.execute_sql)]  # fmt: skip
                assert rows[0] == rows[1], text
            for run in (connection.execute, t_env.execute_sql):
                if is_open:
                    run("COMMIT")
                run("DROP TABLE t")
            t_env.close()
