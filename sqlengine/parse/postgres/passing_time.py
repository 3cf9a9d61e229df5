"""`now()` in conditions of views: the time that passes.

    WHERE ts > now() - interval '1 hour'    WHERE ts > MZ_NOW() - INTERVAL '1' HOUR
    WHERE day = current_date                WHERE day = CAST(MZ_NOW() AS DATE)
    mz_now() <= 1700000000000               MZ_NOW() <= PG_POINT(1700000000000)

In PostgreSQL a view is a query that is asked each time anew. So its rows come and go with the time, and a view that is
kept up to date follows it. Source: Materialize and RisingWave, "Temporal filters".
"""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import UnsupportedError
from runtime.core.types import DATE, DataType, timestamp
from sqlengine.parse.nodes import FunctionCall, TypeSpec
from sqlengine.parse.spans import span_of

__all__ = ["follows_time"]

_NOW = frozenset(("NOW", "CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP", "PROCTIME"))
_AS: dict[str, DataType] = {"CURRENT_DATE": DATE, "LOCALTIMESTAMP": timestamp(6)}
_OF_THE_DAY = frozenset(("CURRENT_TIME", "LOCALTIME"))
_COMPARISONS = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def follows_time(query: exp.Expr, text: str) -> exp.Expr | None:
    """The query with the time that passes in its conditions; None where it asks for no time there."""
    calls = [call for call in query.find_all(FunctionCall) if _in_condition(call)]
    found = False
    for call in calls:
        name = call.name.upper()
        if name in _OF_THE_DAY:
            raise UnsupportedError(
                "a condition of a view cannot depend on the time of the day",
                span=span_of(call),
                text=text,
                hint="rows would come back each day; compare a timestamp with now()",
            )
        if name in _NOW or name in _AS:
            found = True
            made: exp.Expr = FunctionCall(this="MZ_NOW", expressions=[])
            made.meta.update(call.meta)
            if name in _AS:
                made = exp.Cast(this=made, to=TypeSpec(this=_AS[name]))
                made.meta.update(call.meta)
            call.replace(made)
        elif name == "MZ_NOW":
            found = True
            _with_milliseconds(call)
    return query if found else None


def _in_condition(call: FunctionCall) -> bool:
    return call.find_ancestor(exp.Where, exp.Having, exp.Qualify, exp.Join) is not None


def _with_milliseconds(call: FunctionCall) -> None:
    """Materialize's time is a number of milliseconds: what is compared with it may be one."""
    above = call.parent
    if not isinstance(above, _COMPARISONS):
        return
    key = "expression" if above.this is call else "this"
    other = above.args[key]
    point = FunctionCall(this="PG_POINT", expressions=[other.copy()])
    point.meta.update(other.meta)
    above.set(key, point)
