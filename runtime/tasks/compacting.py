"""Versions of tasks that have grown long are written anew as one file: by tasks, while epochs go on.

    driver, between two epochs                  tasks, beside their epochs
      │── the files of a version so far ────────────►│ read them, write what they add up to
      │   (epochs add further files)                 │
      │◄── one file ─────────────────────────────────│
      │ version := that file and the further ones; then the others are removed

Files never change and a version names all of its own, so a compaction that is lost, or carried out twice, leaves a file that
nobody knows. It is not tried again in this job: then a task writes all of its state with an epoch, as long as that is needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from runtime.core.logs import Log
from runtime.local.checkpoints import give_way
from runtime.tasks.versions import StateFolder, decode_changes, encode_changes, merged

__all__ = ["Compacted", "Compacting", "Compaction"]

_log = Log("tasks")


class Compacted(NamedTuple):
    """What has become of the first files of a version. `task`: its phase, stage and partition."""

    task: tuple[int, int, int]
    files: tuple[str, ...]
    file: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """A piece of work for a task: the first files of a version as one.

    Args:
        place: the folder of the job's versions.
        task, files: as of `Compacted`; the first file is complete.
    """

    place: str
    task: tuple[int, int, int]
    files: tuple[str, ...]

    def __call__(self) -> Compacted:
        folder = StateFolder(self.place)
        data = encode_changes(merged([decode_changes(folder.read(name), name) for name in self.files]))
        phase, stage, partition = self.task
        # It may be under way twice: each attempt has a name of its own.
        file = folder.write(f"compacted-{phase}.{stage}-{partition}-{uuid.uuid4().hex[:12]}.state", data)
        return Compacted(self.task, self.files, file, len(data))


class Compacting:
    """The compactions of one job, one after another.

    Args:
        run: has tasks carry them out, from any thread.
    """

    def __init__(self, run: Callable[[Sequence[Compaction]], Sequence[Compacted]]) -> None:
        self._run = run
        self._worker: ThreadPoolExecutor | None = None
        self._under_way: Future[Sequence[Compacted]] | None = None
        self.failed = False
        """Whether one could not be carried out: there will be no other."""

    @property
    def is_free(self) -> bool:
        return self._under_way is None and not self.failed

    def begin(self, works: Sequence[Compaction]) -> None:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="compaction", initializer=give_way)
        self._under_way = self._worker.submit(self._run, works)

    def taken(self) -> Sequence[Compacted] | None:
        """What those that were begun have come to, once; None while they are under way, or none was begun."""
        if self._under_way is None or not self._under_way.done():
            return None
        done, self._under_way = self._under_way, None
        error = done.exception()
        if error is not None:
            self.failed = True
            _log.warning("tasks could not compact versions of state beside epochs, and do so with them: %s", error)
            return ()
        return done.result()

    def close(self) -> None:
        """Waits for what is under way: nothing of it may outlive the job."""
        if self._worker is not None:
            self._worker.shutdown(wait=True)
