"""A long-lived process that carries out tasks for one partition: see `serve`.

It gets a stage and the records for it, and answers with records; operators and their state stay in its memory from epoch
to epoch (`runtime/tasks/task.py`). It ends with the process that has started it, however that ends, and then removes what
that has left in shared memory.
"""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from runtime.core.errors import InternalError, ProcessError
from runtime.core.memory import release_free, set_beside
from runtime.local.allocator import keep_freed_memory
from runtime.tasks.shelf import Maps, Shelf
from runtime.tasks.shipping import loads
from runtime.tasks.task import forget_ended

__all__ = ["Answer", "Work", "no_room", "sendable", "serve"]


class Work(NamedTuple):
    """What a worker is asked for: a pickled stage, for one partition of a job. An empty stage: a job has ended, which is
    not answered."""

    place: str
    stage: bytes
    partition: int
    given: list[Any]
    """As stages take them; payloads may be `Shelved`."""
    beside: int = 0
    """The memory that the driver and its other workers take: the limit is for all of them."""


class Answer(NamedTuple):
    """What came of it: records, each with the partition that it goes to, or why there are none."""

    found: list[tuple[int, tuple[Any, ...]]]
    error: BaseException | None = None


def serve(work: int, life: int, root: str) -> None:
    """Be a worker, until the driver ends.

    Args:
        work: a socket, by its number.
        life: a pipe of which the driver holds the other end.
        root: a folder that is of no use without the driver.
    """
    # Ctrl-C is for the driver, which tells what is to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    watch = threading.Thread(target=_watch, args=(life, root), daemon=True)
    watch.start()
    connection = Connection(work)
    while True:
        try:
            asked: Work = loads(connection.recv_bytes())
            if not asked.stage:
                forget_ended()
                release_free()
                continue
            set_beside(asked.beside)
            connection.send_bytes(pickle.dumps(_done(asked), protocol=5))
        except (EOFError, OSError):
            # The driver has ended, or ends this process.
            return watch.join()


def _done(asked: Work) -> Answer:
    """Carries out a stage. What is no error of the user's query is an error as well: the driver raises it."""
    maps, shelf = Maps(), Shelf(asked.place)
    try:
        stage = loads(asked.stage)
        # The first stage gets a list from the driver, the others get what each record is for as well.
        given = [
            [maps.record(fields) for fields in part] if isinstance(part, list) else (part[0], maps.record(part[1]))
            for part in asked.given
        ]
        found = [(target, shelf.put(fields)) for target, fields in stage(asked.partition, iter(given))]
        return Answer(found)
    except Exception as error:
        return Answer([], no_room(error) or sendable(error))
    finally:
        shelf.close()


def sendable(error: Exception) -> BaseException:
    """An error that the driver can load and raise."""
    try:
        error.add_note("".join(traceback.format_exception(error)))
        pickle.loads(pickle.dumps(error))
    except Exception:
        return InternalError(f"a task has failed: {type(error).__name__}: {error}")
    return error


def no_room(error: BaseException) -> ProcessError | None:
    """What is told when the files in shared memory have no room; None of any other error."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    return ProcessError(
        "shared memory has no room for the rows and the state of tasks",
        code="E3902",
        hint="SET 'sqlengine.processes.dir' to a folder on a disk, or lower 'sqlengine.epoch.max-rows'",
    )


def _watch(life: int, root: str) -> None:
    """Until the driver has ended; nothing is ever written to the pipe."""
    while True:
        try:
            if not os.read(life, 1):
                break
        except InterruptedError:
            continue
        except OSError:
            break
    # Under its name nobody makes a file any more. One of the workers does it.
    ended = f"{root}-ended"
    with suppress(OSError):
        os.rename(root, ended)
        shutil.rmtree(ended, ignore_errors=True)
    os._exit(0)
