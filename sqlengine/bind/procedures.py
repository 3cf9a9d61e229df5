"""The arguments of CALL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from planner.logical.nodes import Values
from runtime.core.errors import Span
from runtime.core.types import DataType
from runtime.expr.nodes import fresh_column
from sqlengine.bind.binder import Binder
from sqlengine.bind.function_arguments import call_arguments, typed_argument
from sqlengine.bind.session import QueryEnv
from sqlengine.catalog.objects import BindContext
from sqlengine.parse.ddl_nodes import ExpressionText
from sqlengine.parse.nodes import FunctionCall

__all__ = ["bind_call"]


class _Parameter(Protocol):
    """See `sqlengine.user_functions.procedures.Parameter`."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> DataType | None: ...
    @property
    def optional(self) -> bool: ...


def bind_call(
    name: str,
    parameters: Sequence[_Parameter],
    arguments: Sequence[ExpressionText],
    usage: str,
    span: Span,
    context: BindContext,
) -> Values:
    """The arguments that are given as one row, whose columns have the names of the parameters.

    Raises BindError E1230 for arguments that the procedure does not have, or that are missing, TypeMismatchError E1230
    for those of other types.
    """
    call = FunctionCall(this=name, expressions=[a.expression.copy() for a in arguments])
    call.meta.update(start=span.start, end=span.end - 1)
    optional = [p.name for p in parameters if p.optional]
    given = call_arguments(name, call, [p.name for p in parameters], optional, usage, ())
    env = QueryEnv(Binder(), context)
    found = [(p.name, typed_argument(name, p.name, p.type, given[p.name], env)) for p in parameters if p.name in given]
    return Values((tuple(e for _, e in found),), tuple(fresh_column(n, e.type) for n, e in found))
