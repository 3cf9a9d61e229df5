"""Numbers and texts that become narrower ones, in casts and in INSERT, against PostgreSQL. FUZZ_CASES is how many there are."""

from __future__ import annotations

import os
import random
from decimal import Decimal

import numpy as np
import psycopg
import pytest

from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.server.postgres.sqlstate import sqlstate
from tests.servers.postgres import PostgresDatabase

CASES = int(os.environ.get("FUZZ_CASES", "150"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
EDGES = (0, 1, 9, 99, 999, 32767, 32768, 2**31 - 1, 2**31, 2**63 - 1, 99999)
NUMBERS = ("smallint", "int", "bigint", "real", "double precision")


def _type(rng: random.Random) -> str:
    if rng.random() < 0.6:
        return rng.choice(NUMBERS)
    digits = rng.randint(1, 20)
    return f"numeric({digits}, {rng.randint(0, digits)})"


def _value(rng: random.Random) -> str:
    whole = rng.choice(EDGES) * rng.choice((1, -1)) + rng.choice((0, 0, 1, -1))
    behind = rng.choice(("", "", ".5", ".4", ".49", ".995", ".25", ".05"))
    return f"'{whole}{behind}'::numeric(38, 5)" if behind else f"'{whole}'::numeric(38, 5)"


def _text(rng: random.Random) -> tuple[str, str]:
    length = rng.randint(0, 5)
    text = "".join(rng.choice("ab é ") for _ in range(length)) + " " * rng.choice((0, 0, 2))
    return f"'{text}'::text", rng.choice((f"varchar({rng.randint(1, 4)})", f"char({rng.randint(1, 4)})"))


def _shown(value: object, narrow: str) -> object:
    """`narrow`: its type. A real comes as the double precision that is nearest, or as that of its text."""
    if narrow == "real":
        return float(np.float32(value))  # type: ignore[arg-type]
    return Decimal(str(value)) if isinstance(value, int | float) else value


@pytest.fixture
def ours() -> TableEnvironment:
    environment = TableEnvironment.create()
    environment.execute_sql("SET 'sqlengine.sql.dialect' = 'postgres'")
    return environment


def test_values_and_errors_are_those_of_postgres(postgres: PostgresDatabase, ours: TableEnvironment) -> None:
    rng = random.Random(SEED)
    refused = 0
    with postgres.connect() as theirs:
        for number in range(CASES):
            if rng.random() < 0.2:
                value, narrow = _text(rng)
            else:
                value, narrow = _value(rng), _type(rng)
                if rng.random() < 0.5:
                    value = f"({value})::double precision"
            statements = [f"SELECT ({value})::{narrow}"]
            if rng.random() < 0.5 or "text" in value:
                table = f"t{number}"
                statements = [
                    f"CREATE TABLE {table} (v {narrow})",
                    f"INSERT INTO {table} SELECT {value}",
                    f"SELECT v FROM {table}",
                ]
            wanted, code = [], None
            try:
                for statement in statements:
                    cursor = theirs.execute(statement)  # type: ignore[call-overload]
                wanted = [_shown(row[0], narrow) for row in cursor.fetchall()]
            except psycopg.Error as error:
                code = error.sqlstate
            found, ours_code = [], None
            try:
                for statement in statements:
                    result = ours.execute_sql(statement)
                    if not statement.startswith("SELECT"):
                        result.wait()
                found = [_shown(row[0], narrow) for row in result.collect()]
            except SqlEngineError as error:
                ours_code = sqlstate(error)
            refused += code is not None
            assert (found, ours_code) == (wanted, code), statements
    assert refused > CASES / 10
