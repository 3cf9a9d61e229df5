"""What few changes of rows have: UPDATE .. FROM, DELETE .. USING, SET (a, b) = (1, 2), WITH before INSERT."""

from __future__ import annotations

from sqlglot import exp

from sqlengine.parse.column_rules import read_default
from sqlengine.parse.ddl_nodes import ExpressionText, Name, QueryText
from sqlengine.parse.statement_nodes import Insert
from sqlengine.parse.table_definitions import TableGrammar

__all__ = ["read_assigned_row", "read_relations", "with_tables"]


def read_relations(grammar: TableGrammar, word: str) -> QueryText:
    """`word relation, ..` as a SELECT with nothing but FROM."""
    start = grammar.token
    from_, joins = grammar.from_clause(word)
    tree = exp.Select(expressions=[exp.Literal(this="1", is_string=False)], from_=from_)
    if joins:
        tree.set("joins", joins)
    span = grammar.span_from(start)
    return QueryText(grammar.place(tree, start), grammar.slice(span), span)


def read_assigned_row(grammar: TableGrammar) -> list[tuple[Name, ExpressionText]]:
    """`(column, ..) = [ROW] (expression, ..)`, as an assignment of each column."""
    names = grammar.names("a column name")
    grammar.expect("=")
    grammar.match("ROW")
    start = grammar.expect("(")
    if grammar.at_query():
        grammar.refuse(
            "a query cannot give several columns their values", start, "write a query for each: SET a = (SELECT ..)"
        )
    values: list[ExpressionText] = []
    while not values or grammar.match(","):
        values.append(read_default(grammar) if grammar.at("DEFAULT") else grammar.expression_text())
    grammar.expect(")")
    if len(values) != len(names):
        grammar.refuse(
            f"{len(names)} columns are assigned, and {len(values)} values are given", start, "give each a value"
        )
    return list(zip(names, values, strict=True))


def with_tables(insert: Insert, with_: exp.With, text: str) -> Insert:
    """The INSERT of a query that may name the queries of WITH."""
    query = insert.query.query.copy()
    own = query.args.get("with_")
    if own is not None:
        with_ = with_.copy()
        with_.set("expressions", [*with_.expressions, *own.expressions])
        with_.set("recursive", bool(with_.args.get("recursive") or own.args.get("recursive")))
    query.set("with_", with_)
    return insert.with_(query=QueryText(query, f"{text} {insert.query.text}", insert.query.span))
