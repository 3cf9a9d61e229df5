"""Changes in columns: row kinds, batches of changes, and which kinds an edge may carry (changelog mode).

Laws of a batch, checked by `runtime/operators/guards.py` around every operator in every test:
order within a batch is the order of the changes of a key; folding the signs never goes below zero for a row (retract)
or a key (upsert); `-U` stands right before its `+U` when both are there, but no consumer relies on pairs; a batch whose
rows are all `+I` has no kinds array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.core.node import Node, node
from runtime.core.schema import Schema

__all__ = [
    "DELETE",
    "INSERT",
    "KIND_NAMES",
    "UPDATE_AFTER",
    "UPDATE_BEFORE",
    "ChangelogBatch",
    "ChangelogMode",
    "Kinds",
    "Signs",
]

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3
KIND_NAMES: Final = ("+I", "-U", "+U", "-D")

Kinds = npt.NDArray[np.int8]
Signs = npt.NDArray[np.int8]

_SIGN_OF_KIND = np.array([1, -1, 1, -1], dtype=np.int8)
_KIND_OF_SIGN = np.array([DELETE, INSERT], dtype=np.int8)
_DICTIONARY: int = pa.dictionary(pa.int8(), pa.null()).id


class ChangelogBatch:
    """The changes of one epoch on one edge: an Arrow record batch and a row kind for each row.

    Text columns may come coded: as Arrow dictionaries of their values (none of them NULL), if the operator that gets
    them says `takes_codes`. Nobody else sees them so.

    Args:
        rows: the columns, Arrow types as `Schema.arrow` says.
        kinds: int8 array of `INSERT`, `UPDATE_BEFORE`, `UPDATE_AFTER`, `DELETE`, one per row; None means that every row
        is `+I`.
            An array that holds only `INSERT` is dropped.
    """

    __slots__ = ("kinds", "rows")

    def __init__(self, rows: pa.RecordBatch, kinds: Kinds | None = None) -> None:
        if kinds is not None:
            if len(kinds) != rows.num_rows:
                raise ValueError(f"{len(kinds)} row kinds for {rows.num_rows} rows")
            if not kinds.any():
                kinds = None
        self.rows = rows
        self.kinds = kinds

    @staticmethod
    def of(columns: Sequence[pa.Array], schema: Schema, kinds: Kinds | None = None) -> ChangelogBatch:
        """A batch from columns that are already of the schema's Arrow types."""
        return ChangelogBatch(record_batch(columns, schema), kinds)

    @staticmethod
    def signed(rows: pa.RecordBatch, signs: Signs) -> ChangelogBatch:
        """A batch whose `+1` rows are `+I` and whose `-1` rows are `-D`."""
        return ChangelogBatch(rows, _KIND_OF_SIGN[(signs > 0).astype(np.int8)])

    @staticmethod
    def empty(schema: Schema) -> ChangelogBatch:
        return ChangelogBatch(pa.RecordBatch.from_pylist([], schema=schema.arrow))

    @staticmethod
    def concat(batches: Iterable[ChangelogBatch]) -> ChangelogBatch:
        """The batches one after another; at least one, all of one schema."""
        parts = list(batches)
        if len(parts) == 1:
            return parts[0]
        if any(p.rows.schema != parts[0].rows.schema for p in parts):
            parts = [p.decoded() for p in parts]
        rows = pa.concat_batches([p.rows for p in parts])
        if all(p.kinds is None for p in parts):
            return ChangelogBatch(rows)
        return ChangelogBatch(rows, np.concatenate([p.kinds_or_inserts() for p in parts]))

    def __len__(self) -> int:
        return self.rows.num_rows

    @property
    def columns(self) -> list[pa.Array]:
        return self.rows.columns

    def column(self, index: int) -> pa.Array:
        return self.rows.column(index)

    @property
    def is_append_only(self) -> bool:
        return self.kinds is None

    @property
    def is_coded(self) -> bool:
        """Whether a column is an Arrow dictionary."""
        return any(t.id == _DICTIONARY for t in self.rows.schema.types)

    def decoded(self) -> ChangelogBatch:
        """The same changes without Arrow dictionaries."""
        if not self.is_coded:
            return self
        columns = [plain_column(c) for c in self.rows.columns]
        return ChangelogBatch(pa.RecordBatch.from_arrays(columns, names=self.rows.schema.names), self.kinds)

    def kinds_or_inserts(self) -> Kinds:
        return np.zeros(len(self), dtype=np.int8) if self.kinds is None else self.kinds

    def signs(self) -> Signs:
        """`+1` for `+I` and `+U`, `-1` for `-U` and `-D`."""
        return np.ones(len(self), dtype=np.int8) if self.kinds is None else _SIGN_OF_KIND[self.kinds]

    def take(self, indices: npt.NDArray[np.int64]) -> ChangelogBatch:
        """The rows at these positions, in this order."""
        return ChangelogBatch(self.rows.take(pa.array(indices)), None if self.kinds is None else self.kinds[indices])

    def filter(self, mask: npt.NDArray[np.bool_]) -> ChangelogBatch:
        """The rows where the mask is true."""
        if mask.all():
            return self
        return ChangelogBatch(self.rows.filter(pa.array(mask)), None if self.kinds is None else self.kinds[mask])

    def select(self, positions: Sequence[int]) -> ChangelogBatch:
        """The same changes with these columns."""
        return ChangelogBatch(self.rows.select(list(positions)), self.kinds)

    def slice(self, offset: int, length: int) -> ChangelogBatch:
        kinds = None if self.kinds is None else self.kinds[offset : offset + length]
        return ChangelogBatch(self.rows.slice(offset, length), kinds)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + (0 if self.kinds is None else self.kinds.nbytes)

    def __repr__(self) -> str:
        return f"ChangelogBatch({len(self)} rows{'' if self.kinds is None else ', with kinds'})"


