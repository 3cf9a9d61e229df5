"""What the log says of a job's life."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.checkpoint.epoch_state import CheckpointInfo, Restored
from runtime.core.errors import SqlEngineError
from runtime.core.logs import Log
from runtime.core.rooms import Room
from runtime.plan.nodes import PhysicalNode, SinkExec

if TYPE_CHECKING:
    import runtime.core.given_values as _given
else:
    _given = Room("runtime.core.given_values")

__all__ = ["JobLog", "facts_of"]


_jobs = Log("jobs")
_checkpoints = Log("checkpoint")


class JobLog:
    """The life of one job. That of a query without a sink is told at DEBUG, its failure at INFO: whoever reads the rows
    hears of it by the exception."""

    def __init__(self, job: str, roots: Sequence[PhysicalNode]) -> None:
        self._job = job
        self._roots = tuple(roots)
        writes = any(isinstance(root, SinkExec) for root in roots)
        self._level = logging.INFO if writes else logging.DEBUG
        self._failures = logging.ERROR if writes else logging.INFO

    def became(self, status: str, epoch: int) -> None:
        """The job has another status."""
        _jobs.write(self._level, "%s is %s", self._job, status, job=self._job, status=status, epoch=epoch)

    def epoch(self, epoch: int, seconds: float) -> None:
        """An epoch is complete that had input."""
        if _jobs.hears(logging.DEBUG):
            facts = {"epoch": epoch, "seconds": seconds}
            _jobs.debug("%s: epoch %d took %.4f s", self._job, epoch, seconds, job=self._job, **facts)

    def failed(self, error: BaseException, epoch: int | None = None) -> None:
        """The job has ended because of an error, or cannot begin (`epoch` is None); it was interrupted by what is no
        Exception. Values that were given as parameters are told by their names, in the error itself, too."""
        if not isinstance(error, Exception):
            _jobs.info("%s was interrupted", self._job, job=self._job, status="FAILED", epoch=epoch)
            return
        if isinstance(error, SqlEngineError):
            _given.hide_given(error, _given.given_texts(self._roots))
        what = f"{self._job} cannot begin" if epoch is None else f"{self._job} has failed"
        _jobs.failure(what, error, self._failures, job=self._job, status="FAILED", epoch=epoch)

    def starts_again(self, error: Exception, note: str, epoch: int) -> None:
        """The job has failed, and starts again."""
        code = getattr(error, "code", None)
        for text, name in _given.given_texts(self._roots):
            note = note.replace(f"'{text}'", name)
        _jobs.warning("%s", note, job=self._job, status="RESTARTING", code=code, epoch=epoch)

    def goes_on(self, restored: Restored | None) -> None:
        """The job goes on from saved state, if there is some."""
        if restored is not None:
            facts = {"epoch": restored.epoch, "checkpoint": restored.id, "path": restored.path}
            text = "%s goes on after epoch %d, from %s"
            _checkpoints.info(text, self._job, restored.epoch, restored.path, job=self._job, **facts)

    def saved(self, info: CheckpointInfo) -> None:
        """A savepoint is complete."""
        text = "%s: savepoint after epoch %d in %s, %d bytes"
        _checkpoints.info(text, self._job, info.epoch, info.path, info.bytes, **facts_of(info, self._job))


def facts_of(info: CheckpointInfo, job: str) -> dict[str, object]:
    """What the log says beside a checkpoint or savepoint of a job."""
    return {
        "job": job,
        "checkpoint": info.id,
        "epoch": info.epoch,
        "bytes": info.bytes,
        "seconds": info.duration / 1000,
        "path": info.path,
    }
