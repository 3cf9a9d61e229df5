"""Text of Flink SQL to statements and trees.

    parse_script(text)       all statements of a script
    parse_statement(text)    the only statement
    parse_query(text)        a query on its own, as a sqlglot tree
    parse_expression(text)   an expression on its own
    parse_type(text)         a data type
    to_type(tree)            the data type of a type node
    span_of(tree)            where in the text a tree was read
    interval_value(tree)     what an INTERVAL literal amounts to
    FlinkSQL                 the sqlglot dialect "flink"
    statement_spans(text)    where statements begin and end, for shells

`nodes` says which trees come out for each construct, `statement_nodes` lists the statements. All spans count from the
start of the text that was given. What is not in the language raises SqlSyntaxError, what is in Flink's and not in ours
UnsupportedError; both carry the place and the text.
"""

from __future__ import annotations

from sqlengine.parse import nodes, statement_nodes
from sqlengine.parse.dialect import FlinkSQL
from sqlengine.parse.literals import interval_value
from sqlengine.parse.reading import parse_query, parse_script, parse_statement, statement_spans
from sqlengine.parse.spans import span_of
from sqlengine.parse.statements import parse_expression
from sqlengine.parse.types import parse_type, to_type

__all__ = [
    "FlinkSQL",
    "interval_value",
    "nodes",
    "parse_expression",
    "parse_query",
    "parse_script",
    "parse_statement",
    "parse_type",
    "span_of",
    "statement_nodes",
    "statement_spans",
    "to_type",
]
