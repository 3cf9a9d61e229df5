"""The physical nodes of joins with what a table is now: a snapshot, a table outside, or tables of the database, which keep
their rows. See `nodes.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr, InputRef
from runtime.plan.base import SETTING, TIME_TO_LIVE, Division, Follows, PhysicalNode
from runtime.plan.estimates.rows import RowFacts, filtered, joined, share_of
from runtime.plan.estimates.sizes import Sizes, timed
from runtime.plan.parts import (
    CachedTable,
    JoinKind,
    JoinStep,
    LookupRequests,
    LookupRetry,
    PartialCaching,
    SnapshotLoad,
    WholeTable,
)
from runtime.plan.row_nodes import CalcExec, SourceExec
from runtime.plan.state import CLOCK, NOTHING, WATERMARK, StateSpec, duration_text, figure, key_text, until_idle
from runtime.plan.text import both_schemas, columns_text, on_text, pairs_text, shown
from runtime.spi.abilities import SupportsDistributedLookups, SupportsDistributedReads
from runtime.spi.lookup import LookupTable

__all__ = ["DeltaJoinExec", "LookupJoinExec", "SnapshotJoinExec", "TableSide", "asked_of", "table_side"]


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
    knows_timers = True

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


@node
class LookupJoinExec(PhysicalNode):
    """Join each row with the rows that an outside table holds now. INNER or LEFT.

    `keys`: (expression over the left columns or a constant, position of the column of the looked-up table). Output:
    left columns, then the table's columns; `condition` over both must hold. `ttl`: milliseconds after which the answer
    of a row of an updating input is forgotten; 0 never. `retry`: None for a table that is kept as a whole. `unique`:
    positions of a unique key of the input, None when rows may repeat.
    """

    input: PhysicalNode
    table: LookupTable = field(compare=True)
    name: str
    kind: JoinKind
    keys: tuple[tuple[Expr, int], ...]
    condition: Expr | None
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)
    retry: LookupRetry | None = None
    requests: LookupRequests | None = field(default=None, metadata=SETTING)
    unique: tuple[int, ...] | None = field(default=None, metadata=SETTING)

    table_use = "lookup"

    @property
    def asked_anywhere(self) -> bool:
        """Whether any process may ask the table."""
        match self.table:
            case WholeTable(source=source):
                return isinstance(source, SupportsDistributedReads) and source.distributed_reads
            case CachedTable(table=table) | table:
                return isinstance(table, SupportsDistributedLookups) and table.distributed_lookups

    @property
    def holds_watermark(self) -> bool:
        return self.retry is not None

    @property
    def kept_by(self) -> tuple[int, ...]:
        """The columns of the input by which rows that are kept belong to key groups: all changes of a row, and its updates
        where they can be told, then stay in order."""
        return self.unique or tuple(range(len(self.input.schema)))

    def text(self) -> str:
        names = self.table.schema.names
        keys = ", ".join(f"{names[i]} = {shown(e, self.input.schema)}" for e, i in self.keys)
        match self.table:
            case WholeTable(reload=cache) | CachedTable(cache=PartialCaching() as cache):
                remembered = f", cache {cache}"
            case _:
                remembered = ""
        again = ""
        if self.retry is not None:
            again = f", {self.retry.attempts} retries after {duration_text(self.retry.delay)}"
        return f"{self.kind.name} {self.name} ({keys}){on_text('', self.condition, self.schema)}{remembered}{again}"

    def state(self) -> tuple[StateSpec, ...]:
        if not self.input.mode.is_retract and self.retry is None:
            return ()
        schema, bound, held = self.input.schema, until_idle(self.ttl, NOTHING), "distinct rows with counts"
        if not self.input.mode.is_retract and self.retry is not None:
            bound = f"{CLOCK}, {duration_text(self.retry.delay * self.retry.attempts)}"
            held = "rows that wait to be asked for again, with counts"
        return (
            StateSpec("rows", held, bound, schema, self.kept_by),
            StateSpec("answers", "what was looked up for each row", bound, owner="rows"),
        )

    def follows(self) -> Follows:
        return Follows.OUTSIDE

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]


class TableSide(NamedTuple):
    """A side of a join as the rows of a table: which columns of the source it has, of the rows for which a condition over
    the source's columns is true."""

    source: SourceExec
    columns: tuple[int, ...]
    condition: Expr | None


