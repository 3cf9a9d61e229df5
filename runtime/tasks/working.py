"""Pieces of work that are no part of an epoch, in tasks: what a sink's commits are divided into."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from runtime.core.errors import SqlEngineError
from runtime.tasks.shipping import loads
from runtime.tasks.task import Record, forget, plain

__all__ = ["WorkStage", "shared_out"]


class WorkStage:
    """A stage that calls functions (see `runtime.tasks.stage.Stage`): each record holds one. Gives what they return, but
    None, and the errors of ours that they raise.

    Args:
        place, program: the job's, as in its orders.
    """

    def __init__(self, place: str, program: str) -> None:
        self._place = place
        self._program = program

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        for part in given:
            for fields in part:
                try:
                    made = loads(Record(*fields).payload)()
                    if made is not None:
                        yield partition, tuple(Record("work", 0, partition, pickle.dumps(made)))
                except SqlEngineError as error:
                    yield partition, tuple(Record("error", 0, partition, pickle.dumps(plain(error))))

    def forget(self) -> None:
        """What this process keeps of the job is lost."""
        forget(self._place, self._program)


def shared_out(
    works: Sequence[Callable[[], object]], partitions: int, dumps: Callable[[Any], bytes]
) -> list[list[Record]]:
    """Functions as the records of each partition."""
    given: list[list[Record]] = [[] for _ in range(partitions)]
    for number, work in enumerate(works):
        target = number % partitions
        given[target].append(Record("work", 0, target, dumps(work)))
    return given
