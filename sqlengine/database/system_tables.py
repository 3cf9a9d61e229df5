"""The database `system`: what the engine knows of itself, as tables that any query may read.

    system.rejected      rows that could not be used
    system.jobs          jobs of statements, and those that keep views
    system.metrics       figures of jobs, operators, sources, sinks, checkpoints, views and tables (docs/observability.md)
    system.memory        who owns the memory: tables, views, jobs, queries, sessions
    system.operators     the operators of each job: rows, state, time
    system.checkpoints   the checkpoints of the jobs that have any
    system.history       the tables and views of which the past is kept
    system.replication   how far a read replica is
    system.log           the checkpoints and the log of a database in a folder
    system.state         which state tables there are
    system.state.<job>.<operator>.<table>   what one of them holds: of a job by name, or of a savepoint or checkpoint by
                                            its path (in backticks)
    system.state.<job>.<table>              the same where only one operator has a table of this name

A running job answers between two epochs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.checkpoint.keys import Keys
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import BindError, Span, did_you_mean, pointing_at
from runtime.core.rooms import Room
from runtime.core.schema import Field, Schema
from runtime.core.secrets import masked_text
from runtime.core.types import BIGINT, BOOLEAN, DOUBLE, STRING, DataType, from_arrow, timestamp, timestamp_ltz
from runtime.local.following import stateful
from runtime.local.job import Job
from runtime.local.rejected import REJECTED_SCHEMA
from runtime.plan.identity import short_kind
from runtime.plan.nodes import CalcExec, RejectingCalcExec
from runtime.state.mirror import MirroredTable
from runtime.state.table import OWNER, SLOT
from sqlengine.database.jobs import Jobs, RunningJob
from sqlengine.database.metrics import METRICS_SCHEMA, metrics_table
from sqlengine.database.replica_state import REPLICATION

if TYPE_CHECKING:
    import runtime.checkpoint.store as _store
    from sqlengine.database.database import Database
    from sqlengine.database.folder.log_entries import LogEntry
else:
    _store = Room("runtime.checkpoint.store")

__all__ = ["SystemTables"]


OPERATORS = Schema.of(
    ("job", STRING),
    ("operator", STRING),
    ("kind", STRING),
    ("tasks", BIGINT),
    ("rows_in", BIGINT),
    ("rows_out", BIGINT),
    ("rows_filtered", BIGINT),
    ("rows_rejected", BIGINT),
    ("state_rows", BIGINT),
    ("state_bytes", BIGINT),
    ("busy_ms", DOUBLE),
    ("watermark", timestamp(3)),
)
"""`watermark`: in UTC, NULL before the first one and after the end of the input."""

CHECKPOINTS = Schema.of(
    ("job", STRING),
    ("id", BIGINT),
    ("kind", STRING),
    ("epoch", BIGINT),
    ("time", timestamp_ltz(3)),
    ("bytes", BIGINT),
    ("total_bytes", BIGINT),
    ("duration_ms", BIGINT),
    ("status", STRING),
    ("path", STRING),
)
"""`bytes`: written for this checkpoint; `total_bytes`: of all files that it needs."""

LOG = Schema.of(
    ("epoch", BIGINT),
    ("kind", STRING),
    ("type", STRING),
    ("object", STRING),
    ("rows", BIGINT),
    ("bytes", BIGINT),
    ("file", STRING),
    ("synced", BOOLEAN),
)
"""See `LogEntry`."""

HISTORY = Schema.of(
    ("object", STRING),
    ("retention_ms", BIGINT),
    ("oldest", timestamp_ltz(3)),
    ("newest", timestamp_ltz(3)),
    ("changes", BIGINT),
    ("bytes", BIGINT),
    ("oldest_epoch", BIGINT),
    ("newest_epoch", BIGINT),
)
"""`oldest`: the first moment that can be asked for; `newest`: the last change that is kept; by number: `oldest_epoch`,
`newest_epoch`."""

MEMORY = Schema.of(
    ("owner_kind", STRING),
    ("owner", STRING),
    ("part", STRING),
    ("process", STRING),
    ("rows", BIGINT),
    ("bytes", BIGINT),
    ("disk_bytes", BIGINT),
)
"""See `MemoryAccount`."""

STATE = Schema.of(
    ("job", STRING),
    ("operator", STRING),
    ("table", STRING),
    ("key", STRING),
    ("columns", STRING),
    ("rows", BIGINT),
)
"""`key`: the columns by which the state is divided; empty where all of it belongs together."""


class SystemTables:
    """The tables over the jobs of a session.

    Args:
        database: what they are about.
        keys: gives those that a savepoint must be signed with.
        log: gives what the folder of the database holds of its past.
    """

    NAMES = (
        "checkpoints",
        "history",
        "jobs",
        "log",
        "memory",
        "metrics",
        "operators",
        "rejected",
        "replication",
        "state",
    )
    """What `open` knows, besides the tables of state."""

    def __init__(self, database: Database, keys: Callable[[], Keys], log: Callable[[], Iterable[LogEntry]]) -> None:
        self._log = log
        self._keys = keys
        self._metrics = database.metrics
        self._memory = database.memory_accounts.accounts
        self._history = lambda: database.histories.rows(database.memory, database.shown.epoch)
        self._jobs = database.jobs
        self._views = database.views.up_to_date
        self._rejected = database.rejected
        self._kept = database.memory
        self._replica = database.replica

    def open(self, path: Sequence[str], span: Span | None) -> tuple[Schema, pa.Table]:
        """Columns and rows of `system.<path>`; BindError E1202 for a table that there is not."""
        tables: dict[str, Callable[[], tuple[Schema, pa.Table]]] = {
            "rejected": lambda: (REJECTED_SCHEMA, self._rejected.rows()),
            "jobs": lambda: (Jobs.SCHEMA, self._jobs.rows(self._views())),
            "memory": lambda: (MEMORY, _table(MEMORY, list(self._memory()))),
            "metrics": lambda: (METRICS_SCHEMA, metrics_table(self._metrics.collect())),
            "operators": self._operators,
            "checkpoints": self._checkpoints,
            "history": lambda: (HISTORY, _table(HISTORY, self._history())),
            "log": lambda: (LOG, _table(LOG, [dataclasses.astuple(entry) for entry in self._log()])),
            "replication": lambda: (
                REPLICATION,
                _table(REPLICATION, [] if self._replica is None else self._replica.rows()),
            ),
            "state": self._state,
        }
        if len(path) in (3, 4) and path[0] == "state":
            return self._state_table(path[1], path[2] if len(path) == 4 else None, path[-1], span)
        if len(path) != 1 or path[0] not in tables:
            name = ".".join(path)
            hint = (
                did_you_mean(path[0], tables)
                if len(path) == 1
                else "state tables are system.state.job.operator.table, or system.state.job.table"
            )
            raise BindError(f'unknown table "system.{name}"', code="E1202", span=span, hint=hint)
        return tables[path[0]]()

    def _all_jobs(self) -> list[tuple[str, Job, RunningJob | None]]:
        found: list[tuple[str, Job, RunningJob | None]] = [(j.id, j.job, j) for j in self._jobs.jobs.values()]
        return found + [(view.job.name, view.job, None) for view in self._views()]

    def _operators(self) -> tuple[Schema, pa.Table]:
        rows: list[tuple[object, ...]] = []
        for name, job, _ in self._all_jobs():
            rejected: dict[str, int] = {}
            for (of, operator, _), count in self._rejected.counts.items():
                if of == job.name:
                    rejected[operator] = rejected.get(operator, 0) + count
            for vertex in job.dataflow.vertices:
                size = None if vertex.operator is None else vertex.operator.state_size
                lost = rejected.get(vertex.name, 0) + rejected.get(vertex.node.outside_name, 0)
                filters = isinstance(vertex.node, CalcExec | RejectingCalcExec) and vertex.node.condition is not None
                rows.append(
                    (
                        name,
                        vertex.name,
                        short_kind(vertex.node),
                        1 if vertex.operator is None else len(vertex.operator.tasks),
                        # What a source could not read came in, too.
                        vertex.rows_in + (lost if vertex.operator is None else 0),
                        vertex.rows_out,
                        vertex.rows_in - vertex.rows_out if filters else 0,
                        lost,
                        0 if size is None else size.rows,
                        0 if size is None else size.bytes,
                        round(vertex.busy_seconds * 1000, 3),
                        None if vertex.watermark in (MIN_WATERMARK, MAX_WATERMARK) else vertex.watermark * 1000,
                    )
                )
        return OPERATORS, _table(OPERATORS, rows)

    def _checkpoints(self) -> tuple[Schema, pa.Table]:
        rows: list[tuple[object, ...]] = []
        for name, job, _ in self._all_jobs():
            for info in () if job.checkpoints is None else job.checkpoints.store.list():
                rows.append(
                    (
                        name,
                        info.id,
                        info.kind,
                        info.epoch,
                        info.time * 1000,
                        info.bytes,
                        info.total_bytes,
                        info.duration,
                        info.status,
                        masked_text(info.path),
                    )
                )
        return CHECKPOINTS, _table(CHECKPOINTS, rows)

    def _state(self) -> tuple[Schema, pa.Table]:
        rows: list[tuple[object, ...]] = []
        for name, job, running in self._all_jobs():
            keys = {(v.name, t.name): MirroredTable.of(t).key for v, tables in stateful(job.dataflow) for t in tables}
            for operator, tables in _between_epochs(job, running, lambda job=job: _saved(job)).items():
                for table, batches in tables.items():
                    shown = ", ".join(n for n in batches[0].schema.names if n not in (SLOT, OWNER))
                    key = ", ".join(keys.get((operator, table), ()))
                    rows.append((name, operator, table, key, shown, sum(b.num_rows for b in batches)))
        for path, kept in tuple(self._kept.items()):
            for index in kept.indices:
                key = kept.columns_text(index.columns)
                rows.append((", ".join(index.users), str(path), "index", key, key, index.rows))
        return STATE, _table(STATE, rows)

    def _state_table(self, name: str, operator: str | None, table: str, span: Span | None) -> tuple[Schema, pa.Table]:
        jobs = {found: (job, running) for found, job, running in self._all_jobs()}
        saved: Mapping[str, Mapping[str, list[pa.RecordBatch]]]
        if name in jobs:
            job, running = jobs[name]
            saved = _between_epochs(job, running, lambda: _saved(job))
        elif "/" in name:
            with pointing_at(span):
                restored = _store.read_savepoint(name, self._keys())
            saved = {
                uid: {t: [task[t] for task in state.tasks if t in task] for task in state.tasks for t in task}
                for uid, state in restored.operators.items()
                if any(state.tasks)
            }
        else:
            raise BindError(
                f"unknown job '{name}'",
                code="E1406",
                span=span,
                hint=did_you_mean(name, jobs) or "SHOW JOBS lists them",
            )
        if operator is None:
            having = [known for known, tables in saved.items() if table in tables]
            if len(having) != 1:
                hint = f"name the operator: {', '.join(having)}" if having else "system.state lists them"
                several = f'several operators with a state table "{table}"' if having else f'no state table "{table}"'
                raise BindError(f"{name} has {several}", code="E1202", span=span, hint=hint)
            (operator,) = having
        if operator not in saved:
            hint = did_you_mean(operator, saved) or "system.state lists them"
            raise BindError(f'{name} has no operator "{operator}" with state', code="E1202", span=span, hint=hint)
        if table not in saved[operator]:
            hint = did_you_mean(table, saved[operator]) or "system.state lists them"
            raise BindError(f'{operator} has no state table "{table}"', code="E1202", span=span, hint=hint)
        rows = pa.Table.from_batches(saved[operator][table])
        shown = [n for n in rows.schema.names if n not in (SLOT, OWNER)]
        rows = rows.select(shown)
        schema = Schema(tuple(Field(n, _sql_type(rows.schema.field(n).type)) for n in shown))
        return schema, rows.cast(schema.arrow)


def _sql_type(type_: pa.DataType) -> DataType:
    """The type of a column of state in SQL; a sum may have more digits than a DECIMAL, and is a text then."""
    return STRING if pa.types.is_decimal(type_) and type_.precision > 38 else from_arrow(type_)


def _saved(job: Job) -> dict[str, dict[str, list[pa.RecordBatch]]]:
    """The state tables of a job by operator and name, a batch per task; rows that belong to others have the key columns
    of their owner."""
    found: dict[str, dict[str, list[pa.RecordBatch]]] = {}
    for vertex in job.dataflow.vertices:
        tables: dict[str, list[pa.RecordBatch]] = {}
        for task in () if vertex.operator is None else vertex.operator.tasks:
            for table in task.tables:
                tables.setdefault(table.name, []).append(table.decoded())
        if tables:
            found[vertex.name] = tables
    return found


def _between_epochs(job: Job, running: RunningJob | None, read: Callable[[], object]) -> dict:  # type: ignore[type-arg]
    """What `read` gives while no epoch runs. The jobs of views, and those that hold the lock during epochs, stand still
    as long as a statement runs."""
    if running is None or running.thread is None or running.locked or running.done.is_set():
        return read()  # type: ignore[return-value]
    return job.between_epochs(read).result()  # type: ignore[return-value]


def _table(schema: Schema, rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        pa.array(c, pa.int64()).cast(f.type.arrow) if pa.types.is_timestamp(f.type.arrow) else pa.array(c, f.type.arrow)
        for c, f in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema.arrow)
