"""What a decorated function is to SQL: its declaration, with how it is evaluated, by a job of its own instance."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.core.errors import OptionError, TypeMismatchError
from runtime.core.options import Options
from runtime.core.rooms import Room
from runtime.core.types import BOOLEAN, DataType, array
from runtime.expr.function import AggregateFunction, AnyFunction, Nulls, ScalarFunction, Signature
from runtime.expr.job_functions import FunctionJob
from runtime.plan.nodes import AggregateSpec
from sqlengine.options.functions import TIMEOUT
from sqlengine.user_functions.aggregate import (
    ObjectAccumulator,
    ReplayedAccumulator,
    fold_rows,
    fold_vectors,
    trial_calls,
)
from sqlengine.user_functions.limits import TimeLimit
from sqlengine.user_functions.opened import opened, opened_for
from sqlengine.user_functions.scalar import row_calls, vector_calls
from sqlengine.user_functions.table import rows_as_structs, table_calls
from sqlengine.user_functions.types import named_parameters, result_of, row_of, signature

if TYPE_CHECKING:
    import sqlengine.user_functions.asynchronous as _asynchronous
    import sqlengine.user_functions.emitted as _emitted
else:
    _asynchronous = Room("sqlengine.user_functions.asynchronous")
    _emitted = Room("sqlengine.user_functions.emitted")

__all__ = ["Given", "declaration", "given"]


@dataclass(frozen=True, slots=True)
class Given:
    """What a decorator is given. `function` is opened in time; `seconds`: how long a call may take, None as the option
    says; `rejects`: whether rows for which it fails are rejected, None as the option says."""

    name: str
    function: Any
    result: Any
    inputs: Any
    kind: str
    deterministic: bool
    seconds: float | None
    rejects: bool | None

    def limit(self, options: Options) -> TimeLimit | None:
        """The limit on a call, in a job with these options."""
        seconds = options.get(TIMEOUT) / 1000 if self.seconds is None else self.seconds
        return TimeLimit(self.name, seconds) if seconds else None

    def document(self, kind: str) -> str:
        """One line that says what the function does."""
        text = inspect.getdoc(self.function) or ""
        return text.splitlines()[0] if text else f"A {kind} function in Python."

    def made(self, evaluation: Callable[[Any, Options], Any]) -> tuple[Any, Callable[[FunctionJob], Any]]:
        """From the function and options to an evaluation: that outside of jobs, and what makes a job's."""

        def for_job(job: FunctionJob) -> Any:
            return evaluation(opened_for(self.function, self.name, job), job.options)

        return evaluation(self.function, Options()), for_job


def given(name: str, function: Any, *facts: Any) -> Given:
    """What a decorator is given, with the function as one that is opened in time; `facts` are the other fields."""
    return Given(name, opened(function, name), *facts)


Declare = Callable[[str], AnyFunction]


def _callable_of(function: Any) -> Callable[..., Any]:
    if hasattr(function, "eval"):
        return function.eval
    return function if inspect.isroutine(function) else function.__call__


def _of_scalar(given: Given) -> Declare:
    """A scalar function: of rows, or of whole columns."""
    called = _callable_of(given.function)
    vector = given.kind != "general"
    shapes = _overloads(given, called) or (
        signature(called, given.inputs, result_of(given.name, called, given.result), untyped=vector),
    )
    awaited = inspect.iscoroutinefunction(called)

    def evaluation(function: Any, options: Options) -> Any:
        call = _callable_of(function)
        if vector:
            return vector_calls(given.name, call, given.kind, given.limit(options))
        if awaited:
            seconds = (given.limit(options) or _NO_LIMIT).seconds or None
            return row_calls(given.name, call, None, _asynchronous.AsyncCalls.of(options, seconds))
        return row_calls(given.name, call, given.limit(options))

    return _scalar(given, shapes, evaluation, called, "scalar")


_NO_LIMIT = TimeLimit("", 0)


def _of_table(given: Given) -> Declare:
    """A table function: a scalar one that gives an array of rows."""
    called = _callable_of(given.function)
    row = row_of(given.result if given.result is not None else result_of(given.name, called, None))

    def evaluation(function: Any, options: Options) -> Any:
        return table_calls(given.name, _callable_of(function), row, given.limit(options))

    return _scalar(given, (signature(called, given.inputs, array(row)),), evaluation, called, "table")


def _scalar(
    given: Given,
    shapes: tuple[Signature, ...],
    evaluation: Callable[[Any, Options], Any],
    called: Callable[..., Any],
    kind: str,
) -> Declare:
    evaluate, for_job = given.made(evaluation)
    names, defaults = named_parameters(called)

    def declare(key: str) -> AnyFunction:
        return ScalarFunction(
            name=key,
            signatures=shapes,
            document=given.document(kind),
            evaluate=evaluate,
            nulls=Nulls.MAYBE,
            deterministic=given.deterministic,
            can_fail=True,
            gives_rows=kind == "table",
            rejects=bool(given.rejects),
            for_job=for_job,
            parameters=names,
            defaults=defaults,
        )

    return declare


def _overloads(given: Given, called: Callable[..., Any]) -> tuple[Signature, ...]:
    """The signatures of a function that `typing.overload` declares several times; none for any other."""
    forms: Sequence[Callable[..., Any]] = typing.get_overloads(inspect.unwrap(called))
    if not forms or given.inputs is not None or given.kind != "general":
        return ()
    skip = 1 if inspect.ismethod(inspect.unwrap(called)) else 0
    return tuple(signature(form, None, result_of(given.name, form, given.result), skip=skip) for form in forms)


