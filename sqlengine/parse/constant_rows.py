"""Plain constants, as VALUES, IN and chains of comparisons have them by the thousand: found in the text at once, not
token by token.

A constant is a number with or without a minus, a text, TRUE, FALSE, NULL, or DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ
with a text. Rows in which anything else stands (a comment, too) are read by the grammar like every expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, TypeVar

from sqlglot import exp

from runtime.core.errors import Span
from sqlengine.parse.nodes import TemporalLiteral

__all__ = [
    "Cell",
    "ComparedConstants",
    "ConstantRows",
    "comparison_chain",
    "constant_list_end",
    "constant_rows_end",
    "only_constants",
    "text_content",
    "values_rows",
]

_E = TypeVar("_E", bound=exp.Expr)

_TEXT = r"'[^']*+(?:''[^']*+)*+'"
_NUMBER = r"(?:-\s*+)?(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?+\d++)?+"
_WORD = r"(?i:TRUE|FALSE|NULL)\b"
_TEMPORAL = r"(?i:DATE|TIMESTAMP_LTZ|TIMESTAMP|TIME)\s*+"
_CELL = rf"\s*+(?:{_NUMBER}|{_TEXT}|{_WORD}|{_TEMPORAL}{_TEXT})\s*+"
_ROW_TEXT = rf"\({_CELL}(?:,{_CELL})*+\)"
# What follows a row decides whether it is one: (1) + 2 is an expression.
_ROW = re.compile(rf"{_ROW_TEXT}(?=\s*+(?:[,;)]|\Z))")
_ROWS = re.compile(rf"{_ROW.pattern}(?:\s*+,\s*+{_ROW.pattern})*+")
_FEWEST_LISTED = 16
"""Shorter lists of IN are read by the grammar: rules look at their items one by one."""
_LIST = re.compile(rf"\({_CELL}(?:,{_CELL}){{{_FEWEST_LISTED - 1},}}+\)")
_PARTS = re.compile(
    rf"[\s,(]*+(?:(?P<number>{_NUMBER})|(?P<text>{_TEXT})|(?P<word>{_WORD})"
    rf"|(?P<temporal>{_TEMPORAL})(?P<moment>{_TEXT}))\s*+(?P<end>[,)])"
)


_NAME = r"[^\W\d][\w$]*+(?:\.[^\W\d][\w$]*+)*+"
_CHAINS = {
    word: re.compile(
        rf"\s++(?P<name>{_NAME})(?P<chain>\s*+{mark}\s*+(?:{_NUMBER}|{_TEXT})(?=\s++(?i:{word})\b)"
        rf"(?:\s++(?i:{word})\s++(?P=name)\s*+{mark}\s*+(?:{_NUMBER}|{_TEXT})(?=\s++(?i:{word})\b)){{{_FEWEST_LISTED},}}+)"
    )
    for word, mark in (("OR", "="), ("AND", "(?:<>|!=)"))
}
_COMPARED = re.compile(rf"(?:=|<>|!=)\s*+(?:(?P<number>{_NUMBER})|(?P<text>{_TEXT}))")


Cell = tuple[str, str, str, str, str, str]
"""One constant as written: (number, text, word, temporal, moment, end). One of number, text, word and temporal (with
moment, its text) is not empty; end is the mark behind it, a comma or the parenthesis that closes the row."""


def constant_rows_end(text: str, start: int) -> int | None:
    """Where rows of constants that begin at `start`, with commas between, end; None when there are none."""
    found = _ROWS.match(text, start)
    return None if found is None else found.end()


def constant_list_end(text: str, start: int) -> int | None:
    """Where a long list of constants in parentheses ends that begins at `start`; None when there is none."""
    found = _LIST.match(text, start)
    return None if found is None else found.end()


def comparison_chain(text: str, start: int, word: str) -> tuple[int, int, int] | None:
    """Where behind an OR (AND) stand many comparisons `name = constant` (`name <> constant`) of one name, with the same
    word between them and behind the last: the places at which the first name begins and ends, and where they end."""
    found = _CHAINS[word].match(text, start)
    return None if found is None else (found.start("name"), found.end("name"), found.end())


class ComparedConstants(exp.Expression):
    """`x = 1 OR x = 2 OR ..`, or with `negated` `x <> 1 AND x <> 2 AND ..`: one of many operands.

    `this` is x, `text` what is written behind the first x.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "text": True, "negated": True}

    @property
    def negated(self) -> bool:
        return self.args["negated"]

    def cells(self) -> list[Cell]:
        """The constants."""
        return [(number, text, "", "", "", ",") for number, text in _COMPARED.findall(self.args["text"])]

    def comparisons(self) -> list[exp.Expr]:
        """The same comparisons as the grammar would read them, each placed where its constant stands."""
        kind = exp.NEQ if self.negated else exp.EQ
        text = self.args["text"]
        end = self.meta["end"] + 1
        begin = max(end - len(text), self.meta["start"])
        trees: list[exp.Expr] = []
        for cell, found in zip(self.cells(), _COMPARED.finditer(text), strict=True):
            start = found.start("number") if cell[0] else found.start("text")
            span = Span(begin + start, min(begin + found.end(), end))
            trees.append(_placed(kind(this=self.this.copy(), expression=_tree(cell, span)), span))
        return trees


