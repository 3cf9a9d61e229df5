"""What each physical operator keeps, and what bounds it: for EXPLAIN STATE and for advice.

A bound is a phrase: `the watermark`, `2 h without change`, `the number of keys`, `10 rows a key`, or `nothing` when the
state follows the number of rows ever read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from runtime.core.schema import Schema
from runtime.plan import nodes as p
from runtime.plan.aggregate_state import value_tables
from runtime.plan.nodes import PhysicalNode
from runtime.plan.over_state import carries_totals, keeps_past_rows, keeps_totals, time_bounds_rows, values_tables
from runtime.plan.windows import SessionWindow

__all__ = ["NOTHING", "StateTable", "column_names", "duration_text", "state_tables"]

NOTHING = "nothing"
WATERMARK = "the watermark"
KEYS = "the number of keys"
_KEPT_BESIDE = frozenset(
    f"${name}"
    for name in [
        "arrival",
        "count",
        "deleted",
        "end",
        "kind",
        "known",
        "left",
        "matched",
        "matches",
        "owner",
        "right",
        "rows",
        "sent",
        "slot",
        "start",
        "time",
        "touched",
        "written",
    ]
)


class StateTable(NamedTuple):
    """One table of an operator's state: its name, what it holds, and what bounds it."""

    name: str
    holds: str
    bound: str

    @property
    def grows(self) -> bool:
        """Whether nothing bounds it."""
        return self.bound == NOTHING


def column_names(schema: Schema) -> tuple[str, ...]:
    """Names of columns that tell them apart: a name that is there already gets a number, `id`, `id0`, `id1`; one that
    operators use for what they keep beside the columns (`$count`) an underscore before it."""
    taken: set[str] = set()
    found: list[str] = []
    for name in schema.names:
        name = f"_{name}" if name in _KEPT_BESIDE else name
        unique, number = name, 0
        while unique in taken:
            unique, number = f"{name}{number}", number + 1
        taken.add(unique)
        found.append(unique)
    return tuple(found)


def duration_text(milliseconds: int) -> str:
    """`2 h`, `90 s`, `1500 ms`."""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds} ms"


def state_tables(node: PhysicalNode) -> tuple[StateTable, ...]:
    """The tables of a node's state; none for a node that keeps nothing."""
    describe = _TABLES.get(type(node))
    return () if describe is None else describe(node)


def _by(schema: Schema, keys: tuple[int, ...], empty: str = "one row") -> str:
    names = column_names(schema)
    return ", ".join(names[k] for k in keys) or empty


def _ttl(ttl: int, otherwise: str) -> str:
    return f"{duration_text(ttl)} without change" if ttl else otherwise


def _touched(schema: Schema, keys: tuple[int, ...], ttl: int) -> list[StateTable]:
    """Where keys expire together with all that they hold: when each was touched."""
    held = f"the time of the last change by {_by(schema, keys, 'nothing')}"
    return [StateTable("touched", held, _ttl(ttl, NOTHING))] if ttl else []


def _group(node: p.GroupAggregateExec) -> tuple[StateTable, ...]:
    bound = _ttl(node.ttl, KEYS if node.keys else "one row")
    groups = StateTable("groups", f"accumulators by {_by(node.input.schema, node.keys, 'nothing')}", bound)
    return (groups, *_values(node.input.schema, node.calls, _ttl(node.ttl, NOTHING)))


def _values(schema: Schema, calls: Sequence[p.AggregateSpec], bound: str) -> list[StateTable]:
    """The tables of values that aggregate calls keep beside their groups."""
    return [
        StateTable(
            table.name, f"{'distinct' if table.once else 'all'} values of {_by(schema, table.args, 'rows')}", bound
        )
        for table in value_tables(calls)
    ]


def _window_aggregate(node: p.WindowAggregateExec) -> tuple[StateTable, ...]:
    bound = "the clock" if node.proctime else WATERMARK
    held = f"accumulators by window and {_by(node.input.schema, node.keys, 'nothing else')}"
    name = "sessions" if isinstance(node.window, SessionWindow) else "panes"
    return (StateTable(name, held, bound), *_values(node.input.schema, node.calls, bound))


