"""Physical nodes of joins; those of windows are in `window_nodes.py`. See `nodes.py` for what holds for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.plan.base import TIME_TO_LIVE, Division, Follows, PhysicalNode, by_keys
from runtime.plan.estimates.rows import SELECTED_PAIRS, RowFacts, beside, combinations, joined
from runtime.plan.estimates.sizes import (
    COUNTED,
    LIST,
    LISTED,
    ORDERED,
    WORD,
    Kept,
    Sizes,
    alive,
    key_index_bytes,
    row_bytes,
    timed,
)
from runtime.plan.parts import JoinKind
from runtime.plan.state import (
    CLOCK,
    KEYS,
    NOTHING,
    WATERMARK,
    StateSpec,
    column_names,
    duration_text,
    figure,
    key_text,
    touched,
    until_idle,
)
from runtime.plan.text import both_schemas, columns_text, on_text, pairs_text

__all__ = [
    "AsofJoinExec",
    "CurrentJoinExec",
    "HashJoinExec",
    "IntervalJoinExec",
    "MultiJoinExec",
    "TemporalJoinExec",
]


@node
class HashJoinExec(PhysicalNode):
    """Regular join: both inputs kept as long as they live. Keys are compared pairwise with `=`, or null-safe where
    `null_safe` is true; `condition` (over left then right columns) must hold besides. No keys: every pair is a
    candidate.

    `left_unique`, `right_unique`: positions of a unique key of that input, None when rows may repeat.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    condition: Expr | None
    left_unique: tuple[int, ...] | None
    right_unique: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode
    left_ttl: int = field(default=0, metadata=TIME_TO_LIVE)
    right_ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    advice = "SET 'table.exec.state.ttl', hint STATE_TTL for a side, or join within an interval or a window"

    def text(self) -> str:
        left, right = self.left.schema, self.right.schema
        pairs = pairs_text(self.left_keys, self.right_keys, self.null_safe, left, right)
        sides = (("left", self.left_unique, left), ("right", self.right_unique, right))
        unique = "".join(
            f", {side} unique ({columns_text(key, schema)})" for side, key, schema in sides if key is not None
        )
        return f"{self.kind.name}{on_text(pairs, self.condition, both_schemas(left, right))}{unique}"

    def state(self) -> tuple[StateSpec, ...]:
        return (
            _joined_side("left", self.left.schema, self.left_keys, self.left_unique, self.left_ttl),
            _joined_side("right", self.right.schema, self.right_keys, self.right_unique, self.right_ttl),
        )

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return by_keys((self.left, self.left_keys, self.left_unique), (self.right, self.right_keys, self.right_unique))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return joined(self.kind, self.left_keys, self.right_keys, self.condition, inputs, 1.0)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        left, right = inputs
        keys = [combinations(left, self.left_keys), combinations(right, self.right_keys)]
        plain = all(source.mode.is_append_only for source in self.inputs) and self.mode.is_append_only
        found = {
            "left": _kept_side(self.left, left, self.left_unique, keys[0], plain),
            "right": _kept_side(self.right, right, self.right_unique, keys[1], plain),
        }
        # Both sides have the same index of keys.
        first = max(keys) if self.left_keys else 1.0
        shared = key_index_bytes(self.left.schema, left, self.left_keys, first)
        found["left"] = found["left"]._replace(bytes=found["left"].bytes + shared)
        return found

    def revises(self) -> bool:
        return self.kind not in (JoinKind.INNER, JoinKind.SEMI)

    def by_key_alone(self) -> bool:
        return True


@node
class MultiJoinExec(PhysicalNode):
    """Regular joins on one common key: every input is kept once, and nothing of the joins between them.

    Of each key it gives the product of the rows of all inputs; an input of kind LEFT without rows counts as one row of
    NULLs. The first is INNER. `keys`: the columns of each input, compared with `=`. `unique`: a unique key of each input,
    None when rows may repeat.
    """

    parts: tuple[PhysicalNode, ...]
    kinds: tuple[JoinKind, ...]
    keys: tuple[tuple[int, ...], ...]
    unique: tuple[tuple[int, ...] | None, ...]
    schema: Schema
    mode: ChangelogMode

    advice = "SET 'table.exec.state.ttl', or join within an interval or a window"

    def text(self) -> str:
        kinds = ", ".join(kind.name for kind in self.kinds[1:])
        keys = " = ".join(f"({columns_text(k, p.schema)})" for k, p in zip(self.keys, self.parts, strict=True))
        unique = "".join(
            f", input {number} unique ({columns_text(key, part.schema)})"
            for number, (key, part) in enumerate(zip(self.unique, self.parts, strict=True), 1)
            if key is not None
        )
        return f"{kinds} on {keys}{unique}"

    def state(self) -> tuple[StateSpec, ...]:
        parts = zip(self.parts, self.keys, self.unique, strict=True)
        return tuple(
            _joined_side(f"input{number}", part.schema, keys, unique, 0)
            for number, (part, keys, unique) in enumerate(parts, 1)
        )

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return by_keys(*zip(self.parts, self.keys, self.unique, strict=True))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        facts = inputs[0]
        for kind, keys, other in zip(self.kinds[1:], self.keys[1:], inputs[1:], strict=True):
            facts = joined(kind, self.keys[0], keys, None, [facts, other], 1.0)
        return facts

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        owned = [combinations(facts, keys) for facts, keys in zip(inputs, self.keys, strict=True)]
        plain = self.mode.is_append_only
        parts = zip(self.parts, inputs, self.unique, owned, strict=True)
        found = {
            f"input{number}": _kept_side(part, facts, unique, own, plain)
            for number, (part, facts, unique, own) in enumerate(parts, 1)
        }
        # All inputs have the same index of keys.
        shared = key_index_bytes(self.parts[0].schema, inputs[0], self.keys[0], max(owned))
        found["input1"] = found["input1"]._replace(bytes=found["input1"].bytes + shared)
        return found

    def revises(self) -> bool:
        return JoinKind.LEFT in self.kinds

    def by_key_alone(self) -> bool:
        return True


