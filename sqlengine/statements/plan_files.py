"""Files of compiled plans: local, read with a limit, written beside and then renamed."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from typing import Final

from connectors.filesystem.files import local_path
from runtime.core.errors import FormatError, OptionError, Span
from runtime.core.secrets import masked_text

__all__ = ["MOST_BYTES", "plan_exists", "read_plan_file", "write_plan_file"]

MOST_BYTES: Final = 64 << 20
_LOCAL = "plans are in local files: give a path, or a file:// address"


def plan_exists(path: str, span: Span | None = None) -> bool:
    """Whether there is anything at a path."""
    return os.path.lexists(_place(path, span))


def read_plan_file(path: str, span: Span | None = None) -> str:
    """The text of a plan. Raises FormatError E3212 when it cannot be read."""
    try:
        # A FIFO that nobody writes to is not waited for.
        handle = os.open(_place(path, span), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise _refused(path, "is no file", span, "give the path of a plan that COMPILE PLAN has written")
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        hint = "COMPILE PLAN writes one; EXECUTE PLAN IF EXISTS does nothing without it"
        raise _refused(path, "is not there", span, hint) from error
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}", span) from error
    if len(data) > MOST_BYTES:
        raise _refused(path, f"has more than {MOST_BYTES >> 20} MiB", span, "no plan is as large as that")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _refused(path, f"is no text: byte {error.start} is no UTF-8", span) from error


def write_plan_file(path: str, text: str, *, replace: bool, span: Span | None = None) -> None:
    """Write a plan. Raises FormatError E3212 when there is one and it is not to be replaced, or it cannot be written."""
    place = _place(path, span)
    folder = os.path.dirname(place) or "."
    beside = ""
    try:
        handle, beside = tempfile.mkstemp(prefix=".plan-", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        if replace:
            os.replace(beside, place)
        else:
            os.link(beside, place)
            os.unlink(beside)
    except FileExistsError as error:
        hint = "COMPILE PLAN .. IF NOT EXISTS leaves it, SET 'table.plan.force-recompile' = 'true' replaces it"
        raise _refused(path, "is there already", span, hint) from error
    except OSError as error:
        raise _refused(path, f"cannot be written: {error.strerror}", span) from error
    finally:
        with suppress(OSError):
            os.unlink(beside)


def _place(path: str, span: Span | None) -> str:
    try:
        place = local_path(path)
    except OptionError:
        raise _refused(path, "is not on this machine", span, _LOCAL) from None
    if not place or "\0" in place:
        raise _refused(path, "is no path", span, _LOCAL)
    return os.path.expanduser(place)


def _refused(path: str, what: str, span: Span | None, hint: str | None = None) -> FormatError:
    return FormatError(f"the plan {masked_text(path)!r} {what}", code="E3212", span=span, hint=hint)