def plain_column(column: pa.Array) -> pa.Array:
    """The column itself, or the values of an Arrow dictionary."""
    return column.cast(column.type.value_type) if column.type.id == _DICTIONARY else column


def record_batch(columns: Sequence[pa.Array], schema: Schema) -> pa.RecordBatch:
    """Columns of the right Arrow types under the names of a schema; zero columns are not possible on an edge."""
    return pa.RecordBatch.from_arrays(list(columns), names=list(schema.names))


@node
class ChangelogMode(Node):
    """Which row kinds an edge may carry.

    Append: only `+I`. Upsert: no `-U`, rows are identified by a key. Retract: full images, `-U` and `-D` cancel one
    equal row.
    `key_only_deletes` says that a `-D` may carry only the key columns, the others NULL.
    """

    insert: bool = True
    update_before: bool = False
    update_after: bool = False
    delete: bool = False
    key_only_deletes: bool = False

    @property
    def is_append_only(self) -> bool:
        return not (self.update_before or self.update_after or self.delete)

    @property
    def is_upsert(self) -> bool:
        """Updates come as after-images alone."""
        return self.update_after and not self.update_before

    @property
    def is_retract(self) -> bool:
        return not self.is_append_only and not self.is_upsert

    @property
    def kinds(self) -> frozenset[int]:
        flags = (self.insert, self.update_before, self.update_after, self.delete)
        return frozenset(kind for kind, on in enumerate(flags) if on)

    def union(self, other: ChangelogMode) -> ChangelogMode:
        return ChangelogMode(
            self.insert or other.insert,
            self.update_before or other.update_before,
            self.update_after or other.update_after,
            self.delete or other.delete,
            self.key_only_deletes or other.key_only_deletes,
        )

    def __str__(self) -> str:
        """Flink's spelling in EXPLAIN CHANGELOG_MODE: `[I,UB,UA,D]`."""
        flags = ((self.insert, "I"), (self.update_before, "UB"), (self.update_after, "UA"), (self.delete, "D"))
        return "[" + ",".join(name for on, name in flags if on) + "]"


APPEND: Final = ChangelogMode()
UPSERT: Final = ChangelogMode(update_after=True, delete=True)
RETRACT: Final = ChangelogMode(update_before=True, update_after=True, delete=True)
__all__ += ["APPEND", "RETRACT", "UPSERT", "plain_column", "record_batch"]
