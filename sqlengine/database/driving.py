"""Jobs in the background, each on a thread of its own: they compute in turns, and hold the lock of tables in memory where
they read or change those."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from runtime.core.processor_time import ProcessorTime
from runtime.local.job import Job
from sqlengine.database.database import Database
from sqlengine.database.scheduler import Share, Worker

__all__ = ["drive_job", "share_of"]


def share_of(job: Job, weight: int) -> Share:
    """What a job has of the processor; threads that compute for it count, too."""
    job.cancellation.processor = work = ProcessorTime()
    return Share(weight, Worker(job.cancellation), work)


def drive_job(job: Job, share: Share, database: Database, *, locked: bool) -> None:
    """Run a job in this thread to its end. `locked`: it holds the lock during each epoch, and its turns end between
    epochs; those of others may end in the middle of one."""
    scheduler = database.scheduler
    if locked:
        with scheduler.turn(share):
            _drive_locked(job, share, database)
        return
    me, lock = threading.get_ident(), database.views.lock

    def let_others() -> None:
        # A job that commits has the lock. Its other threads work for this one.
        if scheduler.contended and threading.get_ident() == me and not lock.held:
            scheduler.let_others(share)

    job.cancellation.between = let_others
    with scheduler.turn(share):
        job.run(partial(scheduler.given_up, share))


def _drive_locked(job: Job, share: Share, database: Database) -> None:
    lock = database.views.lock

    @contextmanager
    def pause(more: bool) -> Generator[None]:
        # The turn comes before the lock: nobody has the lock who waits for a turn.
        with lock.given_up(), database.scheduler.given_up(share, more):
            yield

    with lock:
        for _ in job.epochs(pause):
            if database.durable is not None:
                database.durable.commit()
            database.views.propagate()
        database.show()
