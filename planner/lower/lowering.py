"""The walk from the logical to the physical plan: column ids become positions, demands go down, modes come up.

Each family of nodes registers its functions with `lower_node` in a file of its own. Equal logical subtrees give equal
physical subtrees, whatever their column ids were, so that a statement set shares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch

from planner.logical.nodes import LogicalNode
from planner.lower.projection import calc
from planner.traits.changes import changes
from planner.traits.context import STATE_TTL, TraitContext
from planner.traits.update_kind import FULL_IMAGES, Demand, follows_by_after, input_demand
from runtime.core.changelog import ChangelogMode
from runtime.core.errors import InternalError
from runtime.core.options import Options
from runtime.core.schema import Field, Schema
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import TRUE, Column, ColumnRef, Expr, InputRef, SortKey, transform
from runtime.plan.nodes import PhysicalNode, SortSpec

__all__ = ["LowerContext", "Lowered", "Lowering", "lower_node", "schema_of"]

HIDDEN = -1
"""The id of a physical column that no logical column stands for."""


@dataclass(frozen=True, slots=True)
class LowerContext:
    """What lowering asks of its surroundings: functions, options and derived facts; `time_zone` is the session's, an
    IANA name."""

    traits: TraitContext
    time_zone: str = "UTC"

    @property
    def functions(self) -> FunctionRegistry:
        return self.traits.functions

    @property
    def options(self) -> Options:
        return self.traits.options


@dataclass(frozen=True, slots=True)
class Lowered:
    """A physical node and the logical column behind each of its columns (`HIDDEN` for none)."""

    node: PhysicalNode
    ids: tuple[int, ...]

    @property
    def positions(self) -> dict[int, int]:
        """Position by column id; of a column that is there twice, the first."""
        found: dict[int, int] = {}
        for index, id_ in enumerate(self.ids):
            found.setdefault(id_, index)
        return found

    def position(self, ref: ColumnRef) -> int:
        return self.positions[ref.id]

    def positions_of(self, refs: Iterable[ColumnRef]) -> tuple[int, ...]:
        positions = self.positions
        return tuple(positions[r.id] for r in refs)

    def expr(self, expr: Expr) -> Expr:
        """The expression over positions. Whether a column may be NULL is what the physical column says."""
        positions, fields = self.positions, self.node.schema.fields

        def change(e: Expr) -> Expr:
            if not isinstance(e, ColumnRef):
                return e
            at = positions[e.id]
            # The residual condition of a join reads columns behind this node's own.
            return InputRef(at, e.type.with_nullable(fields[at].type.nullable) if at < len(fields) else e.type)

        return transform(expr, change)

    def ref(self, index: int) -> InputRef:
        return InputRef(index, self.node.schema[index].type)

    def key_positions(self, keys: Iterable[frozenset[int]]) -> tuple[int, ...] | None:
        """The first of the keys as positions, None when there is none."""
        positions = self.positions
        for key in keys:
            if all(id_ in positions for id_ in key):
                return tuple(sorted(positions[id_] for id_ in key))
        return None


def schema_of(columns: Iterable[Column]) -> Schema:
    return Schema(tuple(Field(c.name, c.type) for c in columns))


class Lowering:
    """One run of lowering: remembers what each (plan, demand) became."""

    def __init__(self, context: LowerContext) -> None:
        self.context = context
        self.traits = context.traits
        self._done: dict[tuple[LogicalNode, Demand], Lowered] = {}

    def lower(self, plan: LogicalNode, demand: Demand) -> Lowered:
        """The physical form of a plan, for a consumer with this demand."""
        key = (plan, demand)
        if key not in self._done:
            self._done[key] = lower_node(plan, self, demand)
        return self._done[key]

    def input(self, plan: LogicalNode, index: int, demand: Demand = FULL_IMAGES) -> Lowered:
        """The physical form of an input, with what the node asks of it when `demand` is asked of the node."""
        return self.lower(plan.inputs[index], input_demand(plan, index, demand, self.traits))

    def mode(self, plan: LogicalNode, demand: Demand) -> ChangelogMode:
        """The row kinds that an operator with state gives for the node."""
        before = demand.before or not follows_by_after(plan, self.traits)
        return changes(plan, self.traits).mode(before=before)

    def retracts(self, plan: LogicalNode) -> bool:
        """Whether the rows of a plan may be updated or removed."""
        return not changes(plan, self.traits).append_only

    @property
    def ttl(self) -> int:
        """Milliseconds after which idle state is dropped; 0 never."""
        return 0 if self.traits.batch else self.context.options.get(STATE_TTL)

    def ttl_of(self, hinted: int | None) -> int:
        """The same for a node for which a hint may say something else. In batch mode nothing is dropped."""
        return self.ttl if hinted is None or self.traits.batch else hinted

    def following(self) -> Lowering:
        """Lowering for what is read change by change in batch mode, too."""
        context = self.context
        return Lowering(LowerContext(TraitContext(context.functions, context.options), context.time_zone))

    def projected(self, source: Lowered, condition: Expr | None, items: Sequence[tuple[Column, Expr]]) -> Lowered:
        """Filter and project: expressions over the logical columns of `source`."""
        exprs = tuple(source.expr(e) for _, e in items)
        where = None if condition is None or condition == TRUE else source.expr(condition)
        node = calc(source.node, where, exprs, tuple(c.name for c, _ in items), self.context.functions)
        hidden = len(node.schema) - len(items)
        return Lowered(node, tuple(c.id for c, _ in items) + (HIDDEN,) * hidden)

    def with_columns(self, source: Lowered, exprs: Sequence[Expr]) -> tuple[Lowered, tuple[int, ...]]:
        """`source` with further columns so that each of `exprs` is one, and their positions; unchanged when all are
        columns already."""
        found: dict[Expr, int] = {}
        extra: list[Expr] = []
        for expr in (source.expr(e) for e in exprs):
            if isinstance(expr, InputRef):
                found[expr] = expr.index
            elif expr not in found:
                found[expr] = len(source.ids) + len(extra)
                extra.append(expr)
        positions = tuple(found[source.expr(e)] for e in exprs)
        if not extra:
            return source, positions
        kept = tuple(source.ref(i) for i in range(len(source.ids)))
        names = (*source.node.schema.names, *(f"$f{len(source.ids) + i}" for i in range(len(extra))))
        node = calc(source.node, None, (*kept, *extra), names, self.context.functions)
        return Lowered(node, source.ids + (HIDDEN,) * len(extra)), positions

    def restored(self, source: Lowered, columns: Sequence[Column]) -> Lowered:
        """Exactly these columns in this order."""
        if source.ids[: len(columns)] == tuple(c.id for c in columns) and len(source.ids) == max(len(columns), 1):
            return source
        return self.projected(source, None, [(c, c.ref()) for c in columns])

    def sort_specs(self, source: Lowered, keys: Sequence[SortKey]) -> tuple[Lowered, tuple[SortSpec, ...]]:
        """Sort keys by position; computed keys become columns."""
        widened, positions = self.with_columns(source, [k.expr for k in keys])
        specs = (SortSpec(p, k.descending, k.nulls_last) for p, k in zip(positions, keys, strict=True))
        return widened, tuple(specs)


@singledispatch
def lower_node(plan: LogicalNode, run: Lowering, demand: Demand) -> Lowered:
    """The physical form of one node; families of nodes register theirs."""
    raise InternalError(f"no physical form is known for {type(plan).__name__}")
