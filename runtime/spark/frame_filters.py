"""Filters of a query as conditions of Spark, where Spark means exactly the same by them, NULL and NaN included.

What differs is not pushed, or said otherwise:

- NaN: for Spark it equals itself and is above all numbers, for the engine it is as in IEEE 754. So `x > c` becomes
  `x > c AND NOT isnan(x)`.
- Zero: for readers of files -0.0 and 0.0 may be different values, so no floating-point column is compared with zero.
- Exact numbers: a constant is compared in the column's own type, and only if it is a value of that type.
- Times: constants are made of microseconds or of text, never through the time zone of a session. A time that is declared
  with fewer digits than Spark's is cut, so the end of its unit decides.
- Texts: only columns whose collation compares bytes, and not CHAR(n), which Spark pads. LIKE without escapes.
- Declared types that are not the column's own are compared by the engine.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import importlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.expr.display import show
from runtime.expr.nodes import Call, Cast, Expr, InList, InputRef, Literal

__all__ = ["Pushed", "column_kinds", "quoted", "split"]

Made = Callable[[Any], Any]
"""Gives a column of Spark, mostly a condition, for a DataFrame."""

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INTEGERS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_SPARK_INTEGERS = frozenset(("tinyint", "smallint", "int", "bigint"))
_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_KINDS = {
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.DATE: "date",
    TypeRoot.VARCHAR: "string",
    TypeRoot.TIMESTAMP: "timestamp_ntz",
    TypeRoot.TIMESTAMP_LTZ: "timestamp",
}
_LONGEST = 2**31 - 1
_EPOCH = dt.datetime(1970, 1, 1)
_MICROS = 6


def column_kinds(frame: Any) -> dict[str, str]:
    """The types of a DataFrame's columns as Spark writes them; "" for one of which that does not say all."""
    padded = "__CHAR_VARCHAR_TYPE_STRING"
    return {f.name: "" if padded in (f.metadata or {}) else f.dataType.simpleString() for f in frame.schema.fields}


