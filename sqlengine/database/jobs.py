"""The jobs of an environment: what runs in the background, and how it ended."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from runtime.core.errors import CatalogError, code_and_text, did_you_mean, without_traceback
from runtime.core.logs import Log, tell
from runtime.core.schema import Schema
from runtime.core.secrets import masked_sql
from runtime.core.types import BIGINT, INT, STRING, timestamp_ltz
from runtime.local.job import Job
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.maintained_view import MaintainedView

__all__ = ["Begun", "FailedJob", "JobUses", "Jobs", "RunningJob"]

_log = Log("jobs")

ENDED_JOBS_KEPT = 50


@dataclass(frozen=True, slots=True)
class JobUses:
    """What a job needs when it is made again: the tables and views that it reads, the tables to which it writes, and the
    functions of users that it calls, by their names."""

    reads: frozenset[ObjectPath] = frozenset()
    writes: frozenset[ObjectPath] = frozenset()
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Begun:
    """How a job in the background was begun, so that it can be begun again: its statement, and what was current. `text` and
    `options` are as they were given, and may hold secrets."""

    text: str
    catalog: str
    database: str
    options: Mapping[str, str] = field(repr=False)


@dataclass
class RunningJob:
    """A job and the thread it runs on (None when it ran in the caller's). `locked`: it holds the lock of tables in memory
    during each epoch."""

    id: str
    statement: str
    job: Job
    thread: threading.Thread | None = None
    locked: bool = False
    goes_on: bool = False
    """Whether it was begun before the database was opened."""
    uses: JobUses = JobUses()
    """Of a job that the database keeps."""
    weight: int | None = None
    """How much processor time it gets beside others that are busy; None where nobody waits for turns."""
    begun: Begun | None = None
    failure: BaseException | None = None
    told: bool = False
    """Whether somebody was told of the failure."""
    awaited: bool = False
    """Whether somebody has waited for its end, and so hears of it."""
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.statement = masked_sql(self.statement)

    @property
    def kept(self) -> bool:
        """Whether the database keeps it: it goes on when that is opened again."""
        return bool(self.uses.writes)

    def wait(self, timeout: float | None = None) -> None:
        """Until it has ended; raises what made it fail, TimeoutError when it still runs after so many seconds."""
        self.awaited = True
        if not self.done.wait(timeout):
            raise TimeoutError(f"{self.id} still runs after {timeout} s")
        if self.failure is not None:
            self.told = True
            raise self.failure

    def stop(self) -> None:
        """End it cleanly after the epoch at hand, and wait for that."""
        self.job.cancel()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()


@dataclass(frozen=True)
class FailedJob:
    """A job of a database in a folder that has failed, and was not begun again since that was opened."""

    id: str
    statement: str
    code: str
    message: str


class Jobs:
    """All jobs by id (`job-1`, `job-2`, ...)."""

    SCHEMA = Schema.of(
        ("job", STRING),
        ("statement", STRING),
        ("status", STRING),
        ("epochs", BIGINT),
        ("rows_in", BIGINT),
        ("rows_out", BIGINT),
        ("state_rows", BIGINT),
        ("state_bytes", BIGINT),
        ("restarts", BIGINT),
        ("error_code", STRING),
        ("error", STRING),
        ("failed_at", timestamp_ltz(3)),
        ("weight", INT),
    )

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self.jobs: dict[str, RunningJob] = {}
        self.failed: dict[str, FailedJob] = {}
        """Those that the database has kept, and of which nobody has said what is to become."""
        self._changed = threading.Condition()
        self.on_ended: Callable[[RunningJob], None] = _tell_failure
        """Called when a job in the background has ended, by its thread. Where nobody says otherwise, a failure of which
        nobody hears goes to stderr, unless the program has set up logging: the log has all failures."""

    def next_id(self) -> str:
        """A name that no job has."""
        names = (f"job-{number}" for number in self._ids)
        return next(name for name in names if name not in self.jobs and name not in self.failed)

    def _register(self, running: RunningJob) -> None:
        """Remember a job; of those that have ended only the newest, because each still holds its state's figures."""
        self.failed.pop(running.id, None)
        self.jobs[running.id] = running
        _log.debug("%s runs %s", running.id, " ".join(running.statement.split()), job=running.id)
        ended = [j.id for j in list(self.jobs.values()) if j.done.is_set()]
        for old in ended[:-ENDED_JOBS_KEPT]:
            self.jobs.pop(old, None)

    def run(self, name: str, statement: str, job: Job) -> RunningJob:
        """Run a job to its end in the caller's thread."""
        running = RunningJob(name, statement, job)
        self._register(running)
        try:
            job.run()
        except BaseException as error:
            running.failure, running.told = without_traceback(error), True
            raise
        finally:
            running.done.set()
        return running

    def start(
        self,
        name: str,
        statement: str,
        job: Job,
        run: Callable[[], None] | None = None,
        *,
        locked: bool = False,
        goes_on: bool = False,
        uses: JobUses | None = None,
        weight: int | None = None,
        begun: Begun | None = None,
    ) -> RunningJob:
        """Run a job on a thread of its own."""
        uses = uses or JobUses()
        running = RunningJob(name, statement, job, locked=locked, goes_on=goes_on, uses=uses, weight=weight)
        running.begun = begun
        self._register(running)

        def drain() -> None:
            try:
                (run or job.run)()
            except BaseException as error:  # handed to whoever waits for the job
                running.failure = error
            finally:
                running.done.set()
                with self._changed:
                    self._changed.notify_all()
                self.on_ended(running)

        running.thread = threading.Thread(target=drain, name=name, daemon=True)
        running.thread.start()
        return running

    def wait_for_all(self, awaited: Callable[[RunningJob], bool] = lambda job: not job.goes_on) -> None:
        """Until every job in the background has ended of those that are `awaited` (those begun since the start), or one has
        failed of which nobody was told so far."""

        def over() -> bool:
            failed = any(j.failure is not None and not j.told for j in list(self.jobs.values()))
            return failed or not any(j.thread and awaited(j) for j in self.active())

        with self._changed:
            self._changed.wait_for(over)

    def get(self, name: str) -> RunningJob:
        if name not in self.jobs:
            raise CatalogError(
                f"unknown job '{name}'", code="E1406", hint=did_you_mean(name, self.jobs) or "SHOW JOBS lists them"
            )
        return self.jobs[name]

    def active(self) -> list[RunningJob]:
        return [j for j in list(self.jobs.values()) if not j.done.is_set()]

    def rows(self, views: Iterable[MaintainedView] = ()) -> pa.Table:
        """`system.jobs`: the jobs of statements, and those that keep `views`. `error` is why a job has failed, or has
        started again the last time."""
        columns: list[list[object]] = [[] for _ in self.SCHEMA]
        shown: list[tuple[str, str | None, Job, BaseException | None, int | None]] = [
            (running.id, running.statement, running.job, running.failure or running.job.error, running.weight)
            for running in list(self.jobs.values())
        ]
        shown += [(v.job.name, None, v.job, v.job.error, v.weight if v.outside else None) for v in views]
        for name, statement, job, failure, weight in shown:
            flow = job.dataflow
            sources = [v for v in flow.vertices if v.operator is None]
            figures = (
                name,
                statement,
                job.status,
                flow.epoch,
                sum(v.rows_in for v in sources),
                sum(s.rows_written for s in flow.sinks()),
                flow.state_rows,
                flow.state_bytes,
                job.attempts,
                *((None, None) if failure is None else code_and_text(failure)),
                None if failure is None or job.failed_at is None else job.failed_at * 1000,
                weight,
            )
            for column, value in zip(columns, figures, strict=True):
                column.append(value)
        for failed in list(self.failed.values()):
            known = {
                "job": failed.id,
                "statement": masked_sql(failed.statement),
                "status": "FAILED",
                "error_code": failed.code,
                "error": failed.message,
            }
            for column, f in zip(columns, self.SCHEMA, strict=True):
                column.append(known.get(f.name))
        return pa.Table.from_arrays(
            [pa.array(c, f.type.arrow) for c, f in zip(columns, self.SCHEMA, strict=True)], schema=self.SCHEMA.arrow
        )


def _tell_failure(running: RunningJob) -> None:
    if running.failure is not None and not running.awaited:
        running.told = True
        code, text = code_and_text(running.failure)
        tell(f"{running.id} has failed: {code} {text}")
