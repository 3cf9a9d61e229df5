"""How large the state of an operator will be: rows, keys and bytes of each of its tables, and what it grows by, from what is
known of the rows (`row_facts`) and from how the tables are laid out in memory.

The layouts are those of `runtime/kernels`: a hash index is a table of 8 bytes an entry, at most 0.6 full and as large as
the next power of two, with the words of its keys beside it; columns are arrays by slot that grow by a fourth; an ordered
structure keeps the sort key beside each row. Bytes are of one task. Within a factor of two of what `system.operators`
shows, as far as the statistics are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from planner.cost.row_facts import RowFacts, combinations, combinations_within, is_text, windows_of_a_row
from runtime.core.schema import Schema
from runtime.plan import nodes as p
from runtime.plan.aggregate_state import value_tables
from runtime.plan.nodes import AggregateSpec, PhysicalNode
from runtime.plan.windows import SessionWindow

__all__ = ["TableSize", "state_sizes"]

_FULL = 0.6
_CHUNK = 65_536
_GROWN = 1.1
_WORD = 8.0
_ORDERED = 72.0
"""Of a row in an ordered structure beside its columns: sort key, number, slot, where it stands."""
_COUNTED = 56.0
"""Of a row that may be taken back: count, change, key, place in its list."""
_WAITING = 40.0
"""Of a row that only waits for its time: the time, a place in the queue."""
_LISTED = 12.0
_LIST = 26.0


class TableSize(NamedTuple):
    """rows: the most that are there at once. keys: how many keys they are of. growing: whether there will be more for
    ever, with more input."""

    name: str
    bound: str
    rows: float
    keys: float
    bytes: float
    growing: bool


def state_sizes(node: PhysicalNode, inputs: Sequence[RowFacts]) -> list[TableSize]:
    """The tables of a node's state, in the order of `state_tables`; what several tables share counts with the first."""
    tables = [table for table in node.state() if table.holds]
    if not tables:
        return []
    measure = _SIZES.get(type(node))
    found = measure(node, inputs) if measure is not None else {}
    rows = sum(i.rows for i in inputs)
    sizes = []
    for table in tables:
        kept = found.get(table.name)
        if kept is None:
            kept = _Kept(rows, rows, rows * (_row(node.inputs[0].schema, inputs[0]) + _COUNTED))
        sizes.append(TableSize(table.name, table.bound, kept.rows, kept.keys, kept.bytes, table.grows))
    return sizes


class _Kept(NamedTuple):
    rows: float
    keys: float
    bytes: float


_Sizes = dict[str, _Kept]


