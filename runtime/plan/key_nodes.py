"""Physical nodes that keep rows by a key: the first ones in some order, one of each, or how many times each is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.plan.base import TIME_TO_LIVE, Division, Follows, PhysicalNode, by_keys
from runtime.plan.estimates.rows import RowFacts, column_of, combinations, filtered, keyed
from runtime.plan.estimates.sizes import (
    COUNTED,
    GROWN,
    ORDERED,
    WORD,
    Kept,
    Sizes,
    alive,
    key_index_bytes,
    row_bytes,
    timed,
)
from runtime.plan.parts import RankFunction, SortSpec
from runtime.plan.state import KEYS, NOTHING, WATERMARK, StateSpec, figure, key_text, touched, until_idle
from runtime.plan.text import by_text, columns_text, order_text, projections_text

__all__ = [
    "ChangelogNormalizeExec",
    "DeduplicateExec",
    "FinalRowsExec",
    "LimitExec",
    "RememberExec",
    "SetOperationExec",
    "SortExec",
    "TopNExec",
]


@node
class DeduplicateExec(PhysicalNode):
    """One row per key: the first or the last by event time (`time` is its position), or by arrival (`time` None)."""

    input: PhysicalNode
    keys: tuple[int, ...]
    time: int | None
    keep_last: bool
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    advice = "SET 'table.exec.state.ttl'"

    def text(self) -> str:
        schema = self.input.schema
        time = "arrival" if self.time is None else columns_text([self.time], schema)
        return f"{'last' if self.keep_last else 'first'} by ({columns_text(self.keys, schema)}) in order of {time}"

    def state(self) -> tuple[StateSpec, ...]:
        schema = self.schema
        by = key_text(schema, self.keys, "one row")
        if not self.input.mode.is_append_only:
            held = f"all rows in order of {'arrival' if self.time is None else 'time'} by {by}"
            rows = StateSpec("rows", held, until_idle(self.ttl, NOTHING), schema, self.keys)
            return (rows, *touched(schema, self.keys, self.ttl))
        bound = until_idle(self.ttl, KEYS)
        if self.time is None and not self.keep_last:
            return (StateSpec("keys", f"whether a row has come by {by}", bound, schema, self.keys),)
        return (StateSpec("rows", f"one row by {by}", bound, schema, self.keys),)

    def follows(self) -> Follows:
        if self.time is None:
            return Follows.ARRIVAL
        return Follows.TIES | (Follows.EVENT_TIME if self._waits else Follows.NOTHING)

    def division(self) -> Division:
        return by_keys((self.input, self.keys))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return keyed(inputs[0], self.keys)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        schema = self.input.schema
        keys = combinations(facts, self.keys)
        index = key_index_bytes(schema, facts, self.keys, keys)
        rows = keys if self.input.mode.is_append_only else facts.rows
        size = index + rows * (row_bytes(schema, facts) + 2 * WORD)
        return {
            "rows": Kept(rows, keys, size if rows == keys else size + rows * (ORDERED + COUNTED)),
            "keys": Kept(keys, keys, index),
            "touched": Kept(keys, keys, keys * WORD),
        }

    def revises(self) -> bool:
        return self.keep_last

    def by_key_alone(self) -> bool:
        return not self._waits

    @property
    def _waits(self) -> bool:
        """Whether rows wait for the watermark: none that comes later can be the first then."""
        return self.time is not None and not self.keep_last and self.input.mode.is_append_only


@node
class ChangelogNormalizeExec(PhysicalNode):
    """Turn an upsert stream by key (deletes may carry only the key) into full images; `mode` says whether `-U` is
    sent."""

    input: PhysicalNode
    keys: tuple[int, ...]
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    def text(self) -> str:
        return f"by ({columns_text(self.keys, self.input.schema)})"

    def state(self) -> tuple[StateSpec, ...]:
        held = f"one row by {key_text(self.schema, self.keys, 'one row')}"
        return (StateSpec("rows", held, until_idle(self.ttl, KEYS), self.schema, self.keys),)

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return (self.keys,)

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return keyed(inputs[0], self.keys)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        schema = self.input.schema
        keys = combinations(facts, self.keys)
        size = key_index_bytes(schema, facts, self.keys, keys) + keys * (row_bytes(schema, facts) + COUNTED)
        return {"rows": Kept(keys, keys, size)}

    def by_key_alone(self) -> bool:
        return True


@node
class RememberExec(PhysicalNode):
    """Each row with values that would be others if they were computed again: an identifier, chance, the clock, what a
    program says. A row is taken back with the values that it was given.

    `values`: what is computed of each row that comes; they stand behind the columns of the input. `keys`: positions of a
    unique key of the input, by which the values are kept; None: by the whole row, those of equal rows in order of
    arrival. Of an input that only inserts nothing is kept. `ttl`: milliseconds after which the values of a row are forgotten; 0 never.
    """

    input: PhysicalNode
    values: tuple[Expr, ...]
    keys: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    advice = "SET 'table.exec.state.ttl', or compute the values before rows are updated"

    def text(self) -> str:
        schema = self.input.schema
        by = "whole row" if self.keys is None else f"({columns_text(self.keys, schema)})"
        added = Schema(self.schema.fields[len(schema) :])
        return f"[{projections_text(self.values, schema, added)}] by {by}"

    @property
    def kept_by(self) -> tuple[int, ...]:
        """The positions by which the values of a row are found."""
        return tuple(range(len(self.input.schema))) if self.keys is None else self.keys

    def state(self) -> tuple[StateSpec, ...]:
        if self.input.mode.is_append_only:
            return ()
        given, keys = self.input.schema, self.kept_by
        kept = Schema((*(given[k] for k in keys), *self.schema.fields[len(given) :]))
        by = "row" if self.keys is None else key_text(given, keys, "one row")
        held = f"the values given with each row by {by}"
        bound = NOTHING if self.keys is None else KEYS
        return (StateSpec("given", held, until_idle(self.ttl, bound), kept, range(len(keys))),)

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return by_keys((self.input, self.kept_by))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        return given._replace(columns=(*given.columns, *(column_of(e, given) for e in self.values)))

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        keys = facts.rows if self.keys is not None else combinations(facts, self.kept_by)
        whole = self.estimate(inputs)
        added = range(len(self.input.schema), len(self.schema))
        each = row_bytes(self.schema, whole, added) + COUNTED
        index = key_index_bytes(self.input.schema, facts, self.kept_by, keys)
        return {"given": Kept(facts.rows, keys, index + facts.rows * each)}

    def by_key_alone(self) -> bool:
        return self.keys is not None


@node
class SetOperationExec(PhysicalNode):
    """INTERSECT and EXCEPT, with and without ALL: rows compared with NULL equal to NULL. `kind` is `INTERSECT` or
    `EXCEPT`.

    Multiplicities: INTERSECT ALL min(l, r), EXCEPT ALL max(l - r, 0); without ALL the same of min(l, 1), and EXCEPT
    gives 1 where l > 0 and r = 0. `ttl`: idle milliseconds after which a row is forgotten; 0 never.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: str
    all: bool
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    def text(self) -> str:
        return f"{self.kind}{' ALL' if self.all else ''}"

    def state(self) -> tuple[StateSpec, ...]:
        bound = until_idle(self.ttl, NOTHING)
        return (StateSpec("rows", "distinct rows with two counts", bound, self.left.schema, self._whole),)

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return by_keys((self.left, self._whole), (self.right, self._whole))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        left, right = inputs
        return left if self.kind != "INTERSECT" else filtered(left, min(1.0, right.rows / max(left.rows, 1.0)))

    def revises(self) -> bool:
        return True

    def by_key_alone(self) -> bool:
        return True

    @property
    def _whole(self) -> tuple[int, ...]:
        return tuple(range(len(self.schema)))


