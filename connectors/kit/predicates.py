"""Conditions of a query as SQL of another system, where they mean the same there.

What may differ in silence is not translated: floating numbers (NaN), the order of texts (collations), CHAR (blanks), times
where a system keeps fewer digits. A text that is equal here is equal everywhere, but where letters are compared without
case, more may be equal: such a condition is asked for, to read less, and the engine asks again.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Call, Constants, Expr, InList, InputRef, Literal, transform, walk

__all__ = ["Condition", "as_conditions", "where"]

_R = TypeRoot
_NUMBERS = frozenset({_R.TINYINT, _R.SMALLINT, _R.INT, _R.BIGINT})
_WHOLE = _NUMBERS | {_R.BOOLEAN, _R.DECIMAL, _R.DATE, _R.TIMESTAMP}
_EXACT: Mapping[str, frozenset[TypeRoot]] = {
    "duckdb": _WHOLE | {_R.VARCHAR},
    "postgres": _WHOLE,
    "mysql": _NUMBERS | {_R.DECIMAL, _R.DATE},
    "sqlite": _NUMBERS,
    "clickhouse": _NUMBERS | {_R.BOOLEAN, _R.VARCHAR, _R.DATE, _R.TIMESTAMP, _R.TIMESTAMP_LTZ},
}
"""Types that a system compares as the engine does."""
_COMPARISONS: Mapping[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_MOST_DIGITS = 6
_CLICKHOUSE_YEARS = range(1900, 2299)
"""Of which all of its versions have times."""


@dataclass(frozen=True)
class Condition:
    """A condition that another system takes.

    Attributes:
        sql: its text there.
        exact: it lets through what the engine's does; otherwise that, and perhaps more.
        expression, names: the condition, and the columns that its `InputRef`s name. Of two tables the text is compared:
            which columns stood beside them when it was taken means nothing.
    """

    sql: str
    exact: bool
    expression: Expr = field(compare=False)
    names: tuple[str, ...] = field(compare=False)

    @property
    def columns(self) -> dict[str, DataType]:
        """The columns that it asks for, by name."""
        refs = [e for e in walk(self.expression) if isinstance(e, InputRef)]
        return {self.names[ref.index]: ref.type for ref in refs}

    def over(self, schema: Schema) -> Expr:
        """The condition over the columns of another schema, among which are its own (`TellsPushDown`)."""

        def moved(expr: Expr) -> Expr:
            return InputRef(schema.index_of(self.names[expr.index]), expr.type) if isinstance(expr, InputRef) else expr

        return transform(self.expression, moved)


def as_conditions(
    filters: Sequence[Expr], schema: Schema, dialect: str, already: Iterable[Condition] = ()
) -> tuple[tuple[Condition, ...], list[Expr]]:
    """What a system takes of filters over `schema`, and the filters that the engine must still apply: what
    `SupportsFilters.with_filters` needs.

    The columns must have the types of the schema there: ask for them with a cast, in a subquery, where they are stored
    otherwise.

    Args:
        already: what was taken before; it is in the answer, and comes first.
        dialect: `duckdb`, `postgres`, `mysql`, `sqlite` or `clickhouse`; of another one nothing is known, and nothing is taken.
    """
    translation = _Translation(schema, dialect)
    taken = list(already)
    known = {c.sql for c in taken}
    left: list[Expr] = []
    for expression in filters:
        exact = translation.exact(expression)
        found = exact or translation.wider(expression)
        if found is not None and found.sql(dialect) not in known:
            taken.append(Condition(found.sql(dialect), exact is not None, expression, schema.names))
        if exact is None:
            left.append(expression)
    return tuple(taken), left


def where(conditions: Iterable[Condition]) -> str:
    """` WHERE ..` of conditions, nothing without any."""
    texts = [f"({c.sql})" for c in conditions]
    return f" WHERE {' AND '.join(texts)}" if texts else ""


class _Translation:
    """Expressions of sqlglot. `exact`: with the same of SQL's three values for every row; `wider`: true where ours is."""

    def __init__(self, schema: Schema, dialect: str) -> None:
        self._schema = schema
        self._types = _EXACT.get(dialect, frozenset())
        self._dialect = dialect

    def exact(self, expr: Expr) -> exp.Expr | None:
        match expr:
            case Call(function="AND" | "OR" as name, args=args):
                parts = [self.exact(a) for a in args]
                if any(p is None for p in parts):
                    return None
                return exp.and_(*parts) if name == "AND" else exp.or_(*parts)
            case Call(function="NOT", args=(inner,)):
                part = self.exact(inner)
                return None if part is None else exp.not_(part)
            case Call(function="IS NULL" | "IS NOT NULL" as name, args=(InputRef() as ref,)):
                test = exp.Is(this=self._column(ref), expression=exp.Null())
                return test if name == "IS NULL" else exp.not_(test)
            case InputRef(type=type_) if type_.root is _R.BOOLEAN and type_.root in self._types:
                return self._column(expr)
            case _:
                return self._compared(expr, self._types, _COMPARISONS)

    def wider(self, expr: Expr) -> exp.Expr | None:
        match expr:
            case Call(function="AND", args=args):
                parts = [p for p in map(self._either, args) if p is not None]
                return exp.and_(*parts) if parts else None
            case Call(function="OR", args=args):
                all_parts = [self._either(a) for a in args]
                return None if any(p is None for p in all_parts) else exp.or_(*all_parts)
            case _:
                return self._compared(expr, frozenset({_R.VARCHAR}) if self._types else frozenset(), {"=": exp.EQ})

    def _either(self, expr: Expr) -> exp.Expr | None:
        return self.exact(expr) or self.wider(expr)

    def _compared(
        self, expr: Expr, types: frozenset[TypeRoot], comparisons: Mapping[str, type[exp.Binary]]
    ) -> exp.Expr | None:
        """A column compared with constants."""
        match expr:
            case Call(function=name, args=(InputRef() as ref, Literal() as constant)) if name in comparisons:
                value = self._constant(constant.value, ref.type, constant.type, types)
                return value and comparisons[name](this=self._column(ref), expression=value)
            case Call(function=name, args=(Literal() as constant, InputRef() as ref)) if name in comparisons:
                value = self._constant(constant.value, ref.type, constant.type, types)
                return value and comparisons[name](this=value, expression=self._column(ref))
            case InList(value=InputRef() as ref, items=items):
                values = [self._constant(v, ref.type, i.type, types) for i in items for v in _values(i)]
                if not values or any(v is None for v in values):
                    return None
                return exp.In(this=self._column(ref), expressions=values)
            case _:
                return None

    def _constant(self, value: Any, column: DataType, given: DataType, types: frozenset[TypeRoot]) -> exp.Expr | None:
        if self._dialect == "clickhouse" and isinstance(value, datetime.date):
            return _moment_of_clickhouse(value, column, given) if column.root in types else None
        return _constant(value, column, given, types)

    def _column(self, ref: InputRef) -> exp.Column:
        return exp.column(self._schema[ref.index].name, quoted=True)


