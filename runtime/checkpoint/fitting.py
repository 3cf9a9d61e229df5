"""What was saved is handed to those who go on from it. They take it apart as they wrote it, so whatever they cannot use is
no state that they have written."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager

from runtime.core.errors import CheckpointError, InternalError, SqlEngineError

__all__ = ["DAMAGED_HINT", "taking"]

DAMAGED_HINT = (
    "go on from an older checkpoint or a savepoint (execution.state-recovery.path), or start anew with --fresh"
)


@contextmanager
def taking(what: str, *, room: bool = True) -> Generator[None]:
    """Somebody takes `what` from a checkpoint. `room`: when there is no memory, it is for what nobody can have saved;
    otherwise only when more was asked for than the machine has.

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
        if isinstance(error, MemoryError) and not room and _asked(error) <= _memory():
            raise
        raise _damaged(what, f"{type(error).__name__}: {str(error)[:200]}") from error


def _asked(error: MemoryError) -> int:
    """How many bytes there was no memory for, as numpy or Arrow say it; 0 when nobody says."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is not None and dtype is not None:
        return math.prod(shape) * dtype.itemsize
    found = re.search(r"of size (\d+)", str(error))
    return int(found[1]) if found else 0


def _memory() -> int:
    """The bytes of memory of the machine; no bound where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _damaged(what: str, why: str) -> CheckpointError:
    return CheckpointError(f"{what} is not what was saved: {why}", code="E3402", hint=DAMAGED_HINT)
