"""Expressions over a batch: columns in, columns out, no loop over rows.

An `Evaluator` computes several expressions over the same rows: a sub-expression that occurs twice is computed once,
all functions that DuckDB computes go to it in one call per level of nesting, and what may fail (CAST, division) is
computed only on the rows that reach it through AND, OR, CASE, COALESCE and IF. What reads only a text column that comes
coded is computed on its distinct values (`coded.py`). A `Stage` is a filter and a projection:
the projection sees the surviving rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.cancellation import look
from runtime.core.changelog import plain_column
from runtime.core.errors import ExpressionError, InternalError, SqlEngineError, SqlSyntaxError
from runtime.eval import guarded
from runtime.eval.coded import few_values, spread, text_parts
from runtime.eval.context import BatchContext
from runtime.eval.duckdb_calls import DuckCall, evaluate_in_duckdb
from runtime.eval.frame import Frame
from runtime.eval.in_list import ConstantSet, in_list
from runtime.eval.literal import literal_scalar
from runtime.eval.slices import large_texts, slices
from runtime.expr.analysis import can_fail, is_deterministic, is_repeatable, is_true
from runtime.expr.cast import cast_array
from runtime.expr.columns import as_array
from runtime.expr.function import FunctionRegistry, ScalarFunction, Value
from runtime.expr.nodes import (
    Call,
    Case,
    Cast,
    Constants,
    Expr,
    InList,
    InputRef,
    Lambda,
    LambdaVariable,
    Literal,
    children,
)

__all__ = ["BatchContext", "Evaluator", "LambdaValue", "Stage"]


class LambdaValue:
    """A lambda as an argument of a higher-order function: called with the elements of all rows at once.

    `parents[i]` is the row that element i belongs to, so that the body can read columns beside its parameters.
    """

    __slots__ = ("_evaluator", "_frame", "_lambda")

    def __init__(self, evaluator: _Compiled, frame: Frame, function: Lambda) -> None:
        self._evaluator = evaluator
        self._frame = frame
        self._lambda = function

    def __call__(self, elements: Sequence[pa.Array], parents: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
        names = [p.name for p in self._lambda.parameters]
        frame = self._frame.at(parents, dict(zip(names, elements, strict=False)))
        return as_array(self._evaluator.value(self._lambda.body, frame), len(parents), self._lambda.type.arrow)


class _Compiled:
    """Expressions with what is known of them before any row comes: shared parts, DuckDB levels, constants."""

    def __init__(self, expressions: Sequence[Expr], functions: FunctionRegistry) -> None:
        self.functions = functions
        self._literals: dict[Literal, pa.Scalar] = {}
        self._constants: dict[Constants, ConstantSet] = {}
        self._can_fail: dict[Expr, bool] = {}
        self._levels: dict[tuple[tuple[Expr, ...], frozenset[Expr]], list[list[Call]]] = {}
        self._parts: dict[tuple[Expr, ...], dict[Expr, int]] = {}
        counts: Counter[Expr] = Counter()
        for expr in expressions:
            self._count(expr, counts)
        self._shared = frozenset(e for e, n in counts.items() if n > 1 and is_repeatable(e, functions))

    def _count(self, expr: Expr, counts: Counter[Expr]) -> None:
        if isinstance(expr, (Literal, Constants, InputRef, LambdaVariable, Lambda)):
            # The body of a lambda has other rows; its parts are never shared with the outside.
            return
        counts[expr] += 1
        if counts[expr] == 1:
            for child in children(expr):
                self._count(child, counts)

    def can_fail(self, expr: Expr) -> bool:
        known = self._can_fail.get(expr)
        if known is None:
            known = self._can_fail[expr] = can_fail(expr, self.functions)
        return known

    def values(self, expressions: tuple[Expr, ...], frame: Frame) -> list[Value]:
        """The values of several expressions over the rows of a frame; NULL where a row has failed before."""
        parted = frame.without_failed()
        if parted is not None:
            part, rows = parted
            found = self.values(expressions, part) if len(rows) else [pa.nulls(0, e.type.arrow) for e in expressions]
            return [_spread(v, e.type.arrow, rows, frame.num_rows) for v, e in zip(found, expressions, strict=True)]
        self.prepare(expressions, frame)
        return [self.value(e, frame) for e in expressions]

    def prepare(self, expressions: tuple[Expr, ...], frame: Frame) -> None:
        """Computes what reads only coded texts, then has DuckDB compute its functions, one call per level of nesting;
        keeps the results in the frame."""
        done = frozenset(self._compute_coded(expressions, frame))
        levels = self._levels.get((expressions, done))
        if levels is None:
            levels = self._levels[expressions, done] = self._duckdb_levels(expressions, done)
        for level in levels:
            calls = [c for c in level if frame.known(c) is None]
            if calls:
                results = evaluate_in_duckdb(
                    [self._duck_call(c, frame) for c in calls], frame.num_rows, frame.context.time_zone
                )
                frame.memo.update(zip(calls, results, strict=True))

    def _compute_coded(self, expressions: tuple[Expr, ...], frame: Frame) -> list[Expr]:
        """Computes the parts that read only a coded text column, on its distinct values; tells which."""
        parts = self._parts.get(expressions)
        if parts is None:
            parts = self._parts[expressions] = text_parts(expressions, self.functions)
        done: list[Expr] = []
        for index in sorted(set(parts.values())):
            column = frame.as_given(index)
            if not few_values(column):
                continue
            wanted = tuple(e for e, i in parts.items() if i == index)
            dictionary = column.dictionary
            count = len(dictionary)
            distinct = Frame([dictionary] * (index + 1), count, frame.context.of_other_rows(count))
            try:
                found = self.values(wanted, distinct)
            except ExpressionError:
                # Of a value that no row reaches, maybe: row by row it shows.
                continue
            frame.memo.update(
                (e, spread(v, column, coded=e in expressions)) for e, v in zip(wanted, found, strict=True)
            )
            done += wanted
        return done

    def _duckdb_levels(self, expressions: tuple[Expr, ...], done: frozenset[Expr]) -> list[list[Call]]:
        found: dict[Call, int] = {}

        def visit(expr: Expr) -> int:
            # The height of DuckDB calls in an expression, below guards left out: those see other rows.
            if expr in done:
                return 0
            if isinstance(expr, Lambda) or guarded.is_guard(expr, self):
                first = guarded.always_evaluated(expr)
                return max((visit(e) for e in first), default=0)
            height = max((visit(c) for c in children(expr)), default=0)
            if isinstance(expr, Call) and self._in_duckdb(expr):
                height += 1
                found[expr] = max(found.get(expr, 0), height)
            return height

        for expr in expressions:
            visit(expr)
        levels: list[list[Call]] = [[] for _ in range(max(found.values(), default=0))]
        for call, height in found.items():
            levels[height - 1].append(call)
        return levels

    def _duck_call(self, call: Call, frame: Frame) -> DuckCall:
        template = self._function(call).duckdb
        if template is not None and not isinstance(template, str):
            template = template.get(len(call.args))
        if template is None:
            raise InternalError(f"{call.function} has no evaluation for {len(call.args)} arguments")
        args = [self.value(a, frame) for a in call.args]
        return DuckCall(call.function, template, args, tuple(a.type for a in call.args), call.type)

    def _function(self, call: Call) -> ScalarFunction:
        return self.functions.scalar(call.function)

    def _in_duckdb(self, call: Call) -> bool:
        function = self._function(call)
        return function.duckdb is not None and function.evaluate is None

    def value(self, expr: Expr, frame: Frame) -> Value:
        """The value of an expression over the rows of a frame."""
        if isinstance(expr, InputRef):
            return frame.column(expr.index)
        found = self.given(expr, frame)
        return plain_column(found) if isinstance(found, pa.DictionaryArray) else found

    def given(self, expr: Expr, frame: Frame) -> Value:
        """The value of an expression; a text may be coded."""
        match expr:
            case InputRef(index=index):
                return frame.as_given(index)
            case Literal():
                found = self._literals.get(expr)
                if found is None:
                    found = self._literals[expr] = literal_scalar(expr)
                return found
            case LambdaVariable(name=name):
                return frame.variable(name)
            case Lambda():
                return LambdaValue(self, frame, expr)
            case _:
                known = frame.known(expr)
                if known is None:
                    known = self._compute(expr, frame)
                    if expr in self._shared:
                        frame.memo[expr] = known
                return known

    def _compute(self, expr: Expr, frame: Frame) -> Value:
        look()
        if guarded.is_guard(expr, self):
            return guarded.evaluate(expr, frame, self)
        match expr:
            case Call():
                return self._call(expr, frame)
            case Cast(value=value, type=target, safe=safe):
                given = self.value(value, frame)
                try:
                    return cast_array(given, value.type, target, safe, frame.context)
                except ExpressionError as error:
                    error.span = error.span or expr.span
                    raise
            case Case():
                return guarded.plain_case(expr, frame, self)
            case InList(value=value, items=items):
                return in_list(self.value(value, frame), [self._item(i, frame) for i in items], frame.num_rows)
            case _:
                raise InternalError(f"a {type(expr).__name__} expression cannot be evaluated on rows")

    def _item(self, item: Expr, frame: Frame) -> Value | ConstantSet:
        if not isinstance(item, Constants):
            return self.value(item, frame)
        known = self._constants.get(item)
        if known is None:
            known = self._constants[item] = ConstantSet.of(item)
        return known

    def _call(self, call: Call, frame: Frame) -> Value:
        function = self._function(call)
        evaluate = function.evaluate
        if evaluate is None:
            return self._ask_duckdb(call, frame)
        args = [self.value(a, frame) for a in call.args]
        if function.can_fail and all(isinstance(a, pa.Array | pa.Scalar) for a in args):
            # What a row has for an argument that failed is no value: no function sees it.
            parted = frame.without_failed()
            if parted is not None:
                part, rows = parted
                found = self._evaluated(call, function, [part.select(a) for a in args], part)
                return _spread(found, call.type.arrow, rows, frame.num_rows)
        return self._evaluated(call, function, args, frame)

    def _evaluated(self, call: Call, function: ScalarFunction, args: list[Value], frame: Frame) -> Value:
        evaluate = function.evaluate
        assert evaluate is not None
        types = tuple(a.type for a in call.args)
        failures = frame.context.failures if function.rejects else None
        failed: list[tuple[int, ExpressionError]] | None = None if failures is None else []
        context = frame.context.for_call(call.type, types, frame.num_rows, failed)
        size = large_texts(args)
        try:
            if (
                size
                and is_deterministic(call, self.functions)
                and all(isinstance(a, pa.Array | pa.Scalar) for a in args)
            ):
                parts: list[pa.Array] = []
                for at, height in slices(frame.num_rows, size):
                    part = frame.context.for_call(call.type, types, height)
                    given = (a.slice(at, height) if isinstance(a, pa.Array) else a for a in args)
                    found = evaluate(part, *given)
                    if found is NotImplemented:
                        return self._ask_duckdb(call, frame)
                    parts.append(_sized(found, call, height))
                result = pa.concat_arrays(parts)
            else:
                result = evaluate(context, *args)
        except SqlEngineError as error:
            error.span = error.span or call.span
            if isinstance(error, ExpressionError) and function.rejects and failures is None:
                error.hint = _not_here(function)
            raise
        except (pa.ArrowException, OverflowError) as error:
            shown = ", ".join(str(a.type.with_nullable(True)) for a in call.args)
            raise ExpressionError(
                f"{call.function} cannot be computed for these values of ({shown})", code="E2001", span=call.span
            ) from error
        if failed and failures is not None:
            failures.note(frame.positions(), failed, call.span)
        return self._ask_duckdb(call, frame) if result is NotImplemented else result

    def _ask_duckdb(self, call: Call, frame: Frame) -> Value:
        (result,) = evaluate_in_duckdb([self._duck_call(call, frame)], frame.num_rows, frame.context.time_zone)
        return result


class Evaluator:
    """Computes expressions over batches; made once, used for every batch."""

    def __init__(self, expressions: Sequence[Expr], functions: FunctionRegistry) -> None:
        self._expressions = tuple(expressions)
        self._compiled = _Compiled(self._expressions, functions)

    def evaluate(self, rows: pa.RecordBatch, context: BatchContext) -> list[pa.Array]:
        """A column per expression, of exactly the expression's Arrow type and the batch's length.

        Raises ExpressionError when a CAST or a function fails on a row.
        """
        frame = Frame.of(rows, context)
        return [plain_column(c) for c in _columns(self._expressions, frame, self._compiled)]


class Stage:
    """A filter and the projection of what passes it."""

    def __init__(self, condition: Expr | None, projections: Sequence[Expr], functions: FunctionRegistry) -> None:
        self._condition = None if condition is None or is_true(condition) else condition
        self._projections = tuple(projections)
        every = self._projections if self._condition is None else (self._condition, *self._projections)
        self._compiled = _Compiled(every, functions)

    def run(
        self, rows: pa.RecordBatch, context: BatchContext
    ) -> tuple[np.ndarray[Any, np.dtype[np.int64]] | None, list[pa.Array]]:
        """The positions of the rows for which the condition is TRUE (None: all of them), and the projected columns of
        those rows, texts maybe coded."""
        frame = Frame.of(rows, context)
        kept = None
        if self._condition is not None:
            with _deep_expressions():
                found = self._compiled.values((self._condition,), frame)[0]
            mask = guarded.true_rows(found, frame.num_rows)
            if context.failures is not None:
                mask = mask & ~context.failures.mask
            count = int(np.count_nonzero(mask))
            if count < frame.num_rows:
                kept = np.flatnonzero(mask)
                frame = frame.where(mask, count)
        return kept, _columns(self._projections, frame, self._compiled)


def _not_here(function: ScalarFunction) -> str:
    """Why a function that rejects rows has failed the job."""
    if function.deterministic:
        return "no row can be rejected here: call it in SELECT, WHERE or LATERAL, of a subquery for example"
    return "a function that is not deterministic rejects no row of an input with updates: have it return None for such rows"


def _spread(value: Value, type_: pa.DataType, rows: np.ndarray[Any, np.dtype[np.int64]], length: int) -> pa.Array:
    """A value over some rows, over all of them: NULL elsewhere."""
    array = as_array(value, len(rows))
    array = array if array.type == type_ else pc.cast(array, type_)
    return guarded.scatter([(rows, array)], length, type_)


def _sized(value: Value, call: Call, rows: int) -> pa.Array:
    array = as_array(value, rows)
    return array if array.type == call.type.arrow else pc.cast(array, call.type.arrow)


def _columns(expressions: tuple[Expr, ...], frame: Frame, compiled: _Compiled) -> list[pa.Array]:
    with _deep_expressions():
        compiled.prepare(expressions, frame)
        return [_exact(compiled.given(e, frame), e, frame.num_rows) for e in expressions]


@contextmanager
def _deep_expressions() -> Generator[None]:
    """What is nested too deeply to be computed is told as what is nested too deeply to be planned."""
    try:
        yield
    except RecursionError:
        raise SqlSyntaxError(
            "the statement is nested too deeply", hint="name parts of it with WITH or CREATE VIEW"
        ) from None


def _exact(value: Value, expr: Expr, length: int) -> pa.Array:
    type_ = expr.type.arrow
    array = as_array(value, length)
    if array.type != type_ and not (pa.types.is_dictionary(array.type) and array.type.value_type == type_):
        array = pa.nulls(length, type_) if pa.types.is_null(array.type) else pc.cast(array, type_)
    if len(array) != length:
        raise InternalError(f"{type(expr).__name__} gave {len(array)} rows for {length}")
    return array
