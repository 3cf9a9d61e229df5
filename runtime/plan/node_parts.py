"""What is checked of the parts of any node: columns, times, orders, expressions and calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.expr.function import AggregateFunction, FunctionRegistry, WindowFunction
from runtime.expr.nodes import Expr
from runtime.plan.base import PhysicalNode
from runtime.plan.call_types import check_aggregate, check_expression
from runtime.plan.decoding import Wrong
from runtime.plan.part_invariants import placed, within
from runtime.plan.parts import AggregateSpec, SortSpec

__all__ = ["TIMES", "NodeParts"]

TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


class NodeParts:
    """Checks of a node's parts, which raise Wrong with the field."""

    def __init__(self, node: PhysicalNode, functions: FunctionRegistry) -> None:
        self.node = node
        self.functions = functions

    def _column(self, position: int, schema: Schema, *place: str | int) -> None:
        within(position, len(schema), *place)

    def _columns(self, field: str, positions: Iterable[int], schema: Schema) -> None:
        for index, position in enumerate(positions):
            self._column(position, schema, field, index)

    def _time(self, position: int, schema: Schema, *place: str | int) -> None:
        self._column(position, schema, *place)
        if schema[position].type.root not in TIMES:
            raise placed(Wrong(f"a time is wanted, and the column is {schema[position].type}"), *place)

    def _window(self, field: str, window: tuple[int, int], schema: Schema) -> None:
        for index, position in enumerate(window):
            self._time(position, schema, field, index)

    def _order(self, field: str, order: Sequence[SortSpec], schema: Schema) -> None:
        for index, key in enumerate(order):
            self._column(key.index, schema, field, index, "index")

    def _same_types(self, field: str, schema: Schema, wanted: Schema) -> None:
        if [t.arrow for t in schema.types] != [t.arrow for t in wanted.types]:
            raise Wrong(f"it gives ({schema}), where ({wanted}) is wanted").within(field)

    # --- expressions

    def _expression(self, expr: Expr, types: Sequence[DataType], *place: str | int) -> None:
        try:
            check_expression(expr, types, self.functions)
        except Wrong as wrong:
            raise placed(wrong, *place) from None

    def _condition(self, expr: Expr, types: Sequence[DataType], *place: str | int) -> None:
        self._expression(expr, types, *place)
        if expr.type.root not in (TypeRoot.BOOLEAN, TypeRoot.NULL):
            raise placed(Wrong(f"a condition is BOOLEAN, not {expr.type}"), *place)

    def _each(self, exprs: Sequence[Expr], types: Sequence[DataType], *place: str | int) -> None:
        for index, expr in enumerate(exprs):
            self._expression(expr, types, *place, index)

    def _list(
        self, exprs: Sequence[Expr], types: Sequence[DataType], wanted: Sequence[DataType], *place: str | int
    ) -> None:
        self._each(exprs, types, *place)
        if [e.type.arrow for e in exprs] != [t.arrow for t in wanted]:
            raise placed(Wrong("it has other columns than the schema"), *place)

    # --- aggregates, frames, windows

    def _calls(self, calls: Sequence[AggregateSpec], source: Schema, *, over: bool = False) -> Iterator[DataType]:
        for index, call in enumerate(calls):
            self._aggregate(call, source, over, "calls", index)
            yield call.type

    def _aggregate(self, call: AggregateSpec, source: Schema, over: bool, *place: str | int) -> None:
        for index, position in enumerate(call.args):
            self._column(position, source, *place, "args", index)
        if len(call.args) != len(call.arg_types):
            raise placed(Wrong("there is one for each argument"), *place, "arg_types")
        for index, (position, type_) in enumerate(zip(call.args, call.arg_types, strict=True)):
            if not source[position].type.is_carried_as(type_):
                raise placed(Wrong(f"the column is {source[position].type}"), *place, "arg_types", index)
        if call.filter is not None:
            self._column(call.filter, source, *place, "filter")
            if source[call.filter].type.root is not TypeRoot.BOOLEAN:
                raise placed(Wrong("a FILTER is BOOLEAN"), *place, "filter")
        for index, key in enumerate(call.order_by):
            self._column(key.index, source, *place, "order_by", index, "index")
        found = self.functions.find(call.function)
        if not isinstance(found, (AggregateFunction, WindowFunction) if over else AggregateFunction):
            raise placed(Wrong(f"there is no aggregate function {call.function}"), *place, "function")
        try:
            check_aggregate(call, found)
        except Wrong as wrong:
            raise placed(wrong, *place) from None
