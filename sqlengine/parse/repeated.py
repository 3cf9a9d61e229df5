"""INSERTs that come again and again, with other constants: of one whose head is known only the rows are read.

    INSERT INTO orders (id, amount) VALUES (1, 2.5)
    `----------- the head ---------´ `- the rows -´

What the grammar makes of a text up to the rows depends on nothing behind it, and rows of constants are one token
(`constant_rows.py`). So the statement is the same but for these.
"""

from __future__ import annotations

import re

from sqlglot import exp

from runtime.core.errors import Span
from sqlengine.parse.constant_rows import ConstantRows, constant_rows_end, only_constants
from sqlengine.parse.reading import parse_statement
from sqlengine.parse.statement_nodes import Insert, QueryText, Statement

__all__ = ["KnownHeads"]

_MOST = 64
"""Heads that are known at once."""
_HEAD = re.compile(r"[^'`\"/;-]*?\bVALUES\s*+(?=\()", re.IGNORECASE)
_LEFT_OUT = re.compile(r"[\s;]*+\Z")


class KnownHeads:
    """Reads statements."""

    def __init__(self) -> None:
        self._known: dict[str, Insert] = {}

    def read(self, text: str) -> Statement:
        """The statement of a text. Raises what `parse_statement` raises."""
        head = _HEAD.match(text)
        if head is None:
            return parse_statement(text)
        known = self._known.get(head.group())
        if known is not None:
            end = constant_rows_end(text, head.end())
            if end is not None and _LEFT_OUT.match(text, end):
                return _with_rows(known, text, head.end(), end)
        statement = parse_statement(text)
        if isinstance(statement, Insert) and statement.on_conflict is None and statement.returning is None:
            rows = only_constants(statement.query.query)
            if rows is not None and rows.meta["start"] == head.end():
                if len(self._known) >= _MOST:
                    self._known = {}
                self._known[head.group()] = statement
        return statement


def _with_rows(known: Insert, text: str, start: int, end: int) -> Insert:
    """The statement with the rows that stand there in a text."""
    rows = ConstantRows(this=text[start:end])
    rows.meta.update(start=start, end=end - 1)
    values = exp.Values(expressions=[rows])
    begin = known.query.span.start
    values.meta.update(start=begin, end=end - 1)
    span = Span(known.span.start, end)
    return known.with_(
        query=QueryText(values, text[begin:end], Span(begin, end)), span=span, text=text[span.start : end]
    )