def _row(schema: Schema, facts: RowFacts, columns: Sequence[int] | None = None) -> float:
    """The bytes of a row, or of some of its columns."""
    total = 0.0
    for position in range(len(schema)) if columns is None else columns:
        type_ = schema[position].type
        if is_text(type_):
            total += _WORD + facts.columns[position].length
        else:
            total += max(1, type_.arrow.bit_width // 8)
    return total * _GROWN


def _index(keys: float, words: int, fed: float) -> float:
    """A hash index of so many keys, fed with batches of so many rows."""
    wanted = max((keys + min(fed, _CHUNK)) / _FULL, 64)
    return 8 * 2 ** math.ceil(math.log2(wanted)) + keys * _GROWN * (words * _WORD + 1)


def _keys_index(schema: Schema, facts: RowFacts, columns: Sequence[int], keys: float) -> float:
    """The index of keys of these columns: texts are numbered by an index of their own."""
    nullable = any(schema[c].type.nullable for c in columns)
    size = _index(keys, len(columns) + nullable, facts.epoch)
    for column in columns:
        if is_text(schema[column].type):
            texts = min(keys, facts.columns[column].distinct)
            size += _index(texts, 1, facts.epoch) + texts * (_WORD + facts.columns[column].length)
    return size


def _accumulators(calls: Sequence[AggregateSpec], schema: Schema, facts: RowFacts) -> float:
    size = 0.0
    for call in dict.fromkeys(calls):
        match call.function.upper():
            case "COUNT":
                size += 8
            case "MIN" | "MAX" | "FIRST_VALUE" | "LAST_VALUE":
                size += 10 + (_row(schema, facts, call.args) if call.args else 8)
            case _:
                size += 20
    return size * _GROWN


def _values(node: Any, facts: RowFacts, rows: float, per_group: Sequence[int]) -> _Sizes:
    """The tables of values of aggregate calls."""
    found: _Sizes = {}
    schema = node.input.schema
    for table in value_tables(node.calls):
        columns = (*per_group, *table.args)
        held = combinations(facts, columns, rows) if table.once else rows
        readers = sum(1 for call in dict.fromkeys(node.calls) if call.args == table.args)
        if not table.once and not any(call.retract for call in node.calls):
            # Values that only come: a number of arrival, the group, and a place in the group's list.
            size = held * (_row(schema, facts, table.args) + 2 * _WORD + _LISTED)
            found[table.name] = _Kept(held, combinations(facts, per_group, rows), size)
            continue
        size = _index(held, len(table.args) + 2, facts.epoch) + held * _GROWN * (_WORD + readers)
        if not table.once or any(call.retract for call in node.calls):
            size += held * (_ORDERED + _row(schema, facts, table.args))
        found[table.name] = _Kept(held, combinations(facts, per_group, rows), size)
    return found


def _group(node: p.GroupAggregateExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    groups = combinations(facts, node.keys) if node.keys else 1.0
    size = _keys_index(node.input.schema, facts, node.keys, groups)
    held = _row(node.input.schema, facts, node.keys) + _accumulators(node.calls, node.input.schema, facts) + _WORD
    return {"groups": _Kept(groups, groups, size + groups * held), **_values(node, facts, facts.rows, node.keys)}


def _alive(facts: RowFacts, time: int, milliseconds: float, proctime: bool) -> float:
    """The rows that are there at once when each stays for so long: those of an epoch, and of the time before it."""
    span = facts.span(time)
    if proctime or not span:
        return facts.rows if proctime else min(facts.rows, facts.epoch * 2)
    return min(facts.rows, facts.rows / span * milliseconds / 1000 + facts.epoch)


def _window_aggregate(node: p.WindowAggregateExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    length = float(node.window.gap if isinstance(node.window, SessionWindow) else getattr(node.window, "size", 0))
    rows = _alive(facts, node.time, length, node.proctime)
    span = facts.span(node.time) or 0.0
    covered = rows / max(facts.rows, 1.0) * span * 1000
    slice_ = length / windows_of_a_row(node.window)
    slices = max(1.0, covered / slice_) if slice_ and not node.proctime else 1.0
    keys = combinations_within(facts, node.keys, rows) if node.keys else 1.0
    if isinstance(node.window, SessionWindow):
        panes = min(rows, keys * max(1.0, covered / max(length * 2, 1.0)))
    else:
        panes = min(rows, slices * max(1.0, combinations_within(facts, node.keys, rows / slices)))
    size = _keys_index(node.input.schema, facts, node.keys, keys)
    size += _index(panes, 2, 0.0)
    size += panes * (_accumulators(node.calls, node.input.schema, facts) + 4 * _WORD)
    size += keys * (_LIST + _row(node.input.schema, facts, node.keys))
    name = "sessions" if isinstance(node.window, SessionWindow) else "panes"
    return {name: _Kept(panes, keys, size), **_values(node, facts, rows, node.keys)}


def _hash_join(node: p.HashJoinExec, inputs: Sequence[RowFacts]) -> _Sizes:
    left, right = inputs
    keys = [combinations(left, node.left_keys), combinations(right, node.right_keys)]
    plain = all(source.mode.is_append_only for source in node.inputs) and node.mode.is_append_only
    found: _Sizes = {}
    sides = (
        ("left", node.left, left, node.left_unique, keys[0]),
        ("right", node.right, right, node.right_unique, keys[1]),
    )
    for name, source, facts, unique, own in sides:
        each = _row(source.schema, facts) + (_LISTED if plain else _COUNTED)
        size = facts.rows * each + own * _LIST
        if not plain and not source.mode.is_append_only:
            identity = unique if unique else tuple(range(len(source.schema)))
            size += _keys_index(source.schema, facts, identity, facts.rows)
        found[name] = _Kept(facts.rows, own, size)
    # Both sides have the same index of keys.
    first = max(keys) if node.left_keys else 1.0
    shared = _keys_index(node.left.schema, left, node.left_keys, first)
    found["left"] = found["left"]._replace(bytes=found["left"].bytes + shared)
    return found


def _timed(schema: Schema, facts: RowFacts, rows: float, keys: Sequence[int]) -> _Kept:
    """Rows that wait for their time."""
    own = combinations(facts, keys, rows) if keys else 1.0
    return _Kept(rows, own, rows * (_row(schema, facts) + _WAITING))


def _interval_join(node: p.IntervalJoinExec, inputs: Sequence[RowFacts]) -> _Sizes:
    left, right = inputs
    reach = max(0.0, float(node.upper - node.lower))
    kept = {
        "left": _timed(node.left.schema, left, _alive(left, node.left_time, reach, node.proctime), node.left_keys),
        "right": _timed(
            node.right.schema, right, _alive(right, node.right_time, reach, node.proctime), node.right_keys
        ),
    }
    index = _keys_index(node.left.schema, left, node.left_keys, max(k.keys for k in kept.values()))
    kept["left"] = kept["left"]._replace(bytes=kept["left"].bytes + index + kept["left"].rows * _ORDERED)
    kept["right"] = kept["right"]._replace(bytes=kept["right"].bytes + kept["right"].rows * _ORDERED)
    return kept


def _window_join(node: p.WindowJoinExec, inputs: Sequence[RowFacts]) -> _Sizes:
    found: _Sizes = {}
    sides = (
        ("left", node.left, inputs[0], node.left_keys, node.left_window),
        ("right", node.right, inputs[1], node.right_keys, node.right_window),
    )
    for name, source, facts, keys, window in sides:
        rows = _alive(facts, window[1], 0.0, node.proctime)
        found[name] = _timed(source.schema, facts, rows, keys)
    return found


def _temporal_join(node: p.TemporalJoinExec, inputs: Sequence[RowFacts]) -> _Sizes:
    left, right = inputs
    keys = combinations(right, node.right_keys)
    index = _keys_index(node.right.schema, right, node.right_keys, keys)
    return {
        "waiting": _timed(node.left.schema, left, _alive(left, node.left_time, 0.0, False), node.left_keys),
        "keys": _Kept(keys, keys, index + keys * (_WORD * 2)),
        "versions": _timed(node.right.schema, right, right.rows, node.right_keys),
    }


def _top_n(node: p.TopNExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    schema = node.input.schema
    keys = combinations(facts, node.partition) if node.partition else 1.0
    index = _keys_index(schema, facts, node.partition, keys)
    row = _row(schema, facts)
    if node.input.mode.is_append_only and node.end is not None:
        rows = min(facts.rows, keys * node.end)
        words = (len(node.order) + 3) * _WORD * _GROWN
        size = index + rows * (row + words) + keys * node.end * _WORD * _GROWN
    else:
        rows = facts.rows
        size = index + rows * (row + _ORDERED + _COUNTED)
        if not node.input.mode.is_append_only:
            identity = node.unique or tuple(range(len(schema)))
            size += _keys_index(schema, facts, identity, rows)
    return {"rows": _Kept(rows, keys, size), "touched": _Kept(keys, keys, keys * _WORD)}


def _deduplicate(node: p.DeduplicateExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    schema = node.input.schema
    keys = combinations(facts, node.keys)
    index = _keys_index(schema, facts, node.keys, keys)
    rows = keys if node.input.mode.is_append_only else facts.rows
    size = index + rows * (_row(schema, facts) + 2 * _WORD)
    return {
        "rows": _Kept(rows, keys, size if rows == keys else size + rows * (_ORDERED + _COUNTED)),
        "keys": _Kept(keys, keys, index),
        "touched": _Kept(keys, keys, keys * _WORD),
    }


def _over(node: p.OverAggregateExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    schema = node.input.schema
    keys = combinations(facts, node.partition) if node.partition else 1.0
    row = _row(schema, facts) + _accumulators(node.calls, schema, facts)
    index = _keys_index(schema, facts, node.partition, keys)
    time = node.order[0].index if node.order else 0
    waiting = _alive(facts, time, 0.0, False) if node.rowtime else 0.0
    rows = facts.rows
    size = index + rows * (row + _ORDERED + _COUNTED)
    if not node.input.mode.is_append_only:
        size += _keys_index(schema, facts, tuple(range(len(schema))), rows)
    return {
        "rows": _Kept(rows, keys, size),
        "waiting": _Kept(waiting, min(keys, waiting), waiting * (_row(schema, facts) + _ORDERED)),
        "frames": _Kept(rows, keys, rows * (row + _LISTED)),
        "totals": _Kept(keys, keys, index + keys * (_accumulators(node.calls, schema, facts) + _WORD)),
        "touched": _Kept(keys, keys, keys * _WORD),
    }


def _by_key(node: p.ChangelogNormalizeExec | p.SinkMaterializeExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    schema = node.input.schema
    keys = combinations(facts, node.keys)
    size = _keys_index(schema, facts, node.keys, keys) + keys * (_row(schema, facts) + _COUNTED)
    return {"rows": _Kept(keys, keys, size), "touched": _Kept(keys, keys, keys * _WORD)}


def _window_top_n(node: p.WindowTopNExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    alive = _alive(facts, node.window[1], 0.0, node.proctime)
    keys = combinations(facts, (*node.partition, node.window[1]), alive)
    rows = min(alive, keys * node.end)
    index = _keys_index(node.input.schema, facts, (*node.partition, *node.window), keys)
    each = _row(node.input.schema, facts) + (len(node.order) + 3) * _WORD
    return {
        "partitions": _Kept(keys, keys, index + keys * node.end * _WORD),
        "rows": _Kept(rows, keys, rows * each),
    }


def _sort(node: p.SortExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    rows = _alive(facts, node.order[0].index, 0.0, False)
    return {"waiting": _timed(node.input.schema, facts, rows, ())}


def _limit(node: p.LimitExec, inputs: Sequence[RowFacts]) -> _Sizes:
    (facts,) = inputs
    row = _row(node.input.schema, facts) + _ORDERED + _COUNTED
    return {"count": _Kept(1.0, 1.0, 16.0), "rows": _Kept(facts.rows, 1.0, facts.rows * row)}


_SIZES: dict[type[PhysicalNode], Callable[[Any, Sequence[RowFacts]], _Sizes]] = {
    p.GroupAggregateExec: _group,
    p.WindowAggregateExec: _window_aggregate,
    p.HashJoinExec: _hash_join,
    p.IntervalJoinExec: _interval_join,
    p.WindowJoinExec: _window_join,
    p.TemporalJoinExec: _temporal_join,
    p.TopNExec: _top_n,
    p.DeduplicateExec: _deduplicate,
    p.OverAggregateExec: _over,
    p.ChangelogNormalizeExec: _by_key,
    p.SinkMaterializeExec: _by_key,
    p.WindowTopNExec: _window_top_n,
    p.SortExec: _sort,
    p.LimitExec: _limit,
}
