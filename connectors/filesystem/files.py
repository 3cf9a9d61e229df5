"""Which files a table consists of: a path, a folder with partitions, a pattern; always in the order of their names."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from connectors.filesystem.opening import shown_path
from connectors.filesystem.partition_names import partition_values
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileSystem
from runtime.core.errors import ConnectorError, OptionError

__all__ = ["FileEntry", "list_files", "local_path"]


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
    path: str,
    pattern: str = "",
    partitions: tuple[str, ...] = (),
    *,
    may_be_missing: bool = False,
    system: FileSystem = LOCAL,
) -> list[FileEntry]:
    """All files of a table, sorted by path (`FileSystem.find`).

    Args:
        path: a file, a folder (searched with all below it) or a pattern, where `**` spans folders.
        pattern: a regular expression that the whole path must match, empty for all.
        partitions: partition columns; each file then stands in folders named `column=value`.
        may_be_missing: a folder that does not exist yet has no files, and one below it that cannot be listed stands for
            itself.
        system: where the path is.
    Raises:
        ConnectorError: E3101 nothing there, E3102 it cannot be listed.
    """
    try:
        found = system.find(path, may_be_missing)
    except OSError as error:
        raise _cannot_list(path, error) from error
    if found is None:
        if may_be_missing:
            return []
        raise ConnectorError(f"no such file or folder: {path}", code="E3101", hint=system.hint(path))
    matching = re.compile(pattern) if pattern else None
    entries: list[FileEntry] = []
    for listed in sorted(found, key=lambda f: f.path):
        name = listed.path
        if matching is not None and not matching.fullmatch(name):
            continue
        partition = partition_values(os.path.dirname(name)) if partitions else {}
        missing = [c for c in partitions if c not in partition]
        if missing:
            entries.append(
                FileEntry(name, listed.size, listed.modified, misplaced=f"is in no folder '{missing[0]}=...'")
            )
        else:
            entries.append(FileEntry(name, listed.size, listed.modified, tuple((c, partition[c]) for c in partitions)))
    return entries


def _cannot_list(path: str, error: OSError) -> ConnectorError:
    return ConnectorError(
        f"cannot list {shown_path(path)}: {error.strerror}", code="E3102", hint="check the permissions of the folder"
    )
