"""What an operator says of its keys, so that their rows can leave its structures and come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.state.keyed import KeyIndex

__all__ = ["KeyedState"]


@dataclass(frozen=True, slots=True)
class KeyedState:
    """The keys of an operator all of whose state belongs to keys, and changes only with rows of its key, or expires.

    Attributes:
        types: Arrow types of the key columns.
        nullable: whether each column of a key may be NULL; rows with other NULLs have no key.
        find: the slot of each row's key, given the key columns and the number of rows; -1 where there is none.
        columns: the key columns of slots.
        live: the slots of all keys.
        count: how many keys there are.
        drop: takes keys out of the structures with all that belongs to them; nothing is sent for that.
        expires: keys or rows may expire, that is, go without a row of their key.
    """

    types: Sequence[pa.DataType]
    nullable: Sequence[bool]
    find: Callable[[Sequence[pa.Array], int], np.ndarray]
    columns: Callable[[np.ndarray], list[pa.Array]]
    live: Callable[[], np.ndarray]
    count: Callable[[], int]
    drop: Callable[[np.ndarray], None]
    expires: bool

    @staticmethod
    def of(
        index: KeyIndex, types: Sequence[pa.DataType], drop: Callable[[np.ndarray], None], *, expires: bool
    ) -> KeyedState:
        """For keys in an index over columns of these types that may all be NULL."""
        return KeyedState(
            types,
            [True] * len(types),
            index.find,
            index.columns,
            index.live_slots,
            lambda: len(index),
            drop,
            expires,
        )
