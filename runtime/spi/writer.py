"""Writers of a sink: what every writer does, and what some do beyond that.

The engine finds the additional protocols with `isinstance`: a writer has an ability when it has the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from runtime.core.changelog import ChangelogBatch

__all__ = [
    "AtomicWriter",
    "BufferingWriter",
    "DictionaryWriter",
    "DistributedWriter",
    "FencedWriter",
    "RevertibleWriter",
    "SinkWriter",
    "TaskCommitter",
    "TaskWriter",
    "TimeListener",
]


class SinkWriter(Protocol):
    """Writes the changes of a job's epochs, with a two-phase commit so that they can be part of a checkpoint.

    `prepare` makes what was written durable, still hidden, and gives a *committable*: a JSON value that says what is to
    be published. When the checkpoint that holds it is complete, `publish` makes it visible. A job without checkpoints
    does both at its end. A sink that shows rows as they come (`delivery` is at-least-once) prepares nothing.

    After a crash another writer of the same job publishes what the checkpoint had prepared (`recover`).
    """

    def write(self, batch: ChangelogBatch) -> None:
        """Changes of one epoch, in order: all of them, or a part in each of several calls."""
        ...

    def flush(self, epoch: int) -> None:
        """The epoch is complete: make it visible if the sink shows rows as they come."""
        ...

    def prepare(self) -> Any:
        """All rows written so far are durable when this returns, and hidden; later rows go elsewhere. Gives what is to
        be published, together with what was prepared before and is not published yet; None when there is nothing."""
        ...

    def publish(self, committable: Any) -> None:
        """Make visible what this writer or an earlier one of the job has prepared. What is visible already stays as it
        is, so that a publish that was cut short is simply repeated.

        Raises ConnectorError when something of it is gone.
        """
        ...

    def recover(self, committables: Sequence[Any]) -> None:
        """The job goes on from a checkpoint: publish what that had prepared, in order, and remove what earlier writers
        of this job (and of no other) have hidden and no checkpoint knows. Called at most once, before the first
        write."""
        ...

    def discard(self, committable: Any) -> None:
        """Take back what was prepared, published or not: the job has failed and no checkpoint knows of it."""
        ...

    def abort(self) -> None:
        """The job has failed: remove all that is not prepared."""
        ...

    def close(self) -> None:
        """Give back what is open; rows that are not prepared are dropped."""
        ...


@runtime_checkable
class AtomicWriter(Protocol):
    """A writer whose rows become visible all at once, when all are written: they replace those that are there
    (`SupportsOverwrite`), or are one change. Until `complete`, what `publish` is given stays hidden, and is part of what
    is prepared next."""

    def complete(self) -> None:
        """All rows are written: what is prepared from now on is shown."""
        ...


@runtime_checkable
class BufferingWriter(Protocol):
    """A writer that holds rows in memory until they are prepared."""

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        """These rows, for `system.memory`. Called from any thread."""
        ...


@runtime_checkable
class DictionaryWriter(Protocol):
    """A writer that also takes text columns as Arrow dictionaries."""

    @property
    def accepts_dictionaries(self) -> bool: ...


@runtime_checkable
class TimeListener(Protocol):
    """A writer that acts at certain times: closes files, commits partitions."""

    def advance_time(self, processing_time: int, watermark: int) -> None:
        """The time of the next epoch, milliseconds since 1970 UTC. Called before its rows are written, and in epochs
        without rows."""
        ...

    def next_time(self) -> int | None:
        """The processing time at which there is something to do although no rows come; None when the next epoch is soon
        enough. While a job waits for input there are no epochs but at such times and for checkpoints."""
        ...


class TaskWriter(Protocol):
    """Writes rows for a writer in another process. It can be pickled, and keeps nothing open between calls."""

    def write(self, batch: ChangelogBatch) -> Any:
        """Changes are durable and hidden when this returns; gives what `DistributedWriter.adopt` takes. It may be called
        twice for the same changes: what is never adopted is never seen. None: it cannot be done here, and the writer gets
        the changes itself."""
        ...


@runtime_checkable
class DistributedWriter(Protocol):
    """A writer for which other processes can write, on machines that see the same files."""

    def task_writer(self) -> TaskWriter | None:
        """None when they cannot, with these options."""
        ...

    def adopt(self, written: Any) -> None:
        """What a task has written belongs to the current epoch, as if `write` had got its changes: after all that it has
        got so far, before what it gets next."""
        ...


@runtime_checkable
class TaskCommitter(Protocol):
    """A writer that can have `publish` and `recover` done in pieces, in the tasks of a cluster. Where nobody calls this it
    does them itself."""

    def commit_in_tasks(self, count: int, carry_out: Callable[[Sequence[Callable[[], object]]], object]) -> None:
        """Called before all else.

        Args:
            count: how many tasks there are.
            carry_out: has tasks call functions, which can be pickled and give nothing, and waits until all are done. One
                of them may be called again, and twice at a time. Raises what one has raised.
        """
        ...


@runtime_checkable
class RevertibleWriter(Protocol):
    """A writer that can hide what it has published, for a job that goes back behind a checkpoint that is damaged or
    gone. Without it rows are then published twice."""

    def history(self) -> Any:
        """After `prepare`: what was written so far, a JSON value that is saved with the checkpoint."""
        ...

    def revert(self, history: Any) -> int:
        """After `recover`: the job goes on from the checkpoint that `history` was saved with. What any run published
        after it is hidden. Gives the number of files, or whatever the system has."""
        ...


@runtime_checkable
class FencedWriter(Protocol):
    """A writer whose system remembers by a fencing token which run writes. Of two runs that go on from the same
    checkpoint, one of them from a copy, only one shows rows. Without it both do."""

    def claim(self, place: str, history: Any, take_over: bool) -> None:
        """Make this run the one that writes. Called before all else. From then on `publish` of any other run fails.

        Args:
            place: names the checkpoints of the job, and no copy of them.
            history: what `RevertibleWriter.history` gave for the checkpoint from which the job goes on, None when it
                begins anew. Another run that has shown rows since then is the newest one, unless it had the same place:
                then the job goes back, and what was shown is reverted.
            take_over: go on although another run is the newest one.

        Raises FencedError when another run is the newest one; `publish` raises it when another one has become it.
        """
        ...
