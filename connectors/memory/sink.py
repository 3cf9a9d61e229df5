"""A table in memory as a sink: in step with the epochs, with the checkpoints of the job, or all at once at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connectors.memory.column_files import filed, in_memory
from connectors.memory.open_changes import OpenChanges
from connectors.memory.staged import StagedChanges
from connectors.memory.table import MemoryTable
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.errors import ConnectorError
from runtime.spi.sink import Delivery

__all__ = ["MemorySink"]


class MemorySink:
    """Writes to a table. Live: every epoch is published when it is complete, or, of a job that a database keeps, what
    was written since the checkpoint before. Else all of it becomes one epoch at the end, of the table or of a session's
    open epoch.

    `logged`: who takes the checkpoints logs what they publish together with their number. So a job that goes on from one
    publishes nothing again.
    """

    def __init__(self, table: MemoryTable | OpenChanges, *, live: bool) -> None:
        self.table = table
        self._live = live
        self.logged = False
        self.schema = table.schema
        self.primary_key = table.primary_key

    @property
    def live(self) -> bool:
        """Whether a job in the background writes, epoch by epoch."""
        return self._live

    @property
    def delivery(self) -> Delivery:
        """Changes by primary key may come twice and mean the same. Rows without one, once shown, cannot be taken
        back."""
        return "exactly-once" if self.primary_key or self.logged else "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return self.table.accepts(requested)

    def open_writer(self, job: str) -> _MemoryWriter:
        if self._live:
            return (_LoggedWriter if self.logged else _LiveWriter)(self, job)
        return _WholeWriter(self.table, self.table.name, self.schema.names, job)

    def describe(self) -> dict[str, Any]:
        return self.table.describe()


class _MemoryWriter:
    """A committable names the table, rows and all, and what is prepared in it: another process has neither."""

    def __init__(self, table: StagedChanges, name: str, columns: Sequence[str], job: str) -> None:
        self._table = table
        self._name = name
        self._columns = list(columns)
        self._job = job
        self._staged: list[ChangelogBatch] = []
        self._unpublished: list[str] = []
        self._wrote = False

    def write(self, batch: ChangelogBatch) -> None:
        rows = pa.RecordBatch.from_arrays(batch.columns, names=self._columns)
        self._staged.append(filed(ChangelogBatch(rows, batch.kinds), self._table.files))
        self._wrote = True

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return in_memory(tuple(self._staged), self._table.files)

    def flush(self, epoch: int) -> None:
        """Rows stay staged."""

    def _take(self) -> list[ChangelogBatch]:
        staged, self._staged = self._staged, []
        return staged

    def prepare(self) -> Any:
        staged = self._take()
        if staged:
            self._unpublished.append(self._table.prepare(self._job, staged))
        return {"table": self._table.token, "changes": list(self._unpublished)} if self._wrote else None

    def publish(self, committable: Any) -> None:
        """Raises ConnectorError E3113 when the rows went with another process."""
        if committable["table"] != self._table.token:
            raise ConnectorError(
                f"{self._name} lives in memory: what the job had written to it is gone",
                code="E3113",
                hint="start the job anew, or have it write to a table with a connector",
            )
        for key in committable["changes"]:
            self._table.apply_prepared(key)
            if key in self._unpublished:
                self._unpublished.remove(key)

    def recover(self, committables: Sequence[Any]) -> None:
        for committable in committables:
            self._wrote = True
            self.publish(committable)
        self._table.forget_prepared(self._job)

    def discard(self, committable: Any) -> None:
        self._unpublished = []
        self._table.forget_prepared(self._job)

    def abort(self) -> None:
        self._staged = []

    def close(self) -> None:
        self._staged = []


class _StepWriter(_MemoryWriter):
    """What is published is a step of the table that the sink has then. A row that breaks a condition of the table fails the
    job before a checkpoint has it."""

    def __init__(self, sink: MemorySink, job: str) -> None:
        super().__init__(sink.table, sink.table.name, sink.schema.names, job)
        self._sink = sink

    @property
    def _target(self) -> MemoryTable:
        assert isinstance(self._sink.table, MemoryTable)
        return self._sink.table

    def write(self, batch: ChangelogBatch) -> None:
        if self._target.rules is not None:
            self._target.rules.check_rows(self._target, [batch])
        super().write(batch)

    def publish(self, committable: Any) -> None:
        super().publish(committable)
        self._step()

    def _step(self) -> None:
        # Where the table changes beside others, whoever has it do so publishes the step when that is over.
        self._target.publish() if self._target.settled is None else self._target.pass_on()


class _LoggedWriter(_StepWriter):
    """See `MemorySink.logged`."""

    def recover(self, committables: Sequence[Any]) -> None:
        """The table has what the checkpoint had prepared."""
        self._wrote = bool(committables)
        self._table.forget_prepared(self._job)


class _LiveWriter(_StepWriter):
    """Each epoch is a step of the table."""

    def flush(self, epoch: int) -> None:
        staged = self._take()
        if staged:
            self._target.apply(*staged)
            self._step()


class _WholeWriter(_MemoryWriter):
    """Nothing of what it has written is seen when the statement is stopped (`runtime.spi.writer.AtomicWriter`)."""

    def complete(self) -> None:
        """Rows are applied by `publish` alone, which comes after this."""
