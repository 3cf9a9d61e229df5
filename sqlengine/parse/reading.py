"""Texts to statements, with the misspelt word in the error where one was meant (`spelling`, loaded for errors only)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from runtime.core.errors import SqlSyntaxError
from runtime.core.rooms import Room
from sqlengine.parse import statements as grammar
from sqlengine.parse.statement_nodes import Statement

if TYPE_CHECKING:
    import sqlengine.parse.spelling as _spelling
else:
    _spelling = Room("sqlengine.parse.spelling")

__all__ = ["parse_query", "parse_script", "parse_statement"]


T = TypeVar("T")


def parse_script(text: str) -> list[Statement]:
    """See `statements.parse_script`."""
    return _read(text, grammar.parse_script)


def parse_statement(text: str) -> Statement:
    """See `statements.parse_statement`."""
    return _read(text, grammar.parse_statement)


def parse_query(text: str) -> exp.Expr:
    """See `statements.parse_query`."""
    return _read(text, grammar.parse_query)


def _read(text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except SqlSyntaxError as error:
        _spelling.point_out(text, error, parse)
        raise
