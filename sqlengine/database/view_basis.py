"""What a materialized view was planned over, besides its definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ViewBasis"]


@dataclass(frozen=True, slots=True)
class ViewBasis:
    """With another one, a view does not go on from its saved state.

    Args:
        functions: a fingerprint of each function of users that the view calls, by name.
        reads: the tables in memory and views that it reads, each with the number of rows that it had: the planner orders
            joins by it.
        objects: the functions themselves, by name, in the process that planned it.
    """

    functions: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    objects: Mapping[str, object] = field(default_factory=dict, compare=False)

    def calls_others(self, functions: Mapping[str, str], objects: Mapping[str, object]) -> bool:
        """Whether a function of that name, among those of another query, may compute something else."""
        return any(
            objects.get(name) is not self.objects.get(name, self) and (not mark or self.functions[name] != mark)
            for name, mark in functions.items()
            if name in self.functions
        )
