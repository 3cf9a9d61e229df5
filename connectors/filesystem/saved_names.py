"""What a checkpoint says of a sink's files: names below the table's folder, such as a sink makes them.

A checkpoint may be damaged, or written by somebody else. So nothing is moved, made or removed by a name before it is found
to be one of a sink, in the table's folder, and a hidden file gets its name only when it holds what was written to it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import NoFileError, WritableFiles
from runtime.core.errors import CheckpointError

__all__ = [
    "check_content",
    "check_path",
    "folders_of",
    "staged_files",
    "waiting_partitions",
    "with_content",
    "without_content",
    "written_so_far",
]

_STAGED = re.compile(
    r"\.staged-[0-9a-f]{12}-[0-9a-f]{12}-(?:\d{1,18}|task-[0-9a-f]{32})(?:-(\d{1,18})-([0-9a-f]{64}))?"
)
_FINAL = re.compile(r"part-[0-9a-f]{8,24}-(?:\d{1,18}-)?[0-9a-f]{12}-\d{1,18}\.[a-z0-9.]{1,20}")
_LINE = re.compile(r"[0-9a-f]{8,24}")
_RUN = re.compile(r"[0-9a-f]{12}")
_HINT = "go on from an older checkpoint or a savepoint (execution.state-recovery.path), or start anew with --fresh"


def with_content(staged: str, size: int, digest: str) -> str:
    """The name of a hidden file that is complete: whoever knows it knows its size and the SHA-256 of its content."""
    return f"{staged}-{size}-{digest}"


def without_content(staged: str) -> str:
    """The path of a hidden file as it was begun."""
    content = _STAGED.fullmatch(os.path.basename(staged))
    return staged if content is None or content[1] is None else staged[: content.start(1) - content.end() - 1]


def staged_files(saved: Any, root: str, system: WritableFiles = LOCAL) -> list[tuple[str, str]]:
    """Hidden files and their names to be, relative to the table's folder. Raises CheckpointError E3402 when they cannot be
    those of a sink."""
    if not isinstance(saved, list | tuple):
        raise _damaged(root, "its files are no list")
    found: list[tuple[str, str]] = []
    for pair in saved:
        if not isinstance(pair, list | tuple) or [type(part) for part in pair] != [str, str]:
            raise _damaged(root, f"a file is {str(pair)[:80]!r}")
        (folder, staged), (final_folder, final) = map(os.path.split, pair)
        if folder != final_folder or not _STAGED.fullmatch(staged) or not _FINAL.fullmatch(final):
            raise _damaged(root, f"a file is to be {pair[1][:80]!r} that is {pair[0][:80]!r} now")
        check_folder(folder, root, system)
        found.append((pair[0], pair[1]))
    return found


def check_folder(folder: Any, root: str, system: WritableFiles = LOCAL) -> None:
    """Raises CheckpointError E3402 when a name is not that of a partition's folder, or of the table's (empty)."""
    if not isinstance(folder, str) or any("=" not in part for part in folder.split("/") if folder):
        raise _damaged(root, f"{str(folder)[:80]!r} is no partition")
    check_path(os.path.join(folder, "file"), root, system)


def check_path(path: Any, root: str, system: WritableFiles = LOCAL) -> None:
    """Raises CheckpointError E3402 when a path does not stay below the table's folder."""
    parts = path.split("/") if isinstance(path, str) else [""]
    if "\0" in path or any(part in ("", ".", "..") for part in parts) or os.path.isabs(path):
        raise _damaged(root, f"{str(path)[:80]!r} is not below it")
    folder = system.leads_out(root, path)
    if folder is not None:
        raise _damaged(root, f"a link leads from {path[:80]!r} to {folder}")


def check_content(staged: str, final: str, root: str, system: WritableFiles = LOCAL) -> None:
    """A hidden file holds what was written to it; one that has its name already is not looked at.

    Raises:
        CheckpointError: E3402 it does not.
        OSError: it cannot be read.
    """
    path = os.path.join(root, staged)
    try:
        size, digest = 0, hashlib.sha256()
        pieces = system.content(system.hidden(path))
        # Where files are renamed both names may be there, of what was renamed by half.
        if system.local and system.exists(os.path.join(root, final)):
            for _ in pieces:
                break
            raise _changed(path, f"is there beside {os.path.basename(final)}")
        content = _STAGED.fullmatch(os.path.basename(staged))
        if content is None or content[1] is None:
            for _ in pieces:
                break
            return  # an older version wrote it
        for piece in pieces:
            size += len(piece)
            digest.update(piece)
    except FileNotFoundError:
        return
    except NoFileError as error:
        raise _changed(path, "is no file") from error
    if size != int(content[1]):
        raise _changed(path, f"has {size} bytes instead of {content[1]}")
    if digest.hexdigest() != content[2]:
        raise _changed(path, "holds other bytes than were written")


def written_so_far(saved: Any, root: str) -> tuple[str, dict[str, int]]:
    """A line of runs and how many files each run had begun. Raises CheckpointError E3402 when it cannot be that."""
    if isinstance(saved, Mapping) and isinstance(saved.get("line"), str) and isinstance(saved.get("runs"), Mapping):
        line, runs = saved["line"], dict(saved["runs"])
        known = all(isinstance(run, str) and _RUN.fullmatch(run) for run in runs)
        if known and _LINE.fullmatch(line) and all(type(n) is int and n >= 0 for n in runs.values()):
            return line, runs
    raise _damaged(root, f"what it has written is {str(saved)[:80]!r}")


def waiting_partitions(saved: Any, root: str, system: WritableFiles = LOCAL) -> dict[str, int]:
    """Partitions that wait for their commit, with the time from which they do. Raises CheckpointError E3402."""
    if not isinstance(saved, Mapping) or any(type(since) is not int for since in saved.values()):
        raise _damaged(root, f"partitions that wait are {str(saved)[:80]!r}")
    for folder in saved:
        check_folder(folder, root, system)
    return dict(saved)


def folders_of(saved: Any, root: str, system: WritableFiles = LOCAL) -> Sequence[str]:
    """Partitions to be committed. Raises CheckpointError E3402."""
    if not isinstance(saved, list | tuple):
        raise _damaged(root, f"partitions are {str(saved)[:80]!r}")
    for folder in saved:
        check_folder(folder, root, system)
    return saved


def _damaged(root: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"what a checkpoint says of the files in {root} is not what was saved: {why}", code="E3402", hint=_HINT
    )


def _changed(path: str, how: str) -> CheckpointError:
    return CheckpointError(f"{path}, which a checkpoint has prepared, {how}", code="E3402", hint=_HINT)