def quoted(name: str) -> str:
    """The name of a column as Spark's `frame[...]` takes it."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Pushed:
    """A filter that Spark applies. `schema`: which the columns of the expression are in."""

    expression: Expr
    schema: Schema

    @staticmethod
    def of(expression: Expr, schema: Schema, kinds: Mapping[str, str]) -> Pushed | None:
        """A filter that Spark can apply, None for another."""
        return None if _Conditions(schema, kinds).made(expression) is None else Pushed(expression, schema)

    @property
    def text(self) -> str:
        """As EXPLAIN shows it."""
        return show(self.expression, lambda e: self.schema[e.index].name if isinstance(e, InputRef) else None)

    def condition(self, frame: Any) -> Any:
        """The condition, over a DataFrame with these columns."""
        made = _Conditions(self.schema, column_kinds(frame)).made(self.expression)
        assert made is not None
        return made(frame)


class _Conditions:
    """Translates conditions over columns of a schema; None for what Spark does not mean exactly so."""

    def __init__(self, schema: Schema, kinds: Mapping[str, str]) -> None:
        self._schema = schema
        self._kinds = kinds

    def made(self, expression: Expr) -> Made | None:
        match expression:
            case InputRef(index=index) if self._is_own(index) and expression.type.root is TypeRoot.BOOLEAN:
                return self._column(index)
            case Call(function="AND" | "OR" as name, args=args):
                parts = [self.made(a) for a in args]
                join = operator.and_ if name == "AND" else operator.or_
                known = [p for p in parts if p is not None]
                if len(known) < len(parts):
                    return None
                return lambda frame: functools.reduce(join, [part(frame) for part in known])
            case Call(function="NOT", args=(inner,)):
                made = self.made(inner)
                return None if made is None else lambda frame: ~made(frame)
            case Call(function="IS NULL", args=(InputRef(index=index),)):
                column = self._column(index)
                return lambda frame: column(frame).isNull()
            case Call(function="IS NOT NULL", args=(InputRef(index=index),)):
                column = self._column(index)
                return lambda frame: column(frame).isNotNull()
            case Call(function="LIKE", args=(InputRef(index=index), Literal(value=str() as pattern))):
                if not self._is_own(index) or expression.args[0].type.root is not TypeRoot.VARCHAR or "\\" in pattern:
                    return None
                column = self._column(index)
                return lambda frame: column(frame).like(pattern)
            case Call(function=name, args=(value, Literal() as constant)) if name in _COMPARE:
                return self._compared(value, name, constant)
            case Call(function=name, args=(Literal() as constant, value)) if name in _COMPARE:
                return self._compared(value, _MIRRORED[name], constant)
            case InList(value=value, items=items):
                return self._is_one_of(value, items)
            case _:
                return None

    def _column(self, index: int) -> Made:
        name = quoted(self._schema[index].name)
        return lambda frame: frame[name]

    def _is_own(self, index: int) -> bool:
        """Whether a column has the type here that it has in Spark: its values are taken as they are."""
        field = self._schema[index]
        kind, type_ = self._kinds.get(field.name, ""), field.type
        if type_.root in _INTEGERS:
            return kind in _SPARK_INTEGERS
        if type_.root is TypeRoot.DECIMAL:
            return kind == f"decimal({type_.precision},{type_.scale})"
        if type_.root is TypeRoot.VARCHAR and type_.precision != _LONGEST:
            return False
        return kind == _KINDS.get(type_.root)

    def _compared(self, value: Expr, name: str, constant: Literal) -> Made | None:
        ref = _below_widening(value)
        if ref is None:
            return None
        column, compare = self._column(ref.index), _COMPARE[name]
        if isinstance(constant.value, dt.datetime) and value is ref and self._cuts(ref.index, constant):
            return _cut(name, column, constant.value, self._schema[ref.index].type)
        made = self._constant(value, constant)
        if made is None:
            return None
        if isinstance(constant.value, float) and name in (">", ">="):
            return lambda frame: compare(column(frame), made(frame)) & ~_functions(frame).isnan(column(frame))
        return lambda frame: compare(column(frame), made(frame))

    def _is_one_of(self, value: Expr, items: Sequence[Expr]) -> Made | None:
        ref = _below_widening(value)
        made = [self._constant(value, item) if isinstance(item, Literal) else None for item in items]
        known = [m for m in made if m is not None]
        if ref is None or not known or len(known) < len(made):
            return None
        column = self._column(ref.index)
        return lambda frame: column(frame).isin([m(frame) for m in known])

    def _cuts(self, index: int, constant: Literal) -> bool:
        """Whether a time has fewer digits here than in Spark."""
        type_ = self._schema[index].type
        return self._is_own(index) and type_.precision < _MICROS and constant.type.arrow == type_.arrow

    def _constant(self, value: Expr, constant: Literal) -> Made | None:
        """A constant as Spark compares it with a column, or with one in a wider type."""
        ref = _below_widening(value)
        if ref is None or constant.value is None or not self._is_own(ref.index):
            return None
        type_, given = self._schema[ref.index].type, constant.value
        root = type_.root
        if root in _INTEGERS:
            return _integer(given)
        if root is TypeRoot.DECIMAL:
            return _decimal(given, type_)
        if value is not ref or constant.type.arrow != type_.arrow:
            return None
        match given:
            case bool() if root is TypeRoot.BOOLEAN:
                return lambda frame: _functions(frame).lit(given)
            case float() if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) and given != 0.0 and not math.isnan(given):
                return lambda frame: _functions(frame).lit(given).cast(_KINDS[root])
            case str() if root is TypeRoot.VARCHAR:
                return lambda frame: _functions(frame).lit(given)
            case dt.datetime() if type_.precision >= _MICROS:
                return _moment(_micros(given, type_), type_)
            case dt.date() if root is TypeRoot.DATE:
                return lambda frame: _functions(frame).lit(given.isoformat()).cast("date")
            case _:
                return None


def _functions(frame: Any) -> Any:
    remote = type(frame).__module__.startswith("pyspark.sql.connect.")
    return importlib.import_module("pyspark.sql.connect.functions" if remote else "pyspark.sql.functions")


def _below_widening(value: Expr) -> InputRef | None:
    """The column of which a value is, in a wider exact type or its own."""
    match value:
        case InputRef():
            return value
        case Cast(value=InputRef() as ref, type=wide) if _is_wider(wide, ref.type):
            return ref
        case _:
            return None


def _is_wider(wide: DataType, narrow: DataType) -> bool:
    if wide.root in _INTEGERS:
        return narrow.root in _INTEGERS and _INTEGERS[wide.root] >= _INTEGERS[narrow.root]
    if wide.root is not TypeRoot.DECIMAL or not (narrow.root is TypeRoot.DECIMAL or narrow.root in _INTEGERS):
        return False
    digits, scale = _DIGITS.get(narrow.root, narrow.precision - narrow.scale), narrow.scale
    return wide.scale >= scale and wide.precision - wide.scale >= digits


def _integer(given: Any) -> Made | None:
    if isinstance(given, bool) or not isinstance(given, int | Decimal):
        return None
    if given != int(given) or not -(2**63) <= int(given) < 2**63:
        return None
    return lambda frame: _functions(frame).lit(int(given))


def _decimal(given: Any, type_: DataType) -> Made | None:
    """The constant in the column's own type, if it is a value of that."""
    if isinstance(given, bool) or not isinstance(given, int | Decimal):
        return None
    value = Decimal(given)
    with decimal.localcontext(prec=100):
        unscaled = value.scaleb(type_.scale)
        if unscaled != unscaled.to_integral_value() or abs(unscaled) >= 10**type_.precision:
            return None
    return lambda frame: _functions(frame).lit(format(value, "f")).cast(f"decimal({type_.precision},{type_.scale})")


