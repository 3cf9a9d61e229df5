"""What a job goes on from: its newest checkpoint that can be gone on from, or else a savepoint.

Files that are not what was written are told when they are read. State that somebody has made up may be told only by the
operators, when they load it or compute with it: then the checkpoint is refused, and the one before it is used. A state is
proven once the job has saved its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.epoch_state import Restored
from runtime.checkpoint.fitting import taking
from runtime.core.errors import CheckpointError, SqlEngineError
from runtime.core.logs import Log
from runtime.core.rooms import Room
from runtime.local.checkpoints import Checkpoints
from runtime.local.dataflow import Dataflow

if TYPE_CHECKING:
    import runtime.local.dead_letters as _dead_letters
else:
    _dead_letters = Room("runtime.local.dead_letters")

__all__ = ["DAMAGED", "GoingOn", "go_on"]

_log = Log("checkpoint")
DAMAGED = "E3402"
_GONE = "E3113"
"""What is said when output that a checkpoint has prepared is gone."""


class GoingOn:
    """See the module.

    Args:
        savepoint: what the job goes on from when it has no checkpoint of its own.
        unread: state is kept elsewhere, by those who read it.
    """

    def __init__(self, checkpoints: Checkpoints | None, savepoint: Restored | None, *, unread: bool = False) -> None:
        self._unread = unread
        self._checkpoints = checkpoints
        self._savepoint = savepoint
        self._unproven: Restored | None = None
        self._own = False

    def open(self, open_from: Callable[[Restored | None, bool], None]) -> None:
        """Calls it with what the job goes on from (None: the job begins), and whether that is a checkpoint of its own;
        again when that cannot be gone on from.

        Raises:
            CheckpointError: there is something, and nothing can be gone on from.
        """
        refused: SqlEngineError | None = None
        while True:
            self._unproven, self._own = None, False
            try:
                own = self._checkpoints.latest(unread=self._unread) if self._checkpoints is not None else None
            except CheckpointError as error:
                raise error if refused is None or refused.code != _GONE else refused from None
            restored = own or self._savepoint
            try:
                open_from(restored, own is not None)
            except SqlEngineError as error:
                if own is None or self._checkpoints is None or error.code not in (DAMAGED, _GONE):
                    raise
                self._checkpoints.store.refuse(own.id, error.message)
                refused = refused or error
                continue
            # What is fitted was in memory all the time.
            self._unproven = None if restored is not None and restored.fitted else restored
            self._own = own is not None
            return

    def computing(self) -> AbstractContextManager[None]:
        """Around an epoch: as long as the state is not proven, what operators cannot do with it is its damage."""
        return nullcontext() if self._unproven is None else taking(f"what {self._unproven.path} holds", room=False)

    def proved(self) -> None:
        """The job has saved its own state."""
        self._unproven = None

    def refuses(self, error: Exception) -> bool:
        """Whether the job goes back to an older checkpoint, because operators could not compute with this one."""
        damage = error if isinstance(error, CheckpointError) and error.code == DAMAGED else None
        unproven, self._unproven = self._unproven, None
        if damage is None or unproven is None or not self._own or self._checkpoints is None:
            return False
        self._checkpoints.store.refuse(unproven.id, damage.message)
        return True


def go_on(dataflow: Dataflow, checkpoints: Checkpoints | None, saved: Restored | None, own: bool) -> None:
    """Puts a dataflow where it was: its operators, and what its sinks had written. From a checkpoint of the job's `own` what
    was published since then is hidden again, which `saved.problems` tells. Without saved state it begins.

    Raises:
        CheckpointError: E3402 it is not what was saved; E3413 another run has written more since; E3414 it has rejected rows for
            another table.
    """
    counts: Mapping[str, Any] = {} if saved is None else saved.counts
    written = counts.get("written", {}) if own else {}
    if checkpoints is not None:
        with taking("what a checkpoint says of sinks"):
            checkpoints.fence(dataflow.writers(), written)
    if saved is None:
        if checkpoints is not None:
            dataflow.recover({})
        return
    _dead_letters.check_prepared(dataflow.letters, saved.sinks)
    dataflow.restore(saved.epoch, saved.operators)
    dataflow.restore_row_counts(counts.get("rows", {}))
    with taking(f"what sinks have prepared in {saved.path}"):
        dataflow.recover(saved.sinks)
        note = dataflow.take_back(written, saved.id) if own else None
    if dataflow.elsewhere is not None:
        dataflow.elsewhere.open_restored()
    if note:
        saved.problems.append(note)
        _log.warning("%s", note, path=saved.path, checkpoint=saved.id)
