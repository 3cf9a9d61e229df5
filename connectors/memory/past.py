"""What has changed in a table in memory, for as long as somebody may ask what it was: rows as of a moment.

Changes are kept as they are shown, with the moment of their epoch. The past is read backwards: from the rows as they are
now, without what has come since, and with what has gone. So keeping it costs as much as there are changes, reading it as
much as the table and the changes since have rows, and what is old is forgotten from the front.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from connectors.memory.column_files import ColumnFiles
from connectors.memory.rows import RowStore, TableVersion
from runtime.core.changelog import UPDATE_AFTER, ChangelogBatch
from runtime.kernels.grouping import distinct_rows
from runtime.state.keyed import KeyIndex

__all__ = ["Since", "TableHistory"]

_SIGN = "sign of a change"
_MOMENT = "moment of a change"
_EPOCH = "epoch of a change"


@dataclass(frozen=True, slots=True)
class Since:
    """What has changed in a table since a moment. Any thread may read it.

    Args:
        changes: rows, their signs and their moments; those before `start` are older.
        place: the number of the last change before the moment, in all that there ever were: it tells one past from
            another.
    """

    changes: TableVersion
    start: int
    place: int


class TableHistory:
    """How a table has changed. One thread at a time writes; `since` is called while nobody does.

    Args:
        schema: the columns of the table.
        keys: the positions of its primary key; none for a bag.
        retention: how long changes are kept, milliseconds.
        files: where many changes are kept; None: in memory.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[int], retention: int, files: ColumnFiles | None) -> None:
        self.schema = schema
        self.retention = retention
        self.began: int | None = None
        """The first moment of which the rows are known; None before the table is shown."""
        self._keys = tuple(keys)
        more = pa.field(_SIGN, pa.int8()), pa.field(_MOMENT, pa.int64()), pa.field(_EPOCH, pa.int64())
        self._rows = RowStore(pa.schema([*schema, *more]), files)
        self._heard: list[ChangelogBatch] = []
        self._moments = array("q")
        """The moments of epochs that have changed the table, ascending."""
        self._ends = array("q")
        """The number of all changes up to the end of each of them, also of those that are forgotten."""
        self.first_epoch: int | None = None
        """The number of the first epoch after which the rows are known; None: it has shown nothing yet."""
        self.unsure: tuple[int, int] | None = None
        """Behind the first and before the second epoch nobody knows the rows: a process that has ended had shown others than are
        there."""
        self._epochs = _Epochs()
        self._forgotten = 0
        self._known: WeakValueDictionary[int, TableVersion] = WeakValueDictionary()

    @property
    def store(self) -> RowStore:
        """Where changed rows are kept."""
        return self._rows

    @property
    def rows(self) -> int:
        """How many changed rows are kept."""
        return self._rows.size

    @property
    def nbytes(self) -> int:
        """The memory of what is kept. From any thread."""
        return self._rows.nbytes + 16 * len(self._moments) + 24 * len(self._epochs.numbers)

    @property
    def newest(self) -> int | None:
        """When the table has changed last, as far as it is known."""
        return self._moments[-1] if self._moments else None

    @property
    def newest_epoch(self) -> int | None:
        """In which epoch the table has changed last, as far as it is known."""
        return self._epochs.numbers[-1] if self._epochs.numbers else None

    @property
    def changed(self) -> int:
        """The number of all changes that there ever were."""
        return self._forgotten + self._rows.size

    def oldest(self, now: int) -> int | None:
        """The first moment of which the rows are known."""
        return None if self.began is None else max(self.began, now - self.retention)

    def keep_for(self, retention: int, now: int) -> None:
        """Keep changes for another time from now on. What is forgotten already stays so."""
        self.began = self.oldest(now)
        self.retention = retention

    def hear(self, changes: Sequence[ChangelogBatch]) -> None:
        """The table shows changes; `note` says when."""
        self._heard += changes

    def begin(self, moment: int, epoch: int) -> None:
        """From now on changes are kept; the rows are known as they are at that moment, at the end of that epoch."""
        if self.began is None:
            self._heard = []
            self.began = moment
        self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        if self.first_epoch is None:
            self.first_epoch, self._epochs.start = epoch, self.changed

    def note(self, moment: int, epoch: int) -> None:
        """What was heard is an epoch that was complete at a moment, which is not before the last one. No epoch before has a
        greater number; one of the same number has gone on."""
        changes, self._heard = [batch for batch in self._heard if len(batch)], []
        self._begin(epoch)
        if self.began is None:
            self.began = moment
            return
        before = self.changed
        for batch in changes:
            self._append(batch, moment, epoch)
        self._end(moment)
        if self.changed > before:
            self._epochs.end(epoch, moment, self.changed)
        self.forget(moment)

    def _append(self, batch: ChangelogBatch, moment: int, epoch: int) -> None:
        if self._keys and batch.kinds is not None:
            # Before a new image there is the old one, which alone is read backwards.
            batch = batch.filter(np.asarray(batch.kinds) != UPDATE_AFTER)
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.decoded().rows.columns, self.schema, strict=True)
        ]
        signs = pa.array(batch.signs().astype(np.int8))
        when = [pa.array(np.full(len(batch), number, np.int64)) for number in (moment, epoch)]
        self._rows.append(pa.RecordBatch.from_arrays([*columns, signs, *when], schema=self._rows.schema))

    def _end(self, moment: int) -> None:
        """An epoch ends behind what is kept so far."""
        if self._moments and self._moments[-1] == moment:
            self._ends[-1] = self.changed
        elif self.changed > (self._ends[-1] if self._ends else self._forgotten):
            self._moments.append(moment)
            self._ends.append(self.changed)

    def forget(self, now: int) -> None:
        """Drop what nobody may ask for any more. Costs as much as is dropped."""
        first = self._epochs.forget(now - self.retention)
        if first is not None:
            self.first_epoch = first
        old = bisect_right(self._moments, now - self.retention)
        if old > len(self._moments) // 2:
            self._forgotten += self._rows.drop_front(self._ends[old - 1] - self._forgotten)
            del self._moments[:old]
            del self._ends[:old]

    # --- read

    def since(self, moment: int) -> Since:
        """What has changed since a moment that is not before `oldest`."""
        epoch = bisect_right(self._moments, moment)
        if epoch == len(self._moments):
            place = self.changed
        elif epoch:
            place = self._ends[epoch - 1]
        else:
            place = self._start()
        return Since(self._rows.version(), place - self._forgotten, place)

    def since_epoch(self, epoch: int, newest: int, now: int) -> Since | None:
        """What has changed since the end of an epoch; None: nobody knows.

        Args:
            newest: the number of the newest epoch, which is not before that one.
            now: the moment; what was no longer so before the retention is not told.
        """
        if epoch < (newest if self.first_epoch is None else self.first_epoch):
            return None
        if self.unsure is not None and self.unsure[0] < epoch < self.unsure[1]:
            return None
        at = bisect_right(self._epochs.numbers, epoch)
        if at == len(self._epochs.numbers):
            place = self.changed
        elif self._epochs.moments[at] <= now - self.retention:
            return None
        else:
            place = self._epochs.ends[at - 1] if at else self._epochs.start
        if place < self._forgotten:
            return None
        return Since(self._rows.version(), place - self._forgotten, place)

    def _start(self) -> int:
        """The number of changes before the first epoch of which the moment is kept."""
        moments = np.asarray(self._rows.version().rows([_MOMENT]).column(0))
        return self._forgotten + int(np.searchsorted(moments, self._moments[0], "left"))

    def rows_before(self, now: TableVersion, since: Since) -> TableVersion:
        """The rows as they were before some changes. The same object as long as somebody has it.

        Args:
            now: the rows after all of them.
        """
        if since.start == since.changes.num_rows:
            return now
        known = self._known.get(since.place)
        if known is None:
            later = since.changes.rows().slice(since.start).combine_chunks().to_batches()[0]
            rows = pa.RecordBatch.from_arrays(later.columns[: len(self.schema)], schema=self.schema)
            signs = np.asarray(later.column(len(self.schema)))
            known = _keyed(now, rows, signs, self._keys) if self._keys else _bag(now, rows, signs)
            self._known[since.place] = known
        return known

    # --- kept in files

    def written(self, after: int) -> list[pa.RecordBatch]:
        """The changes that are kept behind a number of all that there ever were, with signs and moments."""
        return self._rows.version().rows().slice(max(after - self._forgotten, 0)).to_batches()

    @property
    def first(self) -> int:
        """The number of changes that are forgotten."""
        return self._forgotten

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns of `written`."""
        return self._rows.schema

    def fits(self, rows: pa.RecordBatch) -> bool:
        """Whether rows are such as `written` gives, or gave before it told numbers of epochs."""
        types = self.stored_schema.types
        return rows.schema.types in (types, types[:-1])

    def restore(self, changes: Sequence[pa.RecordBatch], began: int, first_epoch: int | None) -> None:
        """Go on from what `written` has given; the rows of the table are those behind it.

        Args:
            first_epoch: the epoch from which on numbers are known; None: they begin anew.
        """
        self._heard, self.began, self.first_epoch = [], began, first_epoch
        self._epochs = _Epochs()
        for batch in changes:
            columns = batch.columns
            if batch.num_columns < len(self.stored_schema):
                columns = [*columns, pa.array(np.zeros(len(batch), np.int64))]
            self._rows.append(pa.RecordBatch.from_arrays(columns, schema=self.stored_schema))
        if self._rows.size:
            told = self._rows.version().rows([_MOMENT, _EPOCH])
            moments, numbers = np.asarray(told.column(0)), np.asarray(told.column(1))
            ends = np.flatnonzero(np.r_[moments[1:] != moments[:-1], True])
            self._moments = array("q", moments[ends].tobytes())
            self._ends = array("q", (ends + 1).astype(np.int64).tobytes())
            self._epochs.restore(numbers, moments)


class _Epochs:
    """The numbers of epochs that have changed a table, ascending, the moments at which they began to, and the number of all
    changes up to the end of each; `start`: the number of changes before the first one."""

    def __init__(self) -> None:
        self.numbers, self.moments, self.ends = array("q"), array("q"), array("q")
        self.start = 0

    def restore(self, numbers: np.ndarray, moments: np.ndarray) -> None:
        """As they are noted beside changes; those before numbers were noted have none (0)."""
        self.start = int(np.count_nonzero(numbers == 0))
        first = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        ends = np.r_[first[1:], len(numbers)]
        first, ends = first[numbers[first] != 0], ends[numbers[first] != 0]
        self.numbers, self.moments = (array("q", found[first].tobytes()) for found in (numbers, moments))
        self.ends = array("q", ends.astype(np.int64).tobytes())

    def end(self, number: int, moment: int, changes: int) -> None:
        if self.numbers and self.numbers[-1] == number:
            self.ends[-1] = changes
            return
        self.numbers.append(number)
        self.moments.append(moment)
        self.ends.append(changes)

    def forget(self, until: int) -> int | None:
        """Drop those up to a moment but the last of them, after which the rows were so for longer; gives its number when
        there were some."""
        old = bisect_right(self.moments, until)
        if old <= len(self.numbers) // 2 or old < 2:
            return None
        for kept in (self.numbers, self.moments, self.ends):
            del kept[: old - 1]
        self.start = self.ends[0]
        return self.numbers[0]


def _keyed(now: TableVersion, later: pa.RecordBatch, signs: np.ndarray, keys: Sequence[int]) -> TableVersion:
    """The first change of each key says what it was: the row that goes, or none before a row that comes."""
    columns = [later.column(i) for i in keys]
    index = KeyIndex([column.type for column in columns])
    slots, _ = index.insert(columns, len(later))
    first = distinct_rows(slots)
    back = later.take(pa.array(first[signs[first] < 0]))

    def counts(rows: pa.RecordBatch, before: np.ndarray) -> np.ndarray:
        return np.where(index.find([rows.column(i) for i in keys], len(rows)) >= 0, 0, before)

    return now.recounted(counts, back, np.ones(len(back), np.int32))


def _bag(now: TableVersion, later: pa.RecordBatch, signs: np.ndarray) -> TableVersion:
    """What has come goes as often as it has, and the other way round."""
    index = KeyIndex(later.schema.types, exact=True)
    slots, _ = index.insert(later.columns, len(later))
    net = np.zeros(index.capacity, np.int64)
    np.add.at(net, slots, signs)
    surplus = np.maximum(net, 0)

    def counts(rows: pa.RecordBatch, before: np.ndarray) -> np.ndarray:
        found = index.find(rows.columns, len(rows))
        at = np.flatnonzero((found >= 0) & (before > 0))
        at = at[surplus[found[at]] > 0]
        if len(at) == 0:
            return before
        at = at[np.argsort(found[at], kind="stable")]
        ordered, held = found[at], before[at].astype(np.int64)
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        total = np.cumsum(held) - held
        earlier = total - np.repeat(total[starts], np.diff(np.r_[starts, len(at)]))
        gone = np.clip(surplus[ordered] - earlier, 0, held)
        np.subtract.at(surplus, ordered, gone)
        left = before.copy()
        left[at] -= gone.astype(left.dtype)
        return left

    first = distinct_rows(slots)
    first = first[net[slots[first]] < 0]
    return now.recounted(counts, later.take(pa.array(first)), (-net[slots[first]]).astype(np.int32))
