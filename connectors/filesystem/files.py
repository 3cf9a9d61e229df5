"""Which files a table consists of: a path, a folder with partitions, a pattern; always in the order of their names."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from runtime.core.errors import ConnectorError, OptionError

__all__ = ["FileEntry", "list_files", "local_path", "visible_files"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file: its path, size in bytes, time of modification in milliseconds since the epoch, and its partition.

    `partition`: the values of the partition columns as text.
    """

    path: str
    size: int
    modified: int
    partition: tuple[tuple[str, str], ...] = ()


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
    the path.

    Args:
        path: a file, a folder (searched with all below it) or a pattern of `glob`, where `**` spans folders.
        pattern: a regular expression that the whole path must match, empty for all.
        partitions: partition columns; each file then stands in folders named `column=value`.
        may_be_missing: a folder that does not exist yet has no files.
    Raises:
        ConnectorError: E3101 nothing there, E3102 it cannot be listed.
    """
    try:
        found = _find(path)
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
        try:
            status = os.stat(name)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _cannot_list(path, error) from error
        entries.append(FileEntry(name, status.st_size, status.st_mtime_ns // 1_000_000, _partition(name, partitions)))
    return entries


def _cannot_list(path: str, error: OSError) -> ConnectorError:
    return ConnectorError(
        f"cannot list {path}: {error.strerror}", code="E3102", hint="check the permissions of the folder"
    )


def _find(path: str) -> list[str] | None:
    """The files of a path; None when there is nothing of that name."""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        return _below(path)
    if glob.has_magic(path):
        return [
            f
            for name in glob.glob(path, recursive=True)
            if not _hidden(os.path.basename(name))
            for f in ([name] if os.path.isfile(name) else _below(name) if "**" not in path else [])
        ]
    return None


def visible_files(folder: str) -> list[str]:
    """The files below a folder that a reader sees, by name; none when there is no such folder."""
    return sorted(_below(folder)) if os.path.isdir(folder) else []


def _below(folder: str) -> list[str]:
    found: list[str] = []

    def refuse(error: OSError) -> None:
        raise error

    for at, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [f for f in folders if not _hidden(f)]
        found += [os.path.join(at, n) for n in names if not _hidden(n)]
    return found


def _hidden(name: str) -> bool:
    return name.startswith((".", "_")) and "=" not in name


def _nearest_folder(path: str) -> str | None:
    folder = os.path.dirname(path)
    while folder and folder != os.path.dirname(folder):
        if os.path.isdir(folder):
            return folder
        folder = os.path.dirname(folder)
    return None


def _partition(path: str, columns: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if not columns:
        return ()
    parts = dict(p.split("=", 1) for p in path.split(os.sep)[:-1] if "=" in p)
    missing = [c for c in columns if c not in parts]
    if missing:
        raise ConnectorError(
            f"{path} is in no folder '{missing[0]}=...'",
            code="E3103",
            hint=f"the table is partitioned by {', '.join(columns)}: each file stands in folders named column=value",
        )
    return tuple((c, unquote(parts[c])) for c in columns)
