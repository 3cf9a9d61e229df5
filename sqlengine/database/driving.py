"""Jobs in the background, each on a thread of its own: they compute in turns, and have the lock of tables in memory, or
keep a part (`beside.py`), where they read or change those."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from runtime.core.processor_time import ProcessorTime
from runtime.local.job import Job
from sqlengine.database.beside import Beside
from sqlengine.database.scheduler import Share, Worker
from sqlengine.database.session import Session

__all__ = ["drive_job", "share_of"]


def share_of(job: Job, weight: int) -> Share:
    """What a job has of the processor; threads that compute for it count, too."""
    job.cancellation.processor = work = ProcessorTime()
    return Share(weight, Worker(job.cancellation), work)


def drive_job(
    job: Job,
    share: Share,
    session: Session,
    *,
    locked: bool,
    epoch: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Run a job in this thread to its end. `locked`: it holds the lock during each epoch, or keeps what it needs, and its
    turns end between epochs; those of others may end in the middle of one, and each is within an `epoch`."""
    scheduler = session.database.scheduler
    if locked:
        # The turn comes before the lock: nobody has the lock who waits for a turn.
        beside = Beside(job, session)
        with scheduler.turn(share):
            for _ in job.epochs(partial(scheduler.given_up, share), beside.epoch):
                pass
        return
    me, lock = threading.get_ident(), session.views.lock

    def let_others() -> None:
        # A job that commits has the lock. Its other threads work for this one.
        if scheduler.contended and threading.get_ident() == me and not lock.held:
            scheduler.let_others(share)

    job.cancellation.between = let_others
    with scheduler.turn(share):
        for _ in job.epochs(partial(scheduler.given_up, share), epoch):
            pass
