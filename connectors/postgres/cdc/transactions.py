"""What a slot says, frame by frame, as batches of changes of one table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from connectors.databases.followed import beyond
from connectors.kit.prefetch import Fetched
from connectors.postgres.cdc.changes import ChangeDecoder
from connectors.postgres.cdc.pgoutput import (
    BEGIN,
    COMMIT,
    DELETE,
    HEAD,
    INSERT,
    RELATION,
    TRUNCATE,
    UPDATE,
    Begin,
    Relation,
    read_begin,
    read_commit,
    read_relation,
    read_truncated,
)
from connectors.postgres.cdc.positions import Position, lsn_text
from connectors.postgres.cdc.snapshot import KeyOrder, limits_of
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.postgres.cdc.table import PostgresCdcSource

__all__ = ["Transactions"]

_MOST_BYTES = 1 << 20
_MOST_SECONDS = 0.05
_ROWS = frozenset({INSERT, UPDATE, DELETE})
_TABLE = slice(HEAD + 1, HEAD + 5)


class Transactions:
    """Changes of one table gather here until there are enough of them.

    Args:
        number: of the table, its `oid`.
        order: of its key; needed where several snapshots were taken.
        position: where the frames begin.
    """

    def __init__(self, source: PostgresCdcSource, number: int, order: Sequence[KeyOrder], position: Position) -> None:
        self.position = position
        self._source = source
        self._number = number
        self._id = number.to_bytes(4, "big")
        self._order = order
        self._schema = source.inner_schema([column.name for column in order] if len(position.seen) > 1 else [])
        self._relation: Relation | None = None
        self._decoder: ChangeDecoder | None = None
        self._begun: Begin | None = None
        self._ignored = False
        self._count = 0
        """Changes of the open transaction."""
        self._seen = position.seen
        """What snapshots had seen when the oldest of the waiting messages came."""
        self._messages: list[memoryview] = []
        self._owners: list[int] = []
        self._open: list[Begin] = []
        self._size = 0
        self._since = 0.0

    @property
    def full(self) -> bool:
        """Whether there is enough, or has waited long enough."""
        return self._size >= _MOST_BYTES or (bool(self._messages) and time.monotonic() - self._since > _MOST_SECONDS)

    @property
    def waiting(self) -> bool:
        return bool(self._messages)

    def reach(self, sent: int) -> None:
        """All that was committed before a place has been taken."""
        if self._begun is None and not self._messages and sent > self.position.lsn:
            self.position = replace(self.position, lsn=sent).matters()

    def take(self, frames: Sequence[memoryview]) -> Iterator[Fetched]:
        """Take up frames, in a loop over them; gives what came before the table changed its shape.

        Raises:
            ConnectorError: E3172 the table was truncated.
        """
        table = memoryview(self._id)
        for frame in frames:
            kind = frame[HEAD]
            if kind in _ROWS:
                if frame[_TABLE] == table:
                    self._count += 1
                    if not self._ignored and self._count > self.position.skip:
                        self._add(frame)
            elif kind == BEGIN:
                self._begin(read_begin(frame))
            elif kind == COMMIT:
                self.position = Position(read_commit(frame).end, 0, self.position.seen).matters()
                self._begun, self._ignored, self._count = None, False, 0
            elif kind == RELATION:
                relation = read_relation(frame)
                if relation.id == self._number and relation != self._relation:
                    if self._messages:
                        yield self.flush()
                    self._relation, self._decoder = relation, None
            elif kind == TRUNCATE and self._number in read_truncated(frame) and not self._ignored:
                self._truncated()

    def _add(self, frame: memoryview) -> None:
        if not self._messages:
            self._since = time.monotonic()
        self._messages.append(frame)
        self._owners.append(len(self._open) - 1)
        self._size += len(frame)

    def _begin(self, begun: Begin) -> None:
        self._begun, self._count = begun, 0
        seen = self.position.seen
        self._ignored = bool(seen) and all(one.sees(begun.xid) for one in seen)
        self._open.append(begun)

    def _truncated(self) -> None:
        if not self._source.options.ignores_truncate:
            assert self._begun is not None
            raise ConnectorError(
                f"{self._source.place} was truncated at {lsn_text(self._begun.commit)} of its log: which rows are gone is not told",
                code="E3172",
                hint="begin anew with --fresh; or set 'scan.truncate.mode' = 'ignore', and the rows stay",
            )

    def flush(self) -> Fetched:
        """What has gathered, and the position behind it."""
        after = self.position
        if self._begun is not None:
            after = replace(after, skip=max(after.skip, self._count))
        rows = ChangelogBatch.empty(self._source.schema)
        if self._messages:
            rows = self._decoded()
            self._messages, self._owners, self._size = [], [], 0
        self._open = [] if self._begun is None else [self._begun]
        self._seen = self.position.seen
        return Fetched(rows, after.json())

    def _decoded(self) -> ChangelogBatch:
        source = self._source
        first = self._open[self._owners[0]].commit
        if self._decoder is None:
            self._decoder = ChangeDecoder(
                source.place,
                self._schema,
                source.key or [n for n in (c.name for c in self._order) if self._schema.index_of(n) >= 0],
                upsert=source.options.upsert,
                relation=self._named(first),
                lsn=first,
            )
        changes = self._decoder.decode(self._messages, first)
        owners = np.array(self._owners, dtype=np.int64)[changes.message]
        columns = dict(zip(self._schema.names, changes.columns, strict=True))
        times = np.array([begun.micros for begun in self._open], dtype=np.int64)[owners]
        rows = source.changed(columns, len(owners), times, changes.kinds)
        unseen = self._unseen(columns, owners)
        return rows if unseen is None else rows.filter(unseen)

    def _named(self, lsn: int) -> Relation:
        relation = self._relation
        if relation is None or (relation.schema, relation.name) != (
            self._source.options.schema,
            self._source.options.table,
        ):
            now = "not described" if relation is None else f"called {relation.schema}.{relation.name}"
            raise ConnectorError(
                f"{self._source.place} is {now} at {lsn_text(lsn)} of its log",
                code="E3172",
                hint="was the table renamed? Declare it as it is now, and begin anew with --fresh",
            )
        return relation

    def _unseen(self, columns: dict[str, pa.Array], owners: np.ndarray) -> np.ndarray | None:
        """Which changes no snapshot has seen; None for all."""
        sights = np.array([[one.sees(begun.xid) for one in self._seen] for begun in self._open], dtype=bool)
        if not self._seen or not sights.any():
            return None
        ranges = np.zeros(len(owners), dtype=np.int64)
        keys = [columns[column.name] for column in self._order] if len(self._seen) > 1 else []
        for one in self._seen[:-1]:
            assert one.through is not None
            ranges += beyond(keys, limits_of(self._order, one.through))
        return ~sights[owners, ranges]
