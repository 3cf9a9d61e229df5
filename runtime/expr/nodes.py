"""Bound expressions: small, frozen, typed. What stands behind the binder.

Every expression knows its type. Functions are named; what a name means (types, evaluation, determinism) is its
declaration in `runtime/expr/library`. AND and OR are n-ary calls. In a logical plan columns are `ColumnRef` (by unique
id, so that predicates move freely); in a physical plan they are `InputRef` (by position).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from dataclasses import field
from typing import Any

from runtime.core.errors import Span
from runtime.core.node import Node, node
from runtime.core.types import BOOLEAN, DataType

__all__ = [
    "AggregateCall",
    "Call",
    "Case",
    "Cast",
    "Column",
    "ColumnRef",
    "Constants",
    "Expr",
    "Frame",
    "FrameBound",
    "InList",
    "InputRef",
    "Lambda",
    "Literal",
    "LambdaVariable",
    "OuterRef",
    "Parameter",
    "SortKey",
    "SubqueryExpr",
    "SubqueryKind",
    "TRUE",
    "WindowCall",
    "children",
    "fresh_column",
    "map_children",
    "transform",
    "walk",
]

_ids = itertools.count(1)


@node
class Column(Node):
    """The identity of a column in a logical plan: the id is unique, name and type are for people and checks."""

    id: int
    name: str = field(compare=False)
    type: DataType = field(compare=False)

    def ref(self) -> ColumnRef:
        return ColumnRef(self.id, self.name, self.type)

    def with_type(self, type_: DataType) -> Column:
        return self if type_ == self.type else Column(self.id, self.name, type_)

    def __str__(self) -> str:
        return f"{self.name}#{self.id}"


def fresh_column(name: str, type_: DataType) -> Column:
    """A column with an id that no other column of this process has."""
    return Column(next(_ids), name, type_)


class Expr(Node):
    """Base of all expressions. `type` is the type of the value."""

    __slots__ = ()
    type: DataType


@node
class ColumnRef(Expr):
    """A column of the plan's input, by id. Equal when the id is equal."""

    id: int
    name: str = field(compare=False)
    type: DataType = field(compare=False)

    @property
    def column(self) -> Column:
        return Column(self.id, self.name, self.type)


@node
class InputRef(Expr):
    """A column of the physical input, by position."""

    index: int
    type: DataType


@node
class OuterRef(Expr):
    """A column of an enclosing query, inside a correlated subquery; decorrelation removes it."""

    id: int
    name: str = field(compare=False)
    type: DataType = field(compare=False)


@node
class Literal(Expr):
    """A constant. `value` is the Python value that `pyarrow.scalar(value, type.arrow)` takes; None is NULL.

    TIMESTAMP and TIMESTAMP_LTZ literals are `datetime` (LTZ in UTC, tz-aware or naive), DATE `date`, TIME `time`,
    DECIMAL `decimal.Decimal`, INTERVAL MONTH an int of months, INTERVAL SECOND an int of milliseconds.
    """

    value: Any
    type: DataType
    origin: str | None = field(default=None, compare=False)
    """How it is shown where that is not its value: a value that was given as a parameter is shown as `$1`."""


@node
class Parameter(Expr):
    """A value that is given when the statement is carried out, by number or name; in no plan that runs.

    Its type is that of its place, or NULL while nothing says one.
    """

    key: int | str
    type: DataType
    span: Span | None = field(default=None, compare=False)

    @property
    def shown(self) -> str:
        """`$1`, or `:name`."""
        return f"${self.key}" if isinstance(self.key, int) else f":{self.key}"


@node
class Call(Expr):
    """A function by its registered name (upper case; operators too: `+`, `=`, `AND`, `IS NULL`)."""

    function: str
    args: tuple[Expr, ...]
    type: DataType
    span: Span | None = field(default=None, compare=False)


@node
class Cast(Expr):
    """CAST, or TRY_CAST when `safe`; a failing CAST fails the query, a failing TRY_CAST is NULL."""

    value: Expr
    type: DataType
    safe: bool = False
    span: Span | None = field(default=None, compare=False)


