"""Changes by key of which the last counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import ConnectorError

__all__ = ["LastChanges", "named"]


def named(batch: ChangelogBatch, names: Sequence[str]) -> ChangelogBatch:
    """Rows under the names of the table, whatever the query calls them."""
    batch = batch.decoded()
    return ChangelogBatch(pa.RecordBatch.from_arrays(batch.rows.columns, names=list(names)), batch.kinds)


class LastChanges:
    """Changes that gather until a checkpoint takes the last one of each key.

    Args:
        place: names the table, for messages.
        names, key: the columns, and those of the key.
        most: bytes of changes.
    """

    def __init__(self, place: str, names: Sequence[str], key: Sequence[str], most: int) -> None:
        self._place = place
        self._names = tuple(names)
        self._key = [list(names).index(name) for name in key]
        self._most = most
        self._rows: list[ChangelogBatch] = []
        self._bytes = 0

    def add(self, batch: ChangelogBatch) -> None:
        """Raises ConnectorError E3151 when there are too many."""
        if batch.kinds is not None:
            batch = batch.filter(batch.kinds != UPDATE_BEFORE)
        if not len(batch):
            return
        self._rows.append(named(batch, self._names))
        self._bytes += batch.nbytes
        if self._bytes > self._most:
            self._rows = [self._folded()]
            self._bytes = self._rows[0].nbytes
            if self._bytes * 2 > self._most:
                raise ConnectorError(
                    f"{self._place} has {self._bytes >> 20} MiB of changes that no checkpoint has taken, half of "
                    f"{self._most >> 20} MiB is the most",
                    code="E3151",
                    hint="take checkpoints more often ('execution.checkpointing.interval'), or raise 'sink.spool.max-size'",
                )

    def take(self) -> ChangelogBatch | None:
        """The last change of each key, in the order of these; None when there is none. From now on there is none."""
        if not self._rows:
            return None
        last = self._folded()
        self.clear()
        return last

    def clear(self) -> None:
        """Forget them."""
        self._rows, self._bytes = [], 0

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return tuple(self._rows)

    def _folded(self) -> ChangelogBatch:
        gathered = ChangelogBatch.concat(self._rows)
        keys = pa.table({str(i): gathered.rows.column(i) for i in self._key})
        places = keys.append_column("", pa.array(np.arange(len(gathered))))
        last = places.group_by([str(i) for i in self._key], use_threads=False).aggregate([("", "max")]).column("_max")
        return gathered.take(np.sort(last.to_numpy()))