@node
class FinalRowsExec(PhysicalNode):
    """The rows that are there when the input has ended, as insertions: a changelog as a batch query reads it.

    `keys`: positions of the unique key by which changes are told, None where they carry whole rows.
    """

    input: PhysicalNode
    keys: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        return f"by ({columns_text(self.keys, self.input.schema)})" if self.keys else ""

    def state(self) -> tuple[StateSpec, ...]:
        bound = KEYS if self.keys else NOTHING
        return (StateSpec("rows", "the rows that are there", bound, self.schema, self._divided_by),)

    def follows(self) -> Follows:
        return Follows.END

    def division(self) -> Division:
        return (self._divided_by,)

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]

    def revises(self) -> bool:
        return True

    @property
    def _divided_by(self) -> tuple[int, ...]:
        return tuple(range(len(self.schema))) if self.keys is None else self.keys


@node
class TopNExec(PhysicalNode):
    """The rows of each partition whose rank is within [start, end] (1-based, inclusive; `end` None has no bound). No
    partition columns: one global partition (ORDER BY ... LIMIT). Ties rank by arrival.

    With `rank_column` the rank is appended as a BIGINT column. `unique`: positions of a unique key of the input, None
    when rows may repeat.
    """

    input: PhysicalNode
    function: RankFunction
    partition: tuple[int, ...]
    order: tuple[SortSpec, ...]
    start: int
    end: int | None
    rank_column: bool
    unique: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    advice = "SET 'table.exec.state.ttl', or rank in windows"

    def text(self) -> str:
        schema = self.input.schema
        rank = f" AS {self.schema.names[-1]}" if self.rank_column else ""
        order = f" order by {order_text(self.order, schema)}" if self.order else ""
        unique = "" if self.unique is None else f", unique ({columns_text(self.unique, schema)})"
        ranks = f"{self.function.value} {self.start}..{'' if self.end is None else self.end}"
        return f"{ranks}{rank}{by_text(self.partition, schema)}{order}{unique}"

    def state(self) -> tuple[StateSpec, ...]:
        schema = self.input.schema
        by = key_text(schema, self.partition)
        if self.input.mode.is_append_only and self.end is not None:
            held = f"{self.end} rows by {by}"
            bound = until_idle(self.ttl, KEYS if self.partition else f"{self.end} rows")
        else:
            held, bound = f"all rows in order by {by}", until_idle(self.ttl, NOTHING)
        return (
            StateSpec("rows", held, bound, schema, self.partition),
            *touched(schema, self.partition, self.ttl),
        )

    def follows(self) -> Follows:
        return Follows.TIES

    def division(self) -> Division:
        return by_keys((self.input, self.partition, self.unique))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        if self.end is None:
            return given
        rows = min(given.rows, max(1.0, combinations(given, self.partition)) * (self.end - self.start + 1))
        return filtered(given, rows / max(given.rows, 1.0))

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        schema = self.input.schema
        keys = combinations(facts, self.partition) if self.partition else 1.0
        index = key_index_bytes(schema, facts, self.partition, keys)
        row = row_bytes(schema, facts)
        if self.input.mode.is_append_only and self.end is not None:
            rows = min(facts.rows, keys * self.end)
            words = (len(self.order) + 3) * WORD * GROWN
            size = index + rows * (row + words) + keys * self.end * WORD * GROWN
        else:
            rows = facts.rows
            size = index + rows * (row + ORDERED + COUNTED)
            if not self.input.mode.is_append_only:
                identity = self.unique or tuple(range(len(schema)))
                size += key_index_bytes(schema, facts, identity, rows)
        return {"rows": Kept(rows, keys, size), "touched": Kept(keys, keys, keys * WORD)}

    def revises(self) -> bool:
        return True

    def by_key_alone(self) -> bool:
        return True


