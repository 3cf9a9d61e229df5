"""A state table of a running job for those who ask by key: it is followed from epoch to epoch into a mirror."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.errors import SqlEngineError, StateQueryError, did_you_mean
from runtime.core.logs import Log
from runtime.local.dataflow import Dataflow
from runtime.local.job import Job
from runtime.local.vertex import Vertex
from runtime.operators.operator import Followed, Operator
from runtime.state.mirror import MirroredTable, StateMirror
from runtime.state.table import StateTable

__all__ = ["Following", "stateful"]

_log = Log("jobs")


def stateful(dataflow: Dataflow) -> list[tuple[Vertex, Sequence[StateTable]]]:
    """The operators of a dataflow that keep state, with the tables that they declare."""
    found = [(v, v.operator.declared_tables) for v in dataflow.vertices if v.operator is not None]
    return [(vertex, tables) for vertex, tables in found if tables]


class Following:
    """See the module. A job that starts again after a failure is followed anew, with all that it has then.

    Args:
        operator, table: their names.
    """

    def __init__(self, job: Job, operator: str, table: str) -> None:
        self.job = job
        self._operator_name = operator
        self._table_name = table
        self._closed = False
        self._failure: SqlEngineError | None = None
        self._dataflow: Dataflow | None = None
        self._operator: Operator | None = None
        self._followed: Followed | None = None
        self._mirror: StateMirror | None = None

    def begin(self) -> None:
        """Between epochs, by whoever may look into the job's state then. Costs as much as there is state.

        Raises StateQueryError E4101 for a table that there is not, E4110 for one that cannot be followed.
        """
        self._follow()
        self.job.requests.each_time(self._after_epoch, self.close)

    @property
    def mirror(self) -> StateMirror | None:
        """What it shows; None while the job starts again, and once too much has changed since somebody has asked last.
        Raises what keeps it from being followed."""
        if self._failure is not None:
            raise self._failure
        mirror = self._mirror
        return None if mirror is None or mirror.worn or self.job.dataflow is not self._dataflow else mirror

    @property
    def nbytes(self) -> int:
        return 0 if self._mirror is None else self._mirror.nbytes

    @property
    def rows(self) -> int:
        return 0 if self._mirror is None else self._mirror.rows

    @property
    def over(self) -> bool:
        """Whether it is to be made anew, or dropped."""
        return self._closed or self._failure is not None or (self._mirror is not None and self._mirror.worn)

    def close(self) -> None:
        """Nobody asks any more, or the job has ended: nothing is kept."""
        self._closed, self._mirror = True, None

    def _follow(self) -> None:
        dataflow = self.job.dataflow
        vertex, table = self._found(dataflow)
        operator = vertex.operator
        assert operator is not None
        shown = MirroredTable.of(table)
        followed = operator.follow(shown.tables)
        changes = followed.changes() or ()
        mirror = StateMirror(shown, len(changes))
        mirror.hear(dataflow.epoch, changes)
        self._dataflow, self._operator, self._followed, self._mirror = dataflow, operator, followed, mirror

    def _found(self, dataflow: Dataflow) -> tuple[Vertex, StateTable]:
        for vertex, tables in stateful(dataflow):
            for table in tables:
                if vertex.name == self._operator_name and table.name == self._table_name:
                    return vertex, table
        known = [f"{vertex.name}.{table.name}" for vertex, tables in stateful(dataflow) for table in tables]
        name = f"{self._operator_name}.{self._table_name}"
        raise StateQueryError(
            f'{self.job.name} has no state "{name}"', code="E4101", hint=did_you_mean(name, known) or "see system.state"
        )

    def _after_epoch(self) -> bool:
        """In the job's thread. What goes wrong fails who asks, not the job."""
        try:
            if self._closed or self._mirror is None or self._mirror.worn:
                if self._followed is not None:
                    self._followed.close()
                return False
            dataflow = self.job.dataflow
            operator = next((v.operator for v in dataflow.vertices if v.name == self._operator_name), None)
            if dataflow is self._dataflow and operator is self._operator and self._followed is not None:
                changes = self._followed.changes()
                if changes is not None:
                    self._mirror.hear(dataflow.epoch, changes)
                    return True
            self._follow()
            return True
        except Exception as error:
            known = isinstance(error, SqlEngineError)
            self._failure = error if known else StateQueryError(f"{self.job.name}: {error}", code="E4110")
            _log.failure(f"the state of {self.job.name} is no longer followed", self._failure, job=self.job.name)
            if self._followed is not None:
                self._followed.close()
            return False