def _of_aggregate(given: Given) -> Declare:
    """An aggregate function: of an accumulator, or of the columns of a group."""
    name, kind = given.name, given.kind
    if kind == "general":
        type_ = result_of(name, given.function.get_value, _told(given))
        return _with_methods(given, "aggregate", type_, lambda function: function, lambda function: function.get_value)
    of_columns = _columns_of(given.function)
    type_ = result_of(name, of_columns, _told(given))
    shape = signature(of_columns, given.inputs, type_, untyped=True)

    def vectors(function: Any, options: Options) -> Any:
        call, limit = _columns_of(function), given.limit(options)
        return lambda spec: ReplayedAccumulator(name, spec, fold_vectors(name, call, kind, limit))

    return _declared(given, "aggregate", shape, vectors, keeps_values=True)


def _columns_of(function: Any) -> Callable[..., Any]:
    """A function of the columns of a group: as it is, or by the methods of an aggregate function, which are called once."""
    if not hasattr(function, "create_accumulator"):
        return _callable_of(function)

    def value(*columns: Any) -> Any:
        accumulator = function.create_accumulator()
        changed = function.accumulate(accumulator, *columns)
        return function.get_value(accumulator if changed is None else changed)

    value.__signature__ = inspect.signature(_without_first(function.accumulate))  # type: ignore[attr-defined]
    return value


def _without_first(method: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in with the parameters of a method behind its first one."""
    parameters = list(inspect.signature(method).parameters.values())[1:]

    def stand_in(*values: Any) -> None:
        return None

    stand_in.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return stand_in


def _of_table_aggregate(given: Given) -> Declare:
    """A table aggregate function: an aggregate one that gives an array of rows."""
    told = _told(given)
    if not (hasattr(given.function, "emit_value") or hasattr(given.function, "emit_update_with_retract")):
        raise OptionError(
            f"the Python function {given.name} has no method that gives the rows of a group",
            code="E1512",
            hint="write def emit_value(self, accumulator): .., or emit_update_with_retract(self, accumulator, out)",
        )
    if told is None and not hasattr(given.function, "emit_value"):
        raise TypeMismatchError(
            f"the result type of the Python function {given.name} is not known",
            code="E1324",
            hint='say it: result_type="ROW<place INT, v BIGINT>", or define get_result_type',
        )
    row = row_of(told if told is not None else result_of(given.name, given.function.emit_value, None))
    names = [f.name for f in row.fields]

    def object_of(function: Any) -> Any:
        return _emitted.WithRows(function, names) if hasattr(function, "emit_update_with_retract") else function

    def value_of(function: Any) -> Callable[[Any], Any]:
        return lambda accumulator: rows_as_structs(function.emit_value(accumulator), row)

    return _with_methods(given, "table aggregate", array(row), object_of, value_of)


def _told(given: Given) -> Any:
    """The result type that was given, or that the function tells."""
    if given.result is None and hasattr(given.function, "get_result_type"):
        return given.function.get_result_type()
    return given.result


def _with_methods(
    given: Given,
    kind: str,
    type_: DataType,
    object_of: Callable[[Any], Any],
    value_of: Callable[[Any], Callable[[Any], Any]],
) -> Declare:
    shape = signature(given.function.accumulate, given.inputs, type_, skip=1)
    retractable = hasattr(given.function, "retract")

    def objects(function: Any, options: Options) -> Any:
        limit, methods = given.limit(options), object_of(function)
        value = value_of(methods)

        def accumulator(spec: AggregateSpec) -> Any:
            if spec.retract and not retractable:
                fold = fold_rows(given.name, methods, spec.arg_types, value, limit)
                return ReplayedAccumulator(given.name, spec, fold)
            return ObjectAccumulator(given.name, methods, spec, value, limit)

        return accumulator

    return _declared(given, kind, shape, objects, retractable=retractable)


def _declared(
    given: Given,
    kind: str,
    shape: Signature,
    evaluation: Callable[[Any, Options], Any],
    *,
    retractable: bool = True,
    keeps_values: bool = False,
) -> Declare:
    accumulator, for_job = given.made(evaluation)

    trial = None if keeps_values else _trial(given)

    def declare(key: str) -> AnyFunction:
        return AggregateFunction(
            name=key,
            signatures=(shape,),
            document=given.document(kind),
            retractable=retractable,
            keeps_values=keeps_values,
            order_sensitive=True,
            deterministic=given.deterministic,
            trial=trial,
            rejects=bool(given.rejects),
            accumulator=accumulator,
            for_job=for_job,
        )

    return declare


def _trial(given: Given) -> ScalarFunction:
    """Whether `accumulate` takes in a row. It is asked with an accumulator of its own, so that one which holds others is
    not left half changed."""

    def evaluation(function: Any, options: Options) -> Any:
        return trial_calls(given.name, function, given.limit(options))

    evaluate, for_job = given.made(evaluation)
    return ScalarFunction(
        name=given.name,
        signatures=(signature(given.function.accumulate, given.inputs, BOOLEAN, skip=1),),
        document=given.document("aggregate"),
        evaluate=evaluate,
        nulls=Nulls.MAYBE,
        deterministic=given.deterministic,
        can_fail=True,
        for_job=for_job,
    )


_KINDS: dict[str, Callable[[Given], Declare]] = {
    "scalar": _of_scalar,
    "table": _of_table,
    "aggregate": _of_aggregate,
    "table aggregate": _of_table_aggregate,
}


def declaration(kind: str, given: Given) -> Declare:
    """The declaration of a function of this kind, under the name that it is known by."""
    return _KINDS[kind](given)
