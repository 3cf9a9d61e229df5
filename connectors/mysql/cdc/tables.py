"""A table in the log: what its rows look like there, and their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.followed import beyond
from connectors.mysql.cdc.cells import followed, values_of
from connectors.mysql.cdc.events import Shape
from connectors.mysql.cdc.gtids import Gtid, has
from connectors.mysql.cdc.positions import Place, TablePosition
from connectors.mysql.cdc.rows import Rows, read_rows
from connectors.mysql.cdc.snapshot import KeyOrder, limits_of
from connectors.mysql.columns import Column
from runtime.core import changelog
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.mysql.cdc.table import MysqlCdcSource

__all__ = ["Begun", "Changes", "LogTable"]


@dataclass(slots=True)
class Begun:
    """A transaction, and where it begins. `gtid`: its number, if it has one; `within`: that of the position in whose middle it
    is; `counted`: changes of it that were decoded; `skip`: that were given before the reading was cut off."""

    file: str
    at: int
    skip: int
    gtid: Gtid | None
    within: str | None
    counted: int = 0

    @property
    def given(self) -> int:
        """Changes of it that do not count any more."""
        return max(self.skip, self.counted)

    def seen(self, place: Place) -> bool:
        """Whether a snapshot has it that was taken at a place."""
        if place.gtids is not None and self.gtid is not None:
            return has(place.gtids, self.gtid)
        return Place(self.file, self.at).before(place)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one table. For each row: its event, among all that waited; its transaction; whether it begins a change (an
    update has two rows); and whether it counts."""

    rows: ChangelogBatch
    event: npt.NDArray[np.int64]
    owner: npt.NDArray[np.int64]
    begins: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.bool_]


