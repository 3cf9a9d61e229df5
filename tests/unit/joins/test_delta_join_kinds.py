"""Views over outer, SEMI and ANTI joins and chains of joins of tables that keep nothing have DuckDB's answers, wherever epochs
are cut: under random inserts, updates and deletes of all tables in one epoch, over tables with and without a key, and over
other views. DELTA_JOIN_CASES is how many databases there are."""

from __future__ import annotations

import os
import random

import duckdb
import pytest

from sqlengine import SqlEngineError, TableEnvironment

CASES = int(os.environ.get("DELTA_JOIN_CASES", "1"))

TABLES = {
    "a": "id INT PRIMARY KEY NOT ENFORCED, k INT, m INT",
    "b": "k INT PRIMARY KEY NOT ENFORCED, n STRING, j INT",
    "c": "j INT, z INT",
    "d": "k INT, w INT",
}
QUERIES = {
    "left": "SELECT a.id, b.n FROM a LEFT JOIN b ON a.k = b.k",
    "left_bag": "SELECT c.j, c.z, d.w FROM c LEFT JOIN d ON c.j = d.k",
    "right": "SELECT a.id, c.z FROM c RIGHT JOIN a ON a.m = c.j",
    "full": "SELECT c.z, d.w, d.k FROM c FULL JOIN d ON c.j = d.k",
    "left_filtered": "SELECT a.id, c.z FROM a LEFT JOIN (SELECT * FROM c WHERE z > 2) AS c ON a.k = c.j",
    "null_safe": "SELECT c.z, d.w FROM c LEFT JOIN d ON c.j IS NOT DISTINCT FROM d.k",
    "semi": "SELECT a.id, a.m FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.j = a.k AND c.z > 1)",
    "semi_bag": "SELECT c.j, c.z FROM c WHERE c.z IN (SELECT k FROM d)",
    "anti": "SELECT c.j, c.z FROM c WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = c.j)",
    "chain": "SELECT a.id, b.n, c.z FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j",
    "chain_of_four": "SELECT a.id, c.z, d.w FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j JOIN d ON c.z = d.k",
    "one_key": "SELECT a.id, b.n, d.w FROM a JOIN b ON a.k = b.k LEFT JOIN d ON a.k = d.k",
    "conditional": "SELECT a.id, c.z, d.w FROM a JOIN c ON a.k = c.j AND a.m < c.z JOIN d ON d.k = a.m AND d.w <> c.z",
    "filtered": "SELECT a.id, c.z FROM a LEFT JOIN b ON a.k = b.k JOIN c ON a.m = c.j WHERE b.n IS NULL OR c.z < b.j",
    "left_left": "SELECT a.id, b.n, c.z FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j",
    "bushy": "SELECT a.id, b.n, c.z FROM a LEFT JOIN (b JOIN c ON b.j = c.j) ON a.k = b.k",
    "two_bushes": "SELECT a.id, c.z, x.w FROM (a JOIN c ON a.k = c.j) "
    "JOIN (SELECT d.k, d.w, b.j FROM d LEFT JOIN b ON d.k = b.k) AS x ON x.k = a.m",
    "both_sides": "SELECT a.id, b.n, c.z FROM a LEFT JOIN b ON a.k = b.k JOIN c ON a.m = c.j AND b.j = c.z",
    "full_then": "SELECT t.z, t.w, a.id FROM (SELECT c.j, c.z, d.k, d.w FROM c FULL JOIN d ON c.j = d.k) AS t LEFT JOIN a ON t.w = a.m",
    "anti_of_chain": "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM c JOIN b ON c.j = b.j WHERE b.k = a.k)",
    "semi_then": "SELECT s.id, c.z FROM (SELECT * FROM a WHERE EXISTS (SELECT 1 FROM d WHERE d.k = a.k)) AS s JOIN c ON s.m = c.j",
    "anti_then": "SELECT s.z, d.w FROM (SELECT * FROM c WHERE c.j NOT IN (SELECT k FROM b)) AS s LEFT JOIN d ON s.z = d.k",
    "itself": "SELECT c.z, e.z AS y, f.z AS x FROM c JOIN c AS e ON c.z = e.j LEFT JOIN c AS f ON e.z = f.j",
    "over_views": "SELECT l.id, l.n, r.z FROM left_v AS l LEFT JOIN anti_v AS r ON l.id = r.z",
}
NOT_FORCED = {"anti_then"}
"""NOT IN asks besides whether there are NULLs, by joins without a key."""


def value(chance: random.Random) -> str:
    return "NULL" if chance.random() < 0.15 else str(chance.randrange(5))


