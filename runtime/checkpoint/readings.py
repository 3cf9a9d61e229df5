"""Sources that a plan reads several times: an INSERT that is added to a set which goes on from saved state gets all rows of
the sources that the set has read, while the others go on from their positions.

A source has one position. So the sources of what was added are read once more, from the start (`SourceExec.reading`): they,
and all above them, have other names than those of the others, also when the set goes on the next time.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.checkpoint import compatibility
from runtime.checkpoint.compatibility import Verdict, compare
from runtime.checkpoint.epoch_state import Restored
from runtime.checkpoint.fitting import taking
from runtime.checkpoint.matching import SavedNode, saved_nodes, saved_plan
from runtime.core.options import Options
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec
from runtime.plan.walk import map_inputs, walk
from runtime.spi.abilities import SupportsRereading

__all__ = ["readable_again", "resume", "with_readings"]

_WRONG = (Verdict.INCOMPLETE, Verdict.CHANGED)


def resume(
    saved: Restored, roots: Sequence[PhysicalNode], options: Options, time_zone: str
) -> tuple[Restored, tuple[PhysicalNode, ...]]:
    """Saved state as plans go on from it, and these plans. Raises as `compatibility.resume`."""
    if saved.fitted:
        return saved, tuple(roots)
    roots = with_readings(saved, roots, time_zone)
    return compatibility.resume(saved, roots, options, time_zone), roots


def with_readings(saved: Restored, roots: Sequence[PhysicalNode], time_zone: str) -> tuple[PhysicalNode, ...]:
    """The plans as they go on from saved state: those that would miss rows read their sources by themselves, if these can be
    read again."""
    roots = tuple(_reading(root, 0) for root in roots)
    if not compare(saved, roots, time_zone).having(*_WRONG):
        return roots
    with taking(f"the plan of {saved.path}"):
        before = saved_nodes(saved_plan(saved))
    return tuple(_fitting(saved, root, before, time_zone) for root in roots)


def _fitting(saved: Restored, root: PhysicalNode, before: Sequence[SavedNode], time_zone: str) -> PhysicalNode:
    readings = [int(node.fields.get("reading", 0)) for node in before if node.kind == "Source"]
    there = any(node.kind == "Sink" and node.name == getattr(root, "name", "") for node in before)
    if not isinstance(root, SinkExec) or not _wrong(saved, root, time_zone):
        return root
    # What was added before goes on with its own reading; what is new begins one.
    for reading in range(1, max(readings, default=0) + (1 if there else 2)):
        again = _reading(root, reading)
        if not _wrong(saved, again, time_zone):
            return again
    return root


def _wrong(saved: Restored, root: PhysicalNode, time_zone: str) -> bool:
    return bool(compare(saved, [root], time_zone).having(*_WRONG))


def _reading(root: PhysicalNode, reading: int) -> PhysicalNode:
    """A plan with another reading of its sources; as it is when one of them cannot be read again."""
    sources = [node for node in walk(root) if isinstance(node, SourceExec)]
    if all(node.reading == reading for node in sources):
        return root
    if reading and not all(map(readable_again, sources)):
        return root
    done: dict[PhysicalNode, PhysicalNode] = {}
    for node in walk(root):
        changed = map_inputs(node, done.__getitem__)
        done[node] = changed.with_(reading=reading) if isinstance(changed, SourceExec) else changed
    return done[root]


def readable_again(node: SourceExec) -> bool:
    """Whether whoever reads a source from the start gets all rows that others have had."""
    return not isinstance(node.table, SupportsRereading) or node.table.readable_again
