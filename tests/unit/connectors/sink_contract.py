"""What every sink that says `exactly-once` must do: jobs are stopped anywhere, go on from their newest checkpoint, and
what readers see is what that checkpoint holds; at the end, every row once.

A job here is a list of epochs. Its checkpoint is how many epochs it has taken and what its sink prepared. Crashes drop
the writer as a killed process would, or abort it as a failed job does; I/O fails at random.
"""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.spi.sink import SinkTable
from runtime.spi.writer import SinkWriter, TimeListener

__all__ = ["Faults", "JobOfEpochs", "SinkCase"]


@dataclass
class SinkCase:
    """A sink, what readers see of it (rows in any order, sorted), its epochs, and what their first `n` amount to."""

    table: SinkTable
    visible: Callable[[], list[Any]]
    epochs: Sequence[ChangelogBatch]
    expected: Callable[[int], list[Any]]


class Faults:
    """Makes calls of the operating system fail, each with a probability, by seed."""

    CALLS = ("rename", "fsync", "mkdir")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
        self._rng = rng
        self.probability = 0.0
        self.count = 0
        for name in self.CALLS:
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **more: Any) -> Any:
            if self._rng.random() < self.probability:
                self.count += 1
                if self._rng.random() < 0.5:
                    call(*args, **more)  # done, but nobody is told
                raise OSError(errno.EIO, "the disk fails")
            return call(*args, **more)

        return failing

    @contextmanager
    def none(self) -> Iterator[None]:
        """While somebody looks at the result."""
        before, self.probability = self.probability, 0.0
        yield
        self.probability = before


@dataclass
class JobOfEpochs:
    """One job over the epochs of a case, with checkpoints."""

    case: SinkCase
    rng: random.Random
    faults: Faults
    name: str = "job"
    taken: int = 0
    checkpoint: tuple[int, str] | None = None
    published: int = 0
    writer: SinkWriter | None = field(default=None, repr=False)

    def step(self) -> None:
        """Something happens: an epoch, a checkpoint, a crash."""
        try:
            if self.writer is None:
                self._begin()
            elif self.rng.random() < 0.15:
                self._crash()
            elif self.taken < len(self.case.epochs) and self.rng.random() < 0.6:
                self._epoch()
            else:
                self._take_checkpoint()
        except ConnectorError:
            self._crash()

    def run(self) -> None:
        """To the end, with a checkpoint there."""
        for _ in range(2000):
            if self.taken == len(self.case.epochs) and self.published == self.taken and self.writer is not None:
                self.writer.close()
                return
            self.step()
            if self.writer is not None:
                with self.faults.none():
                    assert self.case.visible() == self.case.expected(self.published)
        raise AssertionError("the job does not end")

    def _begin(self) -> None:
        self.writer = self.case.table.open_writer(self.name)
        self.taken, stored = self.checkpoint or (0, "null")
        committable = json.loads(stored)
        self.writer.recover([] if committable is None else [committable])
        self.published = self.taken

    def _epoch(self) -> None:
        assert self.writer is not None
        if isinstance(self.writer, TimeListener):
            self.writer.advance_time(self.taken * 1000, self.taken * 1000)
        batch = self.case.epochs[self.taken]
        if len(batch):
            self.writer.write(batch)
        self.writer.flush(self.taken)
        self.taken += 1

    def _take_checkpoint(self) -> None:
        assert self.writer is not None
        stored = json.dumps(self.writer.prepare())
        if self.rng.random() < 0.2:
            return  # the checkpoint did not get there, the job goes on
        held = self.taken
        self.checkpoint = (held, stored)
        while self.rng.random() < 0.3 and self.taken < len(self.case.epochs):
            self._epoch()  # while the checkpoint is being written
        if self.rng.random() < 0.2:
            self._crash()
            return
        if json.loads(stored) is not None:
            self.writer.publish(json.loads(stored))
            if self.rng.random() < 0.2:
                self.writer.publish(json.loads(stored))
        self.published = held

    def _crash(self) -> None:
        writer, self.writer = self.writer, None
        kind = self.rng.randrange(3)
        with self.faults.none():
            if writer is not None and kind == 0:
                writer.abort()
            if writer is not None and kind <= 1:
                writer.close()
