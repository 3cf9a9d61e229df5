"""The parameters of a statement: where their marks stand, and how they are counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from runtime.core.node import Node, node_fields
from sqlengine.parse.nodes import ParameterMark

__all__ = ["marks_of", "number_marks"]


def marks_of(statement: Node) -> list[ParameterMark]:
    """The marks of a statement, in the order in which they are written."""
    return sorted(_marks(statement), key=lambda mark: mark.meta["start"])


def number_marks(statement: Node) -> None:
    """Give every `?` its number, from 1."""
    for number, mark in enumerate((m for m in marks_of(statement) if m.style == "?"), 1):
        mark.set("this", number)


def _marks(thing: Any) -> Iterator[ParameterMark]:
    if isinstance(thing, exp.Expr):
        yield from thing.find_all(ParameterMark)
    elif isinstance(thing, Node):
        for field in node_fields(thing):
            yield from _marks(getattr(thing, field.name))
    elif isinstance(thing, tuple):
        for part in thing:
            yield from _marks(part)
