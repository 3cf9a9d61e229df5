"""Two-phase commit for systems that can take rows and a number in one transaction.

The checkpoint holds the rows themselves (`spool`) and the number of their commit. When it is complete they are committed,
number and all, in one transaction of the system. So whoever goes on from a checkpoint reads the number there and knows what
is done: what the checkpoint names and the system does not have is committed, what it has is left, and what no checkpoint
names was never sent.

    epoch      rows gather
    prepare    commit n is named, with its rows       killed: the rows come again from the checkpoint before
    checkpoint complete                               killed: `recover` commits n
    publish    transaction: rows of n, number n       killed in it: the system drops it, `recover` commits n
               done                                   killed: `recover` finds n there
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from connectors.kit.spool import Spool, spooled
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.logs import connector_log
from runtime.core.options import text_option
from runtime.core.retries import Retries, retried
from runtime.spi.writer import TaskWriter

__all__ = [
    "SPOOL_SIZE",
    "CommittingWriter",
    "DistributedStaging",
    "EpochCommits",
    "Replacing",
    "StagedWriter",
    "Staging",
    "commits_of",
]

SPOOL_SIZE = text_option(
    "sink.spool.max-size",
    "1 gb",
    "the most bytes of rows between two checkpoints, compressed, of a sink that writes exactly once",
)
_RETRIES = Retries(8, 0.1, 10.0, jitter=0.5)


T = TypeVar("T")
S = TypeVar("S", contravariant=True)
R = TypeVar("R", covariant=True)


class Staging(Protocol[R]):
    """Where rows are until they are committed: in the checkpoint itself (`Spool`), or somewhere that texts in it name."""

    def add(self, batch: ChangelogBatch) -> None:
        """Rows of the epoch."""
        ...

    def take(self) -> list[str]:
        """Texts that name all rows that were added since the last call: they are durable now."""
        ...

    def rows(self, texts: Sequence[str]) -> R:
        """What `EpochCommits.commit` is given for texts, of this run or an earlier one."""
        ...

    def drop(self) -> None:
        """The job has failed: what was not taken is not needed."""
        ...

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        """Rows that are in memory."""
        ...


@runtime_checkable
class DistributedStaging(Protocol):
    """A `Staging` into which tasks of a cluster put rows as well: `runtime.spi.writer.DistributedWriter`."""

    def task_writer(self) -> TaskWriter | None:
        """What writes rows in a task, and gives texts as `Staging.take` does; None when tasks cannot, with these options."""
        ...

    def adopt(self, texts: Sequence[str]) -> None:
        """Rows that a task has written are among those that `take` names next."""
        ...


class EpochCommits(Protocol[S]):
    """The system behind a sink, for one sink of one job: what a connector writes for `CommittingWriter`.

    Each call may raise UnavailableError where it may work later, also when nobody knows whether a commit was taken: the
    number is then read again.
    """

    def last(self) -> int:
        """The number of the newest commit of this sink that the system has; 0 before the first. What an earlier run has
        begun and not ended is over when this returns, and will never be committed."""
        ...

    def commit(self, number: int, batches: S) -> None:
        """Commit these rows, in order, and the number, all or nothing. `number` is greater than `last`."""
        ...

    def close(self) -> None:
        """Give back what is open; a commit that is not complete is dropped."""
        ...


class StagedWriter(Generic[T]):
    """A `SinkWriter` over `EpochCommits` whose rows are anywhere until then: exactly once.

    A job that goes back to an older checkpoint than its newest commits what follows again, as a new commit.

    Args:
        name: of the table, for messages.
        staging: where rows wait.
    """

    def __init__(
        self,
        name: str,
        staging: Staging[T],
        commits: EpochCommits[T],
        *,
        retries: Retries = _RETRIES,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._name = name
        self._log = connector_log(type(commits).__module__)
        self.tries = 0
        """How often it was tried again."""
        self._commits = commits
        self._retries = retries
        self._pause = pause
        self._staging = staging
        self._number: int | None = None
        """The newest number that is given away; None until the system was asked."""
        self._done = 0
        self._open: deque[tuple[int, list[str]]] = deque()
        self._closed = False

    def write(self, batch: ChangelogBatch) -> None:
        self._staging.add(batch)

    def task_writer(self) -> TaskWriter | None:
        return self._staging.task_writer() if isinstance(self._staging, DistributedStaging) else None

    def adopt(self, written: Any) -> None:
        assert isinstance(self._staging, DistributedStaging)
        self._staging.adopt(written)

    def flush(self, epoch: int) -> None:
        """Rows wait for the checkpoint."""

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return self._staging.buffered

    def prepare(self) -> Any:
        texts = self._staging.take()
        if texts:
            self._begin()
            assert self._number is not None
            self._number += 1
            self._open.append((self._number, texts))
        return {"commits": [[number, rows] for number, rows in self._open]} if self._open else None

    def publish(self, committable: Any) -> None:
        self._begin()
        for number, texts in commits_of(committable):
            if number > self._done:
                self._commit(number, texts)
            while self._open and self._open[0][0] <= number:
                self._open.popleft()

    def recover(self, committables: Sequence[Any]) -> None:
        self._begin()
        assert self._number is not None
        named = [number for committable in committables for number, _ in commits_of(committable)]
        if named and min(named) > 1 and not self._done:
            raise ConnectorError(
                f"{self._name} has none of the {min(named) - 1} commits that the job has made before its checkpoint",
                code="E3152",
                hint="was it made anew, or its record of commits deleted? Then nobody knows which rows are there: begin anew",
            )
        for committable in committables:
            self.publish(committable)
        self._number = max(self._number, self._done)

    def discard(self, committable: Any) -> None:
        """What is committed stays; what is not is forgotten."""
        self._open.clear()

    def abort(self) -> None:
        """Rows that no checkpoint names are dropped."""
        self._staging.drop()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._commits.close()

    def _begin(self) -> None:
        if self._number is None:
            self._done = self._asked(self._commits.last)
            self._number = self._done

    def _commit(self, number: int, texts: Sequence[str]) -> None:
        def once() -> None:
            if known and self._commits.last() >= number:
                return
            known.append(number)
            self._commits.commit(number, self._staging.rows(texts))

        known: list[int] = []
        self._asked(once)
        self._done = number

    def _asked(self, call: Callable[[], Any]) -> Any:
        return retried(call, self._retries, UnavailableError, self._pause, self._tried)

    def _tried(self, error: Exception, seconds: float) -> None:
        self.tries += 1
        self._log.failure(f"{self._name} is asked again in {seconds:.1f} s", error, logging.WARNING)


class CommittingWriter(StagedWriter[Iterable[ChangelogBatch]]):
    """The same with rows that are in the checkpoint.

    Args:
        names: of the columns.
        most: bytes of compressed rows between two checkpoints.
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        commits: EpochCommits[Iterable[ChangelogBatch]],
        *,
        most: int = 1 << 30,
        retries: Retries = _RETRIES,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        super().__init__(name, _Spooled(name, names, most), commits, retries=retries, pause=pause)


