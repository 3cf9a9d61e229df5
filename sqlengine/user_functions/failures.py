"""What an error in a Python function of the user says: the arguments, and where in the user's own code it was."""

from __future__ import annotations

import linecache
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, TracebackType

from runtime.core.errors import ExpressionError

__all__ = ["failed_call", "shown_path"]

_OURS = tuple(str(Path(__file__).parents[2] / package) + os.sep for package in ("sqlengine", "runtime"))
_LIBRARIES = (*{sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")}, "<frozen")
_MOST_FRAMES = 10


def failed_call(
    name: str,
    error: BaseException,
    where: str,
    kind: str = "function",
    hint: str = "filter out such rows, or have it return None",
) -> ExpressionError:
    """The error E2110 for an exception that a function has raised; `where` follows "failed". Its trace has the frames of the
    user's code, the outermost first: those of the engine and of libraries are left out. A function may be of a library."""
    made = ExpressionError(
        f"the Python {kind} {name} failed{where}: {type(error).__name__}: {error}",
        code="E2110",
        hint=hint,
    )
    found = [code for code in _codes(error.__traceback__) if not code[0].co_filename.startswith(_OURS)]
    users = [code for code in found if not code[0].co_filename.startswith(_LIBRARIES)]
    frames = [_line(code, line) for code, line in users or found]
    if len(frames) > _MOST_FRAMES:
        left_out = len(frames) - _MOST_FRAMES
        frames[_MOST_FRAMES // 2 : -_MOST_FRAMES // 2] = [f"... {left_out} more"]
    made.trace = tuple(frames)
    return made


def _codes(traceback: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    """The code of each frame, with its line."""
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lineno
        traceback = traceback.tb_next


def _line(code: CodeType, line: int) -> str:
    source = linecache.getline(code.co_filename, line).strip()
    place = f"in {code.co_name}, {shown_path(code.co_filename)}:{line}"
    return f"{place}: {source}" if source else place


def shown_path(file: str) -> str:
    """A path below the working directory, else as it is."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
