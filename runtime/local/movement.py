"""Whether the input of an epoch moves anything."""

from __future__ import annotations

from runtime.core.clock import MIN_WATERMARK
from runtime.local.dataflow import SourceInput

__all__ = ["Movement"]


class Movement:
    """Follows what the sources of a job give, epoch after epoch."""

    def __init__(self) -> None:
        self._finished: set[int] = set()
        self._times: dict[int, tuple[frozenset[str], int]] = {}

    def by(self, source: int, given: SourceInput) -> bool:
        """Whether a source, by its place in the job, gave rows, came to its end or lets time go on: it, or one of its
        splits, no longer holds back time and did so before, or the watermark of its own has moved."""
        moved = given.batch is not None or (given.finished and source not in self._finished)
        if given.finished:
            self._finished.add(source)
        splits = given.splits.idle if given.splits is not None else frozenset()
        idle = splits | {""} if given.idle else splits
        was_idle, before = self._times.get(source, (frozenset(), MIN_WATERMARK))
        self._times[source] = idle, given.watermark
        return moved or not idle <= was_idle or given.watermark > before
