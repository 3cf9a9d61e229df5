"""When the rows of a dataflow that have a time to live are all forgotten, if nothing comes."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.plan.base import PhysicalNode

__all__ = ["Lifetimes"]


class Lifetimes:
    """Follows the epochs of a dataflow. What expires is seen by nobody, so it may wait for the next epoch; only the memory
    of a dataflow to which nothing comes any more is to be given back in the end."""

    def __init__(self, nodes: Iterable[PhysicalNode]) -> None:
        self._longest = max((ttl for node in nodes for ttl in node.times_to_live.values()), default=0)
        self.over: int | None = None
        """The processing time, milliseconds, at which an epoch forgets the last rows; None when there is nothing."""

    def after_epoch(self, processing_time: int, moved: bool) -> None:
        """An epoch at this time, with input or without."""
        if not self._longest:
            return
        if moved:
            self.over = processing_time + self._longest + 1
        elif self.over is not None and processing_time >= self.over:
            self.over = None
