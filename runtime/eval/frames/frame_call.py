"""Calls with OVER over frames of sorted rows, with what they carry over where frames begin at the partition's start.

`values` answers for frames inside the rows at hand. `run` answers for frames that begin before them: with what each
partition carried over from earlier rows, which it then updates; so that a running total needs no row of the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.eval.frames.layout import FrameLayout, Ranges, without
from runtime.expr.nodes import FrameExclusion
from runtime.plan.nodes import AggregateSpec
from runtime.state.table import StateTable

__all__ = ["Columns", "FrameCall", "Frames", "segment_ends", "valid_rows"]

Columns = Sequence[pa.Array]


@dataclass(frozen=True, slots=True)
class Frames:
    """Of sorted rows with their input's columns, the frames of some: of the rows at positions `rows`, from `low` up to
    before `high`, without what `exclude` says."""

    layout: FrameLayout
    columns: Columns
    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    exclude: FrameExclusion | None = None

    @property
    def ranges(self) -> Ranges:
        """The positions of each frame: ranges in ascending order, which may be empty."""
        return without(self.exclude, self.layout, self.rows, self.low, self.high)


class FrameCall:
    """One call. `kept` are the rows of a layout that FILTER lets through."""

    carries = True
    """Whether `run` works: what is carried over does not grow with the rows."""
    history = 0
    """How many rows before the present one a value may look at, whatever the frame."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec

    def values(self, frames: Frames, kept: np.ndarray) -> pa.Array:
        raise NotImplementedError

    def run(self, frames: Frames, kept: np.ndarray, slots: np.ndarray, first: np.ndarray) -> pa.Array:
        """`slots` are the partition slots of the segments, `first` the position of each segment's first row that is
        not carried over yet."""
        raise NotImplementedError

    @property
    def resumable(self) -> bool:
        """Whether `note` and `resume` work."""
        return False

    def note(self, rows: np.ndarray) -> None:
        """Notes, for the row ids that stand at the rows of the last `run`, what a partition carries after each."""

    def resume(self, slots: np.ndarray, rows: np.ndarray, sent: pa.Array) -> None:
        """Makes partitions carry what was noted at row ids (-1: nothing); `sent` are the values of the call at those
        rows."""

    def release(self, slots: np.ndarray) -> None:
        """Forgets what partitions carry."""

    def carried(self) -> list[tuple[str, pa.DataType]]:
        """What is saved of what a partition carries, one value per column: short names and types."""
        return []

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        """The `carried` columns of partitions."""
        return []

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        """Makes partitions that carry nothing carry what `save` gave."""

    def tables(self, name: str, partitions: StateTable) -> list[StateTable]:
        """The tables of what is carried as rows of its own, which belong to the rows of `partitions`; `name` tells
        calls apart."""
        return []

    @property
    def nbytes(self) -> int:
        return 0

    def args(self, columns: Columns) -> list[pa.Array]:
        return [columns[i] for i in self.spec.args]


def segment_ends(layout: FrameLayout) -> np.ndarray:
    """One after the last row of each segment."""
    heads = np.flatnonzero(np.diff(layout.segment, prepend=-1))
    return layout.end[heads]


def valid_rows(values: pa.Array, kept: np.ndarray) -> np.ndarray:
    """The rows that FILTER lets through and whose value is not NULL."""
    return kept & values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else kept
