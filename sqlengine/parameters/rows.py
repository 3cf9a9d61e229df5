"""INSERT of many rows of values: VALUES with parameters as a query over a table of the values, column by column."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from connectors.values.constants import ConstantTable
from planner.logical.nodes import LogicalNode, Project, Scan, Values
from runtime.core.node import Node
from runtime.core.schema import Field, Schema
from runtime.core.types import INT
from runtime.expr.nodes import Column, Expr, Parameter, fresh_column, transform
from sqlengine.parameters.binding import Parameters, Slot, parameters_in, rewritten

_P = TypeVar("_P", bound=LogicalNode)

__all__ = ["OneByOne", "value_rows", "with_rows"]


class OneByOne(Exception):
    """A statement that cannot be carried out with many values at once."""


def value_rows(parameters: Parameters, count: int) -> pa.RecordBatch:
    """The values of each parameter in each of its places, as columns."""
    columns = [parameters.column(slot) for slot in parameters.slots] or [pa.nulls(count, pa.int32())]
    return pa.RecordBatch.from_arrays(columns, names=[f"p{i}" for i in range(len(columns))])


def with_rows(plan: _P, parameters: Parameters, count: int) -> _P:
    """The plan of an INSERT with `count` rows in the place of the one of its VALUES.

    Raises OneByOne where parameters stand anywhere else.
    """
    rows = value_rows(parameters, count)
    slots = parameters.slots
    types = [type_ for _, type_ in slots] or [INT]

    def change(node: Node) -> Node:
        if not isinstance(node, Values) or len(node.rows) != 1:
            return node
        columns = tuple(fresh_column(f"p{i}", type_) for i, type_ in enumerate(types))
        schema = Schema(tuple(Field(c.name, c.type) for c in columns))
        scan = Scan(ConstantTable(schema, rows), "VALUES", columns)
        cells = [_over(cell, slots, columns) for cell in node.rows[0]]
        return Project(scan, tuple(zip(node.produced, cells, strict=True)))

    made = rewritten(plan, change)
    if made is plan or parameters_in(made):
        raise OneByOne
    return made


def _over(cell: Expr, slots: list[Slot], columns: tuple[Column, ...]) -> Expr:
    def change(expr: Expr) -> Expr:
        if not isinstance(expr, Parameter):
            return expr
        return columns[slots.index((expr.key, expr.type))].ref()

    return transform(cell, change)
