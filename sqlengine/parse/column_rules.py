"""What stands behind the type of a column: NOT NULL, DEFAULT, GENERATED .. AS IDENTITY; and ALTER COLUMN."""

from __future__ import annotations

from sqlglot import exp

from sqlengine.parse.ddl_nodes import AlterColumn, ExpressionText, Identity, PhysicalColumn, QueryText
from sqlengine.parse.lexer import NUMBER
from sqlengine.parse.nodes import DefaultArg
from sqlengine.parse.table_definitions import TableGrammar

__all__ = [
    "numbered",
    "read_alter_column",
    "read_default",
    "read_default_values",
    "read_overriding",
    "read_rule",
    "whole_number",
]


def read_rule(grammar: TableGrammar, column: PhysicalColumn) -> PhysicalColumn:
    """The column with the rule that stands here: NOT NULL, NULL, DEFAULT or GENERATED."""
    if grammar.match("NULL"):
        return column
    if grammar.match("DEFAULT"):
        return _checked(grammar, column.with_(default=grammar.default_text()))
    if grammar.match("GENERATED"):
        return numbered(grammar, column, _identity(grammar, column))
    grammar.expect("NOT", "NULL")
    return column.with_(type=column.type.not_null())


def numbered(grammar: TableGrammar, column: PhysicalColumn, identity: Identity | None = None) -> PhysicalColumn:
    """The column with numbers in a row as its values."""
    return _checked(grammar, column.with_(type=column.type.not_null(), identity=identity or Identity()))


def _checked(grammar: TableGrammar, column: PhysicalColumn) -> PhysicalColumn:
    if column.default is not None and column.identity is not None:
        grammar.refuse(
            f'the column "{column.name}" is numbered, and has a default value, too',
            column.name.span,
            "keep one of them",
        )
    return column


def _identity(grammar: TableGrammar, column: PhysicalColumn) -> Identity:
    """`{ALWAYS | BY DEFAULT} AS IDENTITY [(START [WITH] n INCREMENT [BY] m)]`."""
    start = grammar.token
    always = grammar.match("ALWAYS")
    if not always:
        grammar.expect("BY", "DEFAULT")
    grammar.expect("AS", "IDENTITY")
    if not column.type.is_integer:
        grammar.refuse("only a column of integers is numbered", start, f"{column.name} BIGINT GENERATED ..")
    first, step = 1, 1
    if grammar.match("("):
        while not grammar.match(")"):
            word = grammar.expect_any("START", "INCREMENT")
            grammar.match("WITH" if word == "START" else "BY")
            number = whole_number(grammar)
            first, step = (number, step) if word == "START" else (first, number)
            grammar.match(",")
    if step == 0:
        grammar.refuse("INCREMENT BY 0 numbers nothing", start, "INCREMENT BY 1")
    return Identity(always, first, step)


def whole_number(grammar: TableGrammar) -> int:
    """A number that fits BIGINT, maybe with a sign."""
    sign = -1 if grammar.match("-") else 1
    token = grammar.token
    if token.kind is not NUMBER or not token.text.isdigit() or len(token.text) > 19:
        grammar.fail("a whole number")
    number = sign * int(token.text)
    if not -(1 << 63) <= number < 1 << 63:
        grammar.refuse(f"{number} is no BIGINT", token, "a number of at most 18 digits is one")
    grammar.advance()
    return number


def read_default(grammar: TableGrammar) -> ExpressionText:
    """The word DEFAULT in the place of a value."""
    token = grammar.expect("DEFAULT")
    return ExpressionText(grammar.place(DefaultArg(), token), "DEFAULT", token.span)


def read_overriding(grammar: TableGrammar) -> bool:
    """`OVERRIDING SYSTEM VALUE`: values are given for columns that are always numbered."""
    grammar.expect("OVERRIDING")
    if grammar.at("USER"):
        grammar.refuse("OVERRIDING USER VALUE is not supported", hint="leave the column out of the column list")
    grammar.expect("SYSTEM", "VALUE")
    return True


def read_default_values(grammar: TableGrammar) -> QueryText:
    """`DEFAULT VALUES`: one row, of which every column has its default value."""
    start = grammar.expect("DEFAULT")
    grammar.expect("VALUES")
    row = grammar.place(exp.Tuple(expressions=[grammar.place(DefaultArg(), start)]), start)
    tree = grammar.place(exp.Values(expressions=[row]), start)
    span = grammar.span_from(start)
    return QueryText(tree, grammar.slice(span), span)


def read_alter_column(grammar: TableGrammar) -> AlterColumn:
    """`[COLUMN] c {SET DEFAULT .. | DROP DEFAULT | SET NOT NULL | DROP NOT NULL | [SET DATA] TYPE ..}`."""
    grammar.match("COLUMN")
    name = grammar.name("a column name")
    if grammar.match("TYPE") or grammar.match("SET", "DATA", "TYPE"):
        return AlterColumn(name, "TYPE", type=grammar.data_type())
    word = grammar.expect_any("SET", "DROP", "TYPE")
    if grammar.match("NOT", "NULL"):
        return AlterColumn(name, "NULL", nullable=word == "DROP")
    grammar.expect("DEFAULT")
    return AlterColumn(name, "DEFAULT", grammar.default_text() if word == "SET" else None)
