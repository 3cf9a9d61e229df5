"""Long chains of operators and deep brackets are computed; what is nested beyond all use is refused, with a code."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from runtime import MOST_CALLS
from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment


@pytest.fixture(scope="module")
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as environment:
        environment.execute_sql("CREATE TABLE t (a INT, b STRING, c DOUBLE)")
        environment.execute_sql("INSERT INTO t VALUES (1, 'x', 1)")
        yield environment


def value(t_env: TableEnvironment, expression: str) -> object:
    (row,) = t_env.execute_sql(f"SELECT {expression} AS r FROM t").to_arrow().to_pylist()
    return row["r"]


def logic(depth: int, left: bool) -> tuple[str, bool]:
    """AND and OR in turn, each in brackets, opened at the left or at the right; and what it says of a = 1."""
    text, holds = "a = 1", True
    for i in range(depth):
        word, other = ("AND", i % 3 == 0) if i % 2 else ("OR", i % 5 == 0)
        operand = f"a = {1 if other else i + 2}"
        text = f"({text} {word} {operand})" if left else f"({operand} {word} {text})"
        holds = (holds and other) if word == "AND" else (holds or other)
    return text, holds


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("depth", [100, 300])
def test_brackets(t_env: TableEnvironment, depth: int, left: bool) -> None:
    text, holds = logic(depth, left)
    assert value(t_env, text) is holds


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (" + ".join(["a"] * 1000), 1000),
        (" - ".join(["a"] * 1000), -998),
        (" || ".join(["b"] * 1000), "x" * 1000),
        (" * ".join(["c"] * 1000), 1.0),
        (" + ".join(map(str, range(1000))), sum(range(1000))),
        ("- " * 500 + "a", 1),
        ("NOT " * 501 + "a = 1", False),
        ("(" * 300 + "a" + ")" * 300, 1),
        ("ABS(" * 200 + "a" + ")" * 200, 1),
        ("CASE WHEN a = 5 THEN 0 ELSE " * 100 + "a" + " END" * 100, 1),
        (" + ".join(f"(a + {i})" for i in range(500)), 500 + sum(range(500))),
    ],
    ids=["plus", "minus", "texts", "times", "constants", "signs", "not", "brackets", "calls", "cases", "sums"],
)
def test_chains(t_env: TableEnvironment, text: str, wanted: object) -> None:
    assert value(t_env, text) == wanted


def test_a_view_of_a_chain(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE u (a INT)")
    t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS SELECT {' + '.join(['a'] * 1000)} AS n FROM u")
    t_env.execute_sql("INSERT INTO u VALUES (1), (2)")
    assert t_env.execute_sql("SELECT n FROM v ORDER BY n").to_arrow()["n"].to_pylist() == [1000, 2000]


@pytest.mark.parametrize(
    "text",
    [
        *(" + ".join(["a"] * n) for n in (2000, 5000, 20_000)),
        "(" * 5000 + "a" + ")" * 5000,
        "NOT " * 20_000 + "a = 1",
        "- " * 2000 + "a",
        "ARRAY[" * 3000 + "a" + "]" * 3000,
    ],
    ids=["2,000 +", "5,000 +", "20,000 +", "brackets", "not", "signs", "arrays"],
)
def test_too_deep_is_told(t_env: TableEnvironment, text: str) -> None:
    with pytest.raises(SqlEngineError) as caught:
        value(t_env, text)
    assert caught.value.code == "E1100"
    assert "nested too deeply" in str(caught.value)


def test_no_statement_changes_the_recursion_limit(t_env: TableEnvironment) -> None:
    """Who recurses in another thread meanwhile would fail."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(MOST_CALLS // 2, before - 1))
    try:
        known = sys.getrecursionlimit()
        value(t_env, logic(100, left=True)[0])
        assert sys.getrecursionlimit() == known
    finally:
        sys.setrecursionlimit(before)
