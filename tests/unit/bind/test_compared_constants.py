"""Long chains of `x = 1 OR x = 2 ..` and `x <> 1 AND x <> 2 ..` are read as one token, and mean what they say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlglot import exp

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.parse.constant_rows import ComparedConstants
from sqlengine.parse.statement_nodes import QueryStatement
from sqlengine.parse.statements import parse_statement

WHOLE = [str(n) for n in range(2, 40)]
TEXTS = [*(f"'n{n}'" for n in range(2, 40)), "'it''s'", "'n3   '", "'a = 1 OR a = 2'"]
CHAINS = [
    *((column, WHOLE) for column in ("a", "t.a", "big", "dbl", "dec")),
    *((column, [f"{n}.5" for n in WHOLE] + ["3"]) for column in ("a", "dbl", "dec")),
    ("big", [*WHOLE, "5000000000", "-3"]),
    *((column, TEXTS) for column in ("s", "c")),
]
CONTEXTS = [
    "{}",
    "dbl BETWEEN 1 AND 100 AND ({})",
    "NOT a = 3 AND ({})",
    "s = 'n50' OR {} OR a = 7",
    "({}) AND s = 'n3'",
    "s > 'a' AND {} AND a = 3",
    "CASE WHEN {} THEN a ELSE 5 END = 5",
]


@pytest.fixture(scope="module")
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as environment:
        environment.execute_sql(
            "CREATE TABLE t (a INT, s STRING, dbl DOUBLE, dec DECIMAL(10, 2), c CHAR(5), big BIGINT)"
        )
        environment.execute_sql(
            "INSERT INTO t VALUES (3, 'n3', 3, 3.00, 'n3   ', 3), (50, 'n50', 50, 50.5, 'n50  ', 5000000000), "
            "(CAST(NULL AS INT), NULL, NULL, NULL, NULL, NULL), (7, 'it''s', 7.5, 7, 'abcde', 7)"
        )
        yield environment


def parsed(condition: str) -> exp.Expr:
    statement = parse_statement(f"SELECT * FROM t WHERE {condition}")
    assert isinstance(statement, QueryStatement)
    return statement.query.query.args["where"].this


def answer(t_env: TableEnvironment, condition: str) -> list[str]:
    return sorted(map(str, t_env.execute_sql(f"SELECT * FROM t WHERE {condition}").to_arrow().to_pylist()))


@pytest.mark.parametrize(("word", "mark"), [("OR", "="), ("AND", "<>"), ("and", "!=")])
@pytest.mark.parametrize(("column", "constants"), CHAINS)
def test_a_chain_is_its_comparisons(
    t_env: TableEnvironment, column: str, constants: list[str], word: str, mark: str
) -> None:
    chain, plain = (f" {word} ".join(f"{column} {m} {c}" for c in constants) for m in (mark, f"/**/ {mark}"))
    assert list(parsed(chain).find_all(ComparedConstants))
    assert not list(parsed(plain).find_all(ComparedConstants))
    for context in CONTEXTS:
        assert answer(t_env, context.format(chain)) == answer(t_env, context.format(plain))


def test_the_and_of_between_is_no_link() -> None:
    tree = parsed("x BETWEEN 1 AND " + " AND ".join(f"a <> {n}" for n in WHOLE))
    assert not list(tree.find_all(ComparedConstants))
    assert len(list(tree.find_all(exp.NEQ))) == len(WHOLE)


@pytest.mark.parametrize(("column", "code"), [("s", "E1304"), ("missing", "E1201")])
def test_a_mistake_is_told_where_it_stands(t_env: TableEnvironment, column: str, code: str) -> None:
    with pytest.raises(SqlEngineError) as caught:
        answer(t_env, "a = 0 OR " + " OR ".join(f"{column} = {n}" for n in WHOLE))
    assert caught.value.code == code
    assert caught.value.span is not None
    assert caught.value.span.start > 20


def test_a_view_is_shown_as_it_was_written(t_env: TableEnvironment) -> None:
    condition = " OR ".join(f"a = {n}" for n in WHOLE)
    t_env.execute_sql(f"CREATE VIEW v AS SELECT a FROM t WHERE {condition}")
    (shown,) = t_env.execute_sql("SHOW CREATE VIEW v").to_arrow().to_pylist()
    assert condition in shown["result"]
    assert t_env.execute_sql("SELECT * FROM v").to_arrow()["a"].to_pylist() == [3, 7]
    assert condition in parsed(condition).sql(dialect="flink")