@node
class SortExec(PhysicalNode):
    """ORDER BY an ascending event-time column first: rows come out in order when the watermark passes them.
    Append-only."""

    input: PhysicalNode
    order: tuple[SortSpec, ...]
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        return f"by {order_text(self.order, self.input.schema)}"

    def state(self) -> tuple[StateSpec, ...]:
        return (StateSpec("waiting", "rows until their time has come", WATERMARK, self.schema), figure("sent"))

    def follows(self) -> Follows:
        return Follows.EVENT_TIME

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        rows = alive(facts, self.order[0].index, 0.0, False)
        return {"waiting": timed(self.input.schema, facts, rows, ())}


@node
class LimitExec(PhysicalNode):
    """OFFSET and LIMIT without ORDER BY: the first rows to arrive; when one of them is taken back another takes its
    place. `ttl`: idle milliseconds after which rows kept for that are forgotten; 0 never."""

    input: PhysicalNode
    offset: int
    limit: int | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    def text(self) -> str:
        limit = [] if self.limit is None else [str(self.limit)]
        return " ".join([*limit, *([f"offset {self.offset}"] if self.offset else [])])

    def state(self) -> tuple[StateSpec, ...]:
        if self.input.mode.is_append_only:
            return (figure("count", "how many rows have passed"),)
        schema = self.input.schema
        rows = StateSpec("rows", "all rows by arrival", until_idle(self.ttl, NOTHING), schema)
        return (rows, *touched(schema, (), self.ttl))

    def follows(self) -> Follows:
        return Follows.ARRIVAL

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        return given if self.limit is None else filtered(given, min(1.0, self.limit / max(given.rows, 1.0)))

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        row = row_bytes(self.input.schema, facts) + ORDERED + COUNTED
        return {"count": Kept(1.0, 1.0, 16.0), "rows": Kept(facts.rows, 1.0, facts.rows * row)}
