"""AND, OR, CASE, IF, COALESCE, IFNULL: parts that may fail are computed only on the rows that reach them.

`CASE WHEN x <> 0 THEN 1 / x END` must not fail where x is 0. When nothing can fail, all parts are computed on all
rows, which is faster; the result is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.eval.frame import Frame
from runtime.expr.columns import as_array, validity
from runtime.expr.function import Value
from runtime.expr.nodes import Call, Case, Expr

__all__ = ["always_evaluated", "evaluate", "is_guard", "plain_case", "scatter", "true_rows"]

Rows = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
_GUARDS = frozenset({"AND", "OR", "IF", "COALESCE", "IFNULL"})


class _Values(Protocol):
    def value(self, expr: Expr, frame: Frame) -> Value: ...
    def values(self, expressions: tuple[Expr, ...], frame: Frame) -> list[Value]: ...
    def can_fail(self, expr: Expr) -> bool: ...


def is_guard(expr: Expr, values: _Values) -> bool:
    """Whether parts of the expression must be kept from rows that do not reach them."""
    match expr:
        case Call(function=function, args=args) if function in _GUARDS:
            return any(values.can_fail(a) for a in args[1:])
        case Case(branches=branches, otherwise=otherwise):
            return (
                values.can_fail(otherwise)
                or any(values.can_fail(v) for _, v in branches)
                or any(values.can_fail(c) for c, _ in branches[1:])
            )
        case _:
            return False


def always_evaluated(expr: Expr) -> tuple[Expr, ...]:
    """The parts of a guard that every row reaches."""
    match expr:
        case Call(args=args):
            return args[:1]
        case Case(branches=branches):
            return (branches[0][0],)
        case _:
            return ()


def evaluate(expr: Expr, frame: Frame, values: _Values) -> Value:
    """The value of a guard, each part on the rows that reach it."""
    match expr:
        case Call(function="AND", args=args):
            return _connected(args, frame, values, stop=False)
        case Call(function="OR", args=args):
            return _connected(args, frame, values, stop=True)
        case Call(function="IF", args=(condition, yes, no)):
            return _case(((condition, yes),), no, expr, frame, values)
        case Call(function="COALESCE" | "IFNULL", args=args):
            return _coalesce(args, expr, frame, values)
        case Case(branches=branches, otherwise=otherwise):
            return _case(branches, otherwise, expr, frame, values)
        case _:
            raise AssertionError(expr)


def true_rows(value: Value, length: int) -> Mask:
    """The rows at which a BOOLEAN is TRUE (not FALSE, not UNKNOWN)."""
    if isinstance(value, pa.Scalar):
        return np.full(length, value.as_py() is True)
    return pc.fill_null(value, False).to_numpy(zero_copy_only=False)


def _connected(args: Sequence[Expr], frame: Frame, values: _Values, stop: bool) -> Value:
    """AND (stop=False) or OR (stop=True): a part is not computed where an earlier one has decided."""
    combine = pc.or_kleene if stop else pc.and_kleene
    result: Value = values.values((args[0],), frame)[0]
    for arg in args[1:]:
        if values.can_fail(arg):
            array = as_array(result, frame.num_rows)
            open_ = pc.fill_null(pc.not_equal(array, pa.scalar(stop)), True).to_numpy(zero_copy_only=False)
            count = int(np.count_nonzero(open_))
            if count == 0:
                break
            if count < frame.num_rows:
                part = as_array(values.values((arg,), frame.where(open_, count))[0], count)
                result = combine(array, scatter([(np.flatnonzero(open_), part)], frame.num_rows, pa.bool_()))
                continue
        result = combine(result, values.values((arg,), frame)[0])
    return result


def _case(branches: Sequence[tuple[Expr, Expr]], otherwise: Expr, whole: Expr, frame: Frame, values: _Values) -> Value:
    pieces: list[tuple[Rows, pa.Array]] = []
    type_ = whole.type.arrow
    rows: Rows = np.arange(frame.num_rows, dtype=np.int64)
    left = frame
    for condition, value in branches:
        hit = true_rows(values.values((condition,), left)[0], left.num_rows)
        count = int(np.count_nonzero(hit))
        if count == left.num_rows:
            otherwise = value
            break
        if count:
            taken = as_array(values.values((value,), left.where(hit, count))[0], count)
            pieces.append((rows[hit], _typed(taken, type_)))
            left = left.where(~hit, left.num_rows - count)
            rows = rows[~hit]
    if left.num_rows:
        last = as_array(values.values((otherwise,), left)[0], left.num_rows)
        if not pieces:
            return _typed(last, type_)
        pieces.append((rows, _typed(last, type_)))
    return scatter(pieces, frame.num_rows, type_)


def _coalesce(args: Sequence[Expr], whole: Expr, frame: Frame, values: _Values) -> Value:
    pieces: list[tuple[Rows, pa.Array]] = []
    type_ = whole.type.arrow
    rows: Rows = np.arange(frame.num_rows, dtype=np.int64)
    left = frame
    for arg in args:
        array = _typed(as_array(values.values((arg,), left)[0], left.num_rows), type_)
        valid = validity(array)
        if valid is None:
            pieces.append((rows, array))
            break
        found = int(np.count_nonzero(valid))
        if found:
            pieces.append((rows[valid], array.filter(pa.array(valid))))
            left = left.where(~valid, left.num_rows - found)
            rows = rows[~valid]
    return scatter(pieces, frame.num_rows, type_)


def _typed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    return pa.nulls(len(array), type_) if pa.types.is_null(array.type) else array.cast(type_)


def scatter(pieces: Sequence[tuple[Rows, pa.Array]], length: int, type_: pa.DataType) -> pa.Array:
    """Pieces of rows put back in place; rows of no piece are NULL."""
    if not pieces:
        return pa.nulls(length, type_)
    source = pa.concat_arrays([array for _, array in pieces])
    positions = np.full(length, -1, dtype=np.int64)
    positions[np.concatenate([rows for rows, _ in pieces])] = np.arange(len(source), dtype=np.int64)
    return source.take(pa.array(positions, mask=positions < 0))


def plain_case(expr: Case, frame: Frame, values: _Values) -> Value:
    """CASE of which no part can fail: every part on all rows, then a choice; from the last branch to the first."""
    type_ = expr.type.arrow
    length = frame.num_rows
    if pa.types.is_nested(type_):
        return _case(expr.branches, expr.otherwise, expr, frame, values)
    result = _choice(values.value(expr.otherwise, frame), type_)
    for condition, value in reversed(expr.branches):
        chosen = values.value(condition, frame)
        result = pc.if_else(
            pc.fill_null(as_array(chosen, length), False), _choice(values.value(value, frame), type_), result
        )
    return result


def _choice(value: Value, type_: pa.DataType) -> Value:
    if value.type == type_:
        return value
    if pa.types.is_null(value.type):
        return pa.scalar(None, type_)
    return value.cast(type_)
