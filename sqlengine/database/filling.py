"""A view, or a table, whose first rows are being computed while others go on."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from connectors.memory import MemoryReader
from runtime.core.cancellation import look
from runtime.local.source_inputs import SourceInputs
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.maintained_view import MOST_GATHERED, MaintainedView

__all__ = ["Filling", "InTheMaking", "ViewFilling"]

_WAIT_SECONDS = 0.05


class Filling:
    """What is being made under a path: definitions that say something of that path, or of what it reads, wait for the
    end.

    Args:
        reads: the objects that nobody may drop or alter meanwhile.
    """

    def __init__(self, path: ObjectPath, reads: frozenset[ObjectPath] = frozenset()) -> None:
        self.path = path
        self.reads = reads
        self._over = threading.Event()

    def end(self) -> None:
        """It is there, or it has failed."""
        self._over.set()

    def wait(self) -> None:
        """Until the end. It can be interrupted."""
        while not self._over.wait(_WAIT_SECONDS):
            look()


class InTheMaking(BaseException):
    """A statement needs what another session is making: it begins again when that is there, or has failed.

    Not an `Exception`: nothing on the way may take it for a failure, try something else and go on.
    """

    def __init__(self, filling: Filling) -> None:
        super().__init__(filling.path)
        self.filling = filling


class ViewFilling(Filling):
    """A view that takes in the contents of its inputs as they were at the beginning, and then what epochs have changed
    since.

    Made, and told of the end of each epoch, with the lock held. `run` works without the lock; `finish` with it.

    Args:
        whole: it takes the place of another view, whose readers do not miss what its sources have.
    """

    def __init__(
        self, view: MaintainedView, reads: frozenset[ObjectPath] = frozenset(), *, whole: bool = False
    ) -> None:
        super().__init__(view.path, view.inputs | reads)
        self.view = view
        self._whole = whole
        self._readers: list[MemoryReader] = []
        self._epochs: deque[list[tuple[MemoryReader, Sequence[Any]]]] = deque()
        """What has changed in each epoch since the beginning, by reader."""

    def begin(self) -> None:
        """From now on it follows its inputs."""
        told = (reader for source in self.view.job.inputs for reader in source.told())
        self._readers = [reader for reader in told if isinstance(reader, MemoryReader)]
        for reader in self._readers:
            reader.set_aside()
            if self.view.gathers:
                reader.in_pieces()

    def end_epoch(self) -> None:
        """What has changed since the last time is one epoch."""
        steps = [(reader, taken) for reader in self._readers if (taken := reader.take_aside())]
        if steps:
            self._epochs.append(steps)

    def run(self) -> None:
        """The answer over the contents, and then what has changed meanwhile, until little is left, or the changes come
        faster than the view takes them. Of sources outside what is there now, where the view takes the place of another
        one. Raises what the view raises."""
        if self.view.take_over is not None:
            self.view.take_over(self.view.job)
        flushes = self._whole and self.view.outside
        if flushes:
            self.view.job.begin_flush()
        moved = _advance(self.view)
        while flushes and moved and not self.view.ended and not self.view.job.flushed:
            look()
            moved = _advance(self.view)
        while self.view.job.waiting:
            look()
            _advance(self.view, waiting_only=True)
        self.view.gathers = self.view.gathers and all(list(map(SourceInputs.gather, self.view.job.inputs)))
        before = None
        while (left := len(self._epochs)) and (before is None or left < before):
            # The first change of many rows takes longer than later ones: it makes their index.
            if before is not None and self._backlog() <= MOST_GATHERED:
                return
            self._take(left)
            before = left

    def finish(self) -> None:
        """Take in what is left; from now on the view follows its inputs as others do. Raises what the view raises."""
        self.end_epoch()
        self._take(len(self._epochs))
        for reader in self._readers:
            reader.go_on()

    def _backlog(self) -> int:
        return sum(
            len(step) if step is not None else 1
            for number in range(len(self._epochs))
            for _, steps in self._epochs[number]
            for step, _, _ in steps
        )

    def _take(self, epochs: int) -> None:
        """So many epochs, one after another; in one where that makes no difference to the view."""
        for number in range(epochs):
            look()
            for reader, steps in self._epochs.popleft():
                reader.let_in(steps)
            if not self.view.gathers or number == epochs - 1:
                while self.view.job.waiting:
                    _advance(self.view, waiting_only=True)


def _advance(view: MaintainedView, *, waiting_only: bool = False) -> bool:
    moved = view.advance(waiting_only=waiting_only)
    if view.failure is not None:
        raise view.failure
    return moved
