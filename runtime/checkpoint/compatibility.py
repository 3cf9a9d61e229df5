"""Whether a plan can go on from saved state, and what becomes of each part of it.

State belongs to a name that says what an operator computes, all that is upstream of it included (`uids`). So whatever is
found under its name goes on exactly, and so does what is not found by name but computes the same of the same columns
(`PlanMatching`). All else is new, and whether that is right depends on its input: a new operator over sources that are new
as well sees all of their rows and is as in a run from the start; one over a source that goes on from a position has
missed the rows before it. What goes on may also be set differently now (time to live, options of a source): then it is
as in a run from the start only if the old setting has made no difference.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.checkpoint.epoch_state import Restored
from runtime.checkpoint.fitting import taking
from runtime.checkpoint.matching import PlanMatching, SavedNode, saved_nodes, saved_plan, source_difference
from runtime.checkpoint.settings import changed_setting, reads_time_zone
from runtime.core.errors import CheckpointError
from runtime.core.options import Options, bool_option
from runtime.core.types import DataType
from runtime.plan.identity import uids
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec, ValuesExec
from runtime.plan.walk import walk_all
from runtime.state.snapshot import SavedState

__all__ = [
    "ALLOW_INCOMPLETE",
    "IGNORE_UNCLAIMED",
    "RESTORE_OPTIONS",
    "Comparison",
    "TAKE_OVER",
    "RestoredPart",
    "Verdict",
    "compare",
    "resume",
]

IGNORE_UNCLAIMED = bool_option(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "whether saved state that no operator of the statement has any more may be dropped",
)
IGNORE_UNCLAIMED_OLD = bool_option(
    "execution.savepoint.ignore-unclaimed-state",
    False,
    "Flink's older name of execution.state-recovery.ignore-unclaimed-state",
)
ALLOW_INCOMPLETE = bool_option(
    "sqlengine.restore.allow-incomplete",
    False,
    "whether operators that missed rows, and another query into the same table, may go on from saved state",
)
TAKE_OVER = bool_option(
    "sqlengine.restore.take-over",
    False,
    "whether a job may go on from checkpoints behind which another run has written to its sinks",
)
RESTORE_OPTIONS = (IGNORE_UNCLAIMED, IGNORE_UNCLAIMED_OLD, ALLOW_INCOMPLETE, TAKE_OVER)

WATERMARK = "watermark"
"""The table of an operator of watermarks: how far they have come, which is no row."""

_SHOWN = 4
"""Parts that an error names."""


class Verdict(enum.Enum):
    """What becomes of a part of a plan, or of saved state."""

    KEPT = "kept"
    NEW = "new"
    """It was not there, and all of its input is read from the start."""
    INCOMPLETE = "incomplete"
    """It was not there, and has missed input."""
    CHANGED = "changed"
    """It goes on, but not as if it had always been so: another query writes into a table, a source is read in another
    way, state lives longer."""
    DROPPED = "dropped"
    """Saved, and nobody has it any more."""


@dataclass(frozen=True, slots=True)
class RestoredPart:
    """A line of the comparison. `operator`: its name in the plan that has it; `table`: its state table, or the table
    that a source or sink is about; `rows`: saved ones, None where there are none to count."""

    operator: str
    table: str
    rows: int | None
    verdict: Verdict
    why: str

    def __str__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} row{'' if self.rows == 1 else 's'}"
        return f"{self.operator} ({self.table}{rows})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What becomes of saved state under a plan: `parts` in the order in which the plan runs, then what is dropped.
    `state` is the saved state as the plan can take it."""

    parts: tuple[RestoredPart, ...]
    state: Restored
    matching: PlanMatching
    changed: frozenset[PhysicalNode]
    """Nodes that would go on, but not as if they had always been so."""

    def having(self, *verdicts: Verdict) -> tuple[RestoredPart, ...]:
        return tuple(part for part in self.parts if part.verdict in verdicts)

    @property
    def exact(self) -> bool:
        """Whether what is published in the end is what a run of this plan over all input would have published."""
        return not self.having(Verdict.INCOMPLETE, Verdict.CHANGED, Verdict.DROPPED)

    @property
    def needed(self) -> tuple[str, ...]:
        """The options that allow what is not exact."""
        found: list[str] = []
        if self.having(Verdict.DROPPED):
            found.append(IGNORE_UNCLAIMED.key)
        if self.having(Verdict.INCOMPLETE, Verdict.CHANGED):
            found.append(ALLOW_INCOMPLETE.key)
        return tuple(found)

    def check(self, options: Options) -> None:
        """Raises CheckpointError for what is not exact and not allowed: E3411 when the result would be another than
        that of the query over all input, E3410 when state would be dropped."""
        allowed = {
            IGNORE_UNCLAIMED.key: options.get(IGNORE_UNCLAIMED) or options.get(IGNORE_UNCLAIMED_OLD),
            ALLOW_INCOMPLETE.key: options.get(ALLOW_INCOMPLETE),
        }
        refused = [key for key in self.needed if not allowed[key]]
        if not refused:
            return
        hint = "EXPLAIN RESTORE shows it all; run the query as it was, begin anew (--fresh, no savepoint), or "
        hint += " and ".join(f"SET '{key}' = 'true'" for key in refused)
        where = _where(self.state)
        if ALLOW_INCOMPLETE.key in refused:
            what = _listed([f"{p}: {p.why}" for p in self.having(Verdict.INCOMPLETE, Verdict.CHANGED)])
            raise CheckpointError(
                f"the query is not the one of {where}, and going on would not give its result over all input: {what}",
                code="E3411",
                hint=hint,
            )
        what = _listed([str(p) for p in self.having(Verdict.DROPPED)])
        raise CheckpointError(
            f"{where} holds what the statement has no use for any more: {what}", code="E3410", hint=hint
        )


