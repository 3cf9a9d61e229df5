"""WITH RECURSIVE: the plan of a round becomes one operator, the loop, which runs it.

    Recursive (X) (… LastRound … Y …)   →   Recursive parts X, Y; each round: … LoopInput 0 … LoopInput 1 …

What reads the rows of the round before is lowered as any plan is, and runs within the loop. What does not (tables, and
all that is computed of them alone) stands outside as an input of the loop, so it is computed once in an epoch, in as many
tasks as it may be, and shared with the rest of the statement.

Within a round rows come and go in batch mode too, since a row may change its round; the rows of the result are then the
final ones.
"""

from __future__ import annotations

from planner.logical import nodes as n
from planner.logical.expressions import walk_plan
from planner.logical.nodes import LastRound, LogicalNode, Recursive
from planner.lower.lowering import LowerContext, Lowered, Lowering, lower_node, schema_of
from planner.traits.changes import is_append_only
from planner.traits.context import STATE_TTL, TraitContext
from planner.traits.update_kind import FULL_IMAGES, Demand
from runtime.core.changelog import APPEND, RETRACT
from runtime.core.errors import InternalError, UnsupportedError
from runtime.core.options import int_option
from runtime.plan.nodes import FinalRowsExec, LoopInputExec, PhysicalNode, RecursiveExec
from runtime.plan.walk import walk

__all__ = ["MOST_ROUNDS"]

MOST_ROUNDS = int_option(
    "sqlengine.recursion.max-rounds",
    10_000,
    "in how many rounds a query of WITH RECURSIVE may give rows; with more of them the statement fails",
)


class _Rounds(Lowering):
    """Lowers what runs within a loop. Nothing is forgotten there: a row without its time to live would be forgotten in one
    round and kept in another."""

    def __init__(self, around: Lowering, loop: int) -> None:
        context = around.context
        options = context.options.child({STATE_TTL.key: "0"})
        super().__init__(LowerContext(TraitContext(context.functions, options), context.time_zone))
        self._around = around
        self._loop = loop
        self.parts: list[PhysicalNode] = []
        """The inputs of the loop behind the first one, in the order of their numbers."""

    def lower(self, plan: LogicalNode, demand: Demand) -> Lowered:
        if isinstance(plan, LastRound) and plan.loop == self._loop:
            mode = RETRACT if plan.revised else APPEND
            return Lowered(LoopInputExec(0, schema_of(plan.columns), mode), tuple(c.id for c in plan.columns))
        if any(isinstance(node, LastRound) and node.loop == self._loop for node in walk_plan(plan)):
            return super().lower(plan, demand)
        lowered = self._around.lower(plan, demand)
        source = lowered.node
        if source not in self.parts:
            self.parts.append(source)
        return Lowered(LoopInputExec(self.parts.index(source) + 1, source.schema, source.mode), lowered.ids)


@lower_node.register
def _(plan: LastRound, run: Lowering, demand: Demand) -> Lowered:
    raise InternalError("the rows of a round stand outside of their loop")


@lower_node.register
def _(plan: Recursive, run: Lowering, demand: Demand) -> Lowered:
    streams = run.following().traits
    first = run.restored(run.input(plan, 0), plan.left.columns)
    rounds = _Rounds(run, plan.loop)
    body = plan.right
    # What only comes stays in its round with UNION ALL; with UNION it may come in an earlier one than before.
    inserts = is_append_only(body, streams)
    if not plan.all or not inserts or not is_append_only(plan.left, streams):
        body = _revised(body, plan.loop)
    root = rounds.restored(rounds.lower(body, FULL_IMAGES), body.columns).node
    for node in walk(root):
        if node.table_use or node.sets_time:
            raise UnsupportedError(
                f'the recursive query "{plan.name}" looks up a table or makes a watermark in each round',
                hint="read the table as a stream, or join it outside of the recursive query",
            )
    parts = (first.node, *rounds.parts)
    mode = APPEND if inserts and all(part.mode.is_append_only for part in parts) else RETRACT
    most = run.context.options.get(MOST_ROUNDS)
    schema, ids = schema_of(plan.produced), tuple(c.id for c in plan.produced)
    loop: PhysicalNode = RecursiveExec(parts, root, plan.all, schema, mode, plan.name, most)
    if run.traits.batch and not mode.is_append_only:
        loop = FinalRowsExec(loop, None, schema, APPEND)
    return Lowered(loop, ids)


def _revised(plan: LogicalNode, loop: int) -> LogicalNode:
    """The same plan over rows of the round before that may be taken back."""
    if isinstance(plan, n.LastRound) and plan.loop == loop:
        return plan.with_(revised=True)
    inputs = plan.inputs
    return plan.with_inputs(*(_revised(source, loop) for source in inputs)) if inputs else plan
