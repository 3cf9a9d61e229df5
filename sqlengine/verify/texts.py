"""Expressions as DuckDB reads them, in Flink's meaning.

Comparisons, logic, arithmetic of integers and floats, CASE, IN and subqueries are DuckDB's own. Every other function has
one evaluation in the engine, and DuckDB calls that: what is checked is what the engine does with rows and their changes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

from planner.logical.nodes import LogicalNode
from runtime.core.types import DataType, TypeRoot
from runtime.expr.analysis import is_deterministic, is_dynamic
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import (
    Call,
    Case,
    Cast,
    ColumnRef,
    Constants,
    Expr,
    InList,
    InputRef,
    Literal,
    OuterRef,
    SubqueryExpr,
    SubqueryKind,
)
from sqlengine.bind.subquery import one_row
from sqlengine.verify.rows import Unordered

__all__ = ["CannotVerify", "Texts", "duck_type", "name_of", "quoted"]

_R = TypeRoot
_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
_ARITHMETIC = frozenset(("+", "-", "*"))
_SUFFIXES = frozenset(("IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"))
_DISTINCT = frozenset(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
_PLAIN = {
    _R.BOOLEAN: "BOOLEAN", _R.TINYINT: "TINYINT", _R.SMALLINT: "SMALLINT", _R.INT: "INTEGER", _R.BIGINT: "BIGINT",
    _R.FLOAT: "FLOAT", _R.DOUBLE: "DOUBLE", _R.DATE: "DATE", _R.CHAR: "VARCHAR", _R.VARCHAR: "VARCHAR",
    _R.BINARY: "BLOB", _R.VARBINARY: "BLOB", _R.NULL: "INTEGER", _R.TIME: "TIME",
}  # fmt: skip


class CannotVerify(Exception):
    """What DuckDB cannot be asked, in words that end a sentence: "a temporal join"."""


def name_of(column_id: int) -> str:
    """A column of a plan in DuckDB's text."""
    return f"c{column_id}"