class LogTable:
    """Events of one table gather here.

    Args:
        order: of its key; needed where several snapshots were taken.
        position: where reading of it begins.
        describe: asks for its columns as they are now, and whether the log tells names of columns.
    """

    def __init__(
        self,
        source: MysqlCdcSource,
        order: Sequence[KeyOrder],
        position: TablePosition,
        describe: Callable[[], tuple[Sequence[Column], bool]],
    ) -> None:
        self.name = position.name
        self.place = ".".join(position.name)
        """For messages."""
        self.said = b""
        """What the newest event has told that describes it."""
        self._source = source
        self._order = order
        self._describe = describe
        self.position = position
        """With the columns as they are where reading is."""
        self._ranges = position.ranges
        self._schema = source.inner_schema([c.name for c in order] if len(position.ranges) > 1 else [])
        self._columns = [Column(n, t, null, charset) for n, t, charset, null in position.columns]
        self._now: dict[str, Column] = {}
        self._altered_at: Place | None = None
        self._shape: Shape | None = None
        self._places: list[int] = []
        self._events: list[bytes] = []
        self._kinds: list[int] = []
        self._owners: list[int] = []
        self._seconds: list[int] = []
        self._numbers: list[int] = []

    @property
    def waiting(self) -> bool:
        return bool(self._events)

    def passes_over(self, begun: Begun) -> bool:
        """Whether all of its snapshots have a transaction."""
        return bool(self._ranges) and all(begun.seen(r.place) for r in self._ranges)

    def add(self, event: bytes, kind: int, owner: int, seconds: int, number: int) -> None:
        """An event with rows of this table. `owner`: its transaction; `number`: of the event, among all that wait."""
        self._events.append(event)
        self._kinds.append(kind)
        self._owners.append(owner)
        self._seconds.append(seconds)
        self._numbers.append(number)

    # --- its shape

    def altered(self, place: Place) -> None:
        """It was altered: columns that are read must be now what they were before. Raises ConnectorError E3172."""
        columns, tells_names = self._describe()
        self._now = {c.name: c for c in columns}
        if not tells_names and [*self._now] != [c.name for c in self._columns]:
            raise self._other(f"{self.place} has other columns", place)
        known = {c.name: c for c in self._columns}
        for field in self._schema:
            before, now = known.get(field.name), self._now.get(field.name)
            if (
                before is not None
                and now is not None
                and (before.declared, before.charset) != (now.declared, now.charset)
            ):
                raise self._other(f"column {field.name} of {self.place} is {now.declared} now", place)
        self._shape, self.said = None, b""
        self._altered_at = place

    def is_shaped(self, shape: Shape) -> bool:
        return shape == self._shape

    def shaped(self, shape: Shape, reached: Place) -> None:
        """Rows have a shape from here on. Raises ConnectorError E3172."""
        known = self._columns
        if shape.names:
            by_name = {c.name: c for c in known}
            known = [by_name.get(n) or self._now.get(n) or Column(n, "", True) for n in shape.names]
        elif self._altered_at is not None and [*self._now] != [c.name for c in known]:
            raise self._other(f"{self.place} has other columns", self._altered_at)
        if len(known) != len(shape.codes):
            raise self._other(f"{self.place} has {len(shape.codes)} columns, not {len(known)}", reached)
        places = {c.name: i for i, c in enumerate(known)}
        for field in self._schema:
            if field.name not in places:
                raise self._other(f"{self.place} has no column {field.name}", reached)
            at = places[field.name]
            if not followed(known[at], shape.codes[at], shape.more[at]):
                raise self._other(
                    f"column {field.name} of {self.place} is not {known[at].declared}, or has a type that is not followed",
                    reached,
                )
        self._shape = shape
        self._places = [places[f.name] for f in self._schema]
        self._columns = known
        told = tuple((c.name, c.declared, c.charset, c.nullable) for c in known)
        self.position = replace(self.position, columns=told)

    def _other(self, what: str, place: Place) -> ConnectorError:
        return ConnectorError(
            f"{what} behind {place} of the log",
            code="E3172",
            hint="the log tells no names of columns: SET GLOBAL binlog_row_metadata = FULL, and columns may come and go; or "
            "declare the table as it is now, and begin anew with --fresh",
        )

    # --- its changes

    def taken(self, begun: Sequence[Begun]) -> Changes:
        """What has gathered. `begun`: the transactions that events belong to."""
        assert self._shape is not None
        source, shape = self._source, self._shape
        rows = read_rows(self._events, self._kinds, shape, self._places)
        columns = [
            values_of(rows.data, cells, (shape.codes[at], shape.more[at]), self._columns[at], field, self.place)
            for cells, at, field in zip(rows.columns, self._places, self._schema, strict=True)
        ]
        owners = np.array(self._owners, dtype=np.int64)[rows.event]
        kinds = self._kinds_of(rows, columns)
        counts = self._unseen(columns, owners, begun)
        if source.options.upsert:
            counts &= kinds != changelog.UPDATE_BEFORE
        moments = np.array(self._seconds, dtype=np.int64)[rows.event] * 1_000_000
        if (since := source.options.since) is not None:
            counts &= moments >= since * 1000
        named = dict(zip(self._schema.names, columns, strict=True))
        batch = source.batch(named, len(kinds), moments, kinds, source.constants_of(self.name))
        numbers = np.array(self._numbers, dtype=np.int64)[rows.event]
        self._events, self._kinds, self._owners, self._seconds, self._numbers = [], [], [], [], []
        return Changes(batch, numbers, owners, rows.alone | rows.is_old, counts)

    def _kinds_of(self, rows: Rows, columns: Sequence[pa.Array]) -> changelog.Kinds:
        """Of each row. Where an update changes the key, the row with the old one is gone, and one with the new one is there."""
        moved = np.zeros(len(rows.event), dtype=bool)
        olds = np.flatnonzero(rows.is_old & ~rows.alone)
        names = self._source.key or [c.name for c in self._order if self._schema.index_of(c.name) >= 0]
        for name in names if len(olds) else ():
            column = columns[self._schema.index_of(name)]
            before, after = column.take(pa.array(olds)), column.take(pa.array(olds + 1))
            moved[olds] |= pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False)
        moved[olds + 1] = moved[olds]
        whole = rows.alone | moved
        return np.where(
            rows.is_old,
            np.where(whole, changelog.DELETE, changelog.UPDATE_BEFORE),
            np.where(whole, changelog.INSERT, changelog.UPDATE_AFTER),
        ).astype(np.int8)

    def _unseen(
        self, columns: Sequence[pa.Array], owners: npt.NDArray[np.int64], begun: Sequence[Begun]
    ) -> npt.NDArray[np.bool_]:
        """Which rows no snapshot has."""
        ranges = self._ranges
        if not ranges:
            return np.ones(len(owners), dtype=bool)
        seen = np.array([[b.seen(r.place) for r in ranges] for b in begun], dtype=bool)
        if not seen.any():
            return np.ones(len(owners), dtype=bool)
        which = np.zeros(len(owners), dtype=np.int64)
        keys = [columns[self._schema.index_of(c.name)] for c in self._order] if len(ranges) > 1 else []
        for one in ranges[:-1]:
            assert one.through is not None
            which += beyond(keys, limits_of(self._order, one.through, self.place))
        return ~seen[owners, which]