def _hash_join(node: p.HashJoinExec) -> tuple[StateTable, ...]:
    def side(
        name: str, source: PhysicalNode, keys: tuple[int, ...], unique: tuple[int, ...] | None, ttl: int
    ) -> StateTable:
        held = (
            "rows with counts"
            if unique is None
            else "one row"
            if not unique
            else f"rows, one for each {_by(source.schema, unique)},"
        )
        return StateTable(name, f"{held} by {_by(source.schema, keys, 'nothing')}", _ttl(ttl, NOTHING))

    return (
        side("left", node.left, node.left_keys, node.left_unique, node.left_ttl),
        side("right", node.right, node.right_keys, node.right_unique, node.right_ttl),
    )


def _interval_join(node: p.IntervalJoinExec) -> tuple[StateTable, ...]:
    bound = f"{'the clock' if node.proctime else WATERMARK}, {duration_text(node.upper - node.lower)} of rows"
    return (
        StateTable("left", f"rows by {_by(node.left.schema, node.left_keys, 'time')}", bound),
        StateTable("right", f"rows by {_by(node.right.schema, node.right_keys, 'time')}", bound),
    )


def _temporal_join(node: p.TemporalJoinExec) -> tuple[StateTable, ...]:
    by = _by(node.right.schema, node.right_keys)
    # An updating left side may take back a row of any time, so versions are kept for good.
    keys = _ttl(node.ttl, KEYS)
    bound = f"{WATERMARK} and {keys}" if node.left.mode.is_append_only else _ttl(node.ttl, NOTHING)
    return (
        StateTable("waiting", "left rows until their time has come", WATERMARK),
        StateTable("keys", f"how far back versions are known by {by}", keys),
        StateTable("versions", f"versions by {by}", bound),
        *_touched(node.right.schema, node.right_keys, node.ttl),
    )


def _lookup_join(node: p.LookupJoinExec) -> tuple[StateTable, ...]:
    if not node.input.mode.is_retract:
        return ()
    return (
        StateTable("rows", "distinct rows with counts", _ttl(node.ttl, NOTHING)),
        StateTable("answers", "what was looked up for each row", _ttl(node.ttl, NOTHING)),
    )


def _window_join(node: p.WindowJoinExec) -> tuple[StateTable, ...]:
    bound = "the clock" if node.proctime else WATERMARK
    return (StateTable("left", "rows of open windows", bound), StateTable("right", "rows of open windows", bound))


def _top_n(node: p.TopNExec) -> tuple[StateTable, ...]:
    schema = node.input.schema
    by = _by(schema, node.partition, "nothing")
    if node.input.mode.is_append_only and node.end is not None:
        bound = _ttl(node.ttl, KEYS if node.partition else f"{node.end} rows")
        rows = StateTable("rows", f"{node.end} rows by {by}", bound)
    else:
        rows = StateTable("rows", f"all rows in order by {by}", _ttl(node.ttl, NOTHING))
    return (rows, *_touched(schema, node.partition, node.ttl))


def _deduplicate(node: p.DeduplicateExec) -> tuple[StateTable, ...]:
    by = _by(node.input.schema, node.keys)
    if not node.input.mode.is_append_only:
        order = "arrival" if node.time is None else "time"
        rows = StateTable("rows", f"all rows in order of {order} by {by}", _ttl(node.ttl, NOTHING))
        return (rows, *_touched(node.input.schema, node.keys, node.ttl))
    if node.time is None and not node.keep_last:
        return (StateTable("keys", f"whether a row has come by {by}", _ttl(node.ttl, KEYS)),)
    return (StateTable("rows", f"one row by {by}", _ttl(node.ttl, KEYS)),)


def _window_top_n(node: p.WindowTopNExec) -> tuple[StateTable, ...]:
    by = _by(node.input.schema, node.partition, "nothing else")
    bound = "the clock" if node.proctime else WATERMARK
    return (
        StateTable("partitions", f"open windows and {by} in order of arrival", bound),
        StateTable("rows", f"{node.end} rows by window and {by}", bound),
    )


