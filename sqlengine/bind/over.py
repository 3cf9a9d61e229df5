"""Functions with OVER: the window they name, its partition, order and frame.

A window call stays inside its expression as a `WindowCall`; `window.py` takes it out into an `Over` node.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from runtime.core.errors import BindError, Span, TypeMismatchError, UnsupportedError, did_you_mean
from runtime.core.types import DataType, TypeRoot
from runtime.eval.constant import fold_constant
from runtime.expr.function import AggregateFunction, FunctionRegistry, ScalarFunction, WindowFunction
from runtime.expr.nodes import Cast, Expr, Frame, FrameBound, FrameExclusion, Literal, SortKey, WindowCall
from runtime.expr.nullability import aggregate_type, cast_type
from sqlengine.bind.aggregate_parts import aggregate_parts, resolved_arguments
from sqlengine.bind.coerce import as_boolean
from sqlengine.bind.functions import accepted
from sqlengine.bind.session import Clause, ExpressionRules
from sqlengine.bind.sort_keys import sort_key
from sqlengine.parse.spans import span_of

__all__ = ["OVER"]

_NOT_OVER = ("JSON_OBJECTAGG", "JSON_ARRAYAGG")


def _over(binder: ExpressionRules, tree: exp.Window) -> Expr:
    span = span_of(tree)
    if not binder.clause.windows:
        raise BindError(
            f"a function with OVER cannot stand in {binder.clause.name}",
            code="E1213",
            span=span,
            hint="filter its result with QUALIFY, or in a query around this one"
            if binder.clause.name == "WHERE"
            else None,
        )
    parts, function = aggregate_parts(binder, tree.this)
    if isinstance(function, ScalarFunction):
        raise BindError(
            f"{function.name} is no aggregate and takes no OVER", code="E1211", span=span, hint="leave OVER out"
        )
    if parts.order is not None:
        raise BindError(
            f"{parts.name} with OVER takes its rows in the order of the window",
            code="E1211",
            span=span_of(parts.order),
            hint=f"write {parts.name}(..) OVER (ORDER BY ..)",
        )
    if parts.name in _NOT_OVER:
        raise BindError(
            f"{parts.name} cannot be used with OVER",
            code="E1213",
            span=span,
            hint="aggregate with GROUP BY, and join the result",
        )
    inner = Clause(
        "the arguments of a function with OVER",
        aggregates=binder.clause.aggregates,
        never_empty=binder.clause.never_empty,
    )
    definition = _definition(binder, tree)
    args, result = resolved_arguments(binder, parts, function, inner)
    scope = binder.within(inner)
    partition = tuple(scope.bind(e) for e in definition.partition)
    order = tuple(sort_key(scope.bind(o.this), o) for o in definition.order)
    frame = None
    if definition.spec is not None:
        if not order:
            raise BindError(
                "a frame needs ORDER BY",
                code="E1214",
                span=span_of(definition.spec),
                hint="say in which order the rows of the frame stand",
            )
        frame = _frame(scope, definition.spec, order)
    if isinstance(function, WindowFunction):
        if not order and function.needs_order:
            raise BindError(
                f"{function.name} needs ORDER BY in its OVER",
                code="E1214",
                span=span,
                hint="say in which order the rows stand: OVER (ORDER BY ..)",
            )
        if frame is not None and not function.framed:
            raise BindError(f"{function.name} takes no frame", code="E1214", span=span, hint="leave ROWS or RANGE out")
        if function.name == "NTH_VALUE" and not _is_place(args[1]):
            raise TypeMismatchError(
                "the place of NTH_VALUE is a whole number above zero, written as a literal",
                code="E1309",
                span=span,
                hint="for example NTH_VALUE(x, 2)",
            )
        if parts.distinct or parts.filter is not None:
            raise BindError(
                f"{function.name} takes neither DISTINCT nor FILTER", code="E1211", span=span, hint="leave them out"
            )
        if len(args) > 1 and function.name in ("LAG", "LEAD") and not isinstance(args[1], Literal):
            raise TypeMismatchError(
                f"the offset of {function.name} must be a literal",
                code="E1309",
                span=span,
                hint="write a number, for example LAG(x, 2)",
            )
        if len(args) > 2 and function.name in ("LAG", "LEAD"):
            args = (*args[:2], _of_type(args[2], args[0].type, binder.env.context.functions, span))
    condition = None
    if parts.filter is not None:
        condition = as_boolean(scope.bind(parts.filter), "FILTER", span_of(parts.filter))
    if isinstance(function, AggregateFunction):
        of_some_row = condition is None and _holds_current_row(frame)
        result = aggregate_type(function, [a.type for a in args], result, of_some_row=of_some_row)
        condition = accepted(binder, function, args, condition, span)
    return WindowCall(
        function.name.upper(), args, result, partition, order, frame, parts.distinct, condition, span=span
    )


def _of_type(default: Expr, type_: DataType, functions: FunctionRegistry, span: Span | None) -> Expr:
    """The default of LAG and LEAD as a value of their type, where that is a DECIMAL of other digits."""
    if type_.root is not TypeRoot.DECIMAL or default.type.root is TypeRoot.NULL:
        return default
    wanted = cast_type(default.type, type_.materialized())
    if default.type.same_ignoring_nullability(wanted):
        return default
    made = Cast(default, wanted)
    given = default.value if isinstance(default, Literal) else None
    if given is not None and fold_constant(made, functions, "UTC", None).value is None:
        raise TypeMismatchError(
            f"{given} does not fit into {type_.with_nullable(True)}, which is what the rows have",
            code="E1313",
            span=span,
            hint="CAST the first argument to a wider type",
        )
    return made


def _is_place(value: Expr) -> bool:
    return isinstance(value, Literal) and isinstance(value.value, int) and value.value > 0


def _holds_current_row(frame: Frame | None) -> bool:
    return frame is None or (
        frame.lower is FrameBound.UNBOUNDED_PRECEDING
        and frame.upper is FrameBound.CURRENT_ROW
        and frame.exclude is None
    )


class _Definition:
    """A window with everything that it takes from the windows it names."""

    __slots__ = ("order", "partition", "spec")

    def __init__(self, partition: list[exp.Expr], order: list[exp.Ordered], spec: exp.WindowSpec | None) -> None:
        self.partition = partition
        self.order = order
        self.spec = spec


def _definition(binder: ExpressionRules, tree: exp.Window, seen: tuple[str, ...] = ()) -> _Definition:
    base_name = tree.args.get("alias") or tree.args.get("first")
    order = tree.args.get("order")
    own = _Definition(
        list(tree.args.get("partition_by") or ()), list(order.expressions) if order else [], tree.args.get("spec")
    )
    if base_name is None:
        return own
    name = base_name.name
    window = binder.windows.get(name)
    if window is None or name in seen:
        raise BindError(
            f'unknown window "{name}"',
            code="E1215",
            span=span_of(base_name),
            hint=did_you_mean(name, binder.windows) or "name it in a WINDOW clause",
        )
    base = _definition(binder, window, (*seen, name))
    if own.partition:
        raise BindError(
            f'PARTITION BY belongs to the window "{name}" itself',
            code="E1215",
            span=span_of(tree),
            hint="add PARTITION BY where the window is defined",
        )
    if own.order and base.order:
        raise BindError(
            f'the window "{name}" has an ORDER BY already',
            code="E1215",
            span=span_of(tree),
            hint="leave ORDER BY out here, or define another window",
        )
    return _Definition(base.partition, own.order or base.order, own.spec or base.spec)


_PLACES = {
    FrameBound.UNBOUNDED_PRECEDING: 0,
    FrameBound.PRECEDING: 1,
    FrameBound.CURRENT_ROW: 2,
    FrameBound.FOLLOWING: 3,
    FrameBound.UNBOUNDED_FOLLOWING: 4,
}


def _frame(binder: ExpressionRules, spec: exp.WindowSpec, order: tuple[SortKey, ...]) -> Frame:
    unit = spec.args["kind"].upper()
    start = _bound(binder, spec, "start", unit, order)
    end = (
        _bound(binder, spec, "end", unit, order) if spec.args.get("end") is not None else (FrameBound.CURRENT_ROW, None)
    )
    never = start[0] is FrameBound.UNBOUNDED_FOLLOWING or end[0] is FrameBound.UNBOUNDED_PRECEDING
    if never or _PLACES[start[0]] > _PLACES[end[0]]:
        raise BindError("the frame ends before it starts", code="E1214", span=span_of(spec), hint="exchange its bounds")
    exclude = spec.args.get("exclude")
    return Frame(
        unit == "ROWS",
        start[0],
        end[0],
        start[1],
        end[1],
        unit == "GROUPS",
        None if exclude is None else FrameExclusion(exclude),
    )


def _bound(
    binder: ExpressionRules, spec: exp.WindowSpec, which: str, unit: str, order: tuple[SortKey, ...]
) -> tuple[FrameBound, int | float | None]:
    written, side = spec.args[which], spec.args.get(f"{which}_side")
    if written == "CURRENT ROW":
        return FrameBound.CURRENT_ROW, None
    preceding = side == "PRECEDING"
    if written == "UNBOUNDED":
        return (FrameBound.UNBOUNDED_PRECEDING if preceding else FrameBound.UNBOUNDED_FOLLOWING), None
    value = binder.bind(written)
    if not isinstance(value, Literal) or value.value is None:
        raise UnsupportedError(
            "the bound of a frame must be a literal",
            span=span_of(written),
            hint="for example ROWS BETWEEN 5 PRECEDING AND CURRENT ROW",
        )
    if unit == "RANGE" and len(order) != 1:
        raise BindError(
            "RANGE with an offset compares the values of one ORDER BY column",
            code="E1214",
            span=span_of(written),
            hint="order by one column, or use ROWS or GROUPS",
        )
    kind, ordered = value.type, next(iter(order)).expr.type
    if unit != "RANGE":
        fits = kind.is_integer
    elif ordered.is_timestamp or ordered.root in (TypeRoot.DATE, TypeRoot.TIME):
        fits = kind.root is TypeRoot.INTERVAL_SECOND
    else:
        fits = kind.is_numeric and ordered.is_numeric
    if not fits:
        wanted = (
            f"a whole number of {unit.lower()}"
            if unit != "RANGE"
            else "an INTERVAL"
            if ordered.is_timestamp
            else "a number, as its ORDER BY column"
        )
        raise TypeMismatchError(
            f"the bound of a {unit} frame here is {wanted}",
            code="E1302",
            span=span_of(written),
            hint=f"for example {unit} 2 PRECEDING"
            if unit != "RANGE"
            else "for example RANGE INTERVAL '1' HOUR PRECEDING",
        )
    amount = value.value if isinstance(value.value, int | float) else float(value.value)
    if amount < 0:
        raise BindError(
            "the bound of a frame is not negative",
            code="E1214",
            span=span_of(written),
            hint="PRECEDING looks back, FOLLOWING ahead",
        )
    return (FrameBound.PRECEDING if preceding else FrameBound.FOLLOWING), amount


OVER: dict[type[exp.Expr], Callable[..., Expr]] = {exp.Window: _over}
