"""Expressions as DuckDB's SQL, where it means the same.

What is left out has another meaning there, or none: whoever asks gets `Untranslatable`. Where DuckDB fails and Flink does
not (integers that wrap, a DECIMAL that is NULL because it has too many digits), the query fails, and the engine's own
operators answer it. So only what differs in silence must be left out.

A DECIMAL is computed with as few digits as DuckDB takes for it (up to 18 are one machine word), and has those of our type
where that matters: in what an aggregate or a function takes as it is, and at the end of a query.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

from runtime.core.types import DataType, TypeRoot
from runtime.eval.duckdb_plans.types import Digits, Untranslatable, compares_alike, duckdb_type, same_kind
from runtime.expr.digits import as_decimal
from runtime.expr.function import FunctionRegistry, ScalarFunction
from runtime.expr.nodes import Call, Case, Cast, Constants, Expr, InList, InputRef, Literal

__all__ = ["Term", "Translator", "averaged", "quoted"]

_R = TypeRoot
_MOST, _WORD = 38, 18
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
_TESTS = frozenset({"IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"})
_FIELDS = frozenset({"YEAR", "QUARTER", "MONTH", "DAY"})
_DIVISION_BY_ZERO = "error('division by zero')"


class Term:
    """An expression in DuckDB's SQL. `digits`: those of its DECIMAL, None for another type."""

    __slots__ = ("digits", "text")

    def __init__(self, text: str, digits: Digits | None = None) -> None:
        self.text = text
        self.digits = digits

    def of(self, type_: DataType) -> str:
        """As a value of a type of ours, which it is but for digits."""
        if self.digits is None or self.digits == (type_.precision, type_.scale):
            return self.text
        return f"CAST({self.text} AS {duckdb_type(type_)})"


