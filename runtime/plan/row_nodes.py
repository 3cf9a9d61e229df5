"""Physical nodes at the ends of a plan, those that take each row by itself, and the watermark. See `nodes.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from runtime.core.changelog import KIND_NAMES, ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.core.secrets import shown_facts
from runtime.expr.display import show
from runtime.expr.nodes import Expr
from runtime.plan.base import BY_ROW, SETTING, TIME_TO_LIVE, Division, Follows, PhysicalNode, RowNode, by_keys
from runtime.plan.estimates.rows import (
    ELEMENTS,
    FEW_ROWS,
    ColumnFacts,
    RowFacts,
    column_of,
    combinations,
    filtered,
    keyed,
    share_of,
    times,
    united,
)
from runtime.plan.estimates.sizes import COUNTED, WORD, Kept, Sizes, key_index_bytes, row_bytes
from runtime.plan.parts import Alignment
from runtime.plan.state import KEYS, NOTHING, WATERMARK, StateSpec, figure, key_text, touched, until_idle
from runtime.plan.text import by_text, columns_text, projections_text, shown
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable

__all__ = [
    "CalcExec",
    "DropUpdateBeforeExec",
    "ExpandExec",
    "FromChangelogExec",
    "RejectingCalcExec",
    "SinkExec",
    "SinkMaterializeExec",
    "SourceExec",
    "ToChangelogExec",
    "UnionExec",
    "UnnestExec",
    "ValuesExec",
    "WatermarkExec",
]


_PUSHED = ("filters", "filter", "limit", "aggregates", "group by")
"""What is shown of what a table was given."""


@node
class SourceExec(PhysicalNode):
    """Read a table. What was pushed down is inside `table`; `schema` is the schema of the rows that it gives.

    `idle_timeout`: milliseconds without rows after which a split no longer holds back the watermark; 0 never.
    `alignment`: with which other sources it keeps together. `splits_in_order`: its splits are in order of time, so that
    one which is not begun does not hold back the watermark. `reading`: tells those apart that read the same table from
    positions of their own. `rate_limit`: the most rows that it gives in a second, 0 for all that are there. `relied_on`: keys
    that a kept answer has because of its query, by the names of columns, where the plan may be another one without them.
    """

    table: SourceTable = field(compare=True)
    name: str
    schema: Schema
    mode: ChangelogMode
    idle_timeout: int = field(default=0, metadata=SETTING)
    alignment: Alignment | None = field(default=None, metadata=SETTING)
    splits_in_order: bool = field(default=False, metadata=SETTING)
    reading: int = 0
    rate_limit: int = field(default=0, metadata=SETTING)
    relied_on: tuple[tuple[str, ...], ...] = field(default=(), compare=False, metadata=SETTING)

    table_use = "source"

    def text(self) -> str:
        facts = shown_facts(self.table.describe()).items()
        pushed = "".join(f" {k}={v}" for k, v in facts if k in _PUSHED and v)
        together = ""
        if self.alignment is not None:
            together = f" aligned in group {self.alignment.group} within {self.alignment.max_drift} ms"
        paced = f" at most {self.rate_limit} rows/s" if self.rate_limit else ""
        return f"{self.name} ({', '.join(self.schema.names)}){pushed}{together}{paced}"

    def state(self) -> tuple[StateSpec, ...]:
        return ()

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]


@node
class ValuesExec(PhysicalNode):
    """Constant rows, all in the first epoch. `rows` hold constant expressions."""

    rows: tuple[tuple[Expr, ...], ...]
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        rows = ", ".join(f"({', '.join(show(e) for e in row)})" for row in self.rows[:5])
        return (rows or "no rows") + (f", ... {len(self.rows)} rows" if len(self.rows) > 5 else "")

    def state(self) -> tuple[StateSpec, ...]:
        return (figure("done"),)

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return FEW_ROWS


@node
class SinkMaterializeExec(PhysicalNode):
    """Per sink key one row of those that share it: repairs streams whose upsert key is not the sink's key.

    `on_conflict`: `DEDUPLICATE` keeps all live rows in order of arrival and shows the last, `NOTHING` keeps the one that
    came first, `ERROR` fails. `unique`: what tells the rows of the input apart, the whole row when None. `waits`:
    changes are held back until the watermark moves.
    """

    input: PhysicalNode
    keys: tuple[int, ...]
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)
    on_conflict: str = "DEDUPLICATE"
    unique: tuple[int, ...] | None = None
    waits: bool = False

    advice = "SET 'table.exec.state.ttl', or write by the key of the query"

    def text(self) -> str:
        text = f"by ({columns_text(self.keys, self.input.schema)})"
        if self.on_conflict == "DEDUPLICATE":
            return text
        rows = f" of rows by ({columns_text(self.unique, self.input.schema)})" if self.unique is not None else ""
        waits = ", when the watermark moves" if self.waits else ""
        return f"{text}{rows} on conflict do {self.on_conflict.lower()}{waits}"

    def state(self) -> tuple[StateSpec, ...]:
        by = key_text(self.schema, self.keys, "one row")
        if self.on_conflict != "DEDUPLICATE":
            held, bound = f"one row by {by}", until_idle(self.ttl, KEYS)
        else:
            held, bound = f"live rows in order of arrival by {by}", until_idle(self.ttl, NOTHING)
        waiting = StateSpec("waiting", "changes until the watermark moves", WATERMARK, self.schema, self.keys)
        return (
            *([waiting] if self.waits else []),
            StateSpec("rows", held, bound, self.schema, self.keys),
            *touched(self.schema, self.keys, self.ttl),
        )

    def follows(self) -> Follows:
        return Follows.ARRIVAL | (Follows.EVENT_TIME if self.waits else Follows.NOTHING)

    def division(self) -> Division:
        return by_keys((self.input, self.keys))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return keyed(inputs[0], self.keys)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        schema = self.input.schema
        keys = combinations(facts, self.keys)
        size = key_index_bytes(schema, facts, self.keys, keys) + keys * (row_bytes(schema, facts) + COUNTED)
        return {"rows": Kept(keys, keys, size), "touched": Kept(keys, keys, keys * WORD)}

    def by_key_alone(self) -> bool:
        return not self.waits


@node
class SinkExec(PhysicalNode):
    """Write to a table. `columns`: target columns by position of the input (already in the table's order and types).

    `not_null`: positions that must not be NULL; `not_null_enforcer` is `ERROR` or `DROP` (dropped rows are rejected,
    not lost).
    """

    input: PhysicalNode
    table: SinkTable = field(compare=True)
    name: str
    not_null: tuple[int, ...]
    not_null_enforcer: str = field(metadata=SETTING)
    schema: Schema
    mode: ChangelogMode

    table_use = "sink"

    def text(self) -> str:
        overwrite = " overwrite" if self.table.describe().get("overwrite") else ""
        return f"{self.name} ({', '.join(self.schema.names)}){overwrite} {self.table.delivery}"

    def state(self) -> tuple[StateSpec, ...]:
        return ()

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]


@node
class CalcExec(RowNode):
    """Filter, then project; row kinds pass unchanged. `condition` None passes all. An update of which only one half
    passes stays a half."""

    input: PhysicalNode
    condition: Expr | None
    projections: tuple[Expr, ...]
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        where = "" if self.condition is None else f" where {shown(self.condition, self.input.schema)}"
        return f"[{projections_text(self.projections, self.input.schema, self.schema)}]{where}"

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        if self.condition is not None:
            given = filtered(given, share_of(self.condition, given))
        return given._replace(columns=tuple(column_of(e, given) for e in self.projections))


@node
class RejectingCalcExec(PhysicalNode):
    """As `CalcExec`; a row for which a function fails that rejects rows goes to `system.rejected`. Where rows are taken
    back it is kept which ones were rejected, so that these are left out then, too, whatever the function says."""

    input: PhysicalNode
    condition: Expr | None
    projections: tuple[Expr, ...]
    schema: Schema
    mode: ChangelogMode

    advice = "no more rows are kept than fail: SELECT * FROM system.rejected shows why"

    def text(self) -> str:
        where = "" if self.condition is None else f" where {shown(self.condition, self.input.schema)}"
        return f"[{projections_text(self.projections, self.input.schema, self.schema)}]{where}"

    def state(self) -> tuple[StateSpec, ...]:
        if self.input.mode.is_append_only:
            return ()
        return (StateSpec("rejected", "rejected rows with a count", NOTHING, self.input.schema, self._whole),)

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return BY_ROW if self.input.mode.is_append_only else by_keys((self.input, self._whole))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        if self.condition is not None:
            given = filtered(given, share_of(self.condition, given))
        return given._replace(columns=tuple(column_of(e, given) for e in self.projections))

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        return {} if self.input.mode.is_append_only else {"rejected": Kept(0, 0, 0)}

    @property
    def _whole(self) -> tuple[int, ...]:
        return tuple(range(len(self.input.schema)))


@node
class WatermarkExec(PhysicalNode):
    """Compute the watermark: `expr` per row (a timestamp), the greatest so far. Rows pass unchanged.

    `null_handling`: `FAIL`, `DROP` or `SKIP_WATERMARK` for rows whose `rowtime` is NULL (option
    table.exec.source.rowtime-null-handling).
    """

    input: PhysicalNode
    rowtime: int
    expr: Expr
    schema: Schema
    mode: ChangelogMode
    null_handling: str = field(default="FAIL", metadata=SETTING)

    sets_time = True

    def text(self) -> str:
        schema = self.input.schema
        return f"{columns_text([self.rowtime], schema)} = {shown(self.expr, schema)}"

    def state(self) -> tuple[StateSpec, ...]:
        return (figure("watermarks"),)

    def follows(self) -> Follows:
        return Follows.EVENT_TIME

    def division(self) -> Division:
        return None

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]


@node
class UnionExec(RowNode):
    """All rows of all inputs; column types are equal."""

    parts: tuple[PhysicalNode, ...]
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        return ""

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return united(inputs)


@node
class ExpandExec(RowNode):
    """Each row once per projection list (grouping sets)."""

    input: PhysicalNode
    projections: tuple[tuple[Expr, ...], ...]
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        return ", ".join(f"({projections_text(x, self.input.schema, self.schema)})" for x in self.projections)

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return times(inputs[0], len(self.projections))


@node
class UnnestExec(RowNode):
    """A row per element of the collection: input columns, then the element's columns (array: 1, or the fields of a row
    element; map: 2), then the 1-based ordinal when `ordinality`. `outer`: rows with a NULL or empty collection come out
    once, padded with NULL."""

    input: PhysicalNode
    collection: Expr
    ordinality: bool
    outer: bool
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        added = ", ".join(self.schema.names[len(self.input.schema) :])
        return f"{shown(self.collection, self.input.schema)} as ({added}){' keeping empty' if self.outer else ''}"

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return times(inputs[0], ELEMENTS)


@node
class DropUpdateBeforeExec(RowNode):
    """Pass all but `-U`: nobody downstream needs old images.

    With `keys` (positions of a key that downstream goes by, at most one live row each) the changes of an epoch become
    after-images by that key: a key that has lost its row and got none gets `-D`, one with a new row gets that alone.
    """

    input: PhysicalNode
    schema: Schema
    mode: ChangelogMode
    keys: tuple[int, ...] | None = None

    def text(self) -> str:
        return "" if self.keys is None else by_text(self.keys, self.input.schema).lstrip()

    def division(self) -> Division:
        # By key it looks at all changes of the key in the epoch.
        return BY_ROW if self.keys is None else (self.keys,)

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]


@node
class FromChangelogExec(PhysicalNode):
    """Each row is a change, of the kind that column `op` says; the other columns are the row that changes.

    `codes`: values of `op` with the row kind that each means. Other values fail, or are rejected when `skip`; NULL fails.
    """

    input: PhysicalNode
    op: int
    codes: tuple[tuple[str, int], ...]
    skip: bool
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        means = ", ".join(f"'{code}' {KIND_NAMES[kind]}" for code, kind in self.codes)
        return f"of {self.input.schema[self.op].name} ({means}){' skipping others' if self.skip else ''}"

    def state(self) -> tuple[StateSpec, ...]:
        return ()

    def follows(self) -> Follows:
        # A removal comes behind the insertion of its row.
        return Follows.ARRIVAL

    def division(self) -> Division:
        return BY_ROW

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        return given._replace(columns=tuple(c for i, c in enumerate(given.columns) if i != self.op))


@node
class ToChangelogExec(PhysicalNode):
    """Each change is a row: the code of its kind, then the columns of the row that changes.

    `codes`: row kinds with their codes; changes of other kinds are left out.
    """

    input: PhysicalNode
    codes: tuple[tuple[int, str], ...]
    schema: Schema
    mode: ChangelogMode

    def text(self) -> str:
        means = ", ".join(f"{KIND_NAMES[kind]} '{code}'" for kind, code in self.codes)
        return f"as {self.schema[0].name} ({means})"

    def state(self) -> tuple[StateSpec, ...]:
        return ()

    def follows(self) -> Follows:
        # What comes and goes leaves rows here.
        return Follows.ARRIVAL

    def division(self) -> Division:
        return BY_ROW

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        return given._replace(columns=(ColumnFacts(float(len(self.codes))), *given.columns))
