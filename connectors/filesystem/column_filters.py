"""Filters that a Parquet source takes: comparisons of a column with a constant, applied exactly and used to leave out
row groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runtime.core.changelog import plain_column
from runtime.core.schema import Schema
from runtime.core.types import BOOLEAN, DataType, TypeRoot
from runtime.expr.nodes import Call, Constants, Expr, InList, InputRef, Literal

__all__ = ["ColumnFilter", "filter_expression", "may_hold", "passing", "take_filters"]

_COMPARISONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Floating columns stay with the engine, which orders NaN; CHAR because of its blanks; nanoseconds because statistics
# round.
_ROOTS = frozenset(
    {
        TypeRoot.VARCHAR,
        TypeRoot.BOOLEAN,
        TypeRoot.DECIMAL,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DATE,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)


@dataclass(frozen=True)
class ColumnFilter:
    """`column operator values`: a comparison with one value, `in` with several, `is null`, `is not null`.

    NULL never passes a comparison.
    """

    column: str
    operator: str
    values: tuple[Any, ...]
    type: DataType

    def __str__(self) -> str:
        shown = ", ".join(str(v) for v in self.values)
        return f"{self.column} {self.operator} {shown}".strip()

    def mask(self, column: pa.Array) -> pa.Array:
        """Which rows pass; NULL counts as no."""
        arrow = self.type.arrow
        match self.operator:
            case "is null":
                return pc.is_null(column)
            case "is not null":
                return pc.is_valid(column)
            case "in":
                return pc.and_(pc.is_in(column, value_set=pa.array(self.values, arrow)), pc.is_valid(column))
            case _:
                return _COMPARISONS[self.operator](column, pa.scalar(self.values[0], arrow))


def take_filters(
    filters: Sequence[Expr], schema: Schema, columns: Sequence[str]
) -> tuple[tuple[ColumnFilter, ...], list[Expr]]:
    """Filters over `schema` that can be applied here, of the given stored columns, and the others."""
    taken: list[ColumnFilter] = []
    left: list[Expr] = []
    for expression in filters:
        found = _read(expression, schema)
        if found is None or found.column not in columns:
            left.append(expression)
        else:
            taken.append(found)
    return tuple(taken), left


def filter_expression(taken: ColumnFilter, schema: Schema) -> Expr:
    """What `take_filters` reads as this filter."""
    ref = InputRef(schema.index_of(taken.column), taken.type)
    result = BOOLEAN.with_nullable(taken.type.nullable)
    if taken.operator == "in":
        return InList(ref, (Constants(taken.values, taken.type),), result)
    if not taken.values:
        return Call(taken.operator.upper(), (ref,), BOOLEAN.not_null())
    return Call(taken.operator, (ref, Literal(taken.values[0], taken.type.not_null())), result)


def _read(expression: Expr, schema: Schema) -> ColumnFilter | None:
    match expression:
        case Call(function=name, args=(InputRef() as ref, Literal() as constant)) if name in _COMPARISONS:
            return _comparison(ref, name, (constant,), schema)
        case Call(function=name, args=(Literal() as constant, InputRef() as ref)) if name in _COMPARISONS:
            return _comparison(ref, _MIRRORED[name], (constant,), schema)
        case Call(function="IS NULL" | "IS NOT NULL" as name, args=(InputRef() as ref,)):
            return ColumnFilter(schema[ref.index].name, name.lower(), (), schema[ref.index].type)
        case InList(value=InputRef() as ref, items=items):
            constants = [_literals(item) for item in items]
            if any(c is None for c in constants):
                return None
            return _comparison(ref, "in", tuple(c for one in constants for c in one or ()), schema)
        case _:
            return None


def _literals(item: Expr) -> list[Literal] | None:
    if isinstance(item, Constants):
        return [Literal(value, item.type) for value in item.values]
    return [item] if isinstance(item, Literal) else None


def _comparison(ref: InputRef, operator: str, constants: tuple[Literal, ...], schema: Schema) -> ColumnFilter | None:
    type_ = schema[ref.index].type
    fits = type_.root in _ROOTS and not (type_.is_timestamp and type_.precision > 6)
    if not fits or any(
        c.value is None or c.type.root is not type_.root or c.type.arrow != type_.arrow for c in constants
    ):
        return None
    return ColumnFilter(schema[ref.index].name, operator, tuple(c.value for c in constants), type_)


def passing(filters: Sequence[ColumnFilter], columns: dict[str, pa.Array]) -> pa.Array | None:
    """The rows that pass all filters; None when there is no filter."""
    mask: pa.Array | None = None
    for one in filters:
        column = columns[one.column]
        if pa.types.is_dictionary(column.type) and not column.null_count:
            passes = one.mask(column.dictionary).take(column.indices)
        else:
            passes = one.mask(plain_column(column))
        passes = pc.fill_null(passes, False)
        mask = passes if mask is None else pc.and_(mask, passes)
    return mask


def may_hold(
    filters: Sequence[ColumnFilter],
    rows: int,
    statistics_of: Callable[[int], pq.Statistics | None],
    leaf_of: dict[str, int],
    types: dict[str, pa.DataType],
) -> bool:
    """Whether a group of so many rows may have one that passes, by the statistics of its leaves. Columns whose stored type
    differs are not looked at."""
    for one in filters:
        leaf = leaf_of.get(one.column)
        if leaf is None or types.get(one.column) != one.type.arrow:
            continue
        statistics = statistics_of(leaf)
        if statistics is None:
            continue
        nulls = statistics.null_count if statistics.has_null_count else None
        if one.operator == "is null":
            if nulls == 0:
                return False
            continue
        if nulls is not None and nulls == rows:
            return False
        if (
            one.operator != "is not null"
            and statistics.has_min_max
            and not _overlaps(one, statistics.min, statistics.max)
        ):
            return False
    return True


def _overlaps(one: ColumnFilter, least: Any, greatest: Any) -> bool:
    arrow = one.type.arrow
    low, high = (pa.scalar(v).cast(arrow, safe=False) if not isinstance(v, pa.Scalar) else v for v in (least, greatest))
    wanted = pa.array(one.values, arrow)
    inside = {
        "=": lambda: pc.and_(pc.greater_equal(wanted, low), pc.less_equal(wanted, high)),
        "<": lambda: pc.greater(wanted, low),
        "<=": lambda: pc.greater_equal(wanted, low),
        ">": lambda: pc.less(wanted, high),
        ">=": lambda: pc.less_equal(wanted, high),
    }
    inside["in"] = inside["="]
    check = inside.get(one.operator)
    return check is None or bool(pc.any(check()).as_py())
