"""A stage as Spark runs it: a function of a partition's records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runtime.spark.layout import PREFIX
from runtime.spark.program import EpochOrder
from runtime.spark.resident import run_in_resident
from runtime.spark.task import Record, forget, run_stage

__all__ = ["Stage"]


class Stage:
    """A stage as Spark runs it: from the records of a partition to those for the next stage, each with the partition
    that it goes to. Between processes a record is a tuple of its fields.

    Args:
        first: the records come as the driver gave them, a list for each partition.
    """

    def __init__(self, order: EpochOrder, stage: int, *, first: bool) -> None:
        self.order = order
        self._stage = stage
        self._first = first

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        arrived = (fields for part in given for fields in part) if self._first else (fields for _, fields in given)
        records = [Record(*fields) for fields in arrived]
        run = run_in_resident if self.order.resident and self._stage != PREFIX else run_stage
        return ((target, tuple(record)) for target, record in run(self.order, self._stage, partition, records))

    def forget(self) -> None:
        """What this process keeps of the job is lost."""
        forget(self.order.place, self.order.program)
