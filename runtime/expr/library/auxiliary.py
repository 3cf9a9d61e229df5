"""Functions about the session."""

from __future__ import annotations

from runtime.core.errors import InternalError
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import Family

__all__ = ["FAMILY"]

FAMILY = Family("auxiliary")


def _of_the_binder(_: CallTypes) -> None:
    """The binder writes the name in place of the call: a plan does not follow a later USE."""
    return None


@FAMILY.special("CURRENT_DATABASE", _of_the_binder, "The name of the current database.", form=(), nulls=Nulls.NEVER)
def current_database(_: EvalContext) -> Value:
    raise InternalError("CURRENT_DATABASE is a constant by the time rows come")
