"""Sequences give the numbers that PostgreSQL gives: the same statements with random clauses, refused where they are there.
A tenth of FUZZ_CASES is run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import psycopg

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.database.number_functions import numbers_of
from tests.servers.postgres import PostgresDatabase

CASES = int(os.environ.get("FUZZ_CASES", "0")) // 10 or 6


def _clauses(chance: random.Random, *, restart: bool) -> str:
    def number() -> int:
        return chance.choice([-7, -3, -1, 0, 1, 2, 3, 5, 9, 2147483647, 9223372036854775807])

    every = [
        f"AS {chance.choice(['smallint', 'integer', 'bigint'])}",
        f"INCREMENT {chance.choice(['', 'BY '])}{chance.choice([-3, -1, 1, 2, 4, 100, 2147483647])}",
        f"MINVALUE {number()}" if chance.random() < 0.7 else "NO MINVALUE",
        f"MAXVALUE {number()}" if chance.random() < 0.7 else "NO MAXVALUE",
        f"START {chance.choice(['', 'WITH '])}{number()}",
        chance.choice(["CYCLE", "NO CYCLE"]),
        *(["RESTART", f"RESTART WITH {number()}"] if restart else []),
    ]
    return " ".join(chance.sample(every, chance.randint(1 if restart else 0, 4)))


def _statement(chance: random.Random) -> str:
    match chance.randrange(8):
        case 0:
            return f"ALTER SEQUENCE s {_clauses(chance, restart=True)}"
        case 1:
            number = chance.choice([-4, -1, 0, 1, 2, 5, 7, 100, 2147483647, 9223372036854775807])
            return f"SELECT setval('s', {number}{chance.choice(['', ', true', ', false'])})"
        case 2:
            return "SELECT currval('s'), lastval()"
        case 3:
            return "SELECT nextval('s'), currval('s') FROM generate_series(1, 3)"
        case 4:
            return "INSERT INTO t (v) VALUES (1), (2)"
        case 5:
            return "SELECT id, v FROM t"
        case _:
            return f"SELECT nextval('s') FROM generate_series(1, {chance.randint(1, 4)})"


def _answer(run: Callable[[str], list[tuple[Any, ...]]], text: str) -> list[tuple[Any, ...]] | str:
    """The rows in an order, or that there are none."""
    try:
        return sorted(run(text))
    except (SqlEngineError, psycopg.Error):
        return "refused"


def test_numbers_are_those_of_postgres(postgres: PostgresDatabase) -> None:
    wrong: list[str] = []
    with postgres.connect() as oracle, TableEnvironment.create({"sqlengine.sql.dialect": "postgres"}) as env:

        def theirs(text: str) -> list[tuple[object, ...]]:
            found = oracle.execute(text)
            return found.fetchall() if found.description else []

        def ours(text: str) -> list[tuple[object, ...]]:
            result = env.execute_sql(text)
            return [tuple(row) for row in result.collect()] if result.is_query else []

        for seed in range(CASES):
            chance = random.Random(seed)
            for each in (theirs, ours):
                each("DROP TABLE IF EXISTS t")
                each("DROP SEQUENCE IF EXISTS s")
            oracle.execute("DISCARD SEQUENCES")
            numbers_of(env.session).forget()
            created = f"CREATE SEQUENCE s {_clauses(chance, restart=False)}"
            made = [_answer(each, created) for each in (ours, theirs)]
            if made[0] != made[1]:
                wrong.append(f"{created}: {made[0]}, there {made[1]}")
            if "refused" in made:
                continue
            done = [created]
            for text in [
                "CREATE TABLE t (id bigint DEFAULT nextval('s'), v int)",
                *(_statement(chance) for _ in range(10)),
            ]:
                done.append(text)
                found, wanted = (_answer(each, text) for each in (ours, theirs))
                if "refused" in (found, wanted) and found == wanted and ("nextval" in text or "INSERT" in text):
                    break  # There the numbers before the end are given all the same.
                if found != wanted:
                    wrong.append(f"{'; '.join(done)}: {found}, there {wanted}")
                    break
    assert not wrong, "\n".join(wrong)
