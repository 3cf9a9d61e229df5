"""Statements that mean something, and hardly what was meant: comparisons that are never true."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from runtime.core.errors import Span, position
from runtime.core.node import Node, node_fields
from sqlengine.parse.constant_rows import ConstantRows, only_constants
from sqlengine.parse.nodes import TypeSpec
from sqlengine.parse.spans import span_of
from sqlengine.parse.statement_nodes import Insert, Statement

__all__ = ["advice", "noted"]


def advice(statement: Statement, text: str) -> list[tuple[str, Span | None]]:
    """What is most likely a mistake in a statement, each with its place in `text`."""
    found: list[tuple[str, Span | None]] = []
    if isinstance(statement, Insert) and only_constants(statement.query.query) is not None:
        return found
    for tree in _trees(statement):
        for part in tree.walk():
            span = span_of(part)
            match part:
                case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() if span is not None:
                    sides = (part.this, part.expression)
                    if sum(isinstance(side, exp.Null) for side in sides) == 1:
                        other = span_of(next(side for side in sides if not isinstance(side, exp.Null)))
                        value = "x" if other is None else text[other.start : other.end]
                        test = "IS NOT NULL" if isinstance(part, exp.NEQ) else "IS NULL"
                        found.append((f"a comparison with NULL is never true; write {value} {test}", span))
                case exp.Not(this=exp.In(expressions=values)) if any(map(_is_null, values or ())):
                    found.append(("NOT IN with a NULL in its list is never true; leave the NULL out", span))
                case _:
                    pass
    return found


def _is_null(item: exp.Expr) -> bool:
    return item.has_null if isinstance(item, ConstantRows) else isinstance(item, exp.Null)


def noted(note: str, span: Span | None, text: str) -> str:
    """A note with its place in a text."""
    if span is None:
        return note
    line, column = position(text, span.start)
    return f"{note} (at {line}:{column})"


def _trees(part: object) -> Iterator[exp.Expr]:
    """The queries and expressions of a statement and of the statements in it."""
    if isinstance(part, exp.Expr):
        if not isinstance(part, TypeSpec):
            yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _trees(item)
    elif isinstance(part, Node):
        for one in node_fields(type(part)):
            yield from _trees(getattr(part, one.name))
