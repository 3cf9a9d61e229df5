"""What an error in a Python function of the user says: the arguments, and where in the user's own code it was."""

from __future__ import annotations

import linecache
import os
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from runtime.core.errors import ExpressionError

__all__ = ["failed_call", "failure_of", "places", "shown_path"]

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
    user's code, the outermost first."""
    made = ExpressionError(
        f"the Python {kind} {name} failed{where}: {type(error).__name__}: {error}",
        code="E2110",
        hint=hint,
    )
    made.reason = f"the Python function {name} failed: {type(error).__name__}"
    made.trace = _shown(_codes(error.__traceback__))
    return made


def failure_of(name: str, error: BaseException, row: Sequence[Any] | None) -> ExpressionError:
    """The error of a call that has raised one."""
    return failed_call(name, error, "" if row is None else f" for ({', '.join(map(repr, row))})")


def places(frame: FrameType | None) -> tuple[str, ...]:
    """Where a call is at the moment: the frames of the user's code below `frame`, the outermost first."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return _shown(reversed(found))


def _shown(codes: Iterable[tuple[CodeType, int]]) -> tuple[str, ...]:
    """The frames of the user's code, those of the engine and of libraries left out. A function may be of a library."""
    found = [code for code in codes if not code[0].co_filename.startswith(_OURS)]
    users = [code for code in found if not code[0].co_filename.startswith(_LIBRARIES)]
    frames = [_line(code, line) for code, line in users or found]
    if len(frames) > _MOST_FRAMES:
        left_out = len(frames) - _MOST_FRAMES
        frames[_MOST_FRAMES // 2 : -_MOST_FRAMES // 2] = [f"... {left_out} more"]
    return tuple(frames)


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
