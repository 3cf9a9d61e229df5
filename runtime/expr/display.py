"""Expressions as people read them in plans and messages: `price#3 > 10`, `$0` for a position.

Stable: the same expression gives the same text; it is SQL-like, not necessarily SQL.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

from runtime.core.types import STRING, DataType, TypeRoot
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Case,
    Cast,
    ColumnRef,
    Constants,
    Expr,
    InList,
    InputRef,
    Lambda,
    LambdaVariable,
    Literal,
    OuterRef,
    Parameter,
    SortKey,
    SubqueryExpr,
    SubqueryKind,
    WindowCall,
)

__all__ = ["show", "show_literal", "show_sort_key"]

_BINARY = {
    "OR": 1,
    "AND": 2,
    "=": 4,
    "<>": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "IS DISTINCT FROM": 4,
    "IS NOT DISTINCT FROM": 4,
    "LIKE": 4,
    "SIMILAR TO": 4,
    "+": 5,
    "-": 5,
    "||": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
_POSTFIX = frozenset(
    {
        "IS NULL",
        "IS NOT NULL",
        "IS TRUE",
        "IS NOT TRUE",
        "IS FALSE",
        "IS NOT FALSE",
        "IS UNKNOWN",
        "IS NOT UNKNOWN",
    }
)
_TIGHT = 9
_SHOWN_CONSTANTS = 20


def show(expr: Expr, name: Callable[[Expr], str | None] | None = None) -> str:
    """The text of an expression. `name` may give another text for a sub-expression (a column's plain name), None for
    the usual."""
    return _Shower(name).show(expr, 0)


def show_sort_key(key: SortKey, name: Callable[[Expr], str | None] | None = None) -> str:
    """`price#3 DESC NULLS LAST`; the defaults (ascending, NULLs first; descending, NULLs last) are left out."""
    text = show(key.expr, name) + (" DESC" if key.descending else "")
    if key.nulls_last != key.descending:
        text += " NULLS LAST" if key.nulls_last else " NULLS FIRST"
    return text


class _Shower:
    def __init__(self, name: Callable[[Expr], str | None] | None) -> None:
        self._name = name

    def show(self, expr: Expr, outer: int) -> str:
        """The text, in parentheses when it binds less tightly than `outer`."""
        given = self._name(expr) if self._name is not None else None
        if given is not None:
            return given
        text, level = self._text(expr)
        return f"({text})" if level < outer else text

    def _all(self, exprs: tuple[Expr, ...]) -> str:
        return ", ".join(self.show(e, 0) for e in exprs)

    def _text(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case ColumnRef(id=id_, name=name):
                return f"{name}#{id_}", _TIGHT
            case OuterRef(id=id_, name=name):
                return f"outer({name}#{id_})", _TIGHT
            case InputRef(index=index):
                return f"${index}", _TIGHT
            case Literal(origin=origin):
                return origin or show_literal(expr.value, expr.type), _TIGHT
            case Parameter():
                return expr.shown, _TIGHT
            case Constants(values=values, type=type_):
                shown = ", ".join(show_literal(v, type_) for v in values[:_SHOWN_CONSTANTS])
                more = len(values) - _SHOWN_CONSTANTS
                return (f"{shown}, .. {more} more" if more > 0 else shown), _TIGHT
            case Call():
                return self._call(expr)
            case Cast(value=value, type=type_, safe=safe):
                keyword = "TRY_CAST" if safe else "CAST"
                return f"{keyword}({self.show(value, 0)} AS {type_.with_nullable(True)})", _TIGHT
            case Case(branches=branches, otherwise=otherwise):
                shown = " ".join(f"WHEN {self.show(c, 0)} THEN {self.show(v, 0)}" for c, v in branches)
                return f"CASE {shown} ELSE {self.show(otherwise, 0)} END", _TIGHT
            case InList(value=value, items=items):
                return f"{self.show(value, 5)} IN ({self._all(items)})", 4
            case LambdaVariable(name=name):
                return name, _TIGHT
            case Lambda(parameters=parameters, body=body):
                return f"({', '.join(p.name for p in parameters)}) -> {self.show(body, 0)}", 0
            case SubqueryExpr(kind=kind, operands=operands):
                if kind is SubqueryKind.IN:
                    return f"({self._all(operands)}) IN (subquery)", 4
                return ("EXISTS (subquery)" if kind is SubqueryKind.EXISTS else "(subquery)"), _TIGHT
            case AggregateCall():
                return self._aggregate(expr), _TIGHT
            case WindowCall():
                return self._window(expr), _TIGHT
            case _:
                return type(expr).__name__, _TIGHT

    def _call(self, call: Call) -> tuple[str, int]:
        function, args = call.function, call.args
        level = _BINARY.get(function)
        if level is not None and len(args) >= 2:
            if function in ("LIKE", "SIMILAR TO") and len(args) == 3:
                value, pattern, escape = (self.show(a, 5) for a in args)
                return f"{value} {function} {pattern} ESCAPE {escape}", level
            # AND and OR are n-ary; of the others, the right side binds tighter: a - (b - c).
            first = self.show(args[0], level + (level == 4))
            rest = [self.show(a, level + 1) for a in args[1:]]
            return f" {function} ".join((first, *rest)), level
        match function, args:
            case _, (operand,) if function in _POSTFIX:
                return f"{self.show(operand, 5)} {function}", 4
            case "NOT", (operand,):
                return f"NOT {self.show(operand, 4)}", 3
            case "NEGATE", (operand,):
                return f"-{self.show(operand, 8)}", 7
            case _:
                pass
        return f"{function}({self._all(args)})", _TIGHT

    def _aggregate(self, call: AggregateCall) -> str:
        args = self._all(call.args) or ("*" if call.function == "COUNT" else "")
        order = f" ORDER BY {self._keys(call.order_by)}" if call.order_by else ""
        text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{args}{order})"
        return text if call.filter is None else f"{text} FILTER (WHERE {self.show(call.filter, 0)})"

    def _keys(self, keys: tuple[SortKey, ...]) -> str:
        return ", ".join(show_sort_key(k, self._name) for k in keys)

    def _window(self, call: WindowCall) -> str:
        args = self._all(call.args) or ("*" if call.function == "COUNT" else "")
        parts: list[str] = []
        if call.partition_by:
            parts.append(f"PARTITION BY {self._all(call.partition_by)}")
        if call.order_by:
            parts.append(f"ORDER BY {self._keys(call.order_by)}")
        if call.frame is not None:
            parts.append(call.frame.text())
        text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{args})"
        if call.filter is not None:
            text += f" FILTER (WHERE {self.show(call.filter, 0)})"
        return f"{text} OVER ({' '.join(parts)})"


def show_literal(value: Any, type_: DataType) -> str:
    """A constant as SQL would write it."""
    match type_.root, value:
        case _, None:
            return "NULL"
        case _, bool():
            return "TRUE" if value else "FALSE"
        case ((TypeRoot.CHAR | TypeRoot.VARCHAR), str()):
            return "'" + value.replace("'", "''") + "'"
        case TypeRoot.VARIANT, str():
            return f"PARSE_JSON({show_literal(value, STRING)})"
        case TypeRoot.BITMAP, bytes():
            return f"BITMAP_FROM_BYTES(X'{value.hex().upper()}')"
        case ((TypeRoot.BINARY | TypeRoot.VARBINARY), bytes()):
            return f"X'{value.hex().upper()}'"
        case TypeRoot.DATE, datetime.date():
            return f"DATE '{value.isoformat()}'"
        case TypeRoot.TIME, datetime.time():
            return f"TIME '{value.isoformat()}'"
        case ((TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ), datetime.datetime()):
            text = value.replace(tzinfo=None).isoformat(sep=" ")
            return f"{type_.root.value} '{text}'"
        case TypeRoot.INTERVAL_MONTH, int():
            return f"INTERVAL '{value}' MONTH"
        case TypeRoot.INTERVAL_SECOND, int():
            return f"INTERVAL '{_seconds(value)}' SECOND"
        case TypeRoot.DECIMAL, decimal.Decimal():
            return format(value, "f")
        case ((TypeRoot.FLOAT | TypeRoot.DOUBLE), float()):
            return repr(value) if "e" in repr(value) else f"{value!r}E0"
        case _:
            return str(value)


def _seconds(milliseconds: int) -> str:
    whole, rest = divmod(abs(milliseconds), 1000)
    sign = "-" if milliseconds < 0 else ""
    return f"{sign}{whole}" + (f".{rest:03d}".rstrip("0") if rest else "")
