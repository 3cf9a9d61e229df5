"""`t FOR SYSTEM_TIME AS OF moment`: a table as it was after the last epoch that was complete at a constant moment."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
from sqlglot import exp

from connectors.memory.snapshot import PastRows
from planner.logical.nodes import LogicalNode
from runtime.core.errors import BindError, Span, TypeMismatchError, with_article
from runtime.core.types import DATE, TypeRoot, timestamp, timestamp_ltz
from runtime.eval.constant import fold_constant
from runtime.expr.analysis import contains, is_deterministic, is_dynamic
from runtime.expr.nodes import Cast, Expr, Literal, Parameter
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.hints import table_options
from sqlengine.bind.literals import moment as moment_of
from sqlengine.bind.literals import parameters_of
from sqlengine.bind.scan import scan_table
from sqlengine.bind.scope import Scope
from sqlengine.bind.session import Clause, QueryEnv
from sqlengine.catalog.objects import BindContext, CatalogTable, EpochNumber
from sqlengine.parse.nodes import FunctionCall, ParameterMark
from sqlengine.parse.spans import span_of

__all__ = ["is_constant_moment", "milliseconds", "past_scan"]

_EXAMPLE = "for example TIMESTAMP '2024-01-01 12:00:00', in the session's time zone, or TO_TIMESTAMP_LTZ(0, 3)"


def is_constant_moment(table: exp.Table) -> bool:
    """Whether a table is to be read as of a moment, and not as of a time of the other side of a join."""
    time = table.args["version"].expression
    if isinstance(time, FunctionCall) and time.name.upper() == "PROCTIME":
        return False
    return time.find(exp.Column) is None or time.find(exp.Query) is not None


def past_scan(tree: exp.Table, env: QueryEnv) -> tuple[LogicalNode, CatalogTable]:
    """The plan of a table as of a moment, and the table.

    Raises:
        TypeMismatchError: E1233, the moment is no timestamp, or not a constant.
        PlanningError: E1721, nobody knows what the table was then.
    """
    version = tree.args["version"]
    written = version.expression
    mark = written.this if isinstance(written, exp.Cast) else written
    moment: int | EpochNumber
    if version.args["kind"] == "AS OF EPOCH":
        moment = _epoch(written, env)
    else:
        moment = _given(mark, env) if isinstance(mark, ParameterMark) else _moment(written, env)
    path = tuple(p.name for p in tree.parts)
    found = env.context.past(path, span_of(tree), table_options(tree), moment)
    name = found.source.title if isinstance(found.source, PastRows) else ""
    return scan_table(found, env, span_of(tree), name=name), found.table


def _epoch(written: exp.Expr, env: QueryEnv) -> EpochNumber:
    """An epoch by its number, which may be a parameter."""
    if env.context.now is None:
        hint = "name a moment: " + _EXAMPLE.removeprefix("for example ")
        raise _refused("EPOCH is for what is read once: a query that is kept outlives the numbers", written, hint)
    if not isinstance(written, ParameterMark):
        return EpochNumber(int(written.name))
    value = parameters_of(env.context, written).moment(written.parameter, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refused(f"EPOCH takes a number, and the value of the parameter is {value!r}", written, "a BIGINT")
    return EpochNumber(value)


def _given(mark: ParameterMark, env: QueryEnv) -> int:
    """The moment that a parameter is: a time with or without a zone, a day, or the text of a timestamp."""
    context = env.context
    now = None if context.now is None else dt.datetime.fromtimestamp(context.now / 1000, dt.UTC)
    value = parameters_of(context, mark).moment(mark.parameter, now)
    match value:
        case str():
            constant = moment_of("TIMESTAMP", value, context.time_zone)
        case dt.datetime():
            constant = Literal(value, (timestamp if value.tzinfo is None else timestamp_ltz)(6))
        case dt.date():
            constant = Literal(value, DATE)
        case _:
            raise _refused(f"takes a timestamp, and the value of the parameter is {value!r}", mark, _EXAMPLE)
    return _milliseconds(constant, mark, env)


def _moment(tree: exp.Expr, env: QueryEnv) -> int:
    """Milliseconds since 1970."""
    bound = ExpressionBinder(env, Scope(), Clause("FOR SYSTEM_TIME AS OF", subqueries=False)).bind(tree)
    functions, now = env.context.functions, env.context.now
    if contains(bound, Parameter):
        raise BindError(
            "FOR SYSTEM_TIME AS OF takes a parameter alone, not within an expression",
            code="E1250",
            span=span_of(tree),
            hint="compute the time in the program: what is read belongs to the plan of the statement",
        )
    if bound.type.root not in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.DATE):
        raise _refused(f"takes a timestamp, and this is {with_article(bound.type.with_nullable(True))}", tree, _EXAMPLE)
    if not is_deterministic(bound, functions):
        raise _refused("takes a constant, and this is another value each time", tree, _EXAMPLE)
    if now is None and is_dynamic(bound, functions):
        raise _refused("takes a constant where a query is kept: the time now is another one later", tree, _EXAMPLE)
    return _milliseconds(bound, tree, env)


def _milliseconds(bound: Expr, tree: exp.Expr, env: QueryEnv) -> int:
    found = milliseconds(bound, env.context, span_of(tree))
    if found is None:
        raise _refused("takes a timestamp, and this is NULL", tree, _EXAMPLE)
    return found


def milliseconds(bound: Expr, context: BindContext, span: Span | None) -> int | None:
    """The milliseconds since 1970 of a constant timestamp; None: it is NULL."""
    instant = Cast(bound, timestamp_ltz(3), span=span)
    value = fold_constant(instant, context.functions, context.time_zone, context.now)
    if value.value is None:
        return None
    moment = pa.array([value.value], value.type.arrow).cast(pa.timestamp("ms", "UTC"), safe=False)
    return int(moment.cast(pa.int64())[0].as_py())


def _refused(message: str, tree: exp.Expr, hint: str) -> TypeMismatchError:
    return TypeMismatchError(f"FOR SYSTEM_TIME AS OF {message}", code="E1233", span=span_of(tree), hint=hint)