@node
class IntervalJoinExec(PhysicalNode):
    """Join rows whose times lie close: lower <= left time - right time <= upper (milliseconds), keys equal, `condition`
    true.

    Append-only inputs; unmatched rows of the kept side come out when no match can come any more. Rows are dropped when
    the other side's watermark passes their bound. `proctime`: the times are the clock's.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    lower: int
    upper: int
    condition: Expr | None
    schema: Schema
    mode: ChangelogMode
    proctime: bool = False

    def text(self) -> str:
        left, right = self.left.schema, self.right.schema
        both = both_schemas(left, right)
        names = column_names(both)
        pairs = pairs_text(self.left_keys, self.right_keys, (), left, right)
        times = f"{names[self.left_time]} - {names[len(left) + self.right_time]}"
        between = f"{times} in [{self.lower} ms, {self.upper} ms]"
        return f"{self.kind.name} {between}{on_text(pairs, self.condition, both)}"

    def state(self) -> tuple[StateSpec, ...]:
        bound = f"{CLOCK if self.proctime else WATERMARK}, {duration_text(self.upper - self.lower)} of rows"
        sides = (("left", self.left.schema, self.left_keys), ("right", self.right.schema, self.right_keys))
        return tuple(
            StateSpec(name, f"rows by {key_text(schema, keys, 'time')}", bound, schema, keys)
            for name, schema, keys in sides
        )

    def follows(self) -> Follows:
        return Follows.time(self.proctime)

    def division(self) -> Division:
        return by_keys((self.left, self.left_keys), (self.right, self.right_keys))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        span = inputs[0].span(self.left_time)
        share = SELECTED_PAIRS if not span else min(1.0, (self.upper - self.lower) / 1000 / span)
        return joined(self.kind, self.left_keys, self.right_keys, self.condition, inputs, share)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        left, right = inputs
        reach = max(0.0, float(self.upper - self.lower))
        kept = {
            "left": timed(self.left.schema, left, alive(left, self.left_time, reach, self.proctime), self.left_keys),
            "right": timed(
                self.right.schema, right, alive(right, self.right_time, reach, self.proctime), self.right_keys
            ),
        }
        index = key_index_bytes(self.left.schema, left, self.left_keys, max(k.keys for k in kept.values()))
        kept["left"] = kept["left"]._replace(bytes=kept["left"].bytes + index + kept["left"].rows * ORDERED)
        kept["right"] = kept["right"]._replace(bytes=kept["right"].bytes + kept["right"].rows * ORDERED)
        return kept


@node
class TemporalJoinExec(PhysicalNode):
    """Event-time temporal join: each left row with the newest right version of its key at the left row's time (INNER or
    LEFT).

    The right input is versioned: an upsert or retract changelog with `right_keys` as its key and `right_time` as its
    event time. A version that is a delete matches nothing. Left rows wait for the watermark of both sides; late left
    rows are rejected. `ttl`: milliseconds after which a key that no row of either side has come for is forgotten; 0
    never.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    condition: Expr | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    advice = "join rows that only come: then versions before the watermark go"

    def text(self) -> str:
        left, right = self.left.schema, self.right.schema
        both = both_schemas(left, right)
        names = column_names(both)
        pairs = pairs_text(self.left_keys, self.right_keys, (), left, right)
        times = f"as of {names[self.left_time]}, versions by {names[len(left) + self.right_time]}"
        return f"{self.kind.name} {times}{on_text(pairs, self.condition, both)}"

    def state(self) -> tuple[StateSpec, ...]:
        schema, keys = self.right.schema, self.right_keys
        by = key_text(schema, keys, "one row")
        bound = until_idle(self.ttl, KEYS)
        # An updating left side may take back a row of any time, so versions are kept for good.
        versions = f"{WATERMARK} and {bound}" if self.left.mode.is_append_only else until_idle(self.ttl, NOTHING)
        return (
            StateSpec("waiting", "left rows until their time has come", WATERMARK, self.left.schema, self.left_keys),
            StateSpec("keys", f"how far back versions are known by {by}", bound, schema, keys),
            StateSpec("versions", f"versions by {by}", versions, schema, keys),
            figure("forgotten"),
            *touched(schema, keys, self.ttl),
        )

    def follows(self) -> Follows:
        return Follows.EVENT_TIME

    def division(self) -> Division:
        return by_keys((self.left, self.left_keys), (self.right, self.right_keys, self.right_keys))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return beside(inputs)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        left, right = inputs
        keys = combinations(right, self.right_keys)
        index = key_index_bytes(self.right.schema, right, self.right_keys, keys)
        return {
            "waiting": timed(self.left.schema, left, alive(left, self.left_time, 0.0, False), self.left_keys),
            "keys": Kept(keys, keys, index + keys * (WORD * 2)),
            "versions": timed(self.right.schema, right, right.rows, self.right_keys),
        }