def table_side(node: PhysicalNode) -> TableSide | None:
    """What a node gives as rows of a table; None where it gives something else."""
    match node:
        case SourceExec():
            return TableSide(node, tuple(range(len(node.schema))), None)
        case CalcExec(input=SourceExec() as source, condition=condition, projections=projections):
            columns = tuple(e.index for e in projections if isinstance(e, InputRef))
            return TableSide(source, columns, condition) if len(columns) == len(projections) else None
        case _:
            return None


def asked_of(columns: Sequence[int], keys: Sequence[int], left_width: int) -> tuple[bool, list[int]]:
    """Which side of a join is asked for the rows of a key, true for the left one, and which columns of the key it has: a
    key with columns of both sides is looked up on the left, and the rest of it compared.

    Args:
        columns: those that the join shows, left ones first.
        keys: the key's, among these.
    """
    left = [i for i, key in enumerate(keys) if columns[key] < left_width]
    return bool(left), left or list(range(len(keys)))


@node
class DeltaJoinExec(PhysicalNode):
    """Regular joins of tables of the database that keep nothing: the changes of each table meet the rows of the others as
    indices of these tables have them, which all share who join a table by the same columns.

    Each of `parts` is a `table_side`, and the last of `steps` gives the result. `conditions`: for each step what must hold
    for its pairs, over left then right columns; `filters`: for its result, over its columns before `JoinStep.columns` are
    chosen, None for nothing.
    """

    parts: tuple[PhysicalNode, ...]
    steps: tuple[JoinStep, ...]
    conditions: tuple[Expr | None, ...]
    filters: tuple[Expr | None, ...]
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        read = (f"{source.name} ({columns_text(columns, source.schema)})" for source, columns in self.indices())
        return f"{', then '.join(self._steps_text())}, reads {', '.join(dict.fromkeys(read))}"

    def _steps_text(self) -> Iterator[str]:
        for step, condition, filter_ in zip(self.steps, self.conditions, self.filters, strict=True):
            left, right = self.schema_of(step.left), self.schema_of(step.right)
            pairs = pairs_text(step.left_keys, step.right_keys, step.null_safe, left, right)
            both = left if step.kind.left_only else both_schemas(left, right)
            where = "" if filter_ is None else f" where {shown(filter_, both)}"
            yield f"{step.kind.name}{on_text(pairs, condition, both_schemas(left, right))}{where}"

    def schema_of(self, number: int) -> Schema:
        """The columns of an input, or of the result of a step."""
        inputs = len(self.parts)
        return self.parts[number].schema if number < inputs else self.steps[number - inputs].schema

    def lookups(self) -> list[tuple[int, tuple[int, ...]]]:
        """By which of its columns each input is looked up: its number, and their positions."""
        found: list[tuple[int, tuple[int, ...]]] = []
        for step in self.steps:
            waiting = [(step.right, step.right_keys), (step.left, step.left_keys)]
            while waiting:
                number, keys = waiting.pop()
                if number < len(self.parts):
                    found.append((number, tuple(keys)))
                    continue
                inner = self.steps[number - len(self.parts)]
                width = len(self.schema_of(inner.left))
                by_left, some = asked_of(inner.columns, keys, width)
                columns = [inner.columns[keys[i]] for i in some]
                asked = (inner.left, columns) if by_left else (inner.right, [c - width for c in columns])
                waiting.append((asked[0], tuple(asked[1])))
        return sorted(set(found))

    def indices(self) -> list[tuple[SourceExec, tuple[int, ...]]]:
        """The source of each index that it reads, and the columns of that."""
        sides = [table_side(part) for part in self.parts]
        found = ((sides[number], keys) for number, keys in self.lookups())
        return [(side.source, tuple(side.columns[k] for k in keys)) for side, keys in found if side is not None]

    def state(self) -> tuple[StateSpec, ...]:
        return ()

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        facts = list(inputs)
        for step, condition, filter_ in zip(self.steps, self.conditions, self.filters, strict=True):
            sides = [facts[step.left], facts[step.right]]
            made = joined(step.kind, step.left_keys, step.right_keys, condition, sides, 1.0)
            if filter_ is not None:
                made = filtered(made, share_of(filter_, made))
            facts.append(made._replace(columns=tuple(made.columns[c] for c in step.columns)))
        return facts[-1]

    def versioned_sources(self) -> tuple[PhysicalNode, ...]:
        return tuple(side.source for side in map(table_side, self.parts) if side is not None)
