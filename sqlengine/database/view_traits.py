"""What a materialized view depends on beside the contents of the tables that it reads."""

from __future__ import annotations

from collections.abc import Collection

from connectors.memory import MemoryTable
from connectors.memory.snapshot import PastRows
from connectors.values.constants import ConstantTable
from runtime.expr.analysis import can_fail, is_deterministic, is_dynamic, is_repeatable
from runtime.expr.function import AggregateFunction, FunctionRegistry, ScalarFunction
from runtime.expr.nodes import Call, Expr, children
from runtime.local.job import Job
from runtime.plan.base import Follows
from runtime.plan.nodes import ProcessTablesExec
from runtime.plan.walk import expressions_of

__all__ = ["calls_out", "follows_time", "may_gather", "next_change", "reads_outside", "varies", "waits_for_time"]


def reads_outside(job: Job) -> bool:
    """Whether some source of a job is not a table in memory, now or as of a moment."""
    return any(not isinstance(source.table, MemoryTable | ConstantTable | PastRows) for source in job.dataflow.sources)


def follows_time(job: Job) -> bool:
    """Whether something may happen in a job when no input comes: windows of processing time, state that expires, or an
    operator that waits."""
    return any(v.node.acts_without_input for v in job.dataflow.vertices)


def waits_for_time(job: Job) -> bool:
    """Whether rows will come in or leave when time passes, though no input comes any more."""
    vertices = job.dataflow.vertices
    return any(v.node.knows_timers and v.operator is not None and v.operator.next_timer() is not None for v in vertices)


def next_change(job: Job) -> int | None:
    """The processing time from which on rows may come out of a job without input; 0: at any time, None: never."""
    timers = (v.next_timer() for v in job.dataflow.vertices if v.node.acts_by_clock)
    return min((timer for timer in timers if timer is not None), default=None)


def calls_out(job: Job, functions: FunctionRegistry, by_users: Collection[str]) -> bool:
    """Whether a job asks other systems, or calls functions that users have made (`by_users`: the names of those)."""
    found = (functions.find(name) for name in by_users)
    names = {*by_users, *(f.name for f in found if isinstance(f, ScalarFunction | AggregateFunction))}
    return any(
        Follows.OUTSIDE in v.node.follows()
        or isinstance(v.node, ProcessTablesExec)
        or any(call.function in names for call in v.node.aggregates)
        or any(_calls(expr, names) for expr in expressions_of(v.node))
        for v in job.dataflow.vertices
    )


def _calls(expr: Expr, names: Collection[str]) -> bool:
    return (isinstance(expr, Call) and expr.function in names) or any(_calls(child, names) for child in children(expr))


def varies(job: Job, functions: FunctionRegistry) -> bool:
    """Whether a job may give other values when it takes the same rows again."""
    found = (expr for v in job.dataflow.vertices for expr in expressions_of(v.node))
    return any(not is_repeatable(expr, functions) or is_dynamic(expr, functions) for expr in found)


def may_gather(job: Job, functions: FunctionRegistry) -> bool:
    """Whether it makes no difference when a job takes what statements have changed, and how many of them at once: it
    reads nothing but tables in memory, knows no time, has no function whose value depends on the moment, and computes
    nothing that may fail, so that no statement breaks it unseen. What answers by the order of arrival reads one table only:
    its rows stay in their order."""
    nodes = [v.node for v in job.dataflow.vertices]
    several = sum(node.table_use == "source" for node in nodes) > 1
    return (
        not reads_outside(job)
        and not follows_time(job)
        and not any(Follows.ARRIVAL in node.follows() for node in nodes)
        and not any(several and Follows.TIES in node.follows() for node in nodes)
        and all(_steady(expr, functions) for node in nodes for expr in expressions_of(node))
        and all(_steady_call(functions.find(call.function), several) for node in nodes for call in node.aggregates)
    )


def _steady(expr: Expr, functions: FunctionRegistry) -> bool:
    return is_deterministic(expr, functions) and not is_dynamic(expr, functions) and not can_fail(expr, functions)


def _steady_call(function: object, several: bool) -> bool:
    return (
        isinstance(function, AggregateFunction)
        and function.deterministic
        # Functions of users may fail.
        and function.accumulator is None
        and not (several and function.order_sensitive)
    )
