"""How large the tables of state are, from what is known of the rows (`RowFacts`) and from how they are laid out in memory.
Nodes say with these what they keep (`PhysicalNode.sizes`).

The layouts are those of `runtime/kernels`: a hash index is a table of 8 bytes an entry, at most 0.6 full and as large as
the next power of two, with the words of its keys beside it; columns are arrays by slot that grow by a fourth; an ordered
structure keeps the sort key beside each row. Bytes are of one task. Within a factor of two of what `system.operators`
shows, as far as the statistics are right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from runtime.core.schema import Schema
from runtime.plan.aggregate_state import value_tables
from runtime.plan.estimates.rows import RowFacts, combinations, is_text
from runtime.plan.parts import AggregateSpec

__all__ = [
    "COUNTED",
    "GROWN",
    "LIST",
    "LISTED",
    "ORDERED",
    "WORD",
    "Kept",
    "Sizes",
    "accumulator_bytes",
    "alive",
    "index_bytes",
    "key_index_bytes",
    "row_bytes",
    "timed",
    "value_sizes",
]

_FULL = 0.6
_CHUNK = 65_536
GROWN = 1.1
WORD = 8.0
ORDERED = 72.0
"""Of a row in an ordered structure beside its columns: sort key, number, slot, where it stands."""
COUNTED = 56.0
"""Of a row that may be taken back: count, change, key, place in its list."""
WAITING = 40.0
"""Of a row that only waits for its time: the time, a place in the queue."""
LISTED = 12.0
INDEXED = 20.0
"""Of a row of a table in an index of it: how often it counts, its position in the list of its key."""
LIST = 26.0


class Kept(NamedTuple):
    """What a table of state holds: rows, the most that are there at once; of how many keys; bytes in memory."""

    rows: float
    keys: float
    bytes: float


Sizes = dict[str, Kept]
"""By the name of the table; what several tables share counts with the first."""


def row_bytes(schema: Schema, facts: RowFacts, columns: Sequence[int] | None = None) -> float:
    """The bytes of a row, or of some of its columns."""
    total = 0.0
    for position in range(len(schema)) if columns is None else columns:
        type_ = schema[position].type
        if is_text(type_):
            total += WORD + facts.columns[position].length
        else:
            total += max(1, type_.arrow.bit_width // 8)
    return total * GROWN


def index_bytes(keys: float, words: int, fed: float) -> float:
    """A hash index of so many keys, fed with batches of so many rows."""
    wanted = max((keys + min(fed, _CHUNK)) / _FULL, 64)
    return 8 * 2 ** math.ceil(math.log2(wanted)) + keys * GROWN * (words * WORD + 1)


def key_index_bytes(schema: Schema, facts: RowFacts, columns: Sequence[int], keys: float) -> float:
    """The index of keys of these columns: texts are numbered by an index of their own."""
    nullable = any(schema[c].type.nullable for c in columns)
    size = index_bytes(keys, len(columns) + nullable, facts.epoch)
    for column in columns:
        if is_text(schema[column].type):
            texts = min(keys, facts.columns[column].distinct)
            size += index_bytes(texts, 1, facts.epoch) + texts * (WORD + facts.columns[column].length)
    return size


def accumulator_bytes(calls: Sequence[AggregateSpec], schema: Schema, facts: RowFacts) -> float:
    """The bytes of the accumulators of a group."""
    size = 0.0
    for call in dict.fromkeys(calls):
        match call.function.upper():
            case "COUNT":
                size += 8
            case "MIN" | "MAX" | "FIRST_VALUE" | "LAST_VALUE":
                size += 10 + (row_bytes(schema, facts, call.args) if call.args else 8)
            case _:
                size += 20
    return size * GROWN


def value_sizes(
    calls: Sequence[AggregateSpec], schema: Schema, facts: RowFacts, rows: float, per_group: Sequence[int]
) -> Sizes:
    """The tables of values of aggregate calls."""
    found: Sizes = {}
    for table in value_tables(calls):
        columns = (*per_group, *table.args)
        held = combinations(facts, columns, rows) if table.once else rows
        readers = sum(1 for call in dict.fromkeys(calls) if call.args == table.args)
        if not table.once and not any(call.retract for call in calls):
            # Values that only come: a number of arrival, the group, and a place in the group's list.
            size = held * (row_bytes(schema, facts, table.args) + 2 * WORD + LISTED)
            found[table.name] = Kept(held, combinations(facts, per_group, rows), size)
            continue
        size = index_bytes(held, len(table.args) + 2, facts.epoch) + held * GROWN * (WORD + readers)
        if not table.once or any(call.retract for call in calls):
            size += held * (ORDERED + row_bytes(schema, facts, table.args))
        found[table.name] = Kept(held, combinations(facts, per_group, rows), size)
    return found


def alive(facts: RowFacts, time: int, milliseconds: float, proctime: bool) -> float:
    """The rows that are there at once when each stays for so long: those of an epoch, and of the time before it."""
    span = facts.span(time)
    if proctime or not span:
        return facts.rows if proctime else min(facts.rows, facts.epoch * 2)
    return min(facts.rows, facts.rows / span * milliseconds / 1000 + facts.epoch)


def timed(schema: Schema, facts: RowFacts, rows: float, keys: Sequence[int]) -> Kept:
    """Rows that wait for their time."""
    own = combinations(facts, keys, rows) if keys else 1.0
    return Kept(rows, own, rows * (row_bytes(schema, facts) + WAITING))
