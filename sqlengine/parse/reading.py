"""Texts to statements: by the grammar of their dialect, and with the misspelt word in the error where one was meant
(`spelling`, loaded for errors only).

A text is in the dialect that its reader is told, unless its first line says otherwise (`-- dialect: postgres`); in a
script a SET of the option changes it for the statements behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from runtime.core.errors import Span, SqlSyntaxError
from runtime.core.rooms import Room
from sqlengine.options.dialect import DIALECT_OPTION, FLINK, POSTGRES
from sqlengine.parse import statements as flink
from sqlengine.parse.lexer import Token
from sqlengine.parse.statement_nodes import Statement
from sqlengine.parse.statements import StatementGrammar

if TYPE_CHECKING:
    import sqlengine.parse.postgres.grammar as _postgres
    import sqlengine.parse.spelling as _spelling
else:
    _postgres = Room("sqlengine.parse.postgres.grammar")
    _spelling = Room("sqlengine.parse.spelling")

__all__ = ["dialect_of", "parse_query", "parse_script", "parse_statement", "statement_spans", "without_header"]


T = TypeVar("T")

_HEADER = re.compile(r"\s*--[ \t]*dialect:[ \t]*(flink|postgres)[ \t\r]*(?:\n|\Z)", re.IGNORECASE)
_CHANGE = re.compile(
    rf"\b(?:SET\s+'{re.escape(DIALECT_OPTION)}'\s*=\s*'(\w+)'|RESET\s+'{re.escape(DIALECT_OPTION)}')\s*(?:;|\Z)",
    re.IGNORECASE,
)


def parse_script(text: str, dialect: str = FLINK) -> list[Statement]:
    """The statements of a script; see `statements.parse_script`."""
    return _read(text, lambda whole: [s for grammar in _grammars(whole, dialect) for s in grammar.script()])


def parse_statement(text: str, dialect: str = FLINK) -> Statement:
    """See `statements.parse_statement`."""
    return _read(text, lambda whole: flink.parse_statement(whole, _grammar(dialect_of(whole, dialect))))


def parse_query(text: str, dialect: str = FLINK) -> exp.Expr:
    """See `statements.parse_query`."""
    return _read(text, lambda whole: flink.parse_query(whole, _grammar(dialect_of(whole, dialect))))


def without_header(text: str) -> str:
    """The text of a statement without the line that says its dialect."""
    return _HEADER.sub("", text, count=1)


def statement_spans(text: str, dialect: str = FLINK) -> list[tuple[Span, bool]]:
    """See `statements.statement_spans`."""
    return flink.statement_spans(text, _grammar(dialect_of(text, dialect)))


def _read(text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except SqlSyntaxError as error:
        _spelling.point_out(text, error, parse)
        raise


def dialect_of(text: str, told: str) -> str:
    """The dialect of a text: what its first line says, else what its reader was told."""
    header = _HEADER.match(text) if text.lstrip()[:2] == "--" else None
    return told.lower() if header is None else header[1].lower()


def _grammar(dialect: str) -> type[StatementGrammar]:
    grammar: type[StatementGrammar] = _postgres.PostgresGrammar if dialect == POSTGRES else StatementGrammar
    return grammar


def _grammars(text: str, told: str) -> Iterator[StatementGrammar]:
    """Readers of the parts of a script, each in its dialect."""
    dialect, start = dialect_of(text, told), 0
    if DIALECT_OPTION not in text:
        yield _grammar(dialect)(text)
        return
    for change in _CHANGE.finditer(text):
        kind = _grammar(dialect)
        part = _part(text, kind, start, change.end())
        # What looks like a SET within a text or a comment is none.
        if part is not None and any(t.start == change.start() for t in part):
            yield kind(text, part)
            dialect, start = (change[1] or told).lower(), change.end()
    kind = _grammar(dialect)
    yield kind(text, kind.scanner(text, fold=True, start=start))


def _part(text: str, kind: type[StatementGrammar], start: int, end: int) -> list[Token] | None:
    try:
        return kind.scanner(text, fold=True, start=start, end=end)
    except SqlSyntaxError:
        return None