class Translator:
    """Translates expressions. Args: `functions`: what the names of functions mean; `wide`: compute DECIMALs with so many
    digits that a machine word is not enough, because it was not."""

    def __init__(self, functions: FunctionRegistry, *, wide: bool) -> None:
        self._functions = functions
        self._wide = wide

    def term(self, expr: Expr, columns: Sequence[Term]) -> Term:
        """An expression over columns. Raises Untranslatable."""
        match expr:
            case InputRef(index=index):
                return columns[index]
            case Literal():
                return _constant(expr.value, expr.type)
            case Case(branches=branches, otherwise=otherwise):
                tests = (f"WHEN {self.text(c, columns)} THEN {self._as(v, expr.type, columns)}" for c, v in branches)
                text = f"(CASE {' '.join(tests)} ELSE {self._as(otherwise, expr.type, columns)} END)"
                return Term(text, _digits(expr.type))
            case Cast():
                return self._cast(expr, columns)
            case InList(value=value, items=items):
                return self._in(value, items, columns)
            case Call():
                return self._call(expr, columns)
            case _:
                raise Untranslatable

    def text(self, expr: Expr, columns: Sequence[Term]) -> str:
        """An expression that is no DECIMAL, or may be one of any digits."""
        return self.term(expr, columns).text

    def _as(self, expr: Expr, type_: DataType, columns: Sequence[Term]) -> str:
        """An expression as a value of a type that may have more digits."""
        if isinstance(expr, Literal) and expr.value is None:
            return f"CAST(NULL AS {duckdb_type(type_)})"
        if not same_kind(expr.type, type_):
            raise Untranslatable
        return self.term(expr, columns).of(type_)

    def _in(self, value: Expr, items: Sequence[Expr], columns: Sequence[Term]) -> Term:
        texts: list[str] = []
        for item in items:
            if not (same_kind(item.type, value.type) and compares_alike(value.type)):
                raise Untranslatable
            if isinstance(item, Constants):
                texts.extend(_constant(v, item.type).text for v in item.values)
            else:
                texts.append(self.text(item, columns))
        return Term(f"({self.text(value, columns)} IN ({', '.join(texts)}))")

    # --- casts

    def _cast(self, expr: Cast, columns: Sequence[Term]) -> Term:
        value, given, wanted = expr.value, expr.value.type, expr.type
        if isinstance(value, Literal) and value.value is None:
            return _constant(None, wanted)
        term = self.term(value, columns)
        if given.root is wanted.root and given.root is not _R.DECIMAL:
            measured = given.root in (_R.VARCHAR, _R.TIMESTAMP)
            if given.root is _R.CHAR or (measured and wanted.precision < given.precision):
                raise Untranslatable
            return term
        if expr.safe:
            raise Untranslatable
        if given.is_integer and (wanted.is_integer or wanted.root is _R.DOUBLE):
            return Term(f"CAST({term.text} AS {duckdb_type(wanted)})")
        if wanted.root is _R.DECIMAL and (given.is_integer or given.root is _R.DECIMAL):
            if (
                term.digits is not None
                and term.digits.scale == wanted.scale
                and term.digits.precision <= wanted.precision
            ):
                return term
            return Term(f"CAST({term.text} AS {duckdb_type(wanted)})", _digits(wanted))
        raise Untranslatable

    # --- calls

    def _call(self, call: Call, columns: Sequence[Term]) -> Term:
        name, args = call.function, call.args
        if name in ("AND", "OR"):
            return Term("(" + f" {name} ".join(self.text(a, columns) for a in args) + ")")
        if name == "NOT":
            return Term(f"(NOT {self.text(args[0], columns)})")
        if name in ("IS NULL", "IS NOT NULL") or name in _TESTS:
            return Term(f"({self.text(args[0], columns)} {name})")
        if name in ("IS UNKNOWN", "IS NOT UNKNOWN"):
            return Term(f"({self.text(args[0], columns)} {name.replace('UNKNOWN', 'NULL')})")
        if name in _COMPARISONS:
            return self._compared(name, args, columns)
        if name in ("+", "-", "*", "/") and len(args) == 2:
            return self._computed(call, columns)
        if name in ("COALESCE", "IFNULL"):
            texts = ", ".join(self._as(a, call.type, columns) for a in args)
            return Term(f"COALESCE({texts})", _digits(call.type))
        if name == "IF":
            then, other = (self._as(a, call.type, columns) for a in args[1:])
            return Term(f"(CASE WHEN {self.text(args[0], columns)} THEN {then} ELSE {other} END)", _digits(call.type))
        if name == "EXTRACT" and isinstance(args[0], Literal):
            return self._field(args[0].value, args[1], columns)
        if name in _FIELDS and len(args) == 1:
            return self._field(name, args[0], columns)
        return self._templated(call, columns)

    def _compared(self, name: str, args: Sequence[Expr], columns: Sequence[Term]) -> Term:
        left, right = args
        if not compares_alike(left.type, right.type):
            raise Untranslatable
        return Term(f"({self.text(left, columns)} {name} {self.text(right, columns)})")

    def _field(self, unit: Any, value: Expr, columns: Sequence[Term]) -> Term:
        if unit not in _FIELDS or value.type.root not in (_R.DATE, _R.TIMESTAMP):
            raise Untranslatable
        return Term(f"CAST(EXTRACT({unit} FROM {self.text(value, columns)}) AS BIGINT)")

    def _templated(self, call: Call, columns: Sequence[Term]) -> Term:
        """A function whose declaration says what it is in DuckDB."""
        found = self._functions.find(call.function)
        if not isinstance(found, ScalarFunction) or not found.deterministic or found.dynamic or found.duckdb is None:
            raise Untranslatable
        template = found.duckdb if isinstance(found.duckdb, str) else found.duckdb.get(len(call.args))
        if template is None or any(a.type.is_approximate for a in call.args):
            raise Untranslatable
        if "{args}" not in template and not all(f"{{{i}}}" in template for i in range(len(call.args))):
            # It is for fewer arguments: LIKE without ESCAPE.
            raise Untranslatable
        texts = [self._argument(a, columns) for a in call.args]
        return Term(
            f"CAST({template.format(*texts, args=', '.join(texts))} AS {duckdb_type(call.type)})", _digits(call.type)
        )

    def _argument(self, expr: Expr, columns: Sequence[Term]) -> str:
        duckdb_type(expr.type)
        return self.term(expr, columns).of(expr.type)

    # --- numbers

    def _computed(self, call: Call, columns: Sequence[Term]) -> Term:
        (left, right), name, result = call.args, call.function, call.type
        if result.is_integer and left.type.root is right.type.root is result.root:
            a, b = self.text(left, columns), self.text(right, columns)
            if name == "/":
                return Term(f"(CASE WHEN {b} = 0 THEN {_DIVISION_BY_ZERO} ELSE {a} // {b} END)")
            return Term(f"({a} {name} {b})")
        if result.root is not _R.DECIMAL or not (left.type.is_exact_numeric and right.type.is_exact_numeric):
            raise Untranslatable
        a, b = self._decimal(left, columns), self._decimal(right, columns)
        assert a.digits is not None and b.digits is not None
        if name == "/":
            shift = result.scale - a.digits.scale + b.digits.scale
            if shift < 0:
                raise Untranslatable
            over = f"({_unscaled(a)} * {10**shift}::HUGEINT)"
            under = _unscaled(b)
            quotient = f"(CASE WHEN {under} = 0 THEN {_DIVISION_BY_ZERO} ELSE {_half_up(over, under)} END)"
            return _fitting(_scaled(quotient, result.scale), result)
        digits = _product(a.digits, b.digits) if name == "*" else _sum(a.digits, b.digits)
        return _fitting(Term(f"({a.text} {name} {b.text})", digits), result)

    def _decimal(self, expr: Expr, columns: Sequence[Term]) -> Term:
        term = self.term(expr, columns)
        digits = term.digits
        if digits is None:
            whole = as_decimal(expr.type)
            if isinstance(expr, Literal) and expr.value is not None:
                whole = whole.with_(precision=len(str(abs(expr.value))))
            digits = Digits(whole.precision, whole.scale)
            term = Term(f"CAST({term.text} AS {duckdb_type(whole)})", digits)
        if self._wide and digits.precision < _MOST:
            return Term(f"CAST({term.text} AS DECIMAL({_MOST}, {digits.scale}))", Digits(_MOST, digits.scale))
        return term