def resume(saved: Restored, roots: Sequence[PhysicalNode], options: Options, time_zone: str) -> Restored:
    """Saved state as a plan goes on from it.

    Raises:
        CheckpointError: that would not be exact, and the options do not allow it (E3410, E3411).
    """
    compared = compare(saved, roots, time_zone)
    compared.check(options)
    return compared.state


def compare(saved: Restored, roots: Sequence[PhysicalNode], time_zone: str) -> Comparison:
    """What becomes of each source, stateful operator and sink of a plan, and of all that was saved. Changes nothing.

    Args:
        time_zone: of the session that would run the plan.
    """
    with taking(f"the plan of {_where(saved)}"):
        return _compared(saved, roots, time_zone)


def _compared(saved: Restored, roots: Sequence[PhysicalNode], time_zone: str) -> Comparison:
    names = uids(roots)
    nodes = walk_all(roots)
    plan = saved_plan(saved)
    described = {was.uid: was for was in saved_nodes(plan)}
    claims = {node: claim for node in nodes if (claim := _claim(node, names[node], saved)) is not None}

    def sums_fit(uid: str, call: int) -> bool:
        return uid in saved.operators and _sums_fit(saved.operators[uid], described[uid].fields["calls"][call].type)

    matching = PlanMatching(roots, claims, list(described.values()), sums_fit)
    matches = matching.found
    claims |= {n: m.claim for n, m in matches.items() if m.claim is not None and m.claim in saved.operators}
    unclaimed = [name for name in saved.operators if name not in set(claims.values())]
    # Parts that compute the same have the same state: whoever has one of them has all.
    bases = {_base(claim) for claim in claims.values()}
    lost = [n for n in unclaimed if _base(n) not in bases or described[n].kind == "Sink"]
    old_sinks = {described[n].name: described[n] for n in lost if described[n].kind == "Sink"}
    zone = plan.get("time_zone", time_zone)
    zoned: dict[PhysicalNode, bool] = {}
    goes_on: dict[PhysicalNode, bool] = {}
    parts: list[RestoredPart] = []
    differ: set[PhysicalNode] = set()
    replaced: set[str] = set()
    for node in nodes:
        kept = node in claims
        changed = changed_setting(node, described[claims[node]]) if kept else None
        zoned[node] = zone != time_zone and (any(zoned[i] for i in node.inputs) or reads_time_zone(node))
        if kept and changed is None and zoned[node]:
            changed = f"computed in the time zone {zone} until now"
        if changed is not None:
            differ.add(node)
        goes_on[node] = any(goes_on[i] for i in node.inputs) or (kept and isinstance(node, SourceExec | ValuesExec))
        if isinstance(node, SourceExec):
            why = None if kept else source_difference(node, list(described.values()))
            parts.append(_source(node, names[node], kept, changed, why))
        elif isinstance(node, SinkExec):
            before = not kept and node.name in old_sinks
            if before:
                replaced.add(node.name)
            inputs = old_sinks[node.name].inputs if before else ()
            same = bool(inputs) and matching.same_rows(node.input, inputs[0])
            parts.append(_sink(node, names[node], kept, changed, before, same, goes_on[node], saved))
        else:
            state = saved.operators.get(claims.get(node, ""))
            parts += _operator(node, names[node], state, changed, goes_on[node], saved)
    for name in lost:
        parts += _dropped(name, described[name], saved, replaced)
    moved = {node: match.moved for node, match in matches.items() if match.moved}
    return Comparison(tuple(parts), _taken(saved, nodes, names, claims, moved), matching, frozenset(differ))


