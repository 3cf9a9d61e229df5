"""Statements that Flink SQL 2.3 took, and what must hold for every one of them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from runtime.core.errors import UserError
from sqlengine.parse import parse_query, parse_script, parse_statement, span_of
from sqlengine.parse.lexer import scan
from sqlengine.parse.statement_nodes import QueryStatement

HERE = Path(__file__).parent
TEXTS: list[str] = [json.loads(line) for line in (HERE / "flink_texts.jsonl").read_text("utf-8").splitlines()]
REFUSED = [json.loads(line) for line in (HERE / "flink_texts_refused.jsonl").read_text("utf-8").splitlines()]


def queries() -> list[tuple[str, exp.Expression]]:
    found = []
    for text in TEXTS:
        statement = parse_statement(text)
        if isinstance(statement, QueryStatement):
            found.append((text, statement.query.query))
    return found


def test_all_are_read_and_know_their_place() -> None:
    lead = "-- a comment\n;; "
    script = lead + ";\n".join(TEXTS)
    statements = parse_script(script)
    assert [s.text for s in statements] == [t.strip() for t in TEXTS]
    assert all(script[s.span.start : s.span.end] == s.text for s in statements)


@pytest.mark.parametrize(("code", "text"), REFUSED)
def test_refused(code: str, text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_statement(text)
    assert caught.value.code == code
    assert caught.value.span is not None


def test_every_tree_has_a_place() -> None:
    for text, query in queries():
        for tree in query.walk():
            span = span_of(tree)
            assert span is not None, (text, repr(tree))
            written = text[span.start : span.end]
            if isinstance(tree, exp.Identifier):
                assert written.strip("`").replace("``", "`") == tree.name
            elif isinstance(tree, exp.Anonymous):
                assert written.upper().startswith((tree.name.upper(), "`", *[q.name.upper() for q in tree.qualifier]))
            elif isinstance(tree, exp.Literal) and tree.is_number:
                assert written == tree.this or tree.this == "1"
            elif isinstance(tree, exp.Star):
                assert written == "*"
            parent = tree.parent and span_of(tree.parent)
            assert parent is None or (parent.start <= span.start and span.end <= parent.end), (text, repr(tree))


def test_writing_a_tree_reads_back_to_an_equal_tree() -> None:
    for text, query in queries():
        written = query.sql(dialect="flink")
        again = parse_statement(written)
        assert isinstance(again, QueryStatement) and again.query.query == query, (text, written)


def test_the_dialect_reads_the_same_trees() -> None:
    for text, _ in queries()[::25]:
        assert sqlglot.parse_one(text, read="flink") == parse_query(text)


def test_nothing_becomes_a_class_of_a_known_function() -> None:
    """One shape for all calls: no SUM, COALESCE or DATE_DIFF classes of sqlglot, and no unparsed commands."""
    structure = (exp.Cast, exp.TryCast, exp.Case, exp.If, exp.And, exp.Or, exp.Exists, exp.Array, exp.Unnest)
    allowed = (exp.Anonymous, *structure)
    for text, query in queries():
        for tree in query.walk():
            assert not isinstance(tree, exp.Command), text
            assert not isinstance(tree, exp.Func) or isinstance(tree, allowed), (text, repr(tree))


def test_damaged_statements_give_errors_with_a_place() -> None:
    """Without one token, or with one doubled or replaced, a statement is read or refused, never anything else."""
    choose = random.Random(7)
    for text in choose.choices(TEXTS, k=1500):
        tokens = scan(text)[:-1]
        at, other = choose.choice(tokens), choose.choice(tokens)
        replacement = choose.choice(["", at.text + " " + at.text, other.text, ",", "(", ")", "SELECT", "'x'", "1"])
        damaged = text[: at.start] + replacement + text[at.end :]
        try:
            parse_script(damaged)
        except UserError as error:
            assert error.span is not None and error.text == damaged, damaged
            assert 0 <= error.span.start < error.span.end <= max(len(damaged), 1), (damaged, error.span)
