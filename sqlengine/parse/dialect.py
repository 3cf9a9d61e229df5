"""Flink SQL as a dialect of sqlglot, for those who hold trees of sqlglot: `sqlglot.parse(text, read="flink")`.

The grammar is the one of this room, not sqlglot's: sqlglot's parser takes much that Flink refuses, rewrites some of
what it takes, and knows neither watermarks nor table functions over tables. Reading through the dialect gives the trees
of `nodes`; statements that are no queries come as StatementNode. Errors are ours (SqlSyntaxError), with their place.

Writing a tree gives Flink SQL that reads back to an equal tree (`writer`).
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Token as DialectToken
from sqlglot.tokens import Tokenizer, TokenType

from sqlengine.parse import nodes
from sqlengine.parse.lexer import BINARY, END, NUMBER, OP, QUOTED, STRING, UNICODE, WORD, scan
from sqlengine.parse.statement_nodes import QueryStatement
from sqlengine.parse.statements import parse_expression, parse_plain, parse_query
from sqlengine.parse.writer import FlinkGenerator

__all__ = ["FlinkSQL"]

_TOKEN_TYPES = {
    WORD: TokenType.VAR,
    QUOTED: TokenType.IDENTIFIER,
    STRING: TokenType.STRING,
    UNICODE: TokenType.UNICODE_STRING,
    NUMBER: TokenType.NUMBER,
    BINARY: TokenType.HEX_STRING,
}


class FlinkSQL(Dialect):
    """The dialect "flink"."""

    INDEX_OFFSET = 1
    NULL_ORDERING = "nulls_are_small"

    class Tokenizer(Tokenizer):
        """Only tells the generator how names are quoted; texts are scanned by `lexer`."""

        IDENTIFIERS = ["`"]

    Generator = FlinkGenerator

    def parse(self, sql: str, **opts: Any) -> list[exp.Expr | None]:
        trees: list[exp.Expr | None] = []
        for statement in parse_plain(sql):
            if isinstance(statement, QueryStatement):
                trees.append(statement.query.query)
            else:
                trees.append(nodes.StatementNode(this=statement))
        return trees

    def parse_into(self, expression_type: exp.IntoType, sql: str, **opts: Any) -> list[exp.Expr | None]:
        is_query = isinstance(expression_type, type) and issubclass(expression_type, exp.Query)
        return [parse_query(sql) if is_query else parse_expression(sql)]

    def tokenize(self, sql: str, dialect: Any = None) -> list[DialectToken]:
        found: list[DialectToken] = []
        for token in scan(sql):
            if token.kind is not END:
                marks = self.tokenizer_class.SINGLE_TOKENS
                kind = marks.get(token.text) if token.kind is OP else _TOKEN_TYPES[token.kind]
                line = sql.count("\n", 0, token.start) + 1
                found.append(
                    DialectToken(kind or TokenType.VAR, token.value, line=line, start=token.start, end=token.end - 1)
                )
        return found


# The entry point "flink" of group sqlglot.dialects names this class; inside a checkout there are no entry points.
type(FlinkSQL)._classes.setdefault("flink", FlinkSQL)
