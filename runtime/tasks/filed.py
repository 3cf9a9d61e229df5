"""Changes that lie in files which tasks have written, and that the driver need not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.core.changelog import ChangelogBatch
from runtime.tasks.versions import StateFolder
from runtime.tasks.wire import decode

__all__ = ["FiledBatch", "Piece", "spread"]


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
    """The files that each of `count` tasks takes: about as many rows each, in order."""
    total = sum(piece.rows for piece in pieces)
    found: list[list[str]] = [[] for _ in range(count)]
    before = 0
    for piece in pieces:
        middle = before + piece.rows // 2
        if piece.rows:
            found[min(count - 1, middle * count // total)].append(piece.file)
        before += piece.rows
    return found