def _over(node: p.OverAggregateExec) -> tuple[StateTable, ...]:
    by = _by(node.input.schema, node.partition, "nothing")
    schema = node.input.schema
    if not (node.rowtime or node.proctime):
        rows = StateTable("rows", f"all rows in order by {by}", _ttl(node.ttl, NOTHING))
        return (rows, *_touched(schema, node.partition, node.ttl))
    tables: list[StateTable] = []
    if node.rowtime:
        tables.append(StateTable("waiting", "rows until their time has come", WATERMARK))
    by_time = time_bounds_rows(node)
    if keeps_past_rows(node):
        if by_time:
            bound = WATERMARK if node.rowtime else "the clock"
        else:
            listed = not carries_totals(node) and (node.frame is None or node.frame.lower_offset is None)
            bound = _ttl(node.ttl, NOTHING if listed else KEYS)
        tables.append(StateTable("frames", f"rows that later frames reach by {by}", bound))
    if keeps_totals(node) or (node.ttl and not by_time):
        held = "accumulators" if keeps_totals(node) else "the time of the last change"
        tables.append(StateTable("totals", f"{held} by {by}", _ttl(0 if by_time else node.ttl, KEYS)))
    tables += [
        StateTable(name, f"distinct values of {_by(schema, call.args)}", _ttl(node.ttl, NOTHING))
        for name, call in values_tables(node)
    ]
    return tuple(tables)


def _sort(node: p.SortExec) -> tuple[StateTable, ...]:
    return (StateTable("waiting", "rows until their time has come", WATERMARK),)


def _limit(node: p.LimitExec) -> tuple[StateTable, ...]:
    if node.input.mode.is_append_only:
        return (StateTable("count", "how many rows have passed", "one row"),)
    return (
        StateTable("rows", "all rows by arrival", _ttl(node.ttl, NOTHING)),
        *_touched(node.input.schema, (), node.ttl),
    )


def _set_operation(node: p.SetOperationExec) -> tuple[StateTable, ...]:
    return (StateTable("rows", "distinct rows with two counts", _ttl(node.ttl, NOTHING)),)


def _normalize(node: p.ChangelogNormalizeExec) -> tuple[StateTable, ...]:
    return (StateTable("rows", f"one row by {_by(node.input.schema, node.keys)}", _ttl(node.ttl, KEYS)),)


def _final_rows(node: p.FinalRowsExec) -> tuple[StateTable, ...]:
    return (StateTable("rows", "the rows that are there", KEYS if node.keys else NOTHING),)


def _materialize(node: p.SinkMaterializeExec) -> tuple[StateTable, ...]:
    by = _by(node.input.schema, node.keys)
    if node.on_conflict != "DEDUPLICATE":
        rows = StateTable("rows", f"one row by {by}", _ttl(node.ttl, KEYS))
    else:
        rows = StateTable("rows", f"live rows in order of arrival by {by}", _ttl(node.ttl, NOTHING))
    waiting = (StateTable("waiting", "changes until the watermark moves", WATERMARK),) if node.waits else ()
    return (*waiting, rows, *_touched(node.input.schema, node.keys, node.ttl))


def _window_table(node: p.WindowTableExec) -> tuple[StateTable, ...]:
    if not isinstance(node.window, SessionWindow):
        return ()
    bound = "the clock" if node.input.schema[node.time].type.is_proctime else WATERMARK
    return (
        StateTable("sessions", f"open sessions by {_by(node.input.schema, node.partition, 'nothing')}", bound),
        StateTable("rows", "rows of open sessions", bound),
    )


_TABLES: dict[type[PhysicalNode], Callable[..., tuple[StateTable, ...]]] = {
    p.GroupAggregateExec: _group,
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
    p.SortExec: _sort,
    p.LimitExec: _limit,
    p.SetOperationExec: _set_operation,
    p.ChangelogNormalizeExec: _normalize,
    p.FinalRowsExec: _final_rows,
    p.SinkMaterializeExec: _materialize,
    p.WindowTableExec: _window_table,
}