def statement(chance: random.Random) -> str:
    """Of any table, for both."""
    rows = range(chance.randrange(1, 4))
    kind, table = chance.choice("iiiud"), chance.choice("abccdd")
    if kind == "i":
        match table:
            case "a":
                ids = chance.sample(range(12), len(rows))
                made = [f"({n}, {value(chance)}, {value(chance)})" for n in ids]
            case "b":
                ids = chance.sample(range(5), len(rows))
                made = [f"({n}, 'n{chance.randrange(3)}', {value(chance)})" for n in ids]
            case _:
                made = [f"({value(chance)}, {value(chance)})" for _ in rows]
        return f"INSERT INTO {table} VALUES {', '.join(made)}"
    changed, by = {"a": ("k", "id"), "b": ("j", "k"), "c": ("z", "j"), "d": ("k", "w")}[table]
    if kind == "u":
        return f"UPDATE {table} SET {changed} = {value(chance)} WHERE {by} = {chance.randrange(5)}"
    return f"DELETE FROM {table} WHERE {by} = {chance.randrange(8)}"


def create(env: TableEnvironment, name: str) -> None:
    env.execute_sql(f"SET 'table.optimizer.delta-join.strategy' = '{'AUTO' if name in NOT_FORCED else 'FORCE'}'")
    env.execute_sql(f"CREATE MATERIALIZED VIEW {name}_v AS {QUERIES[name]}")


def answers(env: TableEnvironment, name: str) -> list[str]:
    return sorted(map(repr, (tuple(r) for r in env.execute_sql(f"SELECT * FROM {name}_v").collect())))


@pytest.mark.parametrize("seed", range(CASES))
def test_answers_are_those_of_duckdb(seed: int) -> None:
    chance = random.Random(seed)
    with TableEnvironment.create() as env, duckdb.connect() as other:
        for name, columns in TABLES.items():
            env.execute_sql(f"CREATE TABLE {name} ({columns})")
            other.execute(f"CREATE TABLE {name} ({columns.replace('NOT ENFORCED', '')})")
        waiting = list(QUERIES)
        made: list[str] = []
        for _ in range(12):
            while waiting and chance.random() < 0.85:
                create(env, waiting[0])
                made.append(waiting.pop(0))
            env.execute_sql("BEGIN EPOCH")
            for _ in range(chance.choice((1, 1, 2, 6))):
                text = statement(chance)
                env.execute_sql(text)
                other.execute(text.replace("INSERT INTO", "INSERT OR REPLACE INTO") if text[12] in "ab" else text)
            env.execute_sql("END EPOCH")
            for name in made if chance.random() < 0.4 else ():
                wanted = (
                    QUERIES[name].replace("left_v", f"({QUERIES['left']})").replace("anti_v", f"({QUERIES['anti']})")
                )
                assert answers(env, name) == sorted(map(repr, other.sql(wanted).fetchall())), name


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT a.id FROM a LEFT JOIN c ON a.k = c.j AND a.m < c.z", "it is a LEFT join with a condition beside ="),
        ("SELECT a.id FROM a LEFT JOIN c ON a.k < c.j", "it is a LEFT join with a condition beside ="),
        ("SELECT c.z FROM a LEFT JOIN b ON a.k = b.k JOIN c ON b.j IS NOT DISTINCT FROM c.j", "would match the NULLs"),
    ],
)
def test_why_a_join_keeps_rows(query: str, reason: str) -> None:
    with TableEnvironment.create({"table.optimizer.delta-join.strategy": "FORCE"}) as env:
        for name, columns in TABLES.items():
            env.execute_sql(f"CREATE TABLE {name} ({columns})")
        with pytest.raises(SqlEngineError, match=f"E1644.*{reason}"):
            env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_a_key_of_many_rows_is_given_in_pieces() -> None:
    with TableEnvironment.create({"sqlengine.batch.max-rows": "7"}) as env:
        for name, columns in TABLES.items():
            env.execute_sql(f"CREATE TABLE {name} ({columns})")
        for name in ("left_bag", "full", "chain_of_four", "anti"):
            create(env, name)
        env.execute_sql("INSERT INTO c SELECT 1, id FROM (VALUES 1, 2, 3, 4, 5, 6, 7, 8, 9) AS t (id)")
        for text, rows in (("INSERT INTO d VALUES (1, 1), (1, 2), (2, 3)", 18), ("DELETE FROM d WHERE k = 1", 9)):
            env.execute_sql(text)
            assert len(answers(env, "left_bag")) == rows and len(answers(env, "full")) == rows + 1
            assert len(answers(env, "anti")) == (0 if rows == 18 else 9)