@node
class Case(Expr):
    """Searched CASE: the first branch whose condition is true, else `otherwise`. Branch values have the type `type`."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr
    type: DataType


@node
class Constants(Expr):
    """Many constants of one type, each as in `Literal`, as an item of `InList`: a list of thousands is one part of an
    expression, not thousands."""

    values: tuple[Any, ...]
    type: DataType


@node
class InList(Expr):
    """`value IN (items)` with SQL's three values; items are of the value's type. NOT IN is `NOT` around it."""

    value: Expr
    items: tuple[Expr, ...]
    type: DataType = BOOLEAN


@node
class LambdaVariable(Expr):
    """A parameter inside the body of a `Lambda`."""

    name: str
    type: DataType


@node
class Lambda(Expr):
    """A function literal as an argument of a higher-order function; `type` is the type of the body."""

    parameters: tuple[LambdaVariable, ...]
    body: Expr
    type: DataType


class SubqueryKind(enum.Enum):
    """What a subquery expression asks of its rows."""

    SCALAR = "scalar"
    EXISTS = "exists"
    IN = "in"


@node
class SubqueryExpr(Expr):
    """A subquery inside an expression, until decorrelation makes it a join.

    `plan` is a `planner.logical` node (this package does not know that class). SCALAR: `plan` has one column. EXISTS:
    any.
    IN: `operands` are compared with the columns of `plan` one by one. NOT is a `Call` around it.
    """

    kind: SubqueryKind
    plan: Node
    operands: tuple[Expr, ...]
    type: DataType
    span: Span | None = field(default=None, compare=False)


@node
class SortKey(Node):
    """One ORDER BY item. Flink's default: NULLs are the smallest values (first ascending, last descending)."""

    expr: Expr
    descending: bool = False
    nulls_last: bool = False


@node
class AggregateCall(Expr):
    """An aggregate function over the rows of a group.

    `filter` is the FILTER clause (a BOOLEAN column) or None. `order_by` only for functions that are order-sensitive.
    """

    function: str
    args: tuple[Expr, ...]
    type: DataType
    distinct: bool = False
    filter: Expr | None = None
    order_by: tuple[SortKey, ...] = ()
    span: Span | None = field(default=None, compare=False)


class FrameBound(enum.Enum):
    """An end of an OVER frame."""

    UNBOUNDED_PRECEDING = "UNBOUNDED PRECEDING"
    PRECEDING = "PRECEDING"
    CURRENT_ROW = "CURRENT ROW"
    FOLLOWING = "FOLLOWING"
    UNBOUNDED_FOLLOWING = "UNBOUNDED FOLLOWING"


class FrameExclusion(enum.Enum):
    """Which rows an OVER frame leaves out although they are between its ends."""

    CURRENT_ROW = "CURRENT ROW"
    GROUP = "GROUP"
    TIES = "TIES"


@node
class Frame(Node):
    """ROWS, RANGE or GROUPS BETWEEN lower AND upper.

    Offsets are rows (`rows`), else a distance of the order column's values, for timestamps milliseconds (RANGE), or
    with `groups` a number of groups of rows that are equal in the order (GROUPS). `exclude`: the current row, all rows
    equal to it, or those but itself are left out.
    """

    rows: bool
    lower: FrameBound
    upper: FrameBound
    lower_offset: int | float | None = None
    upper_offset: int | float | None = None
    groups: bool = False
    exclude: FrameExclusion | None = None

    @property
    def unit(self) -> str:
        """ROWS, RANGE or GROUPS."""
        return "ROWS" if self.rows else "GROUPS" if self.groups else "RANGE"

    @property
    def measures(self) -> bool:
        """Whether offsets are distances of the order column's values."""
        return self.unit == "RANGE" and (self.lower_offset is not None or self.upper_offset is not None)

    @property
    def reaches_ahead(self) -> bool:
        """Whether it may hold rows that come after the current row and its equals."""
        following = (FrameBound.FOLLOWING, FrameBound.UNBOUNDED_FOLLOWING)
        return self.upper in following or self.lower in following

    def text(self) -> str:
        """As SQL writes it."""
        low = "" if self.lower_offset is None else f"{self.lower_offset} "
        high = "" if self.upper_offset is None else f"{self.upper_offset} "
        exclude = "" if self.exclude is None else f" EXCLUDE {self.exclude.value}"
        return f"{self.unit} BETWEEN {low}{self.lower.value} AND {high}{self.upper.value}{exclude}"


