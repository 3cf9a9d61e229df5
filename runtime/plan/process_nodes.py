"""The physical nodes of table functions that keep something: process functions of users, VECTOR_SEARCH. See `nodes.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, STRING, TypeRoot, array, row
from runtime.expr.display import show
from runtime.expr.function import shown_name
from runtime.expr.nodes import Expr, Literal
from runtime.plan.base import BY_ROW, TIME_TO_LIVE, Division, Follows, PhysicalNode, by_keys
from runtime.plan.estimates.rows import RowFacts
from runtime.plan.parts import JoinKind, SortSpec, VectorIndexSpec
from runtime.plan.state import CLOCK, KEYS, NOTHING, WATERMARK, StateSpec, key_text, until_idle
from runtime.plan.text import columns_text, order_text, shown

__all__ = ["TIMERS", "ProcessTablesExec", "VectorSearchExec"]

TIMERS: Final = array(row(("name", STRING), ("time", BIGINT)))
"""The timers of a key: name (NULL for none) and milliseconds."""


@node
class ProcessTablesExec(PhysicalNode):
    """The rows that a process function of a user makes of the rows of its tables, which it sees by key, or (`each`) one by
    one.

    `keys`, `times`: for each input the positions of its key and of its time; `times` is empty without `on_time`.
    `names`: those of the columns of each input, as the function sees them.
    `order`: how the rows of each input are ordered, by its time first; empty: they come as they arrive.
    `arguments`: constants by parameter. `states`, `ttls`: what is kept for each key. `passes`: the columns of the input
    come before the function's, else those of the keys. `clock`: the function has timers of processing time.
    """

    parts: tuple[PhysicalNode, ...]
    function: str
    keys: tuple[tuple[int, ...], ...]
    times: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    arguments: tuple[tuple[str, Literal], ...]
    states: Schema
    ttls: tuple[int, ...]
    schema: Schema
    mode: ChangelogMode
    order: tuple[tuple[SortSpec, ...], ...] = ()
    each: bool = False
    passes: bool = False
    clock: bool = False

    knows_timers = True

    def text(self) -> str:
        by = (
            ""
            if self.each
            else f" by ({'; '.join(columns_text(k, p.schema) for k, p in zip(self.keys, self.parts, strict=True))})"
        )
        given = ", ".join(f"{name} {show(value)}" for name, value in self.arguments)
        if self.order:
            by += f" in order of {'; '.join(order_text(o, p.schema) for o, p in zip(self.order, self.parts, strict=True))}"
        return f"{shown_name(self.function)}{by}{f' with {given}' if given else ''}"

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The columns of the key, under the names that they have in the first input."""
        return tuple(self.parts[0].schema[k] for k in self.keys[0])

    def state(self) -> tuple[StateSpec, ...]:
        if self.each:
            return ()
        keys = tuple(range(len(self.key_fields)))
        by = key_text(Schema(self.key_fields), keys, "one key")
        tables = [
            StateSpec(f.name, f"{f.name} by {by}", until_idle(ttl, KEYS), Schema((*self.key_fields, _saved(f))), keys)
            for f, ttl in zip(self.states, self.ttls, strict=True)
        ]
        timers = Schema((*self.key_fields, Field("timers", TIMERS)))
        if self.clock:
            tables.append(StateSpec("clock", f"timers of processing time by {by}", CLOCK, timers, keys))
        if self.times:
            tables += [
                StateSpec(f"waiting{number}", "rows until their time has come", WATERMARK, part.schema, keys)
                for number, (part, keys) in enumerate(zip(self.parts, self.keys, strict=True))
                if self.order
            ]
            tables.append(StateSpec("timers", f"timers by {by}", WATERMARK, timers, keys))
        return tuple(tables)

    def follows(self) -> Follows:
        by_clock = Follows.CLOCK if self.clock else Follows.NOTHING
        return Follows.ARRIVAL | by_clock | (Follows.EVENT_TIME if self.times else Follows.NOTHING)

    def division(self) -> Division:
        return BY_ROW if self.each else by_keys(*zip(self.parts, self.keys, strict=True))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]._replace(rows=sum(i.rows for i in inputs), columns=())

    @property
    def expires(self) -> bool:
        return any(self.ttls)


@node
class VectorSearchExec(PhysicalNode):
    """Each left row with the `top_k` rows of the right side whose vectors are nearest to its own, as the right side is at
    the end of the epoch in which the left row comes. INNER or LEFT.

    `query`: the vector of a left row; `column`: the position of the right side's vectors; `left_unique`, `right_unique`:
    positions of a unique key of that side, None when rows may repeat. `at_end`: both sides end, and left rows wait for
    that, so that they see all of the right side. Output: left columns, a column that is NULL (the vector is in the
    left row), right columns, how near they are. `ttl`: milliseconds after which the answer of a row of an updating left side is forgotten;
    0 never.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    query: Expr
    column: int
    top_k: int
    index: VectorIndexSpec
    left_unique: tuple[int, ...] | None
    right_unique: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode
    at_end: bool = False
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    advice = "search a table that does not grow, or limit what is kept of it"

    def text(self) -> str:
        near = f"{self.right.schema[self.column].name} near {shown(self.query, self.left.schema)}"
        return f"{self.kind.name} {near} top {self.top_k} ({self.index.text()})"

    def state(self) -> tuple[StateSpec, ...]:
        rows = self.right.schema
        kept = [StateSpec("vectors", "rows that are searched, with counts", NOTHING, rows, range(len(rows)))]
        if self.at_end:
            left = self.left.schema
            kept.append(StateSpec("waiting", "left rows until the end of the input", NOTHING, left, range(len(left))))
        if self.left.mode.is_retract:
            left, bound = self.left.schema, until_idle(self.ttl, NOTHING)
            kept.append(StateSpec("rows", "distinct rows with counts", bound, left, range(len(left))))
            kept.append(StateSpec("answers", "what was found for each row", bound, owner="rows"))
        return tuple(kept)

    def follows(self) -> Follows:
        return Follows.ARRIVAL | Follows.TIES | (Follows.END if self.at_end else Follows.NOTHING)

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]._replace(rows=inputs[0].rows * min(self.top_k, max(1.0, inputs[1].rows)), columns=())

    @property
    def found(self) -> tuple[Field, ...]:
        """What is found for a row: the columns of the output behind those of the left side."""
        return tuple(self.schema)[len(self.left.schema) :]


def _saved(state: Field) -> Field:
    """A state as a column: a map as its entries, because keys in Python may be NULL."""
    if state.type.root is not TypeRoot.MAP:
        return state
    key, value = (t.with_nullable(True) for t in state.type.children)
    return Field(state.name, array(row(("key", key), ("value", value))))
