"""Functions of PostgreSQL against PostgreSQL itself, over values drawn at random. FUZZ_CASES is how many calls there are."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.server.postgres.sqlstate import sqlstate
from tests.servers.postgres import PostgresDatabase

CASES = int(os.environ.get("FUZZ_CASES", "70"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
TEXTS = ("''", "'abc'", "'a1b22c'", "'Hello World'", "'é x'", "'a,b,,c'", "'select'", r"E'a\\b'", "'it''s'", "'aaa'")
PATTERNS = ("'a'", "'b.'", "'([a-z])(\\d+)'", "'\\s*'", "'[^,]+'", "''", "'('", "'^h'", "'x?'")
FLAGS = ("''", "'i'", "'g'", "'gi'", "'q'")
DOCUMENTS = (
    '{"a":[1,2,{"b":3}],"c":"x"}', "[1,[2,3],null,true]", '{"a":{"b":{"c":1.5}},"d":[]}', '"text"', "7", "null", "[]",
    '[{"a":1,"b":"x"},{"a":2},{"b":null}]',
)  # fmt: skip
STEPS = (
    ".a",
    ".b",
    "[*]",
    "[0]",
    "[last]",
    "[1 to 2]",
    ".*",
    ".**",
    ".**{1}",
    ".size()",
    ".type()",
    ".abs()",
    ".double()",
)
CONDITIONS = (
    "@ > 1", "@.a == 1", "exists(@.b)", "!(@ == null)", "@.a > 1 && @.b == \"x\"", "@ starts with \"t\"", "(@ < 2) is unknown",
    '@ like_regex "^T" flag "i"', "@.a + 1 == 2 || @[*] > 2", "@ >= $x",
)  # fmt: skip
NO_PLACE = "22P02"
"""A step of a path into an array that is no number changes nothing here."""
SAME_CLASS = "22"
"""Errors of values have a class in common; which of its codes it is, the engine does not tell everywhere."""


def _path(rng: random.Random) -> str:
    parts = ["$", *(rng.choice(STEPS) for _ in range(rng.randint(0, 3)))]
    if rng.random() < 0.5:
        parts.insert(rng.randint(1, len(parts)), f" ? ({rng.choice(CONDITIONS)})")
    text = "".join(parts)
    if rng.random() < 0.2:
        text = f"{text} {rng.choice(('+ 1', '/ 3', '* 2', '> 1', '== $x', '% 2'))}"
    return ("strict " if rng.random() < 0.4 else "") + text


def _of_paths(rng: random.Random) -> str:
    name = rng.choice(("jsonb_path_query_array", "jsonb_path_exists", "jsonb_path_query_first", "jsonb_path_match"))
    silent = ", true" if rng.random() < 0.4 else ""
    return f"""{name}('{rng.choice(DOCUMENTS)}', '{_path(rng)}', '{{"x": 2}}'{silent})"""


def _of_patterns(rng: random.Random) -> str:
    text, pattern, flags = rng.choice(TEXTS), rng.choice(PATTERNS), rng.choice(FLAGS)
    start, number = rng.randint(0, 4), rng.randint(0, 3)
    return rng.choice((
        f"regexp_match({text}, {pattern}, {flags})", f"regexp_split_to_array({text}, {pattern})",
        f"ARRAY(SELECT (regexp_matches({text}, {pattern}, {flags}))[1])", f"regexp_count({text}, {pattern}, {start})",
        f"regexp_instr({text}, {pattern}, {start}, {number})", f"regexp_substr({text}, {pattern}, {start}, {number})",
        f"regexp_replace({text}, {pattern}, '<\\&>', {flags})", f"regexp_like({text}, {pattern}, {flags})",
        f"regexp_replace({text}, {pattern}, '\\1-', {start}, {number})",
    ))  # fmt: skip


def _of_texts(rng: random.Random) -> str:
    text, other = rng.choice(TEXTS), rng.choice(TEXTS)
    form = rng.choice(("'base64'", "'hex'", "'escape'", "'none'"))
    return rng.choice((
        f"string_to_array({text}, {rng.choice((other, 'NULL', repr(',')))}, 'b')", f"quote_ident({text})",
        f"quote_literal({text})", f"format('%I|%L|%-9s|%2$s', 'A b', {text}, {other})", f"format({text}, {other})",
        f"encode(convert_to({text}, 'UTF8'), {form})", f"encode(decode({other}, {form}), 'hex')", f"encode(sha256({text}), 'hex')",
        f"to_hex({rng.randint(-9, 300)})", f"parse_ident({text})", f"octet_length({text})", f"{text} ^@ {other}",
    ))  # fmt: skip


def _of_numbers(rng: random.Random) -> str:
    angle = rng.choice((0, 30, 45, 60, 90, -30, 135, 270, 361, 12.5))
    ratio = rng.choice((-1, -0.5, 0, 0.5, 1, 0.3, 2))
    return rng.choice((
        f"sind({angle})", f"cosd({angle})", f"atand({ratio})", f"asind({ratio})", f"acosd({ratio})",
        f"width_bucket({ratio}, ARRAY[-0.5, 0.2, 1])", f"array_fill({ratio}, ARRAY[{rng.randint(0, 3)}])",
        f"width_bucket({ratio}, 1, 0, 4)", f"bit_count('\\x0{rng.randint(0, 9)}ff'::bytea)",
    ))  # fmt: skip


def _of_values(rng: random.Random) -> str:
    document = rng.choice(DOCUMENTS)
    path = rng.choice(("'{a}'", "'{a,0}'", "'{0}'", "'{-1}'", "'{z}'", "'{a,b}'"))
    return rng.choice((
        f"jsonb_insert('{document}', {path}, '9', {rng.choice(('true', 'false'))})", f"jsonb_pretty('{document}')",
        f"jsonb_set('{document}', {path}, '9')", f"'{document}'::jsonb #- {path}",
    ))  # fmt: skip


FAMILIES: tuple[Callable[[random.Random], str], ...] = (
    _of_paths,
    _of_paths,
    _of_patterns,
    _of_texts,
    _of_numbers,
    _of_values,
)


def _plain(value: Any, *, is_json: bool) -> Any:
    if is_json:
        return value if value is None else ("json", json.loads(value, parse_int=float, parse_float=float))
    match value:
        case bool() | str() | None:
            return value
        case float() | int() | Decimal():
            return float(f"{float(value):.13g}")
        case list() | tuple():
            return [_plain(v, is_json=False) for v in value]
        case _:
            return value


@pytest.fixture
def ours() -> TableEnvironment:
    return TableEnvironment.create({"sqlengine.sql.dialect": "postgres"})


def test_values_and_errors_are_those_of_postgres(postgres: PostgresDatabase, ours: TableEnvironment) -> None:
    rng = random.Random(SEED)
    refused = 0
    with postgres.connect() as theirs:
        psycopg.types.json.set_json_loads(lambda text: text, theirs)
        for _ in range(CASES):
            call = rng.choice(FAMILIES)(rng)
            wanted, is_json = _asked(lambda call=call: _of_postgres(theirs, call))
            found, _ = _asked(lambda call=call, is_json=is_json: (_of_ours(ours, call, is_json=bool(is_json)), None))
            refused += isinstance(wanted, Failed)
            if wanted == Failed([NO_PLACE]):
                continue
            if isinstance(wanted, Failed) and isinstance(found, Failed) and wanted.state[:2] == SAME_CLASS:
                assert found.state[:2] == SAME_CLASS, call
            else:
                assert found == wanted, call
    assert refused > CASES / 20


class Failed(tuple):
    """What an error is told by."""

    @property
    def state(self) -> str:
        return self[0]


def _asked(ask: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
    try:
        return ask()
    except psycopg.Error as error:
        return Failed([error.sqlstate]), None
    except SqlEngineError as error:
        return Failed([sqlstate(error)]), None


def _of_postgres(connection: psycopg.Connection, call: str) -> tuple[Any, bool]:
    cursor = connection.execute(f"SELECT {call}")  # type: ignore[call-overload]
    assert cursor.description is not None
    is_json = cursor.description[0].type_code == 3802
    (row,) = cursor.fetchall()
    return _plain(row[0], is_json=is_json), is_json


def _of_ours(environment: TableEnvironment, call: str, *, is_json: bool) -> Any:
    (row,) = environment.execute_sql(f"SELECT {call}").collect()
    return _plain(row[0], is_json=is_json)
