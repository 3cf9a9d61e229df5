"""SQL in two tongues: the text for this engine and the text for DuckDB, kept side by side, with the kind of what it
gives."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = [
    "DRAWN",
    "EXACT",
    "INTEGERS",
    "LARGE",
    "NESTED",
    "NUMBERS",
    "ORDERED",
    "SORTED",
    "SUMMED",
    "Column",
    "Expr",
    "Kind",
    "Query",
    "Text",
    "joined",
    "same",
    "text",
]


class Kind(enum.Enum):
    """What values a column holds, as far as expressions and comparison care. The value is the SQL type.

    Kinds that are not `exact` are shown and asked for NULL, never grouped, joined or compared by the query itself:
    numbers without an exact answer (averages, deviations), and values whose parts come in any order.
    """

    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL(10, 2)"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP(3)"
    SMALLINT = "SMALLINT"
    FLOAT = "FLOAT"
    TIME = "TIME(0)"
    BYTES = "BYTES"
    WIDE = "DECIMAL(38, 2)"
    FINE = "DECIMAL(38, 18)"
    CHAR = "CHAR(3)"
    VARCHAR = "VARCHAR(4)"
    INTS = "ARRAY<INT>"
    STRINGS = "ARRAY<STRING>"
    MAP = "MAP<STRING, INT>"
    ROW = "ROW<x INT, y STRING>"
    APPROX = "a number within a tolerance"
    LISTED = "a text with its parts between commas, in any order"
    BAG = "an array in any order"
    COUNTED = "a multiset"
    JSON_ARRAY = "a JSON array in any order"
    JSON_OBJECT = "a JSON object"

    @property
    def is_number(self) -> bool:
        return self in NUMBERS

    @property
    def exact(self) -> bool:
        return self in EXACT


INTEGERS = (Kind.INT, Kind.BIGINT, Kind.SMALLINT)
NUMBERS = (*INTEGERS, Kind.DECIMAL, Kind.DOUBLE, Kind.FLOAT)
"""Numbers that may be compared with one another."""
LARGE = (Kind.WIDE, Kind.FINE)
"""Decimals of the greatest precision, at its edges: they overflow."""
SUMMED = (*INTEGERS, Kind.DECIMAL, Kind.DOUBLE, *LARGE)
ORDERED = (*NUMBERS, Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.TIME, *LARGE, Kind.CHAR, Kind.VARCHAR)
NESTED = (Kind.INTS, Kind.STRINGS, Kind.MAP, Kind.ROW)
EXACT = (*ORDERED, Kind.BOOLEAN, Kind.BYTES, *NESTED)
SORTED = (*ORDERED, Kind.BOOLEAN, Kind.BYTES)
"""Kinds that ORDER BY takes."""
DRAWN = (*NUMBERS, *NUMBERS, Kind.STRING, Kind.STRING, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, Kind.TIME, Kind.BYTES)
DRAWN = (Kind.INT, Kind.STRING, *DRAWN, *EXACT)
"""Kinds of columns, the common ones more often: joins must hit."""


@dataclass(frozen=True)
class Text:
    """One piece of SQL, for this engine and for DuckDB."""

    ours: str
    duck: str

    def __str__(self) -> str:
        raise TypeError("a Text is put into another one with text(), not with format()")


def same(sql: str) -> Text:
    """A piece that both read alike."""
    return Text(sql, sql)


def text(pattern: str, *parts: Text | str, **named: Text | str) -> Text:
    """A pattern as in `str.format`, filled on both sides."""

    def side(which: str) -> str:
        def one(part: Text | str) -> str:
            return part if isinstance(part, str) else getattr(part, which)

        return pattern.format(*(one(p) for p in parts), **{k: one(v) for k, v in named.items()})

    return Text(side("ours"), side("duck"))


def joined(separator: str, parts: list[Text]) -> Text:
    """The parts with a separator between them."""
    return Text(separator.join(p.ours for p in parts), separator.join(p.duck for p in parts))


@dataclass(frozen=True)
class Expr:
    """An expression and the kind of its value."""

    sql: Text
    kind: Kind


@dataclass(frozen=True)
class Column:
    """A column of a relation by name. `required`: a table declares it NOT NULL."""

    name: str
    kind: Kind
    required: bool = False

    def of(self, alias: str) -> Expr:
        return Expr(same(f"{alias}.{self.name}"), self.kind)


@dataclass(frozen=True)
class Query:
    """A query and its columns. `single`: it gives at most one row."""

    sql: Text
    columns: tuple[Column, ...]
    single: bool = False
