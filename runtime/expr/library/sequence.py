"""NEXTVAL, CURRVAL, LASTVAL, SETVAL and PG_GET_SERIAL_SEQUENCE: numbers of sequences, and their names.

Only a session has sequences, so its own functions of these names compute them (`sqlengine/database/number_functions.py`).
Those that are declared here are what every plan knows of them: their types, and that they are other values each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from runtime.core.errors import ExpressionError
from runtime.core.types import BIGINT, STRING
from runtime.expr.function import AnyFunction, EvalContext, Nulls, Value
from runtime.expr.library.declare import BIGINT_, BOOLEAN_, CHARACTER, Family

__all__ = ["FAMILY", "NUMBER_FUNCTIONS", "SESSION_FUNCTIONS", "of_session"]

FAMILY = Family("sequence")
NUMBER_FUNCTIONS = ("NEXTVAL", "CURRVAL", "LASTVAL", "SETVAL")
SESSION_FUNCTIONS = (*NUMBER_FUNCTIONS, "PG_GET_SERIAL_SEQUENCE")


def of_session(evaluations: Callable[[], Mapping[str, Callable[..., Value]]]) -> dict[str, AnyFunction]:
    """These functions as a session computes them; `evaluations` is asked with each call, and has none when that is gone."""
    return {f.name: replace(f, evaluate=_OfSession(f.name, evaluations)) for f in FAMILY.functions}


class _OfSession:
    """The evaluation of one of these functions by a session. In another process it is the one that is declared here."""

    __slots__ = ("_evaluations", "_name")

    def __init__(self, name: str, evaluations: Callable[[], Mapping[str, Callable[..., Value]]]) -> None:
        self._name = name
        self._evaluations = evaluations

    def __call__(self, context: EvalContext, *arguments: Value) -> Value:
        evaluate = self._evaluations().get(self._name) or _declared(self._name)
        return evaluate(context, *arguments)

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return _declared, (self._name,)


def _declared(name: str) -> Any:
    return next(function.evaluate for function in FAMILY.functions if function.name == name)


def _not_here() -> NoReturn:
    raise ExpressionError(
        "sequences are known to the session alone", code="E2026", hint="compute the numbers in a query of their own"
    )


@FAMILY.scalar(
    "NEXTVAL",
    [CHARACTER],
    BIGINT,
    "The next number of a sequence, another one for each row.",
    deterministic=False,
    can_fail=True,
)
def nextval(_: EvalContext, name: Value) -> Value:
    _not_here()


@FAMILY.scalar(
    "CURRVAL",
    [CHARACTER],
    BIGINT,
    "The number that the session was given last by a sequence.",
    deterministic=False,
    can_fail=True,
)
def currval(_: EvalContext, name: Value) -> Value:
    _not_here()


@FAMILY.scalar(
    "LASTVAL",
    [],
    BIGINT,
    "The number that the session was given last by any sequence.",
    deterministic=False,
    can_fail=True,
)
def lastval(_: EvalContext) -> Value:
    _not_here()


@FAMILY.scalar(
    "SETVAL",
    [CHARACTER, BIGINT_],
    BIGINT,
    "Has a sequence go on behind a number; with FALSE as the third argument, with it.",
    also=[([CHARACTER, BIGINT_, BOOLEAN_], BIGINT)],
    deterministic=False,
    can_fail=True,
)
def setval(_: EvalContext, name: Value, number: Value, *called: Value) -> Value:
    _not_here()


@FAMILY.scalar(
    "PG_GET_SERIAL_SEQUENCE",
    [CHARACTER, CHARACTER],
    STRING,
    "The name of the sequence of a numbered column, or of one that goes with a column.",
    deterministic=False,
    can_fail=True,
    nulls=Nulls.MAYBE,
)
def pg_get_serial_sequence(_: EvalContext, table: Value, column: Value) -> Value:
    _not_here()