def _micros(given: dt.datetime, type_: DataType) -> int | None:
    """Microseconds since 1970, where a time has a zone if its type has."""
    zoned = type_.root is TypeRoot.TIMESTAMP_LTZ
    if zoned != (given.tzinfo is not None):
        return None
    plain = given.astimezone(dt.UTC).replace(tzinfo=None) if zoned else given
    return (plain - _EPOCH) // dt.timedelta(microseconds=1)


def _moment(micros: int | None, type_: DataType) -> Made | None:
    if micros is None:
        return None
    if type_.root is TypeRoot.TIMESTAMP_LTZ:
        return lambda frame: _functions(frame).timestamp_micros(_functions(frame).lit(micros))
    try:
        text = (_EPOCH + dt.timedelta(microseconds=micros)).isoformat(" ")
    except OverflowError:
        return None
    return lambda frame: _functions(frame).lit(text).cast("timestamp_ntz")


def _cut(name: str, column: Made, given: dt.datetime, type_: DataType) -> Made | None:
    """A comparison of a time of which digits are cut: it is at most a constant if it is before the next unit, and so on."""
    micros, unit = _micros(given, type_), 10 ** (_MICROS - type_.precision)
    if micros is None or micros % unit or name not in ("<", "<=", ">", ">="):
        return None
    constant = _moment(micros + unit * (name in ("<=", ">")), type_)
    if constant is None:
        return None
    compare = operator.lt if name in ("<", "<=") else operator.ge
    return lambda frame: compare(column(frame), constant(frame))


def split(filters: Sequence[Expr], schema: Schema, kinds: Mapping[str, str]) -> tuple[list[Pushed], list[Expr]]:
    """The filters that Spark applies, and those that are left."""
    taken: list[Pushed] = []
    left: list[Expr] = []
    for expression in filters:
        found = Pushed.of(expression, schema, kinds)
        if found is None:
            left.append(expression)
        else:
            taken.append(found)
    return taken, left
