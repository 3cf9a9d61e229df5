"""Parts of the lines of EXPLAIN, for the nodes that write them. Expressions name columns; a name that an edge holds twice
gets a number (`id`, `id0`).
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.schema import Schema
from runtime.expr.display import show
from runtime.expr.nodes import Expr, InputRef
from runtime.plan.parts import AggregateSpec, SortSpec
from runtime.plan.state import column_names, duration_text
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, TumbleWindow, WindowEmit, WindowSpec

__all__ = [
    "both_schemas",
    "by_text",
    "calls_text",
    "columns_text",
    "emit_text",
    "on_text",
    "order_text",
    "pairs_text",
    "projections_text",
    "shown",
    "window_text",
    "zone_text",
]


def shown(expr: Expr, schema: Schema) -> str:
    """An expression over the columns of a schema, by their names."""
    names = column_names(schema)
    return show(expr, lambda e: names[e.index] if isinstance(e, InputRef) and e.index < len(names) else None)


def columns_text(positions: Sequence[int], schema: Schema) -> str:
    """`a, b`."""
    names = column_names(schema)
    return ", ".join(names[i] for i in positions)


def by_text(positions: Sequence[int], schema: Schema) -> str:
    """` by (a, b)`; empty without columns."""
    return f" by ({columns_text(positions, schema)})" if positions else ""


def projections_text(exprs: Sequence[Expr], source: Schema, target: Schema) -> str:
    """`a, b + 1 AS c`."""
    pairs = ((shown(e, source), name) for e, name in zip(exprs, target.names, strict=True))
    return ", ".join(text if text == name else f"{text} AS {name}" for text, name in pairs)


def order_text(specs: Sequence[SortSpec], schema: Schema) -> str:
    """Sort keys as ORDER BY has them, without NULLS FIRST and LAST where they are what Flink takes."""
    names = column_names(schema)

    def one(spec: SortSpec) -> str:
        text = names[spec.index] + (" DESC" if spec.descending else "")
        if spec.nulls_last != spec.descending:
            text += " NULLS LAST" if spec.nulls_last else " NULLS FIRST"
        return text

    return ", ".join(one(s) for s in specs)


def calls_text(calls: Sequence[AggregateSpec], schema: Schema, output: Sequence[str]) -> str:
    """`COUNT(*) AS n, SUM(DISTINCT a) FILTER (WHERE b) AS s`."""
    names = column_names(schema)

    def one(call: AggregateSpec, name: str) -> str:
        args = ", ".join(names[a] for a in call.args) or ("*" if call.function == "COUNT" else "")
        order = f" ORDER BY {order_text(call.order_by, schema)}" if call.order_by else ""
        text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{args}{order})"
        if call.filter is not None:
            text += f" FILTER (WHERE {names[call.filter]})"
        return f"{text} AS {name}"

    return ", ".join(one(c, n) for c, n in zip(calls, output, strict=True))


def window_text(window: WindowSpec) -> str:
    """`TUMBLE(10 s)`."""
    match window:
        case TumbleWindow(size=size, offset=offset):
            text, shift = f"TUMBLE({duration_text(size)}", offset
        case HopWindow(slide=slide, size=size, offset=offset):
            text, shift = f"HOP({duration_text(slide)}, {duration_text(size)}", offset
        case CumulateWindow(step=step, size=size, offset=offset):
            text, shift = f"CUMULATE({duration_text(step)}, {duration_text(size)}", offset
        case SessionWindow(gap=gap):
            text, shift = f"SESSION({duration_text(gap)}", 0
        case _:
            return "ATTACHED"
    return f"{text}, offset {duration_text(shift)})" if shift else f"{text})"


def emit_text(emit: WindowEmit) -> str:
    """` early 10 s, late at once, lateness 1 min`."""
    parts: list[str] = []
    if emit.early is not None:
        parts.append(f"early {duration_text(emit.early)}" if emit.early else "early at once")
    if emit.lateness:
        parts.append(f"late {duration_text(emit.late)}" if emit.late else "late at once")
        parts.append(f"lateness {duration_text(emit.lateness)}")
    return f" {', '.join(parts)}"


def pairs_text(left: Sequence[int], right: Sequence[int], null_safe: Sequence[bool], a: Schema, b: Schema) -> str:
    """The equalities of a join's keys; `null_safe` may be empty."""
    names = column_names(both_schemas(a, b))
    equal = [
        f"{names[x]} {'IS NOT DISTINCT FROM' if safe else '='} {names[len(a) + y]}"
        for x, y, safe in zip(left, right, null_safe or [False] * len(left), strict=True)
    ]
    return " AND ".join(equal)


def both_schemas(left: Schema, right: Schema) -> Schema:
    """The columns of the left input, then those of the right one."""
    return Schema(left.fields + right.fields)


def on_text(pairs: str, condition: Expr | None, schema: Schema) -> str:
    """` on a = b AND c > 1`; empty without a condition."""
    parts = [pairs] if pairs else []
    if condition is not None:
        parts.append(shown(condition, schema))
    return f" on {' AND '.join(parts)}" if parts else ""


def zone_text(zone: str | None) -> str:
    """` in Europe/Berlin`."""
    return f" in {zone}" if zone else ""
