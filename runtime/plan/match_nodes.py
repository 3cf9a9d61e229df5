"""The physical node of MATCH_RECOGNIZE. See `nodes.py` for what holds for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, BOOLEAN
from runtime.expr.nodes import Expr
from runtime.plan.base import Division, Follows, PhysicalNode, by_keys
from runtime.plan.estimates.rows import ColumnFacts, RowFacts, combinations
from runtime.plan.estimates.sizes import COUNTED, LISTED, WORD, Kept, Sizes, alive, key_index_bytes, row_bytes, timed
from runtime.plan.parts import SortSpec
from runtime.plan.pattern import UNIVERSAL, Anchor, MatchRows, MatchValue, Pattern, ValueSide
from runtime.plan.state import CLOCK, NOTHING, WATERMARK, StateSpec, key_text
from runtime.plan.text import by_text, calls_text, order_text, shown

__all__ = ["MatchExec"]

_MATCHES = 0.1
"""Matches for a row, where nothing is known."""


@node
class MatchExec(PhysicalNode):
    """MATCH_RECOGNIZE, one row per match or as `rows` says: the `partition` columns, then one column for each of `found`. Append-only.

    `order` begins with event time (`rowtime`: rows wait for the watermark, late ones are rejected), else with processing
    time (rows are taken as they come). `alone`: BOOLEAN columns, by the number of the variable whose condition, or part of
    it, they are; `asked`: what is left of the conditions, over the columns of the input and then those of `tested`, which
    are of the rows that are mapped so far. `follows_rows`: event-time columns of the output hold other times than those of
    last rows, so that the watermark waits for the rows of runs.
    """

    input: PhysicalNode
    partition: tuple[int, ...]
    order: tuple[SortSpec, ...]
    pattern: Pattern
    alone: tuple[tuple[int, int], ...]
    asked: tuple[tuple[int, Expr], ...]
    tested: tuple[MatchValue, ...]
    found: tuple[MatchValue, ...]
    rowtime: bool
    follows_rows: bool
    schema: Schema
    mode: ChangelogMode
    rows: MatchRows = MatchRows.ONE

    advice = "give PATTERN a length: WITHIN INTERVAL '1' HOUR"

    @property
    def numbers(self) -> bool:
        """Whether matches are numbered."""
        return any(value.is_number for value in self.found)

    @property
    def asks_for_start(self) -> bool:
        """Whether a match may be asked to begin with the first row of its partition."""
        return self.pattern.shape is not None and Anchor.START in self.pattern.shape.anchors

    def text(self) -> str:
        schema = self.input.schema
        by, order = by_text(self.partition, schema), order_text(self.order, schema)
        found = ", ".join(
            self._value_text(value, name)
            for value, name in zip(self.found, self.schema.names[len(self.partition) :], strict=True)
        )
        names = schema.names
        tested = [self._value_text(value) for value in self.tested]
        with_tested = Schema(
            (*schema.fields, *(Field(t, v.call.type) for t, v in zip(tested, self.tested, strict=True)))
        )
        define = [f"{self.pattern.variables[v].name}: {names[column]}" for v, column in self.alone]
        define += [f"{self.pattern.variables[v].name}: {shown(e, with_tested)}" for v, e in self.asked]
        conditions = f" define [{', '.join(define)}]" if define else ""
        rows = "" if self.rows is MatchRows.ONE else f" {self.rows.value}"
        return f"{self.pattern}{rows} [{found}]{by} order by {order}{conditions}"

    def _value_text(self, value: MatchValue, name: str = "") -> str:
        call = calls_text([value.call], self.input.schema, [name])
        if value.names:
            call = call.replace("()", "(CLASSIFIER)", 1)
        variable = "" if value.variable == UNIVERSAL else f"{self.pattern.name(value.variable)}."
        if value.offset is not None:
            call = call.replace("_VALUE(", "(").replace(")", f", {value.offset})" if value.offset else ")", 1)
        side = "" if value.side is ValueSide.RUNNING else f"{value.side.value} "
        return f"{side}{variable}{call}".removesuffix(" AS ")

    def state(self) -> tuple[StateSpec, ...]:
        schema = self.input.schema
        by = key_text(schema, self.partition)
        waits = self.pattern.shape is not None and Anchor.END in self.pattern.shape.anchors
        bound = NOTHING if waits or not self.pattern.within else WATERMARK if self.rowtime else CLOCK
        keys = Schema(tuple(schema[i] for i in self.partition))
        # With a shape it does not follow from the numbers of rows which row is mapped to what.
        counted = self.pattern.variables if self.pattern.shape is None else ()
        counts = Schema((*keys.fields, *(Field(f"rows of {v.name}", BIGINT) for v in counted)))
        key = tuple(range(len(keys)))
        tables = [
            StateSpec("rows", f"rows of matches that are not complete by {by}", bound, schema, self.partition),
            StateSpec("runs", f"matches that are not complete by {by}", bound, counts, key),
        ]
        if self.numbers:
            numbers = Schema((*keys.fields, Field("number of matches", BIGINT)))
            tables.append(StateSpec("numbers", f"number of matches by {by}", NOTHING, numbers, key))
        if self.asks_for_start:
            begun = Schema((*keys.fields, Field("begun", BOOLEAN)))
            tables.append(StateSpec("begun", f"partitions that have begun by {by}", NOTHING, begun, key))
        if self.rowtime:
            waiting = StateSpec("waiting", "rows until their time has come", WATERMARK, schema, self.partition)
            tables.insert(0, waiting)
        return tuple(tables)

    def follows(self) -> Follows:
        return Follows.TIES | (Follows.EVENT_TIME if self.rowtime else Follows.CLOCK | Follows.ARRIVAL)

    def division(self) -> Division:
        return by_keys((self.input, self.partition)) if self.partition else None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (facts,) = inputs
        rows = facts.rows * _MATCHES
        return RowFacts(rows, facts.epoch * _MATCHES, tuple(ColumnFacts(rows) for _ in self.schema), False)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        schema = self.input.schema
        time = self.order[0].index
        open_rows = (
            alive(facts, time, float(self.pattern.within), not self.rowtime) if self.pattern.within else facts.rows
        )
        waiting = alive(facts, time, 0.0, False)
        keys = combinations(facts, self.partition) if self.partition else 1.0
        run = WORD * (4 + len(self.pattern.variables)) + LISTED
        begun = Kept(keys, keys, key_index_bytes(schema, facts, self.partition, keys))
        return {
            "waiting": timed(schema, facts, waiting, ()),
            "begun": begun,
            "numbers": Kept(keys, keys, key_index_bytes(schema, facts, self.partition, keys) + keys * WORD),
            "rows": Kept(open_rows, min(keys, open_rows), open_rows * (row_bytes(schema, facts) + COUNTED)),
            "runs": Kept(
                open_rows, min(keys, open_rows), key_index_bytes(schema, facts, self.partition, keys) + open_rows * run
            ),
        }
