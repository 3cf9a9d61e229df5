"""Bound statements with values in the places of parameters. VALUES with many values becomes a query over a table of
them, column by column."""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = ["OneByOne", "bound", "value_rows"]


class OneByOne(Exception):
    """A statement that cannot be carried out with many values at once."""


def value_rows(parameters: Parameters, count: int) -> pa.RecordBatch:
    """The values of each parameter in each of its places, as columns."""
    columns = [parameters.column(slot) for slot in parameters.slots] or [pa.nulls(count, pa.int32())]
    return pa.RecordBatch.from_arrays(columns, names=[f"p{i}" for i in range(len(columns))])


def bound(parameters: Parameters, bind: Callable[[], _P]) -> _P:
    """What `bind` gives, with a type for each parameter; with values in their places unless they stay.

    Raises what `Parameters.typed` raises, and OneByOne.
    """
    made = parameters.typed(bind)
    if parameters.keeps_places or parameters.columns is None:
        return made
    count = parameters.count_of_rows
    return parameters.filled(made) if count == 1 else _with_rows(made, parameters, count)


def _with_rows(plan: _P, parameters: Parameters, count: int) -> _P:
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
