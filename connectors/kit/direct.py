"""Sinks that show rows as they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["DirectWriter"]


class DirectWriter:
    """The part of a `SinkWriter` that such a sink does not have: nothing is prepared, and what is shown stays. A subclass has
    `write`, which sends rows, or keeps them until `flush`; what it has shown after a checkpoint comes again
    from a job that goes on from there."""

    def flush(self, epoch: int) -> None:
        """The epoch is complete."""

    def settle(self) -> None:
        """A checkpoint is being taken: returns when all rows that were written are safe on the other side."""

    def prepare(self) -> Any:
        """Waits until all is there; nothing is to be published."""
        self.settle()

    def publish(self, committable: Any) -> None:
        """Nothing is prepared."""

    def recover(self, committables: Sequence[Any]) -> None:
        """What was shown stays."""

    def discard(self, committable: Any) -> None:
        """What was shown stays."""

    def abort(self) -> None:
        """The job has failed: what is not shown yet may be dropped."""

    def close(self) -> None:
        """Give back what is open."""
