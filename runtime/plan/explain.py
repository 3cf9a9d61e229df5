"""Physical plans as text: one line per operator, inputs indented below it.

    GroupAggregate by (item) [COUNT(*) AS n]  [I,UB,UA,D]
      Calc [item] where price > 10  [I]
        Source bids (item, price)  [I]

A plan that an operator runs itself stands between it and its inputs:

    Recursive r UNION, at most 10000 rounds  [I]
      each round: Calc [x, b, $step + 1]
          HashJoin INNER on y = a
            LoopInput the last round (x, y, $step)
            LoopInput 1 (a, b)
      Source edge (a, b)  [I]
      Source edge (a, b)  [I]

Expressions name columns; a name that an edge holds twice gets a number (`id`, `id0`). An operator that several others
read is written once and referred to by its name afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.plan.base import PhysicalNode
from runtime.plan.distribution import leaves_memory
from runtime.plan.identity import short_kind, uids

__all__ = ["explain", "explain_lines", "explain_node"]

Note = Callable[[PhysicalNode], str]


def explain(
    roots: PhysicalNode | Sequence[PhysicalNode],
    *,
    modes: bool = True,
    state: bool = False,
    names: bool = False,
    note: Note | None = None,
    on_disk: bool = False,
) -> str:
    """The text of one plan, or of several that share operators.

    `modes` adds the row kinds of each edge, `state` the state tables and their bounds, `names` each operator's name,
    `note` anything else. `on_disk`: state may leave memory, so it is told of which that is true.
    """
    plans = [roots] if isinstance(roots, PhysicalNode) else list(roots)
    writer = _Writer(plans, modes, state, names, note, on_disk)
    for plan in plans:
        writer.write(plan, 0)
    return "\n".join(writer.lines)


def explain_lines(roots: Sequence[PhysicalNode]) -> list[tuple[str, PhysicalNode | None]]:
    """The lines of plans, each with its operator; None where that stands in an earlier line."""
    writer = _Writer(roots, False, False, False, None, False)
    for plan in roots:
        writer.write(plan, 0)
    return list(zip(writer.lines, writer.operators, strict=True))


class _Writer:
    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        modes: bool,
        state: bool,
        names: bool,
        note: Note | None,
        on_disk: bool,
    ) -> None:
        self._on_disk = on_disk
        self._modes = modes
        self._state = state
        self._names = names
        self._note = note
        self._uids = uids(roots)
        self._written: set[PhysicalNode] = set()
        self.lines: list[str] = []
        self.operators: list[PhysicalNode | None] = []

    def write(self, node: PhysicalNode, depth: int) -> None:
        indent = "  " * depth
        if node in self._written and node.inputs:
            self.lines.append(f"{indent}Shared {self._uids[node]}")
            self.operators.append(None)
            return
        self.operators.append(None if node in self._written else node)
        self._written.add(node)
        line = f"{indent}{explain_node(node)}"
        if self._modes:
            line += f"  {node.mode}"
        if self._names:
            line += f"  {self._uids[node]}"
        note = self._note(node) if self._note is not None else ""
        self.lines.append(f"{line}  {note}" if note else line)
        if self._state:
            place = ""
            if self._on_disk:
                place = "; on disk while not in use" if leaves_memory(node) else "; in memory"
            self.lines.extend(
                f"{indent}    state {t.name}: {t.holds}; bounded by {t.bound}{place}" for t in node.state() if t.holds
            )
        for name in node.inner_fields:
            self._inner(getattr(node, name), depth + 1)
        for source in node.inputs:
            self.write(source, depth + 1)

    def _inner(self, node: PhysicalNode, depth: int) -> None:
        """A plan that an operator runs itself."""
        self.lines.append(f"{'  ' * depth}each round: {explain_node(node)}")
        self.operators.append(None)
        self._below(node, depth + 2)

    def _below(self, node: PhysicalNode, depth: int) -> None:
        for source in node.inputs:
            self.lines.append(f"{'  ' * depth}{explain_node(source)}")
            self.operators.append(None)
            self._below(source, depth + 1)


def explain_node(node: PhysicalNode) -> str:
    """One operator: what it is, its keys and expressions."""
    return f"{short_kind(node)} {node.text()}".rstrip()
