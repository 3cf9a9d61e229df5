"""A stage as executors run it: a function of a partition's records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from runtime.tasks.program import EpochOrder
from runtime.tasks.task import Record, forget, run_stage

__all__ = ["Stage"]

Run = Callable[[EpochOrder, int, int, list[Record]], list[tuple[int, Record]]]


class Stage:
    """From the records of a partition to those for the next stage, each with the partition that it goes to. Between
    processes a record is a tuple of its fields.

    Args:
        number: which stage of the phase.
        first: the records come as the driver gave them, a list for each partition.
        kept: the process that runs it had better be the one that did so before: it has state there, or connections.
    """

    def __init__(self, order: EpochOrder, number: int, *, first: bool, kept: bool = True) -> None:
        self.order = order
        self.kept = kept
        self.number = number
        self.run: Run = run_stage
        """What does the work: an executor may have another process do it."""
        self._first = first

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        arrived = (fields for part in given for fields in part) if self._first else (fields for _, fields in given)
        records = [Record(*fields) for fields in arrived]
        found = self.run(self.order, self.number, partition, records)
        return ((target, tuple(record)) for target, record in found)

    def forget(self) -> None:
        """What this process keeps of the job is lost."""
        forget(self.order.place, self.order.program)
