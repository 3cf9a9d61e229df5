"""Physical plans as text: one line per operator, inputs indented below it.

    GroupAggregate by (item) [COUNT(*) AS n]  [I,UB,UA,D]
      Calc [item] where price > 10  [I]
        Source bids (item, price)  [I]

Expressions name columns; a name that an edge holds twice gets a number (`id`, `id0`). An operator that several others
read is written once and referred to by its name afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.core.schema import Schema
from runtime.core.secrets import shown_facts
from runtime.expr.display import show
from runtime.expr.nodes import Expr, InputRef
from runtime.plan import nodes as p
from runtime.plan.distribution import leaves_memory
from runtime.plan.identity import short_kind, uids
from runtime.plan.nodes import AggregateSpec, JoinKind, PhysicalNode, SortSpec
from runtime.plan.state import column_names, duration_text, state_tables
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, TumbleWindow, WindowSpec

__all__ = ["explain", "explain_lines", "explain_node", "order_text"]

Note = Callable[[PhysicalNode], str]


def explain(
    roots: PhysicalNode | Sequence[PhysicalNode],
    *,
    modes: bool = True,
    state: bool = False,
    names: bool = False,
    note: Note | None = None,
    on_disk: bool = False,
) -> str:
    """The text of one plan, or of several that share operators.

    `modes` adds the row kinds of each edge, `state` the state tables and their bounds, `names` each operator's name,
    `note` anything else. `on_disk`: state may leave memory, so it is told of which that is true.
    """
    plans = [roots] if isinstance(roots, PhysicalNode) else list(roots)
    writer = _Writer(plans, modes, state, names, note, on_disk)
    for plan in plans:
        writer.write(plan, 0)
    return "\n".join(writer.lines)


def explain_lines(roots: Sequence[PhysicalNode]) -> list[tuple[str, PhysicalNode | None]]:
    """The lines of plans, each with its operator; None where that stands in an earlier line."""
    writer = _Writer(roots, False, False, False, None, False)
    for plan in roots:
        writer.write(plan, 0)
    return list(zip(writer.lines, writer.operators, strict=True))


class _Writer:
    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        modes: bool,
        state: bool,
        names: bool,
        note: Note | None,
        on_disk: bool,
    ) -> None:
        self._on_disk = on_disk
        self._modes = modes
        self._state = state
        self._names = names
        self._note = note
        self._uids = uids(roots)
        self._written: set[PhysicalNode] = set()
        self.lines: list[str] = []
        self.operators: list[PhysicalNode | None] = []

    def write(self, node: PhysicalNode, depth: int) -> None:
        indent = "  " * depth
        if node in self._written and node.inputs:
            self.lines.append(f"{indent}Shared {self._uids[node]}")
            self.operators.append(None)
            return
        self.operators.append(None if node in self._written else node)
        self._written.add(node)
        line = f"{indent}{explain_node(node)}"
        if self._modes:
            line += f"  {node.mode}"
        if self._names:
            line += f"  {self._uids[node]}"
        note = self._note(node) if self._note is not None else ""
        self.lines.append(f"{line}  {note}" if note else line)
        if self._state:
            place = ""
            if self._on_disk:
                place = "; on disk while not in use" if leaves_memory(node) else "; in memory"
            self.lines.extend(
                f"{indent}    state {t.name}: {t.holds}; bounded by {t.bound}{place}" for t in state_tables(node)
            )
        for source in node.inputs:
            self.write(source, depth + 1)


def explain_node(node: PhysicalNode) -> str:
    """One operator: what it is, its keys and expressions."""
    describe = _LINES.get(type(node))
    text = "" if describe is None else describe(node)
    return f"{short_kind(node)} {text}".rstrip()


# --- parts of a line
# ------------------------------------------------------------------------------------------------------


def _shown(expr: Expr, schema: Schema) -> str:
    names = column_names(schema)
    return show(expr, lambda e: names[e.index] if isinstance(e, InputRef) and e.index < len(names) else None)


def _columns(positions: Sequence[int], schema: Schema) -> str:
    names = column_names(schema)
    return ", ".join(names[i] for i in positions)


def _by(positions: Sequence[int], schema: Schema) -> str:
    return f" by ({_columns(positions, schema)})" if positions else ""


def _projections(exprs: Sequence[Expr], source: Schema, target: Schema) -> str:
    shown = ((_shown(e, source), name) for e, name in zip(exprs, target.names, strict=True))
    return ", ".join(text if text == name else f"{text} AS {name}" for text, name in shown)


def order_text(specs: Sequence[SortSpec], schema: Schema) -> str:
    """Sort keys as ORDER BY has them, without NULLS FIRST and LAST where they are what Flink takes."""
    names = column_names(schema)

    def one(spec: SortSpec) -> str:
        text = names[spec.index] + (" DESC" if spec.descending else "")
        if spec.nulls_last != spec.descending:
            text += " NULLS LAST" if spec.nulls_last else " NULLS FIRST"
        return text

    return ", ".join(one(s) for s in specs)


def _calls(calls: Sequence[AggregateSpec], schema: Schema, output: Sequence[str]) -> str:
    names = column_names(schema)

    def one(call: AggregateSpec, name: str) -> str:
        args = ", ".join(names[a] for a in call.args) or ("*" if call.function == "COUNT" else "")
        order = f" ORDER BY {order_text(call.order_by, schema)}" if call.order_by else ""
        text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{args}{order})"
        if call.filter is not None:
            text += f" FILTER (WHERE {names[call.filter]})"
        return f"{text} AS {name}"

    return ", ".join(one(c, n) for c, n in zip(calls, output, strict=True))


def _window(window: WindowSpec) -> str:
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


def _pairs(left: Sequence[int], right: Sequence[int], null_safe: Sequence[bool], a: Schema, b: Schema) -> str:
    names = column_names(_both(a, b))
    shown = [
        f"{names[x]} {'IS NOT DISTINCT FROM' if safe else '='} {names[len(a) + y]}"
        for x, y, safe in zip(left, right, null_safe or [False] * len(left), strict=True)
    ]
    return " AND ".join(shown)


def _both(left: Schema, right: Schema) -> Schema:
    return Schema(left.fields + right.fields)


def _on(pairs: str, condition: Expr | None, schema: Schema) -> str:
    parts = [pairs] if pairs else []
    if condition is not None:
        parts.append(_shown(condition, schema))
    return f" on {' AND '.join(parts)}" if parts else ""


# --- one function per kind
# ------------------------------------------------------------------------------------------------


def _source(node: p.SourceExec) -> str:
    pushed = "".join(
        f" {k}={v}" for k, v in shown_facts(node.table.describe()).items() if k in ("filters", "filter", "limit") and v
    )
    together = ""
    if node.alignment is not None:
        together = f" aligned in group {node.alignment.group} within {node.alignment.max_drift} ms"
    return f"{node.name} ({', '.join(node.schema.names)}){pushed}{together}"


def _values(node: p.ValuesExec) -> str:
    rows = ", ".join(f"({', '.join(show(e) for e in row)})" for row in node.rows[:5])
    return (rows or "no rows") + (f", ... {len(node.rows)} rows" if len(node.rows) > 5 else "")


def _calc(node: p.CalcExec) -> str:
    where = "" if node.condition is None else f" where {_shown(node.condition, node.input.schema)}"
    return f"[{_projections(node.projections, node.input.schema, node.schema)}]{where}"


def _watermark(node: p.WatermarkExec) -> str:
    schema = node.input.schema
    return f"{_columns([node.rowtime], schema)} = {_shown(node.expr, schema)}"


def _expand(node: p.ExpandExec) -> str:
    return ", ".join(f"({_projections(x, node.input.schema, node.schema)})" for x in node.projections)


def _group(node: p.GroupAggregateExec) -> str:
    calls = _calls(node.calls, node.input.schema, node.schema.names[len(node.keys) :])
    return f"{_by(node.keys, node.input.schema).lstrip()} [{calls}]".strip()


def _window_table(node: p.WindowTableExec) -> str:
    schema = node.input.schema
    return f"{_window(node.window)} of {_columns([node.time], schema)}{_by(node.partition, schema)}{_zone(node.zone)}"


def _zone(zone: str | None) -> str:
    return f" in {zone}" if zone else ""


def _window_aggregate(node: p.WindowAggregateExec) -> str:
    schema = node.input.schema
    of = _columns([node.time] if node.time >= 0 else [node.start, node.end], schema)
    names = node.schema.names[len(node.keys) : len(node.keys) + len(node.calls)]
    more = "".join(f" {x.value}" for x in node.properties)
    calls = _calls(node.calls, schema, names)
    return (
        f"{_window(node.window)} of {of}{_by(node.keys, schema)} [{calls}]{more and ' with' + more}{_zone(node.zone)}"
    )


def _hash_join(node: p.HashJoinExec) -> str:
    both = _both(node.left.schema, node.right.schema)
    pairs = _pairs(node.left_keys, node.right_keys, node.null_safe, node.left.schema, node.right.schema)
    unique = [
        f"{side} unique ({_columns(key, schema)})"
        for side, key, schema in (
            ("left", node.left_unique, node.left.schema),
            ("right", node.right_unique, node.right.schema),
        )
        if key is not None
    ]
    return f"{_kind(node.kind)}{_on(pairs, node.condition, both)}{''.join(f', {u}' for u in unique)}"


def _kind(kind: JoinKind) -> str:
    return kind.name


def _interval_join(node: p.IntervalJoinExec) -> str:
    both = _both(node.left.schema, node.right.schema)
    names = column_names(both)
    pairs = _pairs(node.left_keys, node.right_keys, (), node.left.schema, node.right.schema)
    between = f"{names[node.left_time]} - {names[len(node.left.schema) + node.right_time]} in [{node.lower} ms, {node.upper} ms]"
    return f"{_kind(node.kind)} {between}{_on(pairs, node.condition, both)}"


def _temporal_join(node: p.TemporalJoinExec) -> str:
    both = _both(node.left.schema, node.right.schema)
    names = column_names(both)
    pairs = _pairs(node.left_keys, node.right_keys, (), node.left.schema, node.right.schema)
    times = f"as of {names[node.left_time]}, versions by {names[len(node.left.schema) + node.right_time]}"
    return f"{_kind(node.kind)} {times}{_on(pairs, node.condition, both)}"


def _lookup_join(node: p.LookupJoinExec) -> str:
    table = node.table.schema
    keys = ", ".join(f"{table.names[i]} = {_shown(e, node.input.schema)}" for e, i in node.keys)
    return f"{_kind(node.kind)} {node.name} ({keys}){_on('', node.condition, node.schema)}"


def _window_join(node: p.WindowJoinExec) -> str:
    both = _both(node.left.schema, node.right.schema)
    pairs = _pairs(node.left_keys, node.right_keys, node.null_safe, node.left.schema, node.right.schema)
    windows = (
        f"windows ({_columns(node.left_window, node.left.schema)}) = ({_columns(node.right_window, node.right.schema)})"
    )
    return f"{_kind(node.kind)} {windows}{_on(pairs, node.condition, both)}{_zone(node.zone)}"


def _top_n(node: p.TopNExec) -> str:
    schema = node.input.schema
    rank = f" AS {node.schema.names[-1]}" if node.rank_column else ""
    order = f" order by {order_text(node.order, schema)}" if node.order else ""
    unique = "" if node.unique is None else f", unique ({_columns(node.unique, schema)})"
    return f"{node.function.value} {node.start}..{'' if node.end is None else node.end}{rank}{_by(node.partition, schema)}{order}{unique}"


def _deduplicate(node: p.DeduplicateExec) -> str:
    schema = node.input.schema
    time = "arrival" if node.time is None else _columns([node.time], schema)
    return f"{'last' if node.keep_last else 'first'} by ({_columns(node.keys, schema)}) in order of {time}"


def _window_top_n(node: p.WindowTopNExec) -> str:
    schema = node.input.schema
    rank = f" AS {node.schema.names[-1]}" if node.rank_column else ""
    window = f" window ({_columns(node.window, schema)})"
    order = f" order by {order_text(node.order, schema)}"
    if node.latest:
        return f"last{rank}{window}{_by(node.partition, schema)}{order}"
    return f"{node.function.value} {node.start}..{node.end}{rank}{window}{_by(node.partition, schema)}{order}"


def _over(node: p.OverAggregateExec) -> str:
    schema = node.input.schema
    frame = ""
    if node.frame is not None:
        low = "" if node.frame.lower_offset is None else f"{node.frame.lower_offset} "
        high = "" if node.frame.upper_offset is None else f"{node.frame.upper_offset} "
        unit = "ROWS" if node.frame.rows else "RANGE"
        frame = f" {unit} BETWEEN {low}{node.frame.lower.value} AND {high}{node.frame.upper.value}"
    order = f" order by {order_text(node.order, schema)}" if node.order else ""
    return (
        f"[{_calls(node.calls, schema, node.schema.names[len(schema) :])}]{_by(node.partition, schema)}{order}{frame}"
    )


def _limit(node: p.LimitExec) -> str:
    shown = [] if node.limit is None else [str(node.limit)]
    return " ".join([*shown, *([f"offset {node.offset}"] if node.offset else [])])


def _unnest(node: p.UnnestExec) -> str:
    added = ", ".join(node.schema.names[len(node.input.schema) :])
    return f"{_shown(node.collection, node.input.schema)} as ({added}){' keeping empty' if node.outer else ''}"


def _sink(node: p.SinkExec) -> str:
    overwrite = " overwrite" if node.table.describe().get("overwrite") else ""
    return f"{node.name} ({', '.join(node.schema.names)}){overwrite} {node.table.delivery}"


def _sink_materialize(node: p.SinkMaterializeExec) -> str:
    text = f"by ({_columns(node.keys, node.input.schema)})"
    if node.on_conflict == "DEDUPLICATE":
        return text
    rows = f" of rows by ({_columns(node.unique, node.input.schema)})" if node.unique is not None else ""
    waits = ", when the watermark moves" if node.waits else ""
    return f"{text}{rows} on conflict do {node.on_conflict.lower()}{waits}"


def _drop(node: p.DropUpdateBeforeExec) -> str:
    return "" if node.keys is None else _by(node.keys, node.input.schema).lstrip()


_LINES: dict[type[PhysicalNode], Callable[..., str]] = {
    p.SourceExec: _source,
    p.ValuesExec: _values,
    p.CalcExec: _calc,
    p.WatermarkExec: _watermark,
    p.ExpandExec: _expand,
    p.GroupAggregateExec: _group,
    p.WindowTableExec: _window_table,
    p.WindowAggregateExec: _window_aggregate,
    p.HashJoinExec: _hash_join,
    p.IntervalJoinExec: _interval_join,
    p.TemporalJoinExec: _temporal_join,
    p.LookupJoinExec: _lookup_join,
    p.WindowJoinExec: _window_join,
    p.TopNExec: _top_n,
    p.DeduplicateExec: _deduplicate,
    p.WindowTopNExec: _window_top_n,
    p.OverAggregateExec: _over,
    p.SortExec: lambda n: f"by {order_text(n.order, n.input.schema)}",
    p.LimitExec: _limit,
    p.SetOperationExec: lambda n: f"{n.kind}{' ALL' if n.all else ''}",
    p.UnnestExec: _unnest,
    p.FinalRowsExec: lambda n: f"by ({_columns(n.keys, n.input.schema)})" if n.keys else "",
    p.ChangelogNormalizeExec: lambda n: f"by ({_columns(n.keys, n.input.schema)})",
    p.DropUpdateBeforeExec: _drop,
    p.SinkMaterializeExec: _sink_materialize,
    p.SinkExec: _sink,
}