def _values(item: Expr) -> tuple[Any, ...]:
    match item:
        case Literal(value=value):
            return (value,)
        case Constants(values=values):
            return values
        case _:
            return (None,)


def _constant(value: Any, column: DataType, given: DataType, types: frozenset[TypeRoot]) -> exp.Expr | None:
    """A constant in the comparison with a column; None where it may mean something else there."""
    root = column.root
    alike = given.root is root or {given.root, root} <= {_R.CHAR, _R.VARCHAR}
    if root not in types or not (alike or (root in _NUMBERS and given.root in _NUMBERS)):
        return None
    match value:
        case bool():
            return exp.Boolean(this=value)
        case int():
            return exp.Literal.number(value)
        case decimal.Decimal() if value.is_finite():
            return exp.Literal.number(f"{value:f}")
        case str() if "\0" not in value and given.root is not _R.CHAR:
            return exp.Literal.string(value)
        case str() if "\0" not in value and not value.endswith(" "):
            return exp.Literal.string(value)
        case datetime.datetime() if value.tzinfo is None and column.precision <= _MOST_DIGITS and value.year >= 1:
            return exp.cast(exp.Literal.string(value.isoformat(" ")), "TIMESTAMP")
        case datetime.date() if not isinstance(value, datetime.datetime):
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        case _:
            return None


def _moment_of_clickhouse(value: datetime.date, column: DataType, given: DataType) -> exp.Expr | None:
    """A date or a time: its texts as casts understand them are of few years."""
    if column.root is not given.root or value.year not in _CLICKHOUSE_YEARS or column.precision > _MOST_DIGITS:
        return None
    if not isinstance(value, datetime.datetime):
        return exp.Anonymous(this="toDate32", expressions=[exp.Literal.string(value.isoformat())])
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    parts = [exp.Literal.string(value.isoformat(" ")), exp.Literal.number(_MOST_DIGITS), exp.Literal.string("UTC")]
    return exp.Anonymous(this="toDateTime64", expressions=parts)
