"""Changes that lie in files which tasks have written, and that the driver need not see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.core.changelog import ChangelogBatch
from runtime.tasks.versions import StateFolder
from runtime.tasks.wire import decode

__all__ = ["FiledBatch", "Piece", "spread"]

_MOST_UNEVEN = 1.5
"""So many times what it could be may the greatest share of rows be, where each task keeps those that it has read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that a task has read, as one branch of the plan gets them, in a file of the job's folder.

    `file`: "" when no row is left of them. `mark`: the greatest watermark among them; None when some have no event time.
    """

    split: str
    file: str
    rows: int
    mark: int | None
    rows_read: int
    """Before filters that the task has applied."""
    task: int
    """Who has read them, and may have them at hand."""


class FiledBatch(ChangelogBatch):
    """A batch as any other, whose rows are loaded when somebody asks for them.

    Args:
        pieces: in order.
        place: the folder of the files.
        branches: of a source, the same rows as each branch over it gets them.
    """

    __slots__ = ("_loaded", "_place", "branches", "pieces")

    def __init__(self, pieces: Sequence[Piece], place: str, branches: Sequence[FiledBatch] = ()) -> None:
        self.pieces = tuple(pieces)
        self.branches = tuple(branches)
        self._place = place
        self._loaded: ChangelogBatch | None = None

    def _load(self) -> ChangelogBatch:
        if self._loaded is None:
            folder = StateFolder(self._place)
            self._loaded = ChangelogBatch.concat(
                [decode(folder.read(piece.file)) for piece in self.pieces if piece.rows]
            )
        return self._loaded

    @property
    def rows(self):  # type: ignore[override]
        return self._load().rows

    @property
    def kinds(self):  # type: ignore[override]
        return self._load().kinds

    def __len__(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    @property
    def rows_read(self) -> int:
        """How many rows of the source they come from."""
        return sum(piece.rows_read for piece in self.pieces)

    @property
    def timed(self) -> bool:
        """Whether the watermark of every piece is known."""
        return all(piece.mark is not None for piece in self.pieces)


def spread(pieces: Sequence[Piece], count: int) -> list[list[str]]:
    """The files that each of `count` tasks takes, in order: those that it has read, unless one task has read far more than
    others; then about as many rows each."""
    found: list[list[str]] = [[] for _ in range(count)]
    filled = [piece for piece in pieces if piece.rows]
    for piece, task in zip(filled, _takers(filled, count), strict=True):
        found[task].append(piece.file)
    return found


def _takers(pieces: Sequence[Piece], count: int) -> list[int]:
    """By piece the task that takes it."""
    total = sum(piece.rows for piece in pieces)
    evenly: list[int] = []
    before = 0
    for piece in pieces:
        evenly.append(min(count - 1, (before + piece.rows // 2) * count // total))
        before += piece.rows
    readers = [piece.task for piece in pieces]
    return readers if _greatest(pieces, readers) <= _MOST_UNEVEN * _greatest(pieces, evenly) else evenly


def _greatest(pieces: Sequence[Piece], tasks: Sequence[int]) -> int:
    """The rows of the task that has most."""
    rows: Counter[int] = Counter()
    for piece, task in zip(pieces, tasks, strict=True):
        rows[task] += piece.rows
    return max(rows.values(), default=0)
