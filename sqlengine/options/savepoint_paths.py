"""Where savepoints go, and under which names."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from runtime.core.options import text_option
from runtime.core.rooms import Room

if TYPE_CHECKING:
    import pyarrow.fs as _fs
else:
    _fs = Room("pyarrow.fs")

__all__ = ["SAVEPOINT_DIR", "next_savepoint", "savepoint_exists"]


SAVEPOINT_DIR = text_option("execution.checkpointing.savepoint-dir", "", "the folder where savepoints go")


def savepoint_exists(path: str) -> bool:
    """Whether there is something at a path (a folder or a URI) already."""
    if "://" in path:
        filesystem, at = _fs.FileSystem.from_uri(path)
        return filesystem.get_file_info(at).type is not _fs.FileType.NotFound
    return os.path.lexists(os.path.expanduser(path))


def next_savepoint(folder: str, job: str) -> str:
    """The first name of a savepoint of a job that is free in a folder."""
    names = (f"{folder.rstrip('/')}/savepoint-{job}-{n}" for n in itertools.count(1))
    return next(name for name in names if not savepoint_exists(name))