@node
class WindowCall(Expr):
    """A function with OVER: an aggregate, or ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, NTILE, PERCENT_RANK,
    CUME_DIST, NTH_VALUE."""

    function: str
    args: tuple[Expr, ...]
    type: DataType
    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[SortKey, ...] = ()
    frame: Frame | None = None
    distinct: bool = False
    filter: Expr | None = None
    span: Span | None = field(default=None, compare=False)


TRUE = Literal(True, BOOLEAN.not_null())

_LEAVES = (ColumnRef, Literal)
"""The commonest expressions, which have none below them."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions (not the plan of a subquery), in order."""
    if isinstance(expr, _LEAVES):
        return ()
    match expr:
        case Call(args=args):
            return args
        case Cast(value=value):
            return (value,)
        case Case(branches=branches, otherwise=otherwise):
            return (*itertools.chain.from_iterable(branches), otherwise)
        case InList(value=value, items=items):
            return (value, *items)
        case Lambda(body=body):
            return (body,)
        case SubqueryExpr(operands=operands):
            return operands
        case AggregateCall(args=args, filter=condition, order_by=order):
            return (*args, *((condition,) if condition is not None else ()), *(k.expr for k in order))
        case WindowCall(args=args, partition_by=partition, order_by=order, filter=condition):
            return (*args, *partition, *(k.expr for k in order), *((condition,) if condition is not None else ()))
        case _:
            return ()


def map_children(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to each direct sub-expression; the same object when nothing changed."""
    if isinstance(expr, _LEAVES):
        return expr
    match expr:
        case Call(args=args):
            new = tuple(change(a) for a in args)
            return expr if _same(new, args) else expr.with_(args=new)
        case Cast(value=value):
            changed = change(value)
            return expr if changed is value else expr.with_(value=changed)
        case Case(branches=branches, otherwise=otherwise):
            pairs = tuple((change(c), change(v)) for c, v in branches)
            last = change(otherwise)
            if last is otherwise and all(a is c and b is v for (a, b), (c, v) in zip(pairs, branches, strict=True)):
                return expr
            return expr.with_(branches=pairs, otherwise=last)
        case InList(value=value, items=items):
            first, rest = change(value), tuple(change(i) for i in items)
            return expr if first is value and _same(rest, items) else expr.with_(value=first, items=rest)
        case Lambda(body=body):
            changed = change(body)
            return expr if changed is body else expr.with_(body=changed)
        case SubqueryExpr(operands=operands):
            new = tuple(change(o) for o in operands)
            return expr if _same(new, operands) else expr.with_(operands=new)
        case AggregateCall() | WindowCall():
            changes: dict[str, Any] = {"args": tuple(change(a) for a in expr.args)}
            changes["filter"] = None if expr.filter is None else change(expr.filter)
            changes["order_by"] = tuple(k.with_(expr=change(k.expr)) for k in expr.order_by)
            if isinstance(expr, WindowCall):
                changes["partition_by"] = tuple(change(p) for p in expr.partition_by)
            result = expr.with_(**changes)
            return expr if result == expr else result
        case _:
            return expr


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Bottom-up rewrite: `change` sees every node after its children were rewritten."""
    return change(map_children(expr, lambda e: transform(e, change)))


def walk(expr: Expr) -> list[Expr]:
    """The expression and all below it, parents first."""
    found = [expr]
    for child in children(expr):
        found.extend(walk(child))
    return found


def _same(new: tuple[Expr, ...], old: tuple[Expr, ...]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))
