"""Where the time of a job goes: per operator, and per kernel.

A kernel is a function of the engine, of Arrow, of numpy or of DuckDB; its time is its own, without what it calls. To
look at every call makes a job slower, so it is done when asked for.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runtime.core.options import bool_option
from runtime.core.rooms import Room
from runtime.local.dataflow import Vertex

if TYPE_CHECKING:
    import cProfile as _cprofile
    import pstats as _pstats
else:
    _cprofile = Room("cProfile")
    _pstats = Room("pstats")


__all__ = ["PROFILE", "Profile"]

PROFILE = bool_option("sqlengine.profile", False, "print time per operator and kernel when a job has ended")

_KERNELS = 20
_ENGINE = ("runtime", "connectors", "planner", "sqlengine")


class Profile:
    """Gathers what happens inside of `running` on the calling thread."""

    def __init__(self) -> None:
        self._calls = _cprofile.Profile()

    @contextmanager
    def running(self) -> Generator[None]:
        self._calls.enable()
        try:
            yield
        finally:
            self._calls.disable()

    def report(self, name: str, vertices: Sequence[Vertex]) -> str:
        """The operators by time, then the kernels that took most."""
        operators = sorted(vertices, key=lambda v: -v.busy_seconds)
        shown = [(_ms(v.busy_seconds), f"{v.rows_in:,}", f"{v.rows_out:,}", v.name) for v in operators]
        kernels = [(_ms(seconds), f"{calls:,}", kernel) for seconds, calls, kernel in self._kernels()]
        return "\n\n".join(
            (
                f"profile of {name}",
                _aligned([("time", "rows in", "rows out", "operator"), *shown]),
                _aligned([("time", "calls", "kernel"), *kernels]),
            )
        )

    def _kernels(self) -> list[tuple[float, int, str]]:
        self._calls.create_stats()
        figures = _pstats.Stats(self._calls).stats  # type: ignore[attr-defined]
        found = [(own, calls, _kernel(*where)) for where, (_, calls, own, _, _) in figures.items()]
        return sorted(found, reverse=True)[:_KERNELS]


def _kernel(path: str, line: int, function: str) -> str:
    """`runtime/kernels/hash_index.py:find`; of others the last two parts of the path."""
    if path == "~":
        return function.strip("<>")
    parts = path.replace(os.sep, "/").removesuffix(".py").split("/")
    start = next((i for i, part in enumerate(parts) if part in _ENGINE and i < len(parts) - 1), len(parts) - 2)
    return f"{'.'.join(parts[max(start, 0) :])}.{function}:{line}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"
