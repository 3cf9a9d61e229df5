"""How much a role may take: of connections, time, rows, memory and state."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NO_LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """None: any amount. Superusers are held by none but those of time and rows, which guard against mistakes.

    Args:
        connections: so many at once, over all ports.
        milliseconds: that a statement may take, with the time in which its rows are fetched.
        rows: of the result of a query that ends.
        memory: bytes in memory of the tables, views, jobs and queries that are the role's.
        state: bytes, in memory and on the disk, of what its views and jobs keep.
    """

    connections: int | None = None
    milliseconds: int | None = None
    rows: int | None = None
    memory: int | None = None
    state: int | None = None

    @property
    def hold_statements(self) -> bool:
        """Whether a statement has to be watched for more than its time."""
        return self.rows is not None or self.memory is not None or self.state is not None


NO_LIMITS = Limits()
