"""The procedures of the engine, in the database `sys`: what keeps folders small, and what saves jobs and databases.

A procedure with a statement of its own is that statement: whoever can only CALL, or has the name of a job as a parameter,
need not write it as text.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runtime.checkpoint.expiry import Expired, expire_checkpoints, expire_savepoints
from runtime.checkpoint.keys import keys_of
from runtime.core.errors import CatalogError, DatabaseError, OptionError, PlanningError, UnsupportedError
from runtime.core.options import parse_memory
from runtime.core.schema import Field, Schema
from runtime.core.secrets import masked_text
from runtime.core.types import BIGINT, BOOLEAN, INT, STRING, DataType, timestamp_ltz
from runtime.local.job import Job
from runtime.plan.walk import walk_all
from runtime.spi.abilities import KeepsVersions, SupportsCompaction, SupportsRelease
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.recovery import CHECKPOINT_DIR
from sqlengine.database.session import Session
from sqlengine.options.savepoint_paths import SAVEPOINT_DIR
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.statements.dispatch import execute
from sqlengine.user_functions.procedures import Parameter, ProcedureDeclaration
from sqlengine.values.code import path_sql

__all__ = ["procedures"]

Rows = list[tuple[Any, ...]]
_TARGET = "128mb"
_WRITING_MILLIS = 3_600_000


def _savepoint(session: Session, job: str, path: str | None = None) -> Rows:
    """Write a savepoint of a running job, which goes on: CREATE SAVEPOINT."""
    made = execute(st.CreateSavepoint(ddl.Name(job), None if path is None else ddl.Name(path)), session)
    return [(made.to_arrow().column(0)[0].as_py(),)]


def _stop_job(session: Session, job: str, savepoint: bool = False, drain: bool = False) -> Rows:
    """End a job: STOP JOB. The path is that of its savepoint."""
    result = execute(st.StopJob(ddl.Name(job), bool(savepoint), bool(drain)), session)
    return [(job, result.to_arrow().column(0)[0].as_py() if savepoint else None)]


def _backup(session: Session, path: str) -> Rows:
    """Write the database in a folder to another one: BACKUP TO."""
    rows = execute(st.Backup(ddl.Name(path)), session).to_arrow().column(0)[0].as_py()
    return [(masked_text(path), rows)]


def _checkpoint(session: Session) -> Rows:
    """Have the database in a folder make a checkpoint now, after which its log begins anew."""
    if session.durable is None:
        raise DatabaseError(
            "this database is in memory alone",
            code="E3709",
            hint='give it a folder: sqlengine shop/, or TableEnvironment.create(path="shop")',
        )
    with session.alone():
        session.durable.check()
        if not session.durable.checkpoint():
            raise DatabaseError("the checkpoint could not be written", code="E3704", hint="the log has the reason")
        entries = [e for e in session.durable.folder.entries() if e.kind == "checkpoint"]
    return [(entries[-1].epoch,)]


def _expire_checkpoints(
    session: Session,
    older_than: dt.datetime,
    path: str | None = None,
    job: str | None = None,
    dry_run: bool = False,
) -> Rows:
    """Delete all checkpoints of jobs that have written none since a time, and do not run."""
    where = _folder(path or session.options.get(CHECKPOINT_DIR), CHECKPOINT_DIR.key)
    running = {
        running.job.checkpoints.store.path for running in session.jobs.active() if running.job.checkpoints is not None
    }
    keys = keys_of(session.options)
    return _expired(
        expire_checkpoints(where, keys, _millis(older_than), job=job, running=running, dry_run=bool(dry_run))
    )


def _expire_savepoints(
    session: Session,
    older_than: dt.datetime,
    path: str | None = None,
    job: str | None = None,
    retain: int = 1,
    dry_run: bool = False,
) -> Rows:
    """Delete the savepoints in a folder that are older than a time, but the newest ones of each job."""
    where = _folder(path or session.options.get(SAVEPOINT_DIR), SAVEPOINT_DIR.key)
    if retain is None or retain < 0:
        raise OptionError("retain is a number from 0 on", hint="it says how many savepoints of a job stay")
    keys = keys_of(session.options)
    return _expired(
        expire_savepoints(where, keys, _millis(older_than), job=job, retained=retain, dry_run=bool(dry_run))
    )


def _folder(where: str, key: str) -> str:
    if not where:
        raise OptionError(
            "it is not said which folder", code="E1509", hint=f"path => '/a/folder', or SET '{key}' = '/a/folder' first"
        )
    return where if "://" in where else os.path.expanduser(where)


def _millis(time: dt.datetime | None) -> int:
    if time is None:
        raise OptionError("older_than is NULL", hint="older_than => CURRENT_TIMESTAMP - INTERVAL '7' DAY")
    return round(time.timestamp() * 1000)


def _expired(found: list[Expired]) -> Rows:
    zone = dt.UTC
    return [
        (e.job, masked_text(e.path), dt.datetime.fromtimestamp(e.time / 1000, zone), e.bytes)
        for e in sorted(found, key=lambda e: (e.job, e.time))
    ]


def _compact(session: Session, table: str, target_size: str = _TARGET) -> Rows:
    """Put small files of a table together."""
    thing, sink = _written(table, session)
    target = parse_memory(target_size)
    if not isinstance(sink, SupportsCompaction):
        where = "in memory" if thing.connector is None else f"in its connector '{thing.connector}'"
        raise UnsupportedError(
            f"{thing.path.name} keeps its rows {where}, and has no small files",
            code="E1604",
            hint="tables of the connectors 'filesystem', 'iceberg' and 'delta' can be compacted",
        )
    if isinstance(sink, KeepsVersions):
        # Who reads or writes it goes on with the version that he has.
        return [(f.folder or None, f.before, f.after, f.kept_for_jobs) for f in sink.compact(target)]
    for option, why in (
        ("source.monitor-interval", "whoever follows it would read the rows again"),
        ("source.path.regex-pattern", "other files of the folder are not its own"),
    ):
        if option in thing.options:
            raise UnsupportedError(
                f"{thing.path.name} has the option '{option}': {why}",
                code="E1604",
                hint="CALL it for a table over the same folder without that option, when nobody follows it",
            )
    place = _place(sink.describe())
    for name, job in _jobs(session):
        for node in walk_all(job.roots):
            other = node.outside
            if other is None or _place(other.describe()) != place:
                continue
            if not isinstance(other, SourceTable) or not other.bounded:
                does = "follows" if isinstance(other, SourceTable) else "writes to"
                raise PlanningError(
                    f"{name} {does} the folder of {thing.path.name}",
                    code="E1719",
                    hint="compact it when that has ended: STOP JOB",
                )
    return [(found.folder or None, found.before, found.after, found.kept_for_jobs) for found in sink.compact(target)]


def _named(table: str, session: Session) -> CatalogTable:
    """A table by name."""
    statement = parse_statement(f"DESCRIBE {path_sql(table)}")
    assert isinstance(statement, st.Describe)
    thing = session.catalogs.get(statement.name.parts)
    if not isinstance(thing, CatalogTable):
        raise CatalogError(f'"{thing.path.name}" is not a table', code="E1409", hint="give the name of a table")
    return thing


def _written(table: str, session: Session) -> tuple[CatalogTable, SinkTable | None]:
    """A table by name, and it as a sink; None for one in memory."""
    thing = _named(table, session)
    return thing, session.open_sink(thing, {}, live=False) if thing.connector is not None else None


def _versioned(table: str, session: Session) -> KeepsVersions:
    thing, sink = _written(table, session)
    if not isinstance(sink, KeepsVersions):
        raise UnsupportedError(
            f"{thing.path.name} has no versions in files",
            code="E1604",
            hint="tables of the connectors 'iceberg' and 'delta' have",
        )
    return sink


def _expire_snapshots(session: Session, table: str, older_than: dt.datetime, retain: int = 1) -> Rows:
    """Forget old versions of a table in a lake, and remove the files that only they had."""
    if retain is None or retain < 1:
        raise OptionError("retain is a number from 1 on", hint="it says how many versions stay, whatever their age")
    return [_versioned(table, session).expire_versions(_millis(older_than), retain)]


def _remove_orphan_files(session: Session, table: str, older_than: dt.datetime, dry_run: bool = False) -> Rows:
    """Remove files of a table in a lake that no version has: what jobs that failed have left."""
    before = _millis(older_than)
    if before > time.time() * 1000 - _WRITING_MILLIS:
        raise OptionError(
            "older_than is not an hour ago: files that jobs are writing are in no version either",
            hint="older_than => CURRENT_TIMESTAMP - INTERVAL '3' DAY",
        )
    return [(masked_text(path),) for path in _versioned(table, session).remove_orphan_files(before, bool(dry_run))]


def _release(session: Session, table: str) -> Rows:
    """Have another system keep nothing more for jobs that read a table."""
    thing = _named(table, session)
    factory = None if thing.connector is None else session.registry.connectors.get(thing.connector)
    made = None if factory is None else factory.source
    source = None if made is None else made(session.request(thing, {}, for_sink=False))
    if not isinstance(source, SupportsRelease):
        raise UnsupportedError(
            f"nobody keeps anything for {thing.path.name}",
            code="E1604",
            hint="tables of the connector 'postgres-cdc' have a slot, and perhaps a publication",
        )
    return list(source.release())


def _jobs(session: Session) -> Iterator[tuple[str, Job]]:
    for running in session.jobs.active():
        yield running.id, running.job
    for view in session.views.jobs():
        if not view.ended:
            yield f"the view {view.path.name}", view.job


def _place(described: Mapping[str, Any]) -> tuple[Any, ...]:
    return described.get("connector"), os.path.realpath(str(described.get("path")))


def _declare(
    call: Callable[..., Rows],
    parameters: dict[str, DataType],
    optional: dict[str, DataType],
    result: dict[str, DataType],
) -> ProcedureDeclaration:
    name = call.__name__.removeprefix("_")
    return ProcedureDeclaration(
        name,
        (
            *(Parameter(n, t) for n, t in parameters.items()),
            *(Parameter(n, t, optional=True) for n, t in optional.items()),
        ),
        Schema(tuple(Field(n, t) for n, t in result.items())),
        call,
        call.__doc__ or "",
    )


_TIME = timestamp_ltz(3)
_EXPIRED = {"job": STRING, "path": STRING, "written_at": _TIME, "bytes": BIGINT}


@functools.cache
def procedures() -> Mapping[str, ProcedureDeclaration]:
    """All of them by name."""
    path, job, dry_run = {"path": STRING}, {"job": STRING}, {"dry_run": BOOLEAN}
    older = {"older_than": _TIME}
    declared = [
        _declare(_backup, path, {}, {"path": STRING, "rows": BIGINT}),
        _declare(_checkpoint, {}, {}, {"epoch": BIGINT}),
        _declare(
            _compact,
            {"table": STRING},
            {"target_size": STRING},
            {"folder": STRING, "files_before": INT, "files_after": INT, "kept_for_jobs": INT},
        ),
        _declare(_expire_checkpoints, older, {**path, **job, **dry_run}, _EXPIRED),
        _declare(_expire_savepoints, older, {**path, **job, "retain": INT, **dry_run}, _EXPIRED),
        _declare(
            _expire_snapshots, {"table": STRING, **older}, {"retain": INT}, {"snapshots": INT, "files_removed": INT}
        ),
        _declare(_remove_orphan_files, {"table": STRING, **older}, dry_run, {"file": STRING}),
        _declare(_release, {"table": STRING}, {}, {"kind": STRING, "name": STRING}),
        _declare(_savepoint, job, path, {"path": STRING}),
        _declare(_stop_job, job, {"savepoint": BOOLEAN, "drain": BOOLEAN}, {"job": STRING, "path": STRING}),
    ]
    return {d.name: d for d in declared}
