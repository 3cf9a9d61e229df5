"""Reads the text of expressions back: what `runtime/expr/display.py` writes, with columns as `name#id`.

For golden specs of rules, which state plans as text. Types follow from the columns: literals take the type of what
they meet, functions get theirs from the registry. Not read: lambdas and literals of nested types.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Mapping
from typing import Any

from runtime.core.errors import InternalError
from runtime.core.node import Node
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL_SECOND,
    NULL,
    STRING,
    DataType,
    TimeAttribute,
    TypeRoot,
    array,
    varchar,
)
from runtime.core.types import decimal as decimal_type
from runtime.expr.function import FunctionRegistry, ProcessFunction, ScalarFunction
from runtime.expr.nodes import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    InList,
    Literal,
    OuterRef,
    SortKey,
    SubqueryExpr,
    SubqueryKind,
    WindowCall,
)
from runtime.expr.nullability import cast_type
from runtime.expr.typing import resolve_call

__all__ = ["ExpressionReader", "TokenStream"]

_TOKENS = re.compile(
    r"\s*(?:(?P<string>'(?:[^']|'')*')|(?P<number>\d+\.\d+E\d+|\d+E\d+|\d+\.\d+|\d+(?!\w))|(?P<column>[A-Za-z_]\w*\#\d+)"
    r"|(?P<word>[A-Za-z_][\w.]*)|(?P<symbol><=|>=|<>|\|\||\.\.|[-+*/%=<>(),\[\]]))"
)
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_TESTS = ("NULL", "TRUE", "FALSE", "UNKNOWN")
_TYPES: dict[str, DataType] = {
    **{r.value: DataType(r) for r in TypeRoot if " " not in r.value},
    "STRING": STRING,
    "DATE": DATE,
    "DOUBLE": DOUBLE,
}


class TokenStream:
    """The tokens of a line; `peek` and `take` see the next one, upper-cased words compare without regard to case."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._text = text
        position = 0
        while position < len(text.rstrip()):
            found = _TOKENS.match(text, position)
            if found is None:
                raise InternalError(f"cannot read plan text at {text[position:]!r} of {text!r}")
            kind = found.lastgroup or ""
            self._tokens.append((kind, found[kind]))
            position = found.end()
        self._at = 0

    @property
    def done(self) -> bool:
        return self._at >= len(self._tokens)

    def kind(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self._tokens[index][0] if index < len(self._tokens) else ""

    def peek(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self._tokens[index][1] if index < len(self._tokens) else ""

    def next(self) -> str:
        value = self.peek()
        self._at += 1
        return value

    def take(self, *words: str) -> bool:
        """Step over these tokens if they come next."""
        if all(self.peek(i).upper() == w.upper() for i, w in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            raise InternalError(f"expected {' '.join(words)} before {self.peek()!r} in {self._text!r}")


class ExpressionReader:
    """Reads expressions from a token stream. `columns` by the number in the text; `subqueries` gives the plans of
    subqueries in their order."""

    def __init__(
        self,
        tokens: TokenStream,
        columns: Mapping[int, Column],
        functions: FunctionRegistry,
        subqueries: Callable[[], Node] | None = None,
    ) -> None:
        self._tokens = tokens
        self._columns = columns
        self._functions = functions
        self._subqueries = subqueries

    def column(self) -> Column:
        """A column that is known: `name#3`."""
        token = self._tokens.next()
        number = int(token.rpartition("#")[2])
        if number not in self._columns:
            raise InternalError(f"column {token} is not known here")
        return self._columns[number]

    def expression(self) -> Expr:
        return self._connected("OR", lambda: self._connected("AND", self._negated))

    def sort_keys(self) -> tuple[SortKey, ...]:
        keys = [self._sort_key()]
        while self._tokens.take(","):
            keys.append(self._sort_key())
        return tuple(keys)

    def _sort_key(self) -> SortKey:
        expr = self._sum()
        descending = self._tokens.take("DESC")
        last = descending
        if self._tokens.take("NULLS", "LAST"):
            last = True
        elif self._tokens.take("NULLS", "FIRST"):
            last = False
        return SortKey(expr, descending, last)

    def type(self) -> DataType:
        """A type as `str` writes it, nested ones but ARRAY left out."""
        name = self._tokens.next().upper()
        if name == "ARRAY":
            self._tokens.expect("<")
            element = self.type()
            self._tokens.expect(">")
            found = array(element)
        else:
            arguments: list[int] = []
            if self._tokens.take("("):
                arguments.append(int(self._tokens.next()))
                if self._tokens.take(","):
                    arguments.append(int(self._tokens.next()))
                self._tokens.expect(")")
            found = _type(name, arguments)
        if self._tokens.take("*"):
            found = found.with_(time_attribute=TimeAttribute[self._tokens.next()])
            self._tokens.expect("*")
        return found.not_null() if self._tokens.take("NOT", "NULL") else found

    # --- by precedence ------------------------------------------------------------------------------------------------

    def _connected(self, function: str, operand: Callable[[], Expr]) -> Expr:
        parts = [operand()]
        while self._tokens.take(function):
            parts.append(operand())
        return (
            parts[0]
            if len(parts) == 1
            else Call(function, tuple(parts), BOOLEAN.with_nullable(any(p.type.nullable for p in parts)))
        )

    def _negated(self) -> Expr:
        if self._tokens.take("NOT"):
            value = self._negated()
            return Call("NOT", (value,), BOOLEAN.with_nullable(value.type.nullable))
        return self._compared()

    def _compared(self) -> Expr:
        left = self._sum()
        tokens = self._tokens
        if tokens.peek() in _COMPARISONS:
            return self._call(tokens.next(), (left, self._sum()))
        for words in (("IS", "NOT", "DISTINCT", "FROM"), ("IS", "DISTINCT", "FROM")):
            if tokens.take(*words):
                return self._call(" ".join(words), (left, self._sum()))
        for test in _TESTS:
            for words in (("IS", "NOT", test), ("IS", test)):
                if tokens.take(*words):
                    return Call(" ".join(words), (left,), BOOLEAN.not_null())
        if tokens.take("LIKE"):
            return self._call("LIKE", (left, self._sum()))
        if tokens.take("IN"):
            return self._contained(left)
        return left

    def _contained(self, value: Expr) -> Expr:
        self._tokens.expect("(")
        if self._tokens.take("subquery"):
            self._tokens.expect(")")
            return SubqueryExpr(SubqueryKind.IN, self._subquery(), (value,), BOOLEAN)
        items = [self.expression()]
        while self._tokens.take(","):
            items.append(self.expression())
        self._tokens.expect(")")
        typed = tuple(_meeting(value, i)[1] for i in items)
        return InList(value, typed, BOOLEAN.with_nullable(value.type.nullable or any(i.type.nullable for i in typed)))

    def _sum(self) -> Expr:
        left = self._product()
        while self._tokens.peek() in ("+", "-", "||"):
            left = self._call(self._tokens.next(), (left, self._product()))
        return left

    def _product(self) -> Expr:
        left = self._primary()
        while self._tokens.peek() in ("*", "/", "%"):
            left = self._call(self._tokens.next(), (left, self._primary()))
        return left

    def _primary(self) -> Expr:
        tokens = self._tokens
        kind, token = tokens.kind(), tokens.peek()
        if kind == "column":
            return self.column().ref()
        if kind == "number" or token == "-":
            return _number(("-" if tokens.take("-") else "") + tokens.next())
        if kind == "string":
            text = _unquoted(tokens.next())
            return Literal(text, varchar(max(1, len(text))).not_null())
        if tokens.take("("):
            if tokens.take("subquery"):
                tokens.expect(")")
                plan: Any = self._subquery()
                return SubqueryExpr(SubqueryKind.SCALAR, plan, (), plan.columns[0].type.with_nullable(True))
            inner = self.expression()
            tokens.expect(")")
            return inner
        return self._word()

    def _word(self) -> Expr:
        tokens = self._tokens
        word = tokens.next().upper()
        match word:
            case "TRUE" | "FALSE":
                return Literal(word == "TRUE", BOOLEAN.not_null())
            case "NULL":
                return Literal(None, NULL)
            case "DATE":
                return Literal(datetime.date.fromisoformat(_unquoted(tokens.next())), DATE.not_null())
            case "TIMESTAMP" if tokens.kind() == "string":
                return Literal(
                    datetime.datetime.fromisoformat(_unquoted(tokens.next())),
                    DataType(TypeRoot.TIMESTAMP, 3, nullable=False),
                )
            case "INTERVAL":
                seconds = decimal.Decimal(_unquoted(tokens.next()))
                tokens.expect("SECOND")
                return Literal(int(seconds * 1000), INTERVAL_SECOND.not_null())
            case "CASE":
                return self._case()
            case "CAST" | "TRY_CAST":
                tokens.expect("(")
                value = self.expression()
                tokens.expect("AS")
                target = self.type()
                tokens.expect(")")
                return Cast(value, cast_type(value.type, target, safe=word == "TRY_CAST"), word == "TRY_CAST")
            case "EXISTS":
                tokens.expect("(", "subquery", ")")
                return SubqueryExpr(SubqueryKind.EXISTS, self._subquery(), (), BOOLEAN.not_null())
            case "OUTER":
                tokens.expect("(")
                column = self.column()
                tokens.expect(")")
                return OuterRef(column.id, column.name, column.type)
            case _:
                return self._function(word)

    def _case(self) -> Expr:
        tokens = self._tokens
        branches: list[tuple[Expr, Expr]] = []
        while tokens.take("WHEN"):
            condition = self.expression()
            tokens.expect("THEN")
            branches.append((condition, self.expression()))
        tokens.expect("ELSE")
        otherwise = self.expression()
        tokens.expect("END")
        values = [*(v for _, v in branches), otherwise]
        type_ = next((v.type for v in values if v.type.root is not TypeRoot.NULL), NULL)
        type_ = type_.with_nullable(any(v.type.nullable for v in values))
        return Case(tuple((c, _typed(v, type_)) for c, v in branches), _typed(otherwise, type_), type_)

    def _function(self, name: str) -> Expr:
        tokens = self._tokens
        tokens.expect("(")
        distinct = tokens.take("DISTINCT")
        args: list[Expr] = []
        if not tokens.take("*"):
            while tokens.peek() != ")":
                args.append(self.expression())
                tokens.take(",")
        tokens.expect(")")
        condition = None
        if tokens.take("FILTER", "("):
            tokens.expect("WHERE")
            condition = self.expression()
            tokens.expect(")")
        function = self._functions.get(name)
        if isinstance(function, ScalarFunction | ProcessFunction):
            return self._call(name, tuple(args))
        _, result = resolve_call(function, [a.type for a in args])
        if tokens.take("OVER"):
            return self._window(name, tuple(args), result)
        return AggregateCall(name, tuple(args), result, distinct, condition)

    def _window(self, name: str, args: tuple[Expr, ...], result: DataType) -> Expr:
        tokens = self._tokens
        tokens.expect("(")
        partition: list[Expr] = []
        if tokens.take("PARTITION", "BY"):
            partition.append(self.column().ref())
            while tokens.take(","):
                partition.append(self.column().ref())
        order = self.sort_keys() if tokens.take("ORDER", "BY") else ()
        tokens.expect(")")
        return WindowCall(name, args, result, tuple(partition), order)

    def _call(self, name: str, args: tuple[Expr, ...]) -> Expr:
        if len(args) == 2:
            args = _meeting(*args)
        literals = [a if isinstance(a, Literal) else None for a in args]
        _, result = resolve_call(self._functions.scalar(name), [a.type for a in args], literals)
        return Call(name, args, result)

    def _subquery(self) -> Node:
        if self._subqueries is None:
            raise InternalError("no subquery is given for this expression")
        return self._subqueries()


def _meeting(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Two operands, of which a literal takes the type of the other where that is of its kind."""
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return _typed(left, right.type), right
    return left, _typed(right, left.type)


def _typed(expr: Expr, type_: DataType) -> Expr:
    if not isinstance(expr, Literal):
        return expr
    if expr.value is None:
        return Literal(None, type_.materialized().with_nullable(True))
    same_kind = (expr.type.is_integer and type_.is_integer) or (expr.type.is_character and type_.is_character)
    return Literal(expr.value, type_.materialized().not_null()) if same_kind else expr


def _number(text: str) -> Literal:
    if "E" in text:
        return Literal(float(text), DOUBLE.not_null())
    if "." in text:
        value = decimal.Decimal(text)
        digits = value.as_tuple()
        return Literal(value, decimal_type(max(len(digits.digits), 1), -int(digits.exponent)).not_null())
    value_ = int(text)
    return Literal(value_, (INT if -(2**31) <= value_ < 2**31 else BIGINT).not_null())


def _unquoted(token: str) -> str:
    return token[1:-1].replace("''", "'")


def _type(name: str, arguments: list[int]) -> DataType:
    if name not in _TYPES:
        raise InternalError(f"cannot read the type {name}")
    plain = _TYPES[name]
    precision, scale = (*arguments, 0)[:2] if arguments else (plain.precision, plain.scale)
    return DataType(plain.root, precision, scale)
