"""PREPARE, EXECUTE, DEALLOCATE and COMMENT ON."""

from __future__ import annotations

from collections.abc import Callable

from sqlengine.parse.ddl_nodes import ExpressionText, Name, ObjectName, Statement
from sqlengine.parse.session_nodes import CommentOn, Deallocate, ExecutePrepared, Prepare
from sqlengine.parse.table_definitions import TableGrammar

__all__ = ["read_comment", "read_deallocate", "read_execute", "read_prepare"]


def read_prepare(grammar: TableGrammar, statement: Callable[[], Statement]) -> Prepare:
    """`PREPARE name AS statement`."""
    grammar.expect("PREPARE")
    name = grammar.name("the name of the prepared statement")
    types = grammar.parameter_types
    if grammar.at("("):
        if types is None:
            grammar.refuse(
                "types of parameters are not listed", hint="their places tell them, or a CAST: WHERE a = CAST(? AS INT)"
            )
        grammar.expect("(")
        types.append(grammar.data_type())
        while grammar.match(","):
            types.append(grammar.data_type())
        grammar.expect(")")
    grammar.expect("AS")
    return Prepare(name, statement())


def read_comment(grammar: TableGrammar) -> CommentOn:
    """`COMMENT ON kind name IS 'text'`."""
    grammar.expect("COMMENT", "ON")
    if grammar.match("MATERIALIZED"):
        kind = grammar.expect_any("VIEW", "TABLE")
    else:
        kind = grammar.expect_any("TABLE", "VIEW", "COLUMN")
    name = grammar.object_name("the name of a column" if kind == "COLUMN" else "the name of a table or view")
    column = None
    if kind == "COLUMN":
        if len(name.parts) < 2:
            grammar.refuse("a column is named with its table", name.span, "COMMENT ON COLUMN t.c IS 'text'")
        column = Name(name.parts[-1], name.part_spans[-1] if name.part_spans else name.span)
        name = ObjectName(name.parts[:-1], name.span, name.part_spans[:-1])
    grammar.expect("IS")
    comment = None if grammar.match("NULL") else grammar.string("a text in single quotes, or NULL").value
    return CommentOn(name, column, comment or None)


def read_execute(grammar: TableGrammar) -> ExecutePrepared:
    """`name [(value, ..)]`, behind EXECUTE."""
    name = grammar.name("the name of a prepared statement")
    values: list[ExpressionText] = []
    if grammar.match("("):
        while not grammar.match(")"):
            if values:
                grammar.expect(",")
            values.append(grammar.argument_text())
    return ExecutePrepared(name, tuple(values))


def read_deallocate(grammar: TableGrammar) -> Deallocate:
    """`DEALLOCATE [PREPARE] {name | ALL}`."""
    grammar.expect("DEALLOCATE")
    grammar.match("PREPARE")
    return Deallocate(None if grammar.match("ALL") else grammar.name("the name of a prepared statement"))
