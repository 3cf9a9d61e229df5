"""The names of sequences that an expression asks: NEXTVAL('s')."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from runtime.expr.library.sequence import NUMBER_FUNCTIONS
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.trees import Tree

__all__ = ["asks_for_number", "sequence_names", "with_sequence_names"]


def asks_for_number(expression: Tree) -> bool:
    """Whether an expression asks a sequence."""
    return any(call.name.upper() in NUMBER_FUNCTIONS for call in expression.find_all(FunctionCall))


def sequence_names(expression: Tree) -> list[str]:
    """The names that are written in it, in their order."""
    return [name.this for name in _names(expression)]


def with_sequence_names(expression: Tree, names: Mapping[str, str]) -> Tree:
    """The expression with other names."""
    made = expression.copy()
    for name in _names(made):
        name.set("this", names[name.this])
    return made


def _names(expression: Tree) -> Iterator[exp.Literal]:
    for call in expression.find_all(FunctionCall):
        if call.name.upper() in NUMBER_FUNCTIONS and call.expressions:
            name = call.expressions[0].find(exp.Literal)
            if name is not None and name.is_string:
                yield name
