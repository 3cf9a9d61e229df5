"""Which files a table consists of: a path, a folder with partitions, a pattern; always in the order of their names."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from connectors.filesystem.opening import shown_path
from connectors.filesystem.partition_names import partition_values
from runtime.core.errors import ConnectorError, OptionError

__all__ = ["FileEntry", "list_files", "list_names", "local_path", "visible_files"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file: its path, size in bytes, time of modification in milliseconds since the epoch, and its partition.

    `partition`: the values of the partition columns as its folders write them. `misplaced`: why it is no file of the
    table, empty when it is one.
    """

    path: str
    size: int
    modified: int
    partition: tuple[tuple[str, str], ...] = ()
    misplaced: str = ""


def local_path(path: str) -> str:
    """The path of a `file://` address or a plain path; raises OptionError for other schemes."""
    if "://" not in path and not path.startswith("file:"):
        return path
    address = urlparse(path)
    if address.scheme != "file":
        raise OptionError(
            f"connector 'filesystem' cannot reach '{path}'", code="E1505", hint="give a local path or a file:// address"
        )
    return unquote(address.netloc + address.path if address.netloc not in ("", "localhost") else address.path)


def list_files(
    path: str, pattern: str = "", partitions: tuple[str, ...] = (), *, may_be_missing: bool = False
) -> list[FileEntry]:
    """All files of a table, sorted by path; names that begin with `.` or `_` are hidden, also those of folders below
    the path. What is no plain file, or cannot be reached, is among them: whoever opens it is told. Links to files are
    followed, links to folders below the path are not, so that nothing is found twice.

    Args:
        path: a file, a folder (searched with all below it) or a pattern of `glob`, where `**` spans folders.
        pattern: a regular expression that the whole path must match, empty for all.
        partitions: partition columns; each file then stands in folders named `column=value`.
        may_be_missing: a folder that does not exist yet has no files, and one below it that cannot be listed stands for
            itself.
    Raises:
        ConnectorError: E3101 nothing there, E3102 it cannot be listed.
    """
    try:
        found = _find(path, may_be_missing)
    except OSError as error:
        raise _cannot_list(path, error) from error
    if found is None:
        if may_be_missing:
            return []
        near = _nearest_folder(path)
        raise ConnectorError(
            f"no such file or folder: {path}",
            code="E3101",
            hint=f"check the option 'path'; relative paths begin at {os.getcwd()}"
            if not os.path.isabs(path)
            else f"check the option 'path'; {near} exists"
            if near
            else "check the option 'path'",
        )
    matching = re.compile(pattern) if pattern else None
    entries: list[FileEntry] = []
    for name in sorted(found):
        if matching is not None and not matching.fullmatch(name):
            continue
        size = modified = 0
        try:
            status = os.stat(name)
            size, modified = status.st_size, status.st_mtime_ns // 1_000_000
        except FileNotFoundError:
            if not os.path.islink(name):
                continue
        except OSError:
            pass
        partition = partition_values(os.path.dirname(name)) if partitions else {}
        missing = [c for c in partitions if c not in partition]
        if missing:
            entries.append(FileEntry(name, size, modified, misplaced=f"is in no folder '{missing[0]}=...'"))
        else:
            entries.append(FileEntry(name, size, modified, tuple((c, partition[c]) for c in partitions)))
    return entries


def list_names(path: str) -> list[str] | None:
    """The names of the files of a watched table, whatever the pattern; None when there is nothing. Takes a third of the time of
    `list_files`. Raises OSError."""
    return _find(path, True)


def _cannot_list(path: str, error: OSError) -> ConnectorError:
    return ConnectorError(
        f"cannot list {shown_path(path)}: {error.strerror}", code="E3102", hint="check the permissions of the folder"
    )


def _find(path: str, tolerant: bool) -> list[str] | None:
    """The files of a path; None when there is nothing of that name. A path that names anything but a folder is a file."""
    if os.path.isdir(path):
        return _below(path, tolerant)
    if os.path.lexists(path):
        return [path]
    if not glob.has_magic(path):
        return None
    if "**" in path:
        return _matching(path, tolerant)
    return [
        f
        for name in glob.glob(path)
        if not _hidden(os.path.basename(name))
        for f in ([name] if not os.path.isdir(name) else [] if os.path.islink(name) else _below(name, tolerant))
    ]


def _matching(pattern: str, tolerant: bool) -> list[str]:
    """The files that match a pattern with `**`, looked for below its first folder that is named in full."""
    parts = pattern.split(os.sep)
    named = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    base = os.sep.join(parts[:named]) or (os.sep if pattern.startswith(os.sep) else os.curdir)
    if not os.path.isdir(base):
        return []
    wanted = parts[named:]
    found = (os.path.relpath(name, base) for name in _below(base, tolerant))
    prefix = "" if base == os.curdir else os.path.join(base, "")
    return [prefix + name for name in found if _fits(name.split(os.sep), wanted)]


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern, in which `**` stands for any folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return len(pattern) == 1 or any(_fits(parts[i:], pattern[1:]) for i in range(len(parts)))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def visible_files(folder: str) -> list[str]:
    """The files below a folder that a reader sees, by name; none when there is no such folder."""
    return sorted(_below(folder)) if os.path.isdir(folder) else []


def _below(folder: str, tolerant: bool = False) -> list[str]:
    """The files below a folder. `tolerant`: a folder in it that cannot be listed stands for itself."""
    found: list[str] = []
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        try:
            with os.scandir(at) as entries:
                for entry in entries:
                    if _hidden(entry.name):
                        continue
                    if not _is_folder(entry):
                        found.append(entry.path)
                    elif not entry.is_symlink():
                        waiting.append(entry.path)
        except OSError as error:
            if not tolerant or at == folder:
                raise
            if not isinstance(error, FileNotFoundError):
                found.append(at)
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _hidden(name: str) -> bool:
    return name.startswith((".", "_")) and "=" not in name


def _nearest_folder(path: str) -> str | None:
    folder = os.path.dirname(path)
    while folder and folder != os.path.dirname(folder):
        if os.path.isdir(folder):
            return folder
        folder = os.path.dirname(folder)
    return None
