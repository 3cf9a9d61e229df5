"""SQL in two tongues: the text for this engine and the text for DuckDB, kept side by side, with the kind of what it
gives."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["INTEGERS", "NUMBERS", "ORDERED", "SUMMED", "Column", "Expr", "Kind", "Query", "Text", "same", "text"]


class Kind(enum.Enum):
    """What values a column holds, as far as expressions and comparison care. The value is the SQL type.

    APPROX is what has no exact answer (averages, deviations): it is shown and compared with a tolerance, never
    grouped, joined or compared by the query itself.
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
    APPROX = "APPROX"

    @property
    def is_number(self) -> bool:
        return self in NUMBERS


INTEGERS = (Kind.INT, Kind.BIGINT, Kind.SMALLINT)
NUMBERS = (*INTEGERS, Kind.DECIMAL, Kind.DOUBLE, Kind.FLOAT)
SUMMED = (*INTEGERS, Kind.DECIMAL, Kind.DOUBLE)
ORDERED = (*NUMBERS, Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.TIME)


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
    """A column of a relation by name."""

    name: str
    kind: Kind

    def of(self, alias: str) -> Expr:
        return Expr(same(f"{alias}.{self.name}"), self.kind)


@dataclass(frozen=True)
class Query:
    """A query and its columns. `single`: it gives at most one row."""

    sql: Text
    columns: tuple[Column, ...]
    single: bool = False


__all__ += ["joined"]
