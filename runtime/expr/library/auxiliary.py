"""Functions about the session."""

from __future__ import annotations

from runtime.core.errors import InternalError
from runtime.core.types import STRING
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import Family

__all__ = ["FAMILY"]

FAMILY = Family("auxiliary")


@FAMILY.scalar("CURRENT_DATABASE", [], STRING, "The name of the current database.", nulls=Nulls.NEVER)
def current_database(_: EvalContext) -> Value:
    """The binder writes the name in place of the call: a plan does not follow a later USE."""
    raise InternalError("CURRENT_DATABASE is a constant by the time rows come")
