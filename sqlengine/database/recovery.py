"""Where the jobs of a session save their state, and what they go on from.

An INSERT finds its checkpoints by the tables that it writes: the same file run again goes on where it ended, whatever
happened in between. A job that reads or fills tables in memory has none, because those tables end with the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from connectors.memory import MemorySink, MemoryTable, TableSnapshot
from connectors.memory.snapshot import PastRows
from runtime.checkpoint.epoch_state import Restored
from runtime.checkpoint.keys import Keys, keys_of
from runtime.core.errors import CheckpointError
from runtime.core.options import Options, text_option
from runtime.core.rooms import Room
from runtime.local.checkpoints import RETAINED, Checkpoints
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec
from runtime.plan.walk import walk_all
from sqlengine.database.session import Session
from sqlengine.options.savepoint_paths import SAVEPOINT_DIR

if TYPE_CHECKING:
    import runtime.checkpoint.store as _store
else:
    _store = Room("runtime.checkpoint.store")

__all__ = [
    "CHECKPOINT_DIR",
    "RECOVERY_OPTIONS",
    "counted_when_begun",
    "job_checkpoints",
    "job_folder",
    "savepoint_named",
    "savepoint_to_restore",
    "state_to_restore",
]


CHECKPOINT_DIR = text_option(
    "execution.checkpointing.dir", "", "the folder (or URI of an object store) where jobs save their state"
)
SAVEPOINT_PATH = text_option("execution.savepoint.path", "", "the savepoint from which the INSERTs that follow go on")
RECOVERY_PATH = text_option("execution.state-recovery.path", "", "Flink's newer name of execution.savepoint.path")
_NUMBER = re.compile(r"-\d+$")
PIPELINE_NAME = text_option("pipeline.name", "", "the name of the jobs that follow, also that of their checkpoints")
RECOVERY_OPTIONS = (CHECKPOINT_DIR, SAVEPOINT_DIR, SAVEPOINT_PATH, RECOVERY_PATH, PIPELINE_NAME)


def job_folder(session: Session, roots: Sequence[PhysicalNode]) -> str:
    """The name under which a job's checkpoints stand: what `pipeline.name` says, or the tables that it writes. A second
    job of a session with that name gets a number."""
    name = _job_name(session, roots)
    session.job_names[name] += 1
    return _numbered(name, session.job_names[name])


def job_checkpoints(session: Session, roots: Sequence[PhysicalNode]) -> Checkpoints | None:
    """The checkpoints of an INSERT, None when there is no folder for them or it lives in memory anyway."""
    where = session.options.get(CHECKPOINT_DIR)
    if not where or _in_memory(roots):
        return None
    job = job_folder(session, roots)
    keys = keys_of(session.options)
    store = _store.CheckpointStore(where, job, session.options.get(RETAINED), keys)
    if session.fresh:
        store.clear()
    elif not session.options.get(PIPELINE_NAME) and not store.list() and savepoint_to_restore(session) is None:
        _refuse_to_repeat(session, where, roots, keys)
    # The same tables may be written by another job, which has its checkpoints elsewhere.
    place = where if "://" in where else os.path.abspath(os.path.expanduser(where))
    return Checkpoints(f"{place} {job}", store, Options(session.options.as_dict()), session.clock)


def _refuse_to_repeat(session: Session, where: str, roots: Sequence[PhysicalNode], keys: Keys) -> None:
    """A statement set with one INSERT more or less than before would find no checkpoints, because it writes other
    tables, and write again what stands in those that it wrote before. Raises CheckpointError E3412."""
    written = {r.name for r in roots if isinstance(r, SinkExec)}
    mine = {_numbered(name, n) for name, count in session.job_names.items() for n in range(1, count + 1)}
    for name, folder in sorted(_store.jobs_at(where, keys).items()):
        before = set(_NUMBER.sub("", name).split("+"))
        if name in mine or before == written or not before & written:
            continue
        raise CheckpointError(
            f"{' and '.join(sorted(before & written))} was filled by another job, whose checkpoints are in {folder}:"
            " begun anew, this one would write its rows again",
            code="E3412",
            hint=f"SET 'pipeline.name' = '{name}' goes on from there (EXPLAIN RESTORE shows what it keeps); another name"
            " begins anew, and so does --fresh",
        )


@contextmanager
def counted_when_begun(session: Session) -> Iterator[None]:
    """A job that cannot begin gives its name back: the same statement, tried again, finds the same checkpoints."""
    before = session.job_names.copy()
    try:
        yield
    except BaseException:
        session.job_names = before
        raise


def state_to_restore(session: Session, roots: Sequence[PhysicalNode]) -> Restored | None:
    """What an INSERT would go on from if it ran now; None when it would begin anew. Nothing is claimed or counted."""
    where = session.options.get(CHECKPOINT_DIR)
    if where and not session.fresh and not _in_memory(roots):
        name = _job_name(session, roots)
        job = _numbered(name, session.job_names[name] + 1)
        found = _store.CheckpointStore(where, job, session.options.get(RETAINED), keys_of(session.options)).latest()
        if found is not None:
            return found
    return savepoint_to_restore(session)


def savepoint_to_restore(session: Session, *, unread: bool = False) -> Restored | None:
    """The savepoint that the options name. `unread`: its state is read by whoever goes on from it."""
    path = savepoint_named(session)
    return _store.read_savepoint(path, keys_of(session.options), unread=unread) if path else None


def savepoint_named(session: Session) -> str:
    """The path of the savepoint from which INSERTs go on; empty when none is named."""
    return session.options.get(RECOVERY_PATH) or session.options.get(SAVEPOINT_PATH)


def _job_name(session: Session, roots: Sequence[PhysicalNode]) -> str:
    tables = dict.fromkeys(r.name for r in roots if isinstance(r, SinkExec))
    return session.options.get(PIPELINE_NAME) or "+".join(tables)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _in_memory(roots: Sequence[PhysicalNode]) -> bool:
    tables = (node.table for node in walk_all(roots) if isinstance(node, SinkExec | SourceExec))
    return any(isinstance(table, MemoryTable | TableSnapshot | PastRows | MemorySink) for table in tables)
