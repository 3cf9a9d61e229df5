"""What the state of one aggregate call is: columns over all groups, addressed by dense group slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.indexed import put_at
from runtime.state.table import StateTable

__all__ = [
    "Accumulator",
    "ColumnAccumulator",
    "TableAccumulator",
    "clear_at",
    "keep_valid",
]


class Accumulator:
    """The state of one aggregate call for all groups.

    Groups are int64 slots that the caller hands out; a slot never updated (or released) is an empty group. `slots` of
    `update` may repeat.
    """

    def update(self, slots: np.ndarray, signs: np.ndarray | None, args: Sequence[pa.Array], seqs: np.ndarray) -> None:
        """Takes in rows, in order of arrival; NULL arguments are dealt with here, FILTER by the caller.

        Args:
            slots: the group of each row, int64 (n,).
            signs: +1 or -1 per row, int8; None when all are +1. -1 only where the call was made to retract.
            args: the call's arguments, n values each.
            seqs: arrival numbers, int64 ascending; unique over the life of the state.
        """
        raise NotImplementedError

    def result(self, slots: np.ndarray) -> pa.Array:
        """The value of each group (any order, repeats allowed), of exactly the call's Arrow type."""
        raise NotImplementedError

    def release(self, slots: np.ndarray) -> None:
        """Empties groups (each slot once); the slots may be used for other groups afterwards."""
        raise NotImplementedError

    def merge(self, targets: np.ndarray, other: Accumulator, sources: np.ndarray) -> None:
        """Adds what groups `sources` of `other` (same call; may be this object) hold to `targets`, pairwise; targets
        may repeat. The sources stay as they are."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        raise NotImplementedError

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """What is saved of a group, one value per column: short names and types. Nothing for state that is rows of its
        own (`tables`)."""
        raise NotImplementedError

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        """The columns of groups in use, by slot."""
        raise NotImplementedError

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        """Sets groups that are empty now to what `save` gave; columns that a newer version added are NULL."""
        raise NotImplementedError

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        """The tables of state that is rows of its own, which belong to the rows of `groups`, and of figures that all
        groups share; `name` tells calls apart. Called once: changes are noted in them from then on."""
        raise NotImplementedError


class ColumnAccumulator(Accumulator):
    """State that is a few values per group: all of it is `columns` of the groups."""

    def tables(self, name: str, groups: StateTable) -> list[StateTable]:
        return []


class TableAccumulator(Accumulator):
    """State that is rows of its own, any number per group: all of it is in `tables`."""

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return []

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return []

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        """Nothing stands with the groups."""


def keep_valid(
    slots: np.ndarray,
    signs: np.ndarray | None,
    args: Sequence[pa.Array],
    seqs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray | None, list[pa.Array], np.ndarray]:
    """The rows in which no argument is NULL."""
    if not any(a.null_count for a in args):
        return slots, signs, list(args), seqs
    valid = np.ones(len(slots), np.bool_)
    for argument in args:
        if argument.null_count:
            valid &= argument.is_valid().to_numpy(zero_copy_only=False)
    mask = pa.array(valid)
    return slots[valid], None if signs is None else signs[valid], [a.filter(mask) for a in args], seqs[valid]


def clear_at(values: np.ndarray, slots: np.ndarray, fill: float = 0) -> None:
    """Sets slots to `fill`; those beyond the end are that already."""
    put_at(values, slots[slots < len(values)], fill)
