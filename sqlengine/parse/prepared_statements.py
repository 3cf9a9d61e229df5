"""PREPARE, EXECUTE and DEALLOCATE."""

from __future__ import annotations

from collections.abc import Callable

from sqlengine.parse.ddl_nodes import ExpressionText, Statement
from sqlengine.parse.session_nodes import Deallocate, ExecutePrepared, Prepare
from sqlengine.parse.table_definitions import TableGrammar

__all__ = ["read_deallocate", "read_execute", "read_prepare"]


def read_prepare(grammar: TableGrammar, statement: Callable[[], Statement]) -> Prepare:
    """`PREPARE name AS statement`."""
    grammar.expect("PREPARE")
    name = grammar.name("the name of the prepared statement")
    if grammar.at("("):
        grammar.refuse(
            "types of parameters are not listed", hint="their places tell them, or a CAST: WHERE a = CAST(? AS INT)"
        )
    grammar.expect("AS")
    return Prepare(name, statement())


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
