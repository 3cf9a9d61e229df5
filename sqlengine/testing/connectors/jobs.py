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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.spi.sink import SinkTable
from runtime.spi.writer import SinkWriter, TimeListener
from sqlengine.testing.connectors.values import EXTREMES

__all__ = ["OF_FILES", "Faults", "JobOfEpochs", "Killed", "SinkCase", "Steps", "killed_at_each_step", "some_epochs"]


Expected = Callable[[int], list[Any]]
"""What readers see after the first `n` epochs."""


@dataclass
class SinkCase:
    """A sink, what readers see of it (rows in any order, sorted), its epochs, and what their first `n` amount to."""

    table: SinkTable
    visible: Callable[[], list[Any]]
    epochs: Sequence[ChangelogBatch]
    expected: Callable[[int], list[Any]]


Steps = Sequence[tuple[Any, str]]
"""Calls that change something outside, as an object or a class and the name of what is called."""
OF_FILES: Steps = ((os, "rename"), (os, "fsync"), (os, "mkdir"))


def _disk_fails() -> Exception:
    return OSError(errno.EIO, "the disk fails")


class Faults:
    """Makes calls fail, each with a probability, by seed. `error` gives what they raise."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        rng: random.Random,
        steps: Steps = OF_FILES,
        error: Callable[[], Exception] = _disk_fails,
    ) -> None:
        self._rng = rng
        self._error = error
        self.probability = 0.0
        self.count = 0
        for owner, name in steps:
            monkeypatch.setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **more: Any) -> Any:
            if self._rng.random() < self.probability:
                self.count += 1
                if self._rng.random() < 0.5:
                    call(*args, **more)  # done, but nobody is told
                raise self._error()
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


# --- killed at each step
# ---------------------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone: nothing on the way may take it for a failure, tidy up and go on."""


def killed_at_each_step(make: Callable[[], SinkCase], steps: Steps, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a job with a checkpoint behind each epoch, and kill it at each call of each step, before it and behind it, once
    in each run. Whoever goes on shows what the checkpoint holds, and at the end every row once. Gives the number of
    kills."""
    kills = 0
    for owner, name in steps:
        for behind in (False, True):
            number = 0
            while True:
                number += 1
                with monkeypatch.context() as patched:
                    bomb = _Bomb(getattr(owner, name), number, behind)
                    patched.setattr(owner, name, bomb.call())
                    _run_through(make())
                if not bomb.gone_off:
                    break
                kills += 1
    return kills


class _Bomb:
    def __init__(self, real: Callable[..., Any], number: int, behind: bool) -> None:
        self._real = real
        self._left = number
        self._behind = behind
        self.gone_off = False

    def call(self) -> Callable[..., Any]:
        def calls(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left != 0:
                return self._real(*args, **more)
            self.gone_off = True
            if self._behind:
                self._real(*args, **more)
            raise Killed

        return calls


def _run_through(case: SinkCase) -> None:
    taken, stored = 0, "null"
    writer: SinkWriter | None = None
    while True:
        try:
            if writer is None:
                writer = case.table.open_writer("job")
                committable = json.loads(stored)
                writer.recover([] if committable is None else [committable])
                assert case.visible() == case.expected(taken)
            while taken < len(case.epochs):
                if len(case.epochs[taken]):
                    writer.write(case.epochs[taken])
                writer.flush(taken)
                prepared = json.dumps(writer.prepare())
                taken, stored = taken + 1, prepared
                if json.loads(stored) is not None:
                    writer.publish(json.loads(stored))
                assert case.visible() == case.expected(taken)
            writer.close()
            return
        except Killed:
            writer = None


def some_epochs(rng: random.Random, schema: Schema, count: int = 6) -> tuple[list[ChangelogBatch], Expected]:
    """Epochs of insertions, some of them empty, and what their first `n` amount to, sorted by `repr`. Integers number the
    rows; other columns have values at the edges of their types, and NULL."""
    by_type = {type_.not_null(): values for type_, values in EXTREMES.values()}
    epochs: list[list[tuple[Any, ...]]] = []
    number = 0
    for epoch in range(count):
        rows: list[tuple[Any, ...]] = []
        for _ in range((2, 0, 1, 3, 20)[epoch % 5]):
            number += 1
            rows.append(tuple(_cell(rng, f.type, number, by_type) for f in schema))
        epochs.append(rows)
    batches = [
        ChangelogBatch.of([pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)], schema)
        for rows in epochs
    ]
    return batches, lambda n: sorted((row for rows in epochs[:n] for row in rows), key=repr)


def _cell(rng: random.Random, type_: DataType, number: int, by_type: Mapping[DataType, Sequence[Any]]) -> Any:
    if type_.root in (TypeRoot.INT, TypeRoot.BIGINT):
        return number
    values = by_type.get(type_.not_null(), ())
    chosen = rng.choice([*values, None] if type_.nullable else list(values)) if values else None
    return chosen