class ConstantRows(exp.Expression):
    """Rows of constants: among the rows of Values, or as the only item of a long IN list.

    `this` is the text of the rows.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    @property
    def text_value(self) -> str:
        return self.args["this"]

    def cells(self) -> list[Cell]:
        """All constants, row after row."""
        return _PARTS.findall(self.text_value)

    @property
    def has_null(self) -> bool:
        return any(word.upper() == "NULL" for _, _, word, *_ in self.cells())

    def rows(self) -> list[exp.Tuple]:
        """The same rows as the grammar would read them."""
        rows: list[exp.Tuple] = []
        items: list[exp.Expr] = []
        spans = self.row_spans()
        for cell, span in zip(self.cells(), self.cell_spans(), strict=True):
            items.append(_tree(cell, span))
            if cell[-1] == ")":
                rows.append(_placed(exp.Tuple(expressions=items), next(spans)))
                items = []
        return rows

    def row_spans(self) -> Iterator[Span]:
        """Where each row stands in the script."""
        for found in _ROW.finditer(self.text_value):
            yield self._place(found.start(), found.end())

    def cell_spans(self) -> Iterator[Span]:
        """Where each constant stands in the script, row after row."""
        for found in _PARTS.finditer(self.text_value):
            start = min(found.start(g) for g in ("number", "text", "word", "temporal") if found[g])
            yield self._place(start, max(found.end(g) for g in ("number", "text", "word", "moment") if found[g]))

    def _place(self, start: int, end: int) -> Span:
        whole = Span(self.meta["start"], self.meta["end"] + 1)
        # Rows of a view stand as a whole where the view is named.
        read_here = whole.end - whole.start == len(self.text_value)
        return Span(whole.start + start, whole.start + end) if read_here else whole


def values_rows(tree: exp.Values) -> list[exp.Expr]:
    """The rows of VALUES, each a Tuple, as the grammar reads them."""
    rows: list[exp.Expr] = []
    for row in tree.expressions:
        rows += row.rows() if isinstance(row, ConstantRows) else [row]
    return rows


def only_constants(query: exp.Expr) -> ConstantRows | None:
    """The rows of a query that is VALUES of nothing but constants."""
    if not isinstance(query, exp.Values) or any(query.args.get(k) for k in ("order", "limit", "offset", "with_")):
        return None
    rows = query.expressions
    return rows[0] if len(rows) == 1 and isinstance(rows[0], ConstantRows) else None


def text_content(written: str) -> str:
    """What a text in quotes says."""
    return written[1:-1].replace("''", "'")


def _tree(cell: Cell, span: Span) -> exp.Expr:
    number, text, word, temporal, moment, _ = cell
    if number:
        digits = number.lstrip("-").lstrip()
        literal = _placed(exp.Literal(this=digits, is_string=False), Span(span.end - len(digits), span.end))
        return _placed(exp.Neg(this=literal), span) if digits != number else literal
    if text:
        return _placed(exp.Literal(this=text_content(text), is_string=True), span)
    if word:
        is_null = word.upper() == "NULL"
        return _placed(exp.Null() if is_null else exp.Boolean(this=word.upper() == "TRUE"), span)
    return _placed(TemporalLiteral(this=text_content(moment), kind=temporal.strip().upper()), span)


def _placed(tree: _E, span: Span) -> _E:
    tree.meta.update(start=span.start, end=span.end - 1)
    return tree
