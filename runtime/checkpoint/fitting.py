"""What was saved is handed to those who go on from it. They take it apart as they wrote it, so whatever they cannot use is
no state that they have written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.core.errors import CheckpointError, InternalError, SqlEngineError

__all__ = ["DAMAGED_HINT", "taking"]

DAMAGED_HINT = (
    "go on from an older checkpoint or a savepoint (execution.state-recovery.path), or start anew with --fresh"
)


@contextmanager
def taking(what: str, *, room: bool = True) -> Iterator[None]:
    """Somebody takes `what` from a checkpoint. `room`: there is no memory for what nobody can have saved.

    Raises:
        CheckpointError: E3402 he cannot. Errors of the system (files, connectors) are as they were.
    """
    try:
        yield
    except (SqlEngineError, OSError) as error:
        if isinstance(error, InternalError):
            raise _damaged(what, error.message) from error
        raise
    except Exception as error:
        if isinstance(error, MemoryError) and not room:
            raise
        raise _damaged(what, f"{type(error).__name__}: {str(error)[:200]}") from error


def _damaged(what: str, why: str) -> CheckpointError:
    return CheckpointError(f"{what} is not what was saved: {why}", code="E3402", hint=DAMAGED_HINT)
