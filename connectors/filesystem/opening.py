"""Opens files as a table may read them: plain ones only. A named pipe would wait for a writer, a device may never end."""

from __future__ import annotations

import os
import re
import stat
from typing import BinaryIO

from runtime.core.errors import ConnectorError

__all__ = ["bare_name", "is_text", "open_plain", "plain_status", "shown_path"]

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def shown_path(path: str) -> str:
    """A path as text: bytes that are no UTF-8, and control characters, are written out."""
    text = path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def bare_name(path: str) -> str:
    """A path without what an address of a server has behind it: its ending is that of the file."""
    return path.partition("?")[0].partition("#")[0] if path.startswith(("http://", "https://")) else path


def is_text(path: str) -> bool:
    """Whether the bytes of a path are UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_plain(path: str) -> BinaryIO:
    """A file to be read, never waiting for anybody. Raises ConnectorError E3104 when it cannot be, or is no plain file."""
    plain_status(path)
    try:
        file = open(  # noqa: SIM115
            path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
        )
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        open_status(path, file)
    except BaseException:
        file.close()
        raise
    return file


def open_status(path: str, file: BinaryIO) -> os.stat_result:
    """The status of a file that is open; raises as `open_plain` does."""
    try:
        status = os.fstat(file.fileno())
    except OSError as error:
        raise _unreadable(path, error) from error
    _require_plain(path, status)
    return status


def plain_status(path: str) -> os.stat_result:
    """The status of a file; raises as `open_plain` does."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    _require_plain(path, status)
    return status


def _require_plain(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((kind for holds, kind in _KINDS if holds(status.st_mode)), "no file")
        raise ConnectorError(
            f"cannot read {shown_path(path)}: it is {kind}",
            code="E3104",
            hint="a table reads plain files: move it elsewhere, or leave it out by 'source.path.regex-pattern'",
        )


def _unreadable(path: str, error: OSError) -> ConnectorError:
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        reason = "the symbolic link leads nowhere"
    return ConnectorError(
        f"cannot read {shown_path(path)}: {reason}", code="E3104", hint="check that the file exists and may be read"
    )
