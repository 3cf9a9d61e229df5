"""Whether expressions and aggregate calls of a physical plan have the types that their parts give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.core.errors import SqlEngineError, did_you_mean
from runtime.core.types import BOOLEAN, DOUBLE, DataType, TypeRoot
from runtime.expr.function import AggregateFunction, FunctionRegistry, ScalarFunction, WindowFunction
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
)
from runtime.expr.typing import explicit_cast, resolve_call
from runtime.plan.decoding import Wrong
from runtime.plan.nodes import JoinKind, VectorSearchExec
from runtime.plan.part_invariants import not_below, within
from runtime.plan.parts import METRICS, AggregateSpec

__all__ = ["check_aggregate", "check_expression", "searched_types"]


def check_expression(expr: Expr, columns: Sequence[DataType], functions: FunctionRegistry) -> None:
    """Raise Wrong for what an expression over columns of these types cannot hold."""
    _Expressions(columns, functions).check(expr, {})


def check_aggregate(call: AggregateSpec, function: AggregateFunction | WindowFunction) -> None:
    """Raise Wrong when a function does not take these arguments, or gives another type."""
    _check_call(function, call.function, call.arg_types, [None] * len(call.arg_types), call.type)


def searched_types(node: VectorSearchExec) -> Sequence[DataType]:
    """The types that a search of vectors gives. Raises Wrong for what none can be made of."""
    left, right = node.left.schema, node.right.schema
    if node.kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise Wrong("a search is INNER or LEFT").within("kind")
    within(node.column, len(right), "column")
    for name, schema, unique in (("left_unique", left, node.left_unique), ("right_unique", right, node.right_unique)):
        for index, position in enumerate(unique or ()):
            within(position, len(schema), name, index)
    vectors = right[node.column].type
    for name, type_ in (("query", node.query.type), ("column", vectors)):
        if type_.root is not TypeRoot.ARRAY or type_.children[0].root not in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
            raise Wrong(f"an array of FLOAT or DOUBLE is wanted, not {type_}").within(name)
    not_below("top_k", node.top_k, 1)
    if node.index.metric not in METRICS or node.index.kind not in ("flat", "hnsw"):
        raise Wrong("there is no such index").within("index")
    return (*left.types, vectors, *right.types, DOUBLE)


class _Expressions:
    def __init__(self, columns: Sequence[DataType], functions: FunctionRegistry) -> None:
        self._columns = columns
        self._functions = functions
        self._checked: set[Expr] = set()
        """Without variables: parts that stand in several places are checked once."""

    def check(self, expr: Expr, variables: Mapping[str, DataType]) -> None:
        if not variables and expr in self._checked:
            return
        self._check(expr, variables)
        if not variables:
            self._checked.add(expr)

    def _check(self, expr: Expr, variables: Mapping[str, DataType]) -> None:
        match expr:
            case InputRef(index=index, type=type_):
                if not 0 <= index < len(self._columns):
                    raise Wrong(f"there is no column {index}: there are {len(self._columns)}").within("index")
                if not self._columns[index].is_carried_as(type_):
                    raise Wrong(f"the column is {self._columns[index]}, not {type_}").within("type")
            case Literal():
                pass
            case Call(args=args):
                self._each(args, variables, "args")
                self._call(expr)
            case Cast(value=value, type=type_):
                self._inner(value, variables, "value")
                if not explicit_cast(value.type, type_):
                    raise Wrong(f"no CAST makes {type_} of {value.type}").within("type")
            case Case(branches=branches, otherwise=otherwise, type=type_):
                for index, (condition, value) in enumerate(branches):
                    for part, inner in enumerate((condition, value)):
                        try:
                            self.check(inner, variables)
                            _is(inner, (BOOLEAN, type_)[part])
                        except Wrong as wrong:
                            raise wrong.within(part).within(index).within("branches") from None
                self._inner(otherwise, variables, "otherwise", type_)
            case InList(value=value, items=items, type=type_):
                self._inner(value, variables, "value")
                for index, item in enumerate(items):
                    try:
                        if not isinstance(item, Constants):
                            self.check(item, variables)
                        _is(item, value.type)
                    except Wrong as wrong:
                        raise wrong.within(index).within("items") from None
                if type_.root is not TypeRoot.BOOLEAN:
                    raise Wrong("IN is BOOLEAN").within("type")
            case LambdaVariable(name=name, type=type_):
                if name not in variables or not variables[name].is_carried_as(type_):
                    raise Wrong(f"there is no variable {name} of the type {type_} here")
            case Lambda(parameters=parameters, body=body, type=type_):
                inner = {**variables, **{v.name: v.type for v in parameters}}
                self._inner(body, inner, "body", type_)
            case _:
                raise Wrong(f"a {type(expr).__name__} does not stand here")

    def _each(self, exprs: Sequence[Expr], variables: Mapping[str, DataType], field: str) -> None:
        for index, expr in enumerate(exprs):
            try:
                self.check(expr, variables)
            except Wrong as wrong:
                raise wrong.within(index).within(field) from None

    def _inner(self, expr: Expr, variables: Mapping[str, DataType], field: str, type_: DataType | None = None) -> None:
        try:
            self.check(expr, variables)
            if type_ is not None:
                _is(expr, type_)
        except Wrong as wrong:
            raise wrong.within(field) from None

    def _call(self, call: Call) -> None:
        found = self._functions.find(call.function)
        if not isinstance(found, ScalarFunction):
            hint = did_you_mean(call.function, self._functions.functions)
            raise Wrong(f"there is no function {call.function}", hint).within("function")
        literals = [a if isinstance(a, Literal) else None for a in call.args]
        _check_call(found, call.function, [a.type for a in call.args], literals, call.type)


def _is(expr: Expr, type_: DataType) -> None:
    if not expr.type.is_carried_as(type_) and expr.type.root is not TypeRoot.NULL:
        raise Wrong(f"it is {expr.type}, where {type_} is wanted").within("type")


def _check_call(
    function: ScalarFunction | AggregateFunction | WindowFunction,
    name: str,
    types: Sequence[DataType],
    literals: Sequence[Literal | None],
    result: DataType,
) -> None:
    try:
        taken, given = resolve_call(function, types, literals)
    except SqlEngineError as error:
        raise Wrong(error.message, error.hint) from None
    for index, (type_, wanted) in enumerate(zip(types, taken, strict=True)):
        if not type_.is_carried_as(wanted):
            raise Wrong(f"{name} takes {wanted} here, not {type_}").within(index).within("args")
    # Some functions give a type that depends on the numbers that stood there before they were made alike: MOD(b, 7).
    if not given.is_carried_as(result) and not (given.is_numeric and result.is_numeric):
        raise Wrong(f"{name} gives {given}, not {result}").within("type")
