"""An INSERT that comes again with other values is neither read nor bound again, and means the same."""

from __future__ import annotations

import pytest

import sqlengine.bind.insert as insert_binder
import sqlengine.statements.constant_rows as constant_rows
import sqlengine.statements.parameter_rows as parameter_rows
from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.parse import parse_statement
from sqlengine.parse.repeated import KnownHeads

ROWS = ["(1, 'a')", "(2, 'it''s'), (3, NULL)", " ( -4 , DATE '2024-01-01' ) ;", "(5, 'b') ; ;", "(TRUE, 1e3)\n"]
OTHERS = ["(1, 'a') ON CONFLICT DO NOTHING", "(1 + 1, 'a')", "(1), (2 + 2)", "(1) -- x", "(1) /* x */", "(?, 1)"]
HEADS = ["INSERT INTO t VALUES", "  INSERT INTO c.d.t (a, b)  VALUES ", "insert into t (b, a) values\n"]


@pytest.mark.parametrize("head", [*HEADS, "EXECUTE INSERT INTO t VALUES"])
def test_a_known_head_reads_the_same_statement(head: str) -> None:
    heads = KnownHeads()
    for rows in ROWS * 2 + OTHERS + ROWS:
        read, parsed = heads.read(head + rows), parse_statement(head + rows)
        assert read == parsed
        assert (read.span, read.text) == (parsed.span, parsed.text)
        assert (read.query.span, read.query.text) == (parsed.query.span, parsed.query.text)
        for mine, whole in zip(read.query.query.walk(), parsed.query.query.walk(), strict=True):
            assert mine == whole
            assert mine.meta == whole.meta


def test_what_is_no_statement_is_told_as_at_the_first_time() -> None:
    heads = KnownHeads()
    heads.read("INSERT INTO t VALUES (1)")
    for text in ("INSERT INTO t VALUES (1) (2)", "INSERT INTO t VALUES (1", "INSERT INTO t VALUES (1); SELECT 1"):
        with pytest.raises(SqlEngineError) as first:
            parse_statement(text)
        with pytest.raises(SqlEngineError) as again:
            heads.read(text)
        assert str(again.value) == str(first.value)


def test_the_second_time_nothing_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE t (a INT NOT NULL, b STRING, c DECIMAL(8, 2))")
    text = "INSERT INTO t (c, a) VALUES (?, ?)"
    env.execute_sql(text, [1, 1])
    env.execute_sql("INSERT INTO t VALUES (2, 'x', 1.5)")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it is bound again")

    for module in (insert_binder, constant_rows):
        monkeypatch.setattr(module, "bind_insert", refuse)
    monkeypatch.setattr(parameter_rows, "bound_insert", refuse)
    env.execute_sql(text, [2, 3])
    env.execute_sql("INSERT INTO t VALUES (4, 'longer', 12.25)")
    assert sorted(map(tuple, env.execute_sql("SELECT a, b, CAST(c AS STRING) FROM t")), key=str) == [
        (1, None, "1.00"), (2, "x", "1.50"), (3, None, "2.00"), (4, "longer", "12.25"),
    ]  # fmt: skip


def test_a_repeated_insert_follows_its_table_and_its_session() -> None:
    env = TableEnvironment.create()
    text, literal = "INSERT INTO t VALUES (?, ?)", "INSERT INTO t VALUES (1, 'x')"
    env.execute_sql("CREATE TABLE t (a INT, b STRING)")
    for _ in range(2):
        env.execute_sql(text, [1, "x"])
        env.execute_sql(literal)
    env.execute_sql("DROP TABLE t")
    env.execute_sql("CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR(2), c INT)")
    for _ in range(2):
        for run in (lambda: env.execute_sql(text, [1, "x"]), lambda: env.execute_sql(literal)):
            with pytest.raises(SqlEngineError, match="2 columns for 3 columns") as raised:
                run()
            assert raised.value.code == "E1224"
    env.execute_sql("DROP TABLE t")
    env.execute_sql("CREATE TABLE t (b VARCHAR(2), a BIGINT NOT NULL)")
    for _ in range(2):
        for run in (lambda: env.execute_sql(text, [1, "x"]), lambda: env.execute_sql(literal)):
            with pytest.raises(SqlEngineError) as raised:
                run()
            assert raised.value.code == "E1313"
    env.execute_sql("INSERT INTO t (a, b) VALUES (1, 'abc')")
    env.execute_sql("INSERT INTO t (a, b) VALUES (2, 'abcd')")
    assert sorted(map(tuple, env.execute_sql("SELECT a, b FROM t"))) == [(1, "ab"), (2, "ab")]
    for _ in range(2):
        with pytest.raises(SqlEngineError) as raised:
            env.execute_sql("INSERT INTO t (b) VALUES ('q')")
        assert raised.value.code == "E1314"