def quoted(name: str) -> str:
    """A name as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def duck_type(type_: DataType) -> str:
    """The type in DuckDB. Raises CannotVerify for those that it does not have in the same way."""
    if type_.root in _PLAIN:
        return _PLAIN[type_.root]
    if type_.root is _R.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if type_.root is _R.TIMESTAMP and type_.precision <= 6:
        return "TIMESTAMP"
    if type_.root is _R.ARRAY:
        return f"{duck_type(type_.children[0])}[]"
    if type_.root is _R.MAP:
        key, value = type_.children
        return f"MAP({duck_type(key)}, {duck_type(value)})"
    if type_.root is _R.ROW:
        fields = ", ".join(f"{quoted(f.name)} {duck_type(f.type)}" for f in type_.fields)
        return f"STRUCT({fields})"
    raise CannotVerify(f"a value of type {type_.with_nullable(True)}")


class Texts:
    """Expressions of one plan as texts.

    Args:
        functions: the engine's functions.
        own: gives the name under which DuckDB may call an expression over `InputRef`s, for argument types.
        query: the text of a subquery's plan.
    """

    def __init__(
        self,
        functions: FunctionRegistry,
        own: Callable[[Expr, tuple[DataType, ...]], str],
        query: Callable[[LogicalNode], str],
    ) -> None:
        self._functions = functions
        self._own = own
        self._query = query
        self.unordered: dict[int, Unordered] = {}
        """Columns whose values hold parts in an order that DuckDB does not know: only whole results are compared."""

    def of(self, expr: Expr) -> str:
        """The text of an expression. Raises CannotVerify."""
        match expr:
            case ColumnRef(id=number) | OuterRef(id=number):
                self._check_order(number)
                return name_of(number)
            case Literal():
                return self._literal(expr)
            case Constants(values=values, type=type_):
                return ", ".join(self._literal(Literal(value, type_)) for value in values)
            case Case(branches=branches, otherwise=otherwise):
                parts = " ".join(f"WHEN {self.of(c)} THEN {self.of(v)}" for c, v in branches)
                return f"CAST(CASE {parts} ELSE {self.of(otherwise)} END AS {duck_type(expr.type)})"
            case InList(value=value, items=items):
                return f"({self.of(value)} IN ({', '.join(map(self.of, items))}))"
            case Cast(value=value, type=type_) if _same_values(value.type, type_):
                return f"CAST({self.of(value)} AS {duck_type(type_)})"
            case SubqueryExpr(plan=plan):
                text = self.subquery(expr)
                if isinstance(plan, LogicalNode) and expr.kind is not SubqueryKind.EXISTS:
                    for column in plan.columns:
                        self._check_order(column.id)
                return text
            case Call():
                return self._call(expr)
            case Cast(value=value):
                return self._called(expr.with_(value=InputRef(0, value.type)), (value,))
            case _:
                raise CannotVerify("a lambda")

    def _check_order(self, column_id: int) -> None:
        if column_id in self.unordered:
            raise CannotVerify("what is computed from the parts of LISTAGG, ARRAY_AGG or COLLECT")

    def _call(self, call: Call) -> str:
        name, args = call.function, call.args
        if not is_deterministic(call, self._functions) or is_dynamic(call, self._functions):
            raise CannotVerify(f"{name}, which gives another value each time")
        if name in ("AND", "OR"):
            return "(" + f" {name} ".join(map(self.of, args)) + ")"
        if name == "NOT":
            return f"(NOT {self.of(args[0])})"
        if name in _SUFFIXES:
            return f"({self.of(args[0])} {name})"
        # Texts of DuckDB for what it compares as we do; inexact numbers and nested values are ours to compare.
        special = any(a.type.is_approximate or a.type.is_nested for a in args)
        if (name in _COMPARISONS and not special) or (name in _DISTINCT and not any(a.type.is_nested for a in args)):
            return f"({self.of(args[0])} {name} {self.of(args[1])})"
        if name in _ARITHMETIC and len(args) == 2 and all(a.type.is_integer for a in args):
            return f"CAST({self.of(args[0])} {name} {self.of(args[1])} AS {duck_type(call.type)})"
        if name == "COALESCE":
            return f"COALESCE({', '.join(map(self.of, args))})"
        given = tuple(a for a in args if not isinstance(a, Literal))
        if any(isinstance(a, SubqueryExpr) for a in given) and not given:
            raise CannotVerify(f"{name} of a subquery")
        inputs = iter(range(len(given)))
        inner = tuple(a if isinstance(a, Literal) else InputRef(next(inputs), a.type) for a in args)
        return self._called(call.with_(args=inner), given)

    def _called(self, expr: Expr, args: tuple[Expr, ...]) -> str:
        """A call of the engine's own evaluation; one without arguments is given a constant."""
        name = self._own(expr, tuple(a.type for a in args))
        return f"{name}({', '.join(map(self.of, args)) or '0'})"

    def subquery(self, subquery: SubqueryExpr) -> str:
        """The text of a subquery, whose values may hold parts in any order. Raises CannotVerify."""
        plan = subquery.plan
        assert isinstance(plan, LogicalNode)
        # An aggregate over all rows has an answer also where there are none.
        inner = self._query(one_row(plan))
        if subquery.kind is SubqueryKind.EXISTS:
            return f"EXISTS (SELECT 1 FROM ({inner}))"
        columns = ", ".join(name_of(c.id) for c in plan.columns)
        if subquery.kind is SubqueryKind.SCALAR:
            return f"(SELECT {columns} FROM ({inner}))"
        operands = ", ".join(map(self.of, subquery.operands))
        return f"(({operands}) IN (SELECT {columns} FROM ({inner})))"

    def _literal(self, literal: Literal) -> str:
        value, kind = literal.value, literal.type
        if value is None:
            return f"CAST(NULL AS {duck_type(kind)})"
        if isinstance(value, bool):
            return "true" if value else "false"
        if kind.is_interval:
            raise CannotVerify("an interval")
        if isinstance(value, bytes):
            return "CAST('" + "".join(f"\\x{b:02x}" for b in value) + "' AS BLOB)"
        if isinstance(value, int | float | Decimal | dt.date | dt.time | str):
            text = str(value).replace("'", "''")
            return f"CAST('{text}' AS {duck_type(kind)})"
        raise CannotVerify(f"a constant of type {kind.with_nullable(True)}")


def _same_values(source: DataType, target: DataType) -> bool:
    """Whether a cast leaves every value as it is, in DuckDB as here."""
    if source.same_ignoring_nullability(target) or source.materialized() == target.materialized():
        return True
    if source.root is _R.NULL:
        return True
    ranks = (_R.TINYINT, _R.SMALLINT, _R.INT, _R.BIGINT)
    if source.root in ranks and target.root in ranks:
        return ranks.index(source.root) <= ranks.index(target.root)
    return source.is_character and target.root is _R.VARCHAR and target.precision >= source.precision