class _Spooled(Spool):
    def __init__(self, name: str, names: Sequence[str], most: int) -> None:
        super().__init__(name, most)
        self._names = tuple(names)

    def rows(self, texts: Sequence[str]) -> Iterable[ChangelogBatch]:
        return spooled(texts, self._names)

    def drop(self) -> None:
        self.take()


class Replacing(StagedWriter[T]):
    """An `AtomicWriter`: nothing is committed before all rows are written, then all of them at once. What checkpoints
    prepare until then is held, and is part of what comes next."""

    def __init__(
        self, name: str, staging: Staging[T], commits: EpochCommits[T], *, retries: Retries = _RETRIES
    ) -> None:
        super().__init__(name, staging, commits, retries=retries)
        self._held: list[str] = []
        self._complete = False

    def complete(self) -> None:
        """All rows are written: what is prepared from now on is shown."""
        self._complete = True

    def prepare(self) -> Any:
        self._held += self._staging.take()
        if not self._complete:
            return {"held": list(self._held)} if self._held else None
        if not self._open:
            self._begin()
            assert self._number is not None
            if self._finished:
                return None
            self._number += 1
            self._open.append((self._number, list(self._held)))
        return {"commits": [[number, rows] for number, rows in self._open]}

    def publish(self, committable: Any) -> None:
        if "held" not in committable:
            super().publish(committable)
            self._finished = True

    _finished = False

    def recover(self, committables: Sequence[Any]) -> None:
        self._held = [text for c in committables for text in c.get("held", ())]
        super().recover([c for c in committables if "held" not in c])


def commits_of(committable: Any) -> list[tuple[int, list[str]]]:
    """The commits that a checkpoint names; raises ConnectorError E3113 when it names none that this could have made."""
    try:
        found = [(int(number), list(map(str, texts))) for number, texts in committable["commits"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectorError(
            "a checkpoint names commits of another sink",
            code="E3113",
            hint="was 'sink.delivery-guarantee' or the connector changed? Begin anew, or change it back",
        ) from error
    return found