def _claim(node: PhysicalNode, name: str, saved: Restored) -> str | None:
    """The name under which a node's state was saved."""
    if name in saved.operators:
        return name
    base = _base(name)
    # A second sink of the same would write everything, a first one has written it: they are not one.
    return base if base in saved.operators and not isinstance(node, SinkExec) else None


def _taken(
    saved: Restored,
    nodes: Sequence[PhysicalNode],
    names: Mapping[PhysicalNode, str],
    claims: Mapping[PhysicalNode, str],
    moved: Mapping[PhysicalNode, Mapping[int, int]],
) -> Restored:
    """The saved state under the names of a plan. It has not ended when something in the plan is yet to be read."""
    new_input = any(node not in claims for node in nodes if isinstance(node, SourceExec | ValuesExec))
    operators = {names[n]: _renamed(saved.operators[claim], moved.get(n, {})) for n, claim in claims.items()}
    sources = {names[n]: saved.sources[c] for n, c in claims.items() if c in saved.sources}
    return replace(saved, operators=operators, sources=sources, finished=saved.finished and not new_input)


def _renamed(state: SavedState, moved: Mapping[int, int]) -> SavedState:
    """State whose tables and columns are named by positions of columns (`MAX(#1)`) that are others now."""
    if not moved:
        return state

    def renamed(name: str) -> str:
        return re.sub(r"#(\d+)", lambda match: f"#{moved.get(int(match[1]), -1)}", name)

    tasks = [
        {renamed(name): rows.rename_columns([renamed(c) for c in rows.schema.names]) for name, rows in task.items()}
        for task in state.tasks
    ]
    return replace(state, tasks=tuple(tasks))


def _source(node: SourceExec, name: str, kept: bool, changed: str | None, difference: str | None) -> RestoredPart:
    if changed is not None:
        return RestoredPart(name, node.name, None, Verdict.CHANGED, changed)
    if kept:
        return RestoredPart(name, node.name, None, Verdict.KEPT, "read on from its position")
    why = "read from the start" + (f": {difference}" if difference else "")
    return RestoredPart(name, node.name, None, Verdict.NEW, why)