@node
class AsofJoinExec(PhysicalNode):
    """Each left row with the right row of its key whose time is nearest: of those with `left time comparison right time`
    (`>=`, `>`, `<=` or `<`) the latest for the first two, the earliest for the others. INNER or LEFT. Keys are compared
    with `=`.

    `left_unique`, `right_unique`: as of `HashJoinExec`. `by_watermark`: both inputs only insert, and their times are event
    times: late rows are rejected, and what the watermark has passed is forgotten.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    comparison: str
    left_unique: tuple[int, ...] | None
    right_unique: tuple[int, ...] | None
    by_watermark: bool
    schema: Schema
    mode: ChangelogMode

    advice = "declare WATERMARK FOR the times of both tables, whose rows only come"

    def text(self) -> str:
        left, right = self.left.schema, self.right.schema
        both = both_schemas(left, right)
        names = column_names(both)
        pairs = pairs_text(self.left_keys, self.right_keys, (), left, right)
        times = f"{names[self.left_time]} {self.comparison} {names[len(left) + self.right_time]}"
        return f"{self.kind.name} nearest {times}{on_text(pairs, None, both)}"

    def state(self) -> tuple[StateSpec, ...]:
        bounds = (NOTHING, NOTHING)
        if self.by_watermark and self.comparison in (">=", ">"):
            bounds = (WATERMARK, f"{WATERMARK} and {KEYS}")
        elif self.by_watermark:
            bounds = (f"the next row of the other side by {WATERMARK}", WATERMARK)
        sides = (("left", self.left.schema, self.left_keys), ("right", self.right.schema, self.right_keys))
        return tuple(
            StateSpec(name, f"rows by {key_text(schema, keys, 'time')}", bound, schema, keys)
            for bound, (name, schema, keys) in zip(bounds, sides, strict=True)
        )

    def follows(self) -> Follows:
        return Follows.EVENT_TIME if self.by_watermark else Follows.NOTHING

    def division(self) -> Division:
        return by_keys((self.left, self.left_keys, self.left_unique), (self.right, self.right_keys, self.right_unique))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return beside(inputs)

    def revises(self) -> bool:
        return True


@node
class CurrentJoinExec(PhysicalNode):
    """Each row of the left input with the rows that the right one holds at the epoch in which it comes. INNER or LEFT.
    Keys are compared with `=`; `condition` over both must hold. `right_unique`: as of `HashJoinExec`. `ttl`: as of
    `LookupJoinExec`."""

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    condition: Expr | None
    right_unique: tuple[int, ...] | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    def text(self) -> str:
        left, right = self.left.schema, self.right.schema
        pairs = pairs_text(self.left_keys, self.right_keys, (), left, right)
        return f"{self.kind.name}{on_text(pairs, self.condition, both_schemas(left, right))}"

    def state(self) -> tuple[StateSpec, ...]:
        right = _joined_side("right", self.right.schema, self.right_keys, self.right_unique, 0)
        if not self.left.mode.is_retract:
            return (right,)
        schema, bound = self.left.schema, until_idle(self.ttl, NOTHING)
        return (
            StateSpec("rows", "distinct rows with counts", bound, schema, range(len(schema))),
            StateSpec("answers", "what was found for each row", bound, owner="rows"),
            right,
        )

    def follows(self) -> Follows:
        return Follows.ARRIVAL

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return joined(self.kind, self.left_keys, self.right_keys, self.condition, inputs, 1.0)


def _joined_side(
    name: str, schema: Schema, keys: tuple[int, ...], unique: tuple[int, ...] | None, ttl: int
) -> StateSpec:
    if unique is None:
        held = "rows with counts"
    else:
        held = f"rows, one for each {key_text(schema, unique)}," if unique else "one row"
    return StateSpec(name, f"{held} by {key_text(schema, keys)}", until_idle(ttl, NOTHING), schema, keys)


def _kept_side(source: PhysicalNode, facts: RowFacts, unique: tuple[int, ...] | None, keys: float, plain: bool) -> Kept:
    """The rows of one input with so many keys, without the index of keys. `plain`: the join only inserts."""
    each = row_bytes(source.schema, facts) + (LISTED if plain else COUNTED)
    size = facts.rows * each + keys * LIST
    if not plain and not source.mode.is_append_only:
        identity = unique if unique else tuple(range(len(source.schema)))
        size += key_index_bytes(source.schema, facts, identity, facts.rows)
    return Kept(facts.rows, keys, size)
