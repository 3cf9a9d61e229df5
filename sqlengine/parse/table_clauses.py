"""Clauses of CREATE TABLE that few have: DISTRIBUTED, LIKE, CHECK and UNIQUE."""

from __future__ import annotations

from sqlengine.parse.ddl_nodes import Constraint, Distribution, LikeClause, LikeOption, Name
from sqlengine.parse.lexer import NUMBER
from sqlengine.parse.table_definitions import TableGrammar

__all__ = ["read_constraint", "read_distribution", "read_like"]

_STRATEGIES = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_FEATURES = ("ALL", "CONSTRAINTS", "DISTRIBUTION", "PARTITIONS", "GENERATED", "METADATA", "OPTIONS", "WATERMARKS")
_NEVER_OVERWRITING = ("ALL", "CONSTRAINTS", "DISTRIBUTION", "PARTITIONS")


def read_distribution(grammar: TableGrammar, word: str) -> Distribution:
    start = grammar.expect(word)
    columns: tuple[Name, ...] = ()
    kind = None
    if grammar.match("BY"):
        kind = grammar.match_any("HASH", "RANGE")
        columns = grammar.names("a column name")
    buckets = None
    if grammar.match("INTO"):
        token = grammar.token
        if token.kind is not NUMBER or not token.text.isdigit():
            grammar.fail("a number of buckets")
        buckets = int(grammar.advance().text)
        grammar.expect("BUCKETS")
    elif not columns:
        grammar.fail("BY", "INTO")
    return Distribution(columns, kind, buckets, grammar.span_from(start))


def read_like(grammar: TableGrammar) -> LikeClause:
    start = grammar.expect("LIKE")
    source = grammar.object_name("the name of a table")
    chosen: list[LikeOption] = []
    if grammar.match("("):
        while not grammar.match(")"):
            at = grammar.token
            strategy = grammar.expect_any(*_STRATEGIES)
            feature = grammar.expect_any(*_FEATURES)
            if strategy == "OVERWRITING" and feature in _NEVER_OVERWRITING:
                grammar.refuse(f"{feature} cannot be overwritten", at, "use INCLUDING or EXCLUDING")
            if any(option.feature == feature for option in chosen):
                grammar.refuse(f"{feature} is there twice", at)
            chosen.append(LikeOption(strategy, feature, grammar.span_from(at)))
    return LikeClause(source, tuple(chosen), grammar.span_from(start))


def read_constraint(grammar: TableGrammar, name: Name | None, column: Name | None = None) -> Constraint:
    """CHECK or UNIQUE, from that word on. `column`: the one behind which it stands."""
    start = grammar.token
    if grammar.match("CHECK"):
        grammar.expect("(")
        condition = grammar.condition_text()
        grammar.expect(")")
        return Constraint(name, (), condition, span=grammar.span_from(start))
    grammar.expect("UNIQUE")
    distinct = True
    if grammar.match("NULLS"):
        distinct = not grammar.match("NOT")
        grammar.expect("DISTINCT")
    columns = grammar.names("a column name") if column is None else (column,)
    return Constraint(name, columns, None, distinct, grammar.span_from(start))
