"""Window functions in FROM: TUMBLE, HOP, CUMULATE and SESSION, with positional or named arguments.

    TUMBLE(TABLE t, DESCRIPTOR(ts), size [, offset])             DATA, TIMECOL, SIZE, OFFSET
    HOP(TABLE t, DESCRIPTOR(ts), slide, size [, offset])         DATA, TIMECOL, SLIDE, SIZE, OFFSET
    CUMULATE(TABLE t, DESCRIPTOR(ts), step, size [, offset])     DATA, TIMECOL, STEP, SIZE, OFFSET
    SESSION(TABLE t [PARTITION BY k, ..], DESCRIPTOR(ts), gap)   DATA, TIMECOL, GAP

They add window_start, window_end (plain timestamps) and window_time (a time attribute like the one of the input). The
time column is a time attribute; in a batch query, whose windows all close at the end, any timestamp will do, and
window_time is a plain one then.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.logical.nodes import LogicalNode, WindowTable
from runtime.core.errors import BindError, Span, TypeMismatchError, UnsupportedError, did_you_mean, with_article
from runtime.core.types import DataType, TypeRoot, timestamp
from runtime.expr.nodes import Call, ColumnRef, Expr, Literal, fresh_column
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, TumbleWindow, WindowSpec
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import Clause, QueryEnv
from sqlengine.parse.nodes import DefaultArg, Descriptor, FunctionCall, NamedArg, TableArg
from sqlengine.parse.spans import span_of

__all__ = ["WINDOW_FUNCTIONS", "bind_window_function", "milliseconds", "window_of", "window_table"]

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET", "EMITONLYONUPDATE"),
    "SESSION": ("GAP",),
}
MAX_WINDOWS = 100_000
"""The most windows that a row may fall in. A day that slides by the second has 86,400."""
_OPTIONAL = frozenset({"OFFSET", "EMITONLYONUPDATE"})
_OF_ANY_TIME = "PG_"
"""Before TUMBLE and HOP: windows also of a timestamp that is no time attribute, whose results change as rows come."""
WINDOW_FUNCTIONS = frozenset((*_PARAMETERS, f"{_OF_ANY_TIME}TUMBLE", f"{_OF_ANY_TIME}HOP"))

RelationOf = Callable[[exp.Expr], tuple[LogicalNode, Source]]


def bind_window_function(call: FunctionCall, env: QueryEnv, relation: RelationOf) -> LogicalNode:
    """The windowed table of a call; `relation` binds the table argument.

    Raises:
        BindError: E1230 for wrong arguments, E1231 when the column is no time attribute, E1232 for sizes that do not
        fit together, E1234 for too many windows per row.
    """
    written, span = call.name.upper(), span_of(call)
    name = written.removeprefix(_OF_ANY_TIME)
    arguments = _arguments(name, call)
    data, time_column = arguments["DATA"], arguments["TIMECOL"]
    if not isinstance(data, TableArg):
        raise BindError(f"the first argument of {name} is a table", code="E1230", span=span_of(data), hint=_usage(name))
    if not isinstance(time_column, Descriptor) or len(time_column.expressions) != 1:
        raise BindError(
            f"the second argument of {name} is DESCRIPTOR(time column)",
            code="E1230",
            span=span_of(time_column),
            hint=_usage(name),
        )
    if data.args.get("order") is not None:
        raise BindError(
            f"{name} takes no ORDER BY",
            code="E1230",
            span=span_of(data),
            hint="leave ORDER BY out: windows are cut by the time column",
        )
    plan, source = relation(data.this)
    scope = Scope([source])
    named = time_column.expressions[0]
    found = source.find(named.name)
    if not found:
        raise BindError(
            f'unknown column "{named.name}" in DESCRIPTOR',
            code="E1201",
            span=span_of(named),
            hint=did_you_mean(named.name, [c.name for c in source.columns]),
        )
    binder = ExpressionBinder(env, scope, Clause(f"the arguments of {name}", subqueries=False))
    partition = tuple(_column(binder, key, name) for key in data.args.get("partition_by") or ())
    if partition and name != "SESSION":
        raise BindError(
            f"only SESSION takes PARTITION BY, not {name}",
            code="E1230",
            span=span_of(data),
            hint="group by the column beside window_start and window_end",
        )
    lengths = {
        k: milliseconds(binder.bind(v), k, span_of(v))
        for k, v in arguments.items()
        if k not in ("DATA", "TIMECOL", "EMITONLYONUPDATE")
    }
    only_on_update = arguments.get("EMITONLYONUPDATE")
    if only_on_update is not None and not (isinstance(only_on_update, exp.Boolean) and not only_on_update.this):
        raise UnsupportedError(
            "emitOnlyOnUpdate of CUMULATE is not supported",
            span=span_of(only_on_update),
            hint="leave it out: every step gives a row",
        )
    window = window_of(name, lengths, span)
    if isinstance(window, HopWindow) and window.size % window.slide:
        raise BindError(
            f"the size of HOP must be a multiple of its slide, and they are {_spoken(window.size)} and {_spoken(window.slide)}",
            code="E1232",
            span=span,
            hint="the slide stands before the size",
        )
    return window_table(
        plan, found[0].ref(), window, partition, span_of(named), name, plain=env.context.batch or name != written
    )


_LENGTHS = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1000))


def _spoken(milliseconds: int) -> str:
    """A length as an interval is written, in the largest unit that has it whole."""
    for unit, length in _LENGTHS:
        if milliseconds and milliseconds % length == 0:
            return f"INTERVAL '{milliseconds // length}' {unit}"
    return f"INTERVAL '{milliseconds / 1000:g}' SECOND"


def window_of(name: str, lengths: dict[str, int], span: Span | None) -> WindowSpec:
    """The window assigner of lengths in milliseconds; E1232 when they do not fit together, E1234 when each row falls
    in more than `MAX_WINDOWS` windows: it would come out once for each of them."""
    offset = lengths.get("OFFSET", 0)
    for parameter, length in lengths.items():
        if parameter != "OFFSET" and length <= 0:
            raise BindError(
                f"{parameter.lower()} of {name} must be positive, and is {_spoken(length)}",
                code="E1232",
                span=span,
                hint="for example INTERVAL '5' MINUTE",
            )
    size = lengths.get("SIZE", 0)
    if name != "SESSION" and abs(offset) >= size:
        raise BindError(
            f"the offset of {name} must be smaller than its size, and is {_spoken(offset)} of {_spoken(size)}",
            code="E1232",
            span=span,
            hint=f"an offset of {_spoken(offset % size)} means the same",
        )
    match name:
        case "TUMBLE":
            return TumbleWindow(size, offset)
        case "HOP":
            slide = lengths["SLIDE"]
            _check_windows("HOP", "slide", slide, size, span)
            return HopWindow(slide, size, offset)
        case "CUMULATE":
            step = lengths["STEP"]
            if size % step:
                raise BindError(
                    f"the size of CUMULATE must be a multiple of its step, and they are {_spoken(size)} and {_spoken(step)}",
                    code="E1232",
                    span=span,
                    hint="the step stands before the size",
                )
            _check_windows("CUMULATE", "step", step, size, span)
            return CumulateWindow(step, size, offset)
        case _:
            return SessionWindow(lengths["GAP"])


def _check_windows(name: str, parameter: str, step: int, size: int, span: Span | None) -> None:
    if size // step > MAX_WINDOWS:
        raise BindError(
            f"each row falls in {size // step:,} windows of {name}, and at most {MAX_WINDOWS:,} are allowed",
            code="E1234",
            span=span,
            hint=f"a {parameter} of at least {-(-size // MAX_WINDOWS)} ms, or a shorter size",
        )


def window_table(
    plan: LogicalNode,
    time: ColumnRef,
    window: WindowSpec,
    partition: tuple[ColumnRef, ...],
    span: Span | None,
    usage: str,
    window_time_type: DataType | None = None,
    *,
    plain: bool = False,
) -> WindowTable:
    """The node, when the time column is a time attribute (`plain`: a timestamp); E1231 otherwise."""
    kind = time.type
    if not kind.is_timestamp:
        raise TypeMismatchError(
            f'{usage} takes a TIMESTAMP or TIMESTAMP_LTZ column, and "{time.name}" is {with_article(kind.with_nullable(True))}',
            code="E1231",
            span=span,
            hint="declare WATERMARK FOR a column of such a type, or a column AS PROCTIME()",
        )
    if kind.time_attribute is None and not plain:
        raise TypeMismatchError(
            f'{usage} takes a time attribute, and "{time.name}" is a plain {kind.with_nullable(True)}',
            code="E1231",
            span=span,
            hint="name it in WATERMARK FOR of its table; expressions and aggregates make a plain value of it",
        )
    bound = timestamp(3).not_null()
    time_type = window_time_type or kind.with_(precision=3, nullable=False)
    return WindowTable(
        plan,
        window,
        time,
        partition,
        fresh_column("window_start", bound),
        fresh_column("window_end", bound),
        fresh_column("window_time", time_type),
        span,
    )


def milliseconds(value: Expr, parameter: str, span: Span | None) -> int:
    """The length of a day-time interval literal, also with a sign or arithmetic on literals before it."""
    if isinstance(value, Literal) and value.type.root is TypeRoot.INTERVAL_SECOND and value.value is not None:
        return int(value.value)
    if isinstance(value, Call) and len(value.args) == 1 and isinstance(value.args[0], Literal):
        return -milliseconds(value.args[0], parameter, span)
    if isinstance(value, Literal) and value.type.root is TypeRoot.INTERVAL_MONTH:
        raise TypeMismatchError(
            f"{parameter.lower()} cannot be months or years",
            code="E1230",
            span=span,
            hint="their length varies: use days",
        )
    raise TypeMismatchError(
        f"{parameter.lower()} is an INTERVAL literal, not {value.type.with_nullable(True)}",
        code="E1230",
        span=span,
        hint="for example INTERVAL '10' MINUTE",
    )


def _arguments(name: str, call: FunctionCall) -> dict[str, exp.Expr]:
    parameters = ("DATA", "TIMECOL", *_PARAMETERS[name])
    found: dict[str, exp.Expr] = {}
    for position, argument in enumerate(call.expressions):
        if isinstance(argument, NamedArg):
            key = argument.this.name.upper()
            if key not in parameters:
                raise BindError(
                    f'{name} has no argument "{argument.this.name}"',
                    code="E1230",
                    span=span_of(argument),
                    hint=did_you_mean(key, parameters),
                )
            value = argument.expression
        elif position < len(parameters):
            key, value = parameters[position], argument
        else:
            raise BindError(
                f"{name} has at most {len(parameters)} arguments",
                code="E1230",
                span=span_of(argument),
                hint=_usage(name),
            )
        if key in found:
            raise BindError(
                f"the argument {key} of {name} is there twice",
                code="E1230",
                span=span_of(argument),
                hint="give it once",
            )
        if not isinstance(value, DefaultArg):
            found[key] = value
    missing = [p for p in parameters if p not in found and p not in _OPTIONAL]
    if missing:
        raise BindError(f"{name} lacks its argument {missing[0]}", code="E1230", span=span_of(call), hint=_usage(name))
    return found


def _usage(name: str) -> str:
    rest = ", ".join(f"[{p.lower()}]" if p in _OPTIONAL else p.lower() for p in _PARAMETERS[name])
    return f"write {name}(TABLE t, DESCRIPTOR(time), {rest})"


def _column(binder: ExpressionBinder, tree: exp.Expr, name: str) -> ColumnRef:
    value = binder.bind(tree)
    if not isinstance(value, ColumnRef):
        raise BindError(
            f"PARTITION BY of {name} takes columns",
            code="E1230",
            span=span_of(tree),
            hint="compute the column in a view, and name it here",
        )
    return value
