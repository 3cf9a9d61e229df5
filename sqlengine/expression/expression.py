"""Expressions of the Table API: `col("a") + 1`, `col("name").upper_case`, `col("price").sum.alias("total")`.

An expression is a piece of SQL (`code.py`); nothing is computed or checked here. What it means, its type and its
errors come from the binder when a table uses it. The methods have the names of PyFlink: what stands without parentheses
there (`is_null`, `sum`, `upper_case`, `start`) does here. `expression_methods.py` has the functions by family.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from runtime.core.errors import TypeMismatchError
from runtime.core.types import DataType
from sqlengine.expression.expression_methods import ExpressionMethods
from sqlengine.expression.given import refuse, wanted
from sqlengine.values.code import Code, compose, name_sql, type_sql, value_sql

__all__ = ["ATOM", "Expression", "as_code", "as_expression", "column", "literal"]

ATOM = 99
"""The level of what never needs parentheses."""
_OR, _AND, _NOT, _COMPARISON, _ADDITIVE, _TIMES, _SIGN = range(1, 8)


class Expression(ExpressionMethods):
    """A value computed from a row, or from the rows of a group.

        col("a") + 1, (col("a") > 1) & (col("b") == "x"), col("a").is_null, ~col("flag")

    Python values in operators and arguments are literals; columns are `col("name")`. Use `&`, `|` and `~` in place of
    `and`, `or` and `not`: Python gives no way to redefine those.
    """

    __slots__ = ("aliases", "call", "code", "level", "python_level")

    def __init__(
        self,
        code: Code,
        level: int = ATOM,
        python_level: int = ATOM,
        *,
        aliases: tuple[str, ...] = (),
        call: tuple[Any, ...] | None = None,
    ) -> None:
        self.code = code
        self.level = level
        self.python_level = python_level
        self.aliases = aliases
        """The names that `alias` gave: one for a column, several for the columns of a table function."""
        self.call = call
        """Name, arguments and clauses of a call, for those who add a clause to it."""

    def __repr__(self) -> str:
        return self.code.python

    # Operators

    def __add__(self, other: Any) -> Expression:
        return _binary(self, " + ", other, _ADDITIVE)

    def __radd__(self, other: Any) -> Expression:
        return _binary(other, " + ", self, _ADDITIVE)

    def __sub__(self, other: Any) -> Expression:
        return _binary(self, " - ", other, _ADDITIVE)

    def __rsub__(self, other: Any) -> Expression:
        return _binary(other, " - ", self, _ADDITIVE)

    def __mul__(self, other: Any) -> Expression:
        return _binary(self, " * ", other, _TIMES)

    def __rmul__(self, other: Any) -> Expression:
        return _binary(other, " * ", self, _TIMES)

    def __truediv__(self, other: Any) -> Expression:
        return _binary(self, " / ", other, _TIMES)

    def __rtruediv__(self, other: Any) -> Expression:
        return _binary(other, " / ", self, _TIMES)

    def __mod__(self, other: Any) -> Expression:
        return _binary(self, " % ", other, _TIMES)

    def __rmod__(self, other: Any) -> Expression:
        return _binary(other, " % ", self, _TIMES)

    def __pow__(self, other: Any) -> Expression:
        return self._call("POWER", self, other, method="power")

    def __rpow__(self, other: Any) -> Expression:
        return as_expression(other)._call("POWER", as_expression(other), self, method="power")

    def __neg__(self) -> Expression:
        inner = _within(self, _SIGN)
        return Expression(compose(["-", inner], ["-", *_wrapped(self, inner, 7)]), _SIGN, 7)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary(self, " = ", _not_none(self, other, "is_null"), _COMPARISON, " == ")

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary(self, " <> ", _not_none(self, other, "is_not_null"), _COMPARISON, " != ")

    def __lt__(self, other: Any) -> Expression:
        return _binary(self, " < ", other, _COMPARISON)

    def __le__(self, other: Any) -> Expression:
        return _binary(self, " <= ", other, _COMPARISON)

    def __gt__(self, other: Any) -> Expression:
        return _binary(self, " > ", other, _COMPARISON)

    def __ge__(self, other: Any) -> Expression:
        return _binary(self, " >= ", other, _COMPARISON)

    __hash__ = object.__hash__

    def __and__(self, other: Any) -> Expression:
        return _binary(self, " AND ", other, _AND, " & ")

    def __rand__(self, other: Any) -> Expression:
        return _binary(other, " AND ", self, _AND, " & ")

    def __or__(self, other: Any) -> Expression:
        return _binary(self, " OR ", other, _OR, " | ")

    def __ror__(self, other: Any) -> Expression:
        return _binary(other, " OR ", self, _OR, " | ")

    def __invert__(self) -> Expression:
        inner = _within(self, _NOT)
        return Expression(compose(["NOT ", inner], ["~", *_wrapped(self, inner, 7)]), _NOT, 7)

    def __bool__(self) -> NoReturn:
        raise TypeMismatchError(
            f"{self!r} has no truth value in Python: it is computed later, for every row",
            code="E1322",
            hint="combine conditions with & | ~ and parentheses in place of `and`, `or`, `not` and `a < b < c`",
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} is one expression and cannot be iterated")

    def __getitem__(self, key: Any) -> Expression:
        """An element: of an array by its position from 1, of a map by its key; a field of a row by its name is
        `get`."""
        inner, code = _within(self, ATOM - 1), as_code(key)
        return Expression(compose([inner, "[", code, "]"], [*_wrapped(self, inner, 10), "[", code, "]"]))

    # Names and types

    def alias(self, name: str, *more: str) -> Expression:
        """The expression under a name, as AS in SQL. A table function takes a name for each of its columns."""
        python = compose([self.code], [*_shown(self, 10), f".alias({', '.join(repr(n) for n in (name, *more))})"])
        return Expression(python, self.level, aliases=(name, *more), call=self.call)

    def cast(self, data_type: DataType | str) -> Expression:
        """CAST: the value as another type; a row that does not fit fails the query."""
        return self._cast("CAST", "cast", data_type)

    def try_cast(self, data_type: DataType | str) -> Expression:
        """TRY_CAST: the value as another type, NULL where it does not fit."""
        return self._cast("TRY_CAST", "try_cast", data_type)

    def _cast(self, function: str, method: str, data_type: DataType | str) -> Expression:
        wanted(method, "a SQL type", data_type, (str, DataType), 'DataTypes.INT(), or "DECIMAL(10, 2)"')
        spelled = data_type if isinstance(data_type, str) else type_sql(data_type)
        return Expression(
            compose([f"{function}(", self.code, f" AS {spelled})"], [*_shown(self, 10), f".{method}({spelled!r})"])
        )

    @property
    def asc(self) -> Expression:
        """Ascending order, for `order_by`; NULLs come first."""
        return Expression(compose([self.code, " ASC"], [*_shown(self, 10), ".asc"]), 0)

    @property
    def desc(self) -> Expression:
        """Descending order, for `order_by`; NULLs come last."""
        return Expression(compose([self.code, " DESC"], [*_shown(self, 10), ".desc"]), 0)

    # Aggregates

    @property
    def distinct(self) -> Expression:
        """Different values only: `col("a").count.distinct` is COUNT(DISTINCT a)."""
        if self.call is None:
            return self._method_call("distinct", "DISTINCT")
        name, args, _, condition = self.call
        return _aggregate_call(name, args, True, condition, [*_shown(self, 10), ".distinct"])

    def filter(self, condition: Any) -> Expression:
        """Rows that fulfil a condition only: `col("a").sum.filter(col("b") > 0)` is SUM(a) FILTER (WHERE b > 0)."""
        if self.call is None:
            return self._method_call("filter", "FILTER", condition)
        name, args, distinct, _ = self.call
        wanted = as_code(condition)
        return _aggregate_call(name, args, distinct, wanted, [*_shown(self, 10), ".filter(", wanted, ")"])

    def over(self, alias: Any) -> Expression:
        """The call for the rows around each row: OVER. `alias` is `col("w")`, a window that `over_window` names, or
        an `Over` itself."""
        if isinstance(alias, str):
            alias = column(alias)
        if not isinstance(alias, Expression) and not hasattr(alias, "definition"):
            refuse("over", "a window", alias, 'col("w"), or Over.partition_by("a").order_by("ts")')
        named = isinstance(alias, Expression)
        code: Code = alias.code if named else alias.definition
        over = [" OVER ", code] if named else [" OVER (", code, ")"]
        return Expression(compose([self.code, *over], [*_shown(self, 10), ".over(", code, ")"]))

    # What the methods are made of

    def _call(self, name: str, *args: Any, method: str) -> Expression:
        codes = [as_code(a) for a in args]
        python: list[str | Code] = [*_shown(self, 10), f".{method}("]
        for index, code in enumerate(codes[1:]):
            python += [", ", code] if index else [code]
        return Expression(compose(_call_sql(name, codes), [*python, ")"]), call=(name, codes, False, None))

    def _property(self, name: str, method: str) -> Expression:
        code = self.code
        return Expression(
            compose(_call_sql(name, [code]), [*_shown(self, 10), f".{method}"]), call=(name, [code], False, None)
        )

    def _suffix(self, words: str, method: str) -> Expression:
        inner = _within(self, _COMPARISON)
        return Expression(compose([inner, f" {words}"], [*_wrapped(self, inner, 10), f".{method}"]), _COMPARISON)

    def _form(self, method: str, parts: Sequence[Any], *shown: Any, level: int = ATOM) -> Expression:
        """SQL made of texts and expressions, shown as `.method(shown)`; expressions are in parentheses where they do
        not bind tighter than `level`."""
        codes: dict[int, Code] = {}
        sql: list[str | Code] = []
        for part in parts:
            if isinstance(part, str):
                sql.append(part)
            else:
                codes[id(part)] = code = _within(part, _COMPARISON) if level != ATOM else part.code
                sql.append(code)
        python: list[str | Code] = [*_wrapped(self, codes.get(id(self), self.code), 10), f".{method}("]
        for index, argument in enumerate(shown):
            piece = codes.get(id(argument), argument.code) if isinstance(argument, Expression) else repr(argument)
            python += [", ", piece] if index else [piece]
        return Expression(compose(sql, [*python, ")"]), level)

    def _known(self, sql: str, shown: str, level: int = ATOM) -> Expression:
        """SQL of its own, shown as a property of this expression."""
        return Expression(compose([sql], [*_shown(self, 10), shown]), level)

    def _of(self, value: Any) -> Expression:
        return as_expression(value)

    def _of_query(self, table: Any) -> Expression:
        return Expression(Code.atom(table.query.code.sql, "table"))

    def _sql_text(self) -> str:
        return self.code.sql

    def _method_call(self, method: str, clause: str, *_: Any) -> NoReturn:
        raise TypeMismatchError(
            f".{method} follows an aggregate, and {self!r} is none",
            code="E1322",
            hint=f'for example col("a").count.{method}' + ("" if clause == "DISTINCT" else '(col("b") > 0)'),
        )


def as_expression(value: Any) -> Expression:
    """An expression as it is; any other Python value as a literal (E1321 for one that SQL has no literal for)."""
    return value if isinstance(value, Expression) else literal(value)


def as_code(value: Any) -> Code:
    return as_expression(value).code


def literal(value: Any, python: str | None = None) -> Expression:
    sql = value_sql(value)
    level = _SIGN if sql.startswith("-") else ATOM
    return Expression(Code.atom(sql, repr(value) if python is None else python), level, 7 if level == _SIGN else ATOM)


def column(name: str) -> Expression:
    wanted("col", "the name of a column", name, str, 'col("price")')
    return Expression(Code.atom(name_sql(name), f'col("{name}")'))


def _call_sql(name: str, codes: Sequence[Code], distinct: bool = False) -> list[str | Code]:
    parts: list[str | Code] = [f"{name}(", "DISTINCT " if distinct else ""]
    for index, code in enumerate(codes):
        parts += [", ", code] if index else [code]
    return [*parts, ")"]


def call_expression(
    name: str, args: Sequence[Any], python_name: str | None = None, *, quoted: bool = False
) -> Expression:
    """`NAME(args)`, shown as `python_name(args)`; `quoted` shows the SQL name as first argument of `call`."""
    codes = [as_code(a) for a in args]
    python: list[str | Code] = [f'call("{name}"' if quoted else f"{python_name or name.lower()}("]
    for index, code in enumerate(codes):
        python += [", ", code] if index or quoted else [code]
    return Expression(
        compose(_call_sql(path_of_function(name), codes), [*python, ")"]), call=(name, codes, False, None)
    )


def path_of_function(name: str) -> str:
    """The name of a function as SQL calls it: left as it is where it is a plain word."""
    return ".".join(part if part.isidentifier() else name_sql(part) for part in name.split("."))


__all__ += ["call_expression"]


def _aggregate_call(
    name: str, args: list[Code], distinct: bool, condition: Code | None, python: list[str | Code]
) -> Expression:
    sql = _call_sql(path_of_function(name), args, distinct)
    if condition is not None:
        sql += [" FILTER (WHERE ", condition, ")"]
    return Expression(compose(sql, python), call=(name, args, distinct, condition))


def _not_none(left: Expression, right: object, instead: str) -> object:
    if right is None:
        raise TypeMismatchError(
            f"a comparison of {left!r} with None is never true: NULL equals nothing",
            code="E1328",
            hint=f"write {left!r}.{instead}",
        )
    return right


_PYTHON_LEVELS = {_OR: 2, _AND: 3, _COMPARISON: 1, _ADDITIVE: 5, _TIMES: 6}


def _binary(left: Any, operator: str, right: Any, level: int, shown: str | None = None) -> Expression:
    a, b = as_expression(left), as_expression(right)
    python_level = _PYTHON_LEVELS[level]
    first, second = _within(a, level - 1 if level != _COMPARISON else level), _within(b, level)
    python = [
        *_wrapped(a, first, python_level if python_level > 1 else 2),
        shown or operator,
        *_wrapped(b, second, python_level + 1),
    ]
    return Expression(compose([first, operator, second], python), level, python_level)


def _within(operand: Expression, level: int) -> Code:
    """The operand as SQL, in parentheses when it binds no tighter than `level`."""
    if operand.level > level:
        return operand.code
    inner = operand.code
    # The parentheses are no part of its Python text: `_wrapped` writes those.
    wrapped = compose(["(", inner, ")"], [inner])
    return Code(wrapped.sql, inner.python, wrapped.marks)


def _wrapped(operand: Expression, code: Code, level: int) -> list[str | Code]:
    """The Python text of an operand, in parentheses when it binds looser than `level`."""
    return ["(", code, ")"] if operand.python_level < level else [code]


def _shown(operand: Expression, level: int) -> list[str | Code]:
    return _wrapped(operand, operand.code, level)
