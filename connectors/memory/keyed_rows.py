"""Rows of a table found by the values of some columns, as readers see them: what point lookups read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from connectors.memory.rows import TableVersion
from connectors.memory.table import MemoryTable
from runtime.core.changelog import ChangelogBatch
from runtime.state.keyed import KeyIndex
from runtime.state.multiset import RowMultiset
from runtime.state.rows import Identity

__all__ = ["KeyedRows"]


def nobody(worn: KeyedRows) -> None:
    """Nobody wants to know."""


_PATIENCE = 1 << 18
"""So many changes gather at least until somebody asks; with as many as there are rows the index is not worth to be kept."""


class KeyedRows:
    """An index over columns of a table in memory. It hears what readers are shown, and takes it in when somebody asks: so
    a table that nobody asks costs nothing, and a table that is asked costs as much as it changes.

    Any thread may ask. Changes gather up to a bound; beyond it the index is `worn` and is made anew by who asks next.

    Args:
        columns: their positions.
        on_worn: called when it is worn, by who has changed the table.
    """

    def __init__(
        self, table: MemoryTable, columns: Sequence[int], on_worn: Callable[[KeyedRows], object] = nobody
    ) -> None:
        self.columns = tuple(columns)
        self._on_worn = on_worn
        self.worn = False
        self._most = 0
        self._often = 1
        self._arrow = pa.schema([pa.field(f.name, f.type.arrow) for f in table.schema])
        schema = table.schema
        self._keys = KeyIndex.of(schema, self.columns)
        if table.primary_key:
            self._rows = RowMultiset(schema, Identity.KEYED, table.key_positions, images=True)
        else:
            self._rows = RowMultiset(schema, Identity.FULL)
        self._heard: list[ChangelogBatch] = []
        self._heard_rows = 0
        self._guard = threading.Lock()
        self._hearing = threading.Lock()

    def fill(self, version: TableVersion) -> None:
        """Take in the rows that were there before the first change that it hears of."""
        with self._guard:
            for batch in version.rows().to_batches(max_chunksize=1 << 16):
                self._take_in(ChangelogBatch(batch))

    def hear(self, changes: Sequence[ChangelogBatch]) -> None:
        """Readers are shown changes. Called with the table's telling lock held."""
        with self._hearing:
            if self.worn:
                return
            self._heard.extend(changes)
            self._heard_rows += sum(map(len, changes))
            self.worn = self._heard_rows > max(_PATIENCE, self._rows.rows)
            if self.worn:
                self._heard = []
        if self.worn:
            self._on_worn(self)

    @property
    def most(self) -> int:
        """At least as many as any key has rows."""
        return self._most * self._often

    @property
    def behind(self) -> int:
        """How many changes have gathered."""
        return self._heard_rows

    @property
    def rows(self) -> int:
        """How many rows it has, equal ones counted once."""
        return self._rows.rows

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._rows.nbytes

    def find(
        self, keys: Sequence[pa.Array], wanted: Sequence[int], *, most: int | None = None
    ) -> tuple[np.ndarray, list[pa.Array]] | None:
        """The rows of each key as readers see them now: the position of the key of each row, ascending, and the columns
        `wanted` of the rows. A key with NULL has none. None when it is worn.

        Raises OverflowError for more rows than `most`.
        """
        with self._guard:
            if not self._catch_up():
                return None
            slots = self._keys.find(keys, len(keys[0]))
            for key in keys:
                if key.null_count:
                    slots[np.asarray(key.is_null())] = -1
            if most is not None and self.most * len(slots) > most and int(self._rows.bag_sizes(slots).sum()) > most:
                raise OverflowError(most)
            index, rows = self._rows.all(slots)
            counts = self._rows.count[rows]
            if most is not None and int(counts.sum()) > most:
                raise OverflowError(most)
            if (counts != 1).any():
                index, rows = np.repeat(index, counts), np.repeat(rows, counts)
            return index, [self._rows.take_column(position, rows) for position in wanted]

    def catch_up(self) -> None:
        """Take in what has gathered."""
        with self._guard:
            self._catch_up()

    def _catch_up(self) -> bool:
        with self._hearing:
            heard, self._heard = self._heard, []
            self._heard_rows = 0
            worn = self.worn
        if heard:
            self._take_in(ChangelogBatch.concat(heard))
        return not worn

    def _take_in(self, changes: ChangelogBatch) -> None:
        columns = changes.decoded().columns
        typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, self._arrow, strict=True)]
        changes = ChangelogBatch(pa.RecordBatch.from_arrays(typed, schema=self._arrow), changes.kinds)
        slots, _ = self._keys.insert([changes.column(i) for i in self.columns], len(changes))
        changed = self._rows.apply(changes, slots)
        self._often = max(self._often, int(self._rows.count[changed].max(initial=1)))
        left = self._rows.settle(changed)
        sizes = self._rows.bag_sizes(slots)
        self._most = max(self._most, int(sizes.max(initial=0)))
        touched = np.unique(np.concatenate([left, slots[sizes == 0]]))
        self._keys.remove(touched[self._rows.bag_sizes(touched) == 0])
