"""The physical node of joins with a snapshot. See `nodes.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.plan.base import TIME_TO_LIVE, Division, Follows, PhysicalNode
from runtime.plan.estimates.rows import RowFacts, joined
from runtime.plan.estimates.sizes import Sizes, timed
from runtime.plan.parts import JoinKind, SnapshotLoad
from runtime.plan.state import NOTHING, WATERMARK, StateSpec, duration_text, figure, key_text, until_idle
from runtime.plan.text import both_schemas, on_text, pairs_text

__all__ = ["SnapshotJoinExec"]


@node
class SnapshotJoinExec(PhysicalNode):
    """Join each left row, once the right side is loaded, with the right rows that count then. INNER or LEFT; append-only.

    `right_time`: the event time of the right side, whose changes count when its own watermark has reached them. `ttl`:
    milliseconds after which a right row without a change is forgotten; 0 never.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    right_time: int
    load: SnapshotLoad
    condition: Expr | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    in_driver = True

    def text(self) -> str:
        left, right = self.left.schema, self.right.schema
        pairs = pairs_text(self.left_keys, self.right_keys, (), left, right)
        until = "the start of the query" if self.load.until is None else f"{self.load.until} ms"
        idle = "" if self.load.idle is None else f" or idle for {duration_text(self.load.idle)}"
        when = f" loaded at {until}{idle}"
        return f"{self.kind.name}{on_text(pairs, self.condition, both_schemas(left, right))}{when}"

    def state(self) -> tuple[StateSpec, ...]:
        schema, keys = self.right.schema, self.right_keys
        return (
            StateSpec("rows", f"rows by {key_text(schema, keys)}", until_idle(self.ttl, NOTHING), schema, keys),
            StateSpec("pending", "changes until their time has come", WATERMARK, schema, keys),
            StateSpec(
                "waiting", "left rows until the right side is loaded", WATERMARK, self.left.schema, self.left_keys
            ),
            figure("loaded"),
            figure("until"),
            figure("moved"),
            figure("mark"),
        )

    def follows(self) -> Follows:
        return Follows.EVENT_TIME | Follows.ARRIVAL | (Follows.NOTHING if self.load.idle is None else Follows.CLOCK)

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return joined(self.kind, self.left_keys, self.right_keys, self.condition, inputs, 1.0)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        left, right = inputs
        return {
            "rows": timed(self.right.schema, right, right.rows, self.right_keys),
            "pending": timed(self.right.schema, right, right.epoch, self.right_keys),
            "waiting": timed(self.left.schema, left, left.epoch, self.left_keys),
        }
