"""The function that a call names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.core.errors import BindError, Span
from runtime.core.rooms import Room
from runtime.core.types import BOOLEAN
from runtime.expr.function import (
    AggregateFunction,
    FunctionRegistry,
    ProcessFunction,
    ScalarFunction,
    ValueFunction,
    rejecting,
    shown_name,
    trial_of,
)
from runtime.expr.nodes import Case, Expr, Literal
from sqlengine.bind.habits import FUNCTIONS
from sqlengine.bind.operators import scalar_function
from sqlengine.bind.session import ExpressionRules
from sqlengine.options.functions import ON_ERROR
from sqlengine.parse.nodes import FunctionCall

if TYPE_CHECKING:
    import sqlengine.bind.other_names as _other_names
else:
    _other_names = Room("sqlengine.bind.other_names")

__all__ = ["accepted", "find_function", "meant"]


def find_function(binder: ExpressionRules, name: str, span: Span | None) -> ValueFunction:
    """The function of a name; E1203 with near names when there is none, E1204 for one that stands in FROM."""
    try:
        found = binder.env.context.functions.get(name)
    except BindError as error:
        error.span = error.span or span
        if name.upper() in FUNCTIONS:
            error.hint = FUNCTIONS[name.upper()]
        elif not (error.hint or "").startswith("did you mean"):
            taken = _other_names.other_names()
            known = difflib.get_close_matches(name.upper(), (*FUNCTIONS, *taken), n=1, cutoff=0.8)
            if known:
                error.hint = f'did you mean "{known[0]}"?' if known[0] in taken else FUNCTIONS[known[0]]
        raise
    if isinstance(found, ProcessFunction):
        raise BindError(
            f"{shown_name(name)} is a process table function: it stands in FROM",
            code="E1204",
            span=span,
            hint=f"write FROM {shown_name(name)}(input => TABLE t PARTITION BY k)",
        )
    if isinstance(found, ScalarFunction) and binder.env.context.options.get(ON_ERROR).lower() == "reject":
        return rejecting(found)
    return found


def accepted(
    binder: ExpressionRules,
    function: AggregateFunction,
    args: Sequence[Expr],
    condition: Expr | None,
    span: Span | None,
) -> Expr | None:
    """The condition of an aggregate over rows that it can take in. Where rows are to be rejected that a program's function
    fails for, the condition tries each row, and the projection below rejects the whole row."""
    context = binder.env.context
    trial = trial_of(function) if function.trial is not None and args else None
    if trial is None or not (function.rejects or context.options.get(ON_ERROR).lower() == "reject"):
        return condition
    tried = scalar_function(context.functions, trial.name, args, span)
    if condition is None:
        return tried
    return Case(((condition, tried),), Literal(False, BOOLEAN.not_null()), BOOLEAN)


def meant(call: FunctionCall, functions: FunctionRegistry) -> exp.Expr:
    """The call in functions that are here, where its name is another system's (`other_names`); else the call itself.
    Functions of the program and of the library come first. Raises what `by_another_name` raises."""
    if call.qualifier or functions.find(call.name.upper()) is not None:
        return call
    return _other_names.by_another_name(call)
