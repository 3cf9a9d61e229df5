"""Files of this machine."""

from __future__ import annotations

import fnmatch
import glob
import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from connectors.filesystem.opening import open_plain, open_status, plain_status
from connectors.filesystem.partition_names import refuse_links
from connectors.filesystem.systems.seam import FileStatus, Listed, NoFileError
from runtime.core.errors import ConnectorError

__all__ = ["LOCAL", "LocalFiles", "fits", "is_hidden", "visible_files"]

_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A link is not followed, and a FIFO that has taken a file's name is not waited for."""
_READ = 1 << 20


@dataclass(frozen=True)
class LocalFiles:
    """See `FileSystem`. Links to files are followed, links to folders below a path are not, so that nothing is found twice.
    What is no plain file, or cannot be reached, is found: whoever opens it is told."""

    @property
    def local(self) -> bool:
        return True

    def group(self, path: str) -> object:
        """The device."""
        try:
            return os.stat(path).st_dev
        except OSError:
            return 0

    def find(self, path: str, tolerant: bool) -> list[Listed] | None:
        found = _find(path, tolerant)
        return None if found is None else [listed for name in found if (listed := _listed(name)) is not None]

    def names(self, path: str) -> object:
        """Takes a third of the time of `find`."""
        return _find(path, True)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def hint(self, path: str) -> str:
        if not os.path.isabs(path):
            return f"check the option 'path'; relative paths begin at {os.getcwd()}"
        near = _nearest_folder(path)
        return f"check the option 'path'; {near} exists" if near else "check the option 'path'"

    def status(self, path: str) -> FileStatus:
        return _status(plain_status(path))

    def open(self, path: str, in_order: bool = True) -> tuple[BinaryIO, FileStatus]:
        del in_order
        file = open_plain(path)
        try:
            return file, _status(open_status(path, file))
        except BaseException:
            file.close()
            raise

    # --- what sinks do

    def check_root(self, root: str) -> None:
        if os.path.exists(root) and not os.path.isdir(root):
            raise ConnectorError(
                f"cannot write to {root}: it is a file", code="E3110", hint="the option 'path' of a sink names a folder"
            )
        above = os.path.abspath(root)
        while not os.path.exists(above):
            above = os.path.dirname(above)
        if os.path.isdir(above) and not os.access(above, os.W_OK | os.X_OK):
            raise ConnectorError(
                f"cannot write to {root}: permission denied", code="E3110", hint="choose a folder that may be written"
            )

    def make_folder(self, folder: str) -> list[str]:
        missing: list[str] = []
        above = os.path.abspath(folder)
        while not os.path.exists(above):
            missing.append(above)
            above = os.path.dirname(above)
        for name in reversed(missing):
            os.mkdir(name)
        return missing[::-1]

    def remove_folder(self, folder: str) -> None:
        os.rmdir(folder)

    def create(self, path: str) -> _Output:
        return _Output(path)

    def named(self, path: str, name: str) -> str:
        os.replace(path, name)
        return name

    def hidden(self, path: str) -> str:
        return path

    def rename(self, path: str, new: str) -> None:
        try:
            os.rename(path, new)
        except FileNotFoundError:
            if not os.path.exists(new):
                raise

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def sync(self, folder: str) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def below(self, folder: str) -> Iterator[str]:
        for at, _, names in os.walk(folder, onerror=_raise):
            for name in names:
                yield os.path.join(at, name)

    def visible(self, folder: str) -> list[str]:
        return visible_files(folder)

    def in_folder(self, folder: str) -> list[str]:
        return os.listdir(folder)

    def content(self, path: str) -> Iterator[bytes]:
        try:
            descriptor = os.open(path, os.O_RDONLY | _SAFE)
        except FileNotFoundError:
            raise
        except OSError as error:
            if stat.S_ISREG(os.lstat(path).st_mode):
                raise
            raise NoFileError from error
        return _pieces(descriptor)

    def make_once(self, path: str, data: bytes) -> bool:
        hidden = f"{path}.{uuid.uuid4().hex}.new"
        try:
            with open(hidden, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            return _second_name(hidden, path, data)
        finally:
            with suppress(OSError):
                os.remove(hidden)

    def write_over(self, path: str, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | _SAFE)
        try:
            os.pwrite(descriptor, data, 0)
        finally:
            os.close(descriptor)

    def mark(self, path: str) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | _SAFE, 0o666)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.sync(os.path.dirname(path))

    def refuse_links(self, root: str, folder: str) -> None:
        refuse_links(root, folder)

    def leads_out(self, root: str, path: str) -> str | None:
        top, folder = os.path.realpath(root), os.path.realpath(os.path.dirname(os.path.join(root, path)))
        inside = folder == top or folder.startswith(top.rstrip(os.sep) + os.sep)
        return None if inside else folder


def _second_name(hidden: str, path: str, data: bytes) -> bool:
    """Give a file another name; False where there is one of that name."""
    try:
        os.link(hidden, path)
    except FileExistsError:
        return False
    except OSError:
        # A file system without links: there the file may be seen for a moment before it says anything.
        with suppress(FileExistsError), open(path, "xb") as file:
            file.write(data)
            return True
        return False
    return True


class _Output:
    def __init__(self, path: str) -> None:
        self._file = open(path, "wb")  # noqa: SIM115

    def write(self, data: bytes) -> object:
        return self._file.write(data)

    def close(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        self._file.close()


LOCAL = LocalFiles()


def _raise(error: OSError) -> None:
    raise error


def _pieces(descriptor: int) -> Iterator[bytes]:
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NoFileError
        while block := os.read(descriptor, _READ):
            yield block
    finally:
        os.close(descriptor)


def _status(status: os.stat_result) -> FileStatus:
    return FileStatus(status.st_size, status.st_mtime_ns, str(status.st_ino))


def _listed(name: str) -> Listed | None:
    """None for what has gone meanwhile."""
    try:
        status = os.stat(name)
    except FileNotFoundError:
        return Listed(name, 0, 0) if os.path.islink(name) else None
    except OSError:
        return Listed(name, 0, 0)
    return Listed(name, status.st_size, status.st_mtime_ns // 1_000_000)


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
        if _shows(name, path)
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
    return [prefix + name for name in found if fits(name.split(os.sep), wanted)]


def fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern, in which `**` stands for any folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return len(pattern) == 1 or any(fits(parts[i:], pattern[1:]) for i in range(len(parts)))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and fits(parts[1:], pattern[1:])


def _shows(name: str, pattern: str) -> bool:
    """Whether no part of a name is hidden but those that its pattern names in full."""
    return not any(is_hidden(n) and n != p for n, p in zip(name.split(os.sep), pattern.split(os.sep), strict=False))


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
                    if is_hidden(entry.name):
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


def is_hidden(name: str) -> bool:
    return name.startswith((".", "_")) and "=" not in name


def _nearest_folder(path: str) -> str | None:
    folder = os.path.dirname(path)
    while folder and folder != os.path.dirname(folder):
        if os.path.isdir(folder):
            return folder
        folder = os.path.dirname(folder)
    return None
