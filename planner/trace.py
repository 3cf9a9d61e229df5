"""What the optimizer did: each rule that fired, in order, with the plan before and after it.

EXPLAIN shows the counts, golden specs ask which rules fired, and errors of the driver quote the last steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from planner.logical.nodes import LogicalNode

__all__ = ["Step", "Trace"]


@dataclass(frozen=True, slots=True)
class Step:
    """One application of a rule: the sub-plan it was given and what it gave."""

    stage: str
    rule: str
    before: LogicalNode
    after: LogicalNode


@dataclass(slots=True)
class Trace:
    """The steps of one run of the optimizer."""

    steps: list[Step] = field(default_factory=list)

    def add(self, stage: str, rule: str, before: LogicalNode, after: LogicalNode) -> None:
        self.steps.append(Step(stage, rule, before, after))

    @property
    def fired(self) -> frozenset[str]:
        """Names of the rules that fired at least once."""
        return frozenset(s.rule for s in self.steps)

    def counts(self) -> dict[str, int]:
        """How often each rule fired, by name, in the order of the first time."""
        return dict(Counter(s.rule for s in self.steps))

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" if count > 1 else name for name, count in self.counts().items())
