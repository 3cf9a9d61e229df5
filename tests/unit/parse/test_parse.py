"""What the specs cannot show: places in a script, values of intervals, ends of statements, the merge matrix of LIKE."""

from __future__ import annotations

import pytest

from runtime.core.errors import Span, SqlSyntaxError
from sqlengine.parse import (
    interval_value,
    nodes,
    parse_expression,
    parse_query,
    parse_script,
    parse_statement,
    span_of,
    statement_spans,
)
from sqlengine.parse.ddl_nodes import CreateTable
from sqlengine.parse.statement_nodes import Insert


@pytest.mark.parametrize(
    ("text", "months", "millis"),
    [
        ("INTERVAL '5' MINUTE", None, 300_000),
        ("INTERVAL -'1' DAY", None, -86_400_000),
        ("INTERVAL '-1' DAY", None, -86_400_000),
        ("INTERVAL -'-1' DAY", None, 86_400_000),
        ("INTERVAL '1 10:20' DAY TO MINUTE", None, 123_600_000),
        ("INTERVAL '1 10:20:30.1239' DAY TO SECOND(4)", None, 123_630_123),
        ("INTERVAL '0.001' SECOND", None, 1),
        ("INTERVAL '90' SECONDS", None, 90_000),
        ("INTERVAL '2' WEEK", None, 1_209_600_000),
        ("INTERVAL '2-3' YEAR TO MONTH", 27, None),
        ("INTERVAL '1' QUARTER", 3, None),
    ],
)
def test_intervals(text: str, months: int | None, millis: int | None) -> None:
    tree = parse_expression(text)
    assert isinstance(tree, nodes.IntervalLiteral)
    assert interval_value(tree) == (months, millis)


@pytest.mark.parametrize("text", ["INTERVAL '1:2' DAY", "INTERVAL 'x' DAY", "INTERVAL '1.5' MINUTE", "INTERVAL '' DAY"])
def test_malformed_intervals(text: str) -> None:
    tree = parse_expression(text)
    assert isinstance(tree, nodes.IntervalLiteral)
    with pytest.raises(SqlSyntaxError) as caught:
        interval_value(tree)
    assert caught.value.span == Span(0, len(text))


def test_strings_are_decoded() -> None:
    cases = {
        "'it''s'": "it's",
        r"'a\n'": r"a\n",
        r"U&'\00e9\\'": "é\\",
        "U&'!00e9' UESCAPE '!'": "é",
        r"E'a\tb\x41\101\u00e9'": "a\tbAAé",
        r"E'it\'s'": "it's",
        r"U&'\+01F600'": "\N{GRINNING FACE}",
    }
    assert {text: parse_expression(text).name for text in cases} == cases
    assert parse_expression("X'0aff'").this == "0AFF"


def test_places_count_from_the_start_of_the_script() -> None:
    script = "-- first\nSELECT 1;\n\nINSERT INTO db.t (a)\nSELECT f(x.y) FROM x"
    insert = parse_script(script)[1]
    assert isinstance(insert, Insert)

    def text(span: Span | None) -> str:
        assert span is not None
        return script[span.start : span.end]

    assert text(insert.span) == "INSERT INTO db.t (a)\nSELECT f(x.y) FROM x"
    assert [text(s) for s in insert.table.part_spans] == ["db", "t"]
    assert text(insert.columns[0].span) == "a"
    call = insert.query.query.expressions[0]
    assert text(span_of(call)) == "f(x.y)"
    assert text(span_of(call.expressions[0])) == "x.y"
    assert text(span_of(call.expressions[0].this)) == "y"


def test_a_tree_that_was_built_is_as_wide_as_its_parts() -> None:
    tree = parse_query("SELECT a, bb")
    first, second = tree.expressions
    assert span_of(type(tree)(expressions=[second, first])) == Span(7, 12)
    assert span_of(type(tree)()) is None


def test_like_fills_in_the_defaults() -> None:
    def strategies(options: str) -> dict[str, str]:
        table = parse_statement(f"CREATE TABLE t LIKE s {options}")
        assert isinstance(table, CreateTable) and table.like is not None
        like = table.like
        return {f: like.strategy(f)[:2] for f in ("CONSTRAINTS", "GENERATED", "OPTIONS", "WATERMARKS")}

    assert strategies("") == {"CONSTRAINTS": "IN", "GENERATED": "IN", "OPTIONS": "OV", "WATERMARKS": "IN"}
    assert strategies("(EXCLUDING ALL INCLUDING GENERATED)") == {
        "CONSTRAINTS": "EX",
        "GENERATED": "IN",
        "OPTIONS": "EX",
        "WATERMARKS": "EX",
    }


def test_where_statements_end() -> None:
    text = (
        "SELECT ';' -- ;\n; EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END; SELECT `;`"
    )
    spans = statement_spans(text)
    assert [text[s.start : s.end][:7] for s, _ in spans] == ["SELECT ", "EXECUTE", "SELECT "]
    assert [closed for _, closed in spans] == [True, True, False]
    assert len(parse_script(text)) == 3
    assert statement_spans("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;")[0][1] is False
    assert statement_spans(" ; ;") == []


def test_statements_are_equal_wherever_they_stand() -> None:
    one, two = parse_script("CREATE VIEW v AS SELECT a FROM t;\n  CREATE VIEW v AS SELECT a FROM t")
    assert one.span != two.span and one == two


def test_deep_nesting_is_refused_and_wide_chains_are_not() -> None:
    with pytest.raises(SqlSyntaxError, match="nested too deeply"):
        parse_statement("SELECT " + "(" * 5000 + "1" + ")" * 5000)
    assert parse_expression(" AND ".join(["a = 1"] * 3000)) is not None
    assert parse_expression("(" * 30 + "(SELECT 1) + 1" + ")" * 30) is not None