def averaged(total: str, digits: Digits, count: str, result: DataType) -> Term:
    """The sum of DECIMALs over their number, rounded half up. Raises Untranslatable."""
    shift = result.scale - digits.scale
    if shift < 0:
        raise Untranslatable
    over = f"({_unscaled(Term(total, digits))} * {10**shift}::HUGEINT)"
    return _fitting(_scaled(_half_up(over, f"CAST({count} AS HUGEINT)"), result.scale), result)


def _fitting(term: Term, type_: DataType) -> Term:
    """As it is, where each of its values is one of the type; else rounded half up, which fails when one does not fit."""
    digits = term.digits
    if digits is None or digits.scale < type_.scale:
        raise Untranslatable
    if digits.scale == type_.scale and digits.precision <= type_.precision:
        return term
    return Term(term.of(type_), _digits(type_))


def _sum(a: Digits, b: Digits) -> Digits:
    """What DuckDB gives a sum."""
    scale = max(a.scale, b.scale)
    width = max(max(a.precision - a.scale, b.precision - b.scale) + scale, a.precision, b.precision) + 1
    return _limited(width, scale, a, b)


def _product(a: Digits, b: Digits) -> Digits:
    """What DuckDB gives a product."""
    if a.scale + b.scale > _MOST:  # DuckDB refuses it.
        raise Untranslatable
    return _limited(a.precision + b.precision, a.scale + b.scale, a, b)


def _limited(width: int, scale: int, a: Digits, b: Digits) -> Digits:
    if width > _WORD and max(a.precision, b.precision) <= _WORD and scale < _WORD:
        return Digits(_WORD, scale)
    return Digits(min(width, _MOST), scale)


def _unscaled(term: Term) -> str:
    """A DECIMAL as the integer that it is in units of its last digit."""
    assert term.digits is not None
    scale = term.digits.scale
    factor = f" * CAST({10**scale} AS DECIMAL({scale + 1}, 0))" if scale else ""
    return f"CAST(CAST({term.text} AS DECIMAL({_MOST}, {scale})){factor} AS HUGEINT)"


def _scaled(unscaled: str, scale: int) -> Term:
    unit = f" * CAST('{decimal.Decimal(1).scaleb(-scale):f}' AS DECIMAL({scale}, {scale}))" if scale else ""
    return Term(f"(CAST({unscaled} AS DECIMAL({_MOST}, 0)){unit})", Digits(_MOST, scale))


def _half_up(over: str, under: str) -> str:
    """The quotient of two integers rounded half away from zero."""
    whole = f"((abs({over}) + abs({under}) // 2) // abs({under}))"
    return f"(CASE WHEN ({over} < 0) <> ({under} < 0) THEN -{whole} ELSE {whole} END)"


def _digits(type_: DataType) -> Digits | None:
    return Digits(type_.precision, type_.scale) if type_.root is _R.DECIMAL else None


def _constant(value: Any, type_: DataType) -> Term:
    name = duckdb_type(type_)
    if value is None:
        return Term(f"CAST(NULL AS {name})", _digits(type_))
    match value:
        case bool():
            return Term("true" if value else "false")
        case int() if type_.is_integer:
            return Term(f"CAST({value} AS {name})")
        case str() if "\0" not in value:
            return Term(quoted(value))
        case decimal.Decimal():
            return Term(f"CAST('{value:f}' AS {name})", _digits(type_))
        case datetime.datetime() | datetime.date() if value.year >= 1:
            return Term(f"CAST('{value.isoformat(' ') if isinstance(value, datetime.datetime) else value}' AS {name})")
        case _:
            raise Untranslatable


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