def _sink(
    node: SinkExec,
    name: str,
    kept: bool,
    changed: str | None,
    before: bool,
    same_input: bool,
    goes_on: bool,
    saved: Restored,
) -> RestoredPart:
    """`before`: another sink wrote to a table of that name; `same_input`: what it would write is what was written."""

    def part(verdict: Verdict, why: str) -> RestoredPart:
        return RestoredPart(name, node.name, None, verdict, why)

    if changed is not None:
        return part(Verdict.CHANGED, changed)
    if kept:
        return part(Verdict.KEPT, "the same query")
    if before and same_input and saved.sinks.get(node.name):
        return part(Verdict.CHANGED, f"the table is not where it was: what {_where(saved)} has prepared there is lost")
    if before and same_input:
        return part(Verdict.KEPT, "the same query; later rows go to where the table is now, earlier ones stay")
    if before:
        rest = "rows of later input follow the new one" if goes_on else "the new one writes all of its rows beside them"
        return part(Verdict.CHANGED, f"another query: rows written before follow the old one, {rest}")
    if goes_on:
        return part(Verdict.INCOMPLETE, f"new: gets no rows of {_before(saved)}")
    return part(Verdict.NEW, "all of its input is read from the start")


def _operator(
    node: PhysicalNode, name: str, state: SavedState | None, changed: str | None, goes_on: bool, saved: Restored
) -> list[RestoredPart]:
    tables = _tables(node)
    if state is not None:
        counts = _rows(state)
        verdict = Verdict.KEPT if changed is None else Verdict.CHANGED
        why = changed or "computes the same"
        return [RestoredPart(name, t, None if t == WATERMARK else counts.get(t, 0), verdict, why) for t in tables]
    if goes_on:
        why = f"new: knows nothing of {_before(saved)}"
        return [RestoredPart(name, t, None, Verdict.INCOMPLETE, why) for t in tables]
    return [RestoredPart(name, t, None, Verdict.NEW, "all of its input is read from the start") for t in tables]


def _dropped(name: str, was: SavedNode, saved: Restored, replaced: set[str]) -> list[RestoredPart]:
    """What was saved under a name that the plan does not have: nothing where nothing was kept."""
    kind, table = was.kind, was.name
    if kind == "Source":
        return [RestoredPart(name, table, None, Verdict.DROPPED, "its position: the plan does not read it so")]
    if kind == "Sink":
        if table in replaced:
            return []
        return [RestoredPart(name, table, None, Verdict.DROPPED, "the plan does not write to it any more")]
    if kind == "Values":
        return []
    counts = _rows(saved.operators[name])
    return [RestoredPart(name, t, n, Verdict.DROPPED, "the plan has no such operator") for t, n in counts.items()]


def _tables(node: PhysicalNode) -> list[str]:
    return [WATERMARK] if node.sets_time else [table.name for table in node.state() if table.holds]


def _rows(state: SavedState) -> dict[str, int]:
    """How many rows each table of an operator holds, in all tasks; figures of the whole operator are no rows."""
    found: dict[str, int] = {}
    if state.unread:
        # Whoever goes on from it reads it; nobody is shown how much it is.
        return found
    for task in state.tasks:
        for name, rows in task.items():
            if [field.name for field in rows.schema if not field.name.startswith("$")] != ["value"]:
                found[name] = found.get(name, 0) + rows.num_rows
    return found


def _sums_fit(state: SavedState, type_: DataType) -> bool:
    """Whether all sums of integers that groups hold are within a type, so that none that was shown had wrapped around."""
    info = np.iinfo(type_.arrow.to_pandas_dtype())
    for task in state.tasks:
        groups = task.get("groups")
        if groups is None:
            continue
        for name, sums in zip(groups.schema.names, groups.columns, strict=True):
            if name.endswith(" sum") and pa.types.is_int64(sums.type):
                least, greatest = pc.call_function("min_max", [sums]).as_py().values()
                if least is not None and (least < info.min or greatest > info.max):
                    return False
    return True


def _base(name: str) -> str:
    """The name without the number that tells those apart that compute the same."""
    return name[: name.rindex("]") + 1] if "]" in name else name


def _before(saved: Restored) -> str:
    return f"the input before {_where(saved)}"


def _where(saved: Restored) -> str:
    return f"checkpoint {saved.id}" if saved.id else f"the savepoint {saved.path}"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join([*texts[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
