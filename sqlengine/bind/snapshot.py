"""`LATERAL TABLE(SNAPSHOT(input => TABLE t, ..))`: each row of the left side with the rows that t has now (Flink 2.4)."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from runtime.core.types import TypeRoot
from runtime.expr.nodes import Literal
from runtime.plan.parts import SnapshotLoad
from sqlengine.bind.function_arguments import call_arguments, constant_argument, refused, text_argument
from sqlengine.bind.session import QueryEnv
from sqlengine.bind.table_functions import milliseconds
from sqlengine.parse.nodes import FunctionCall, TableArg
from sqlengine.parse.spans import span_of

__all__ = ["bind_snapshot"]

_PARAMETERS = ("input", "load_completed_condition", "load_completed_time", "load_completed_idle_timeout", "state_ttl")
_USAGE = "write LATERAL TABLE(SNAPSHOT(input => TABLE t)) AS s"
_CONDITIONS = ("compile_time", "user_time")


def bind_snapshot(call: FunctionCall, env: QueryEnv) -> tuple[exp.Expr, SnapshotLoad]:
    """The table argument of a call, and when it is loaded.

    Raises BindError E1230 for wrong arguments.
    """
    arguments = call_arguments("SNAPSHOT", call, _PARAMETERS, _PARAMETERS[1:], _USAGE)
    table = arguments["input"]
    if not isinstance(table, TableArg) or table.args.get("partition_by") or table.args.get("order") is not None:
        raise refused("the input of SNAPSHOT is a table without PARTITION BY and ORDER BY", table, _USAGE)
    for system in ("on_time", "uid"):
        if system in arguments:
            raise refused(f"SNAPSHOT takes no {system}", arguments[system], "leave it out")
    condition = _condition(arguments, env)
    idle = arguments.get("load_completed_idle_timeout")
    ttl = arguments.get("state_ttl")
    return table.this, SnapshotLoad(
        None if condition == "compile_time" else _time(arguments["load_completed_time"], env),
        None if idle is None else _length(idle, "load_completed_idle_timeout", env),
        None if ttl is None else _length(ttl, "state_ttl", env),
    )


def _condition(arguments: Mapping[str, exp.Expr], env: QueryEnv) -> str:
    written = arguments.get("load_completed_condition")
    condition = "compile_time" if written is None else text_argument(written, "load_completed_condition", env)
    if written is not None and condition not in _CONDITIONS:
        raise refused(
            f"load_completed_condition is 'compile_time' or 'user_time', not '{condition}'",
            written,
            "'user_time' takes a load_completed_time",
        )
    time = arguments.get("load_completed_time")
    if condition == "user_time" and time is None:
        raise refused(
            "load_completed_condition => 'user_time' needs a time",
            written or exp.Null(),
            "write load_completed_time => TO_TIMESTAMP_LTZ(0, 3)",
        )
    if condition == "compile_time" and time is not None:
        raise refused(
            "load_completed_time belongs to 'user_time'", time, "write load_completed_condition => 'user_time'"
        )
    return condition


def _time(tree: exp.Expr, env: QueryEnv) -> int:
    value = constant_argument(tree, "load_completed_time", env)
    if value.type.root is not TypeRoot.TIMESTAMP_LTZ or value.value is None:
        raise refused(
            f"load_completed_time is a TIMESTAMP_LTZ, not {value.type.with_nullable(True)}",
            tree,
            "write CAST(TIMESTAMP '2024-01-01 00:00:00' AS TIMESTAMP_LTZ(3))",
        )
    return _instant(value)


def _instant(value: Literal) -> int:
    """As milliseconds since the epoch."""
    moment = pa.array([value.value], value.type.arrow).cast(pa.timestamp("ms", "UTC"), safe=False)
    return int(moment.cast(pa.int64())[0].as_py())


def _length(tree: exp.Expr, name: str, env: QueryEnv) -> int:
    found = milliseconds(constant_argument(tree, name, env), name, span_of(tree))
    if found < 0:
        raise refused(f"{name} is not negative", tree, "write INTERVAL '10' SECOND")
    return found
