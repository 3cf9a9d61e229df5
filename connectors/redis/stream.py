"""Entries of a stream as rows, in the background: a field is a column, by its name.

A position is `{"after": the id of the last entry, "end": the last one to be read, or null, "next": how many entries the stream has
had up to there}`. The count tells when entries were trimmed away before they were read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.kit.prefetch import Fetched
from connectors.redis.address import connected, telling
from connectors.redis.commands import asked, whole
from connectors.redis.values import read_column
from runtime.core.errors import ConnectorError
from runtime.spi.reader import RejectedRow

if TYPE_CHECKING:
    from connectors.redis.table import RedisTable

__all__ = ["read_stream"]

_ENTRIES = 5_000
_WAIT_MILLISECONDS = 200
_FIRST = b"0-0"
_SHOWN = 2000


def read_stream(table: RedisTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """See `Fetching`."""
    with telling(table.address, table.place()):
        connection = connected(table.address)
        try:
            yield from _Reading(table, connection).read(position, stop)
        finally:
            connection.disconnect()


class _Reading:
    def __init__(self, table: RedisTable, connection: Any) -> None:
        self._table = table
        self._connection = connection

    def _ask(self, *words: str | bytes | int) -> Any:
        return next(asked(self._connection, whole(*words), 1))

    def read(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        at = self._begin() if position is None else dict(position)
        if position is None:
            # Where reading ends is settled before anything is read.
            yield Fetched(None, dict(at))
        while not stop.is_set():
            self._check(at)
            entries = self._entries(at)
            if entries:
                at["after"] = entries[-1][0].decode()
                at["next"] += len(entries)
                rows, rejected = self._rows(entries)
                yield Fetched(rows, dict(at), rejected)
            elif at["end"] is not None:
                return
            else:
                yield Fetched(None, dict(at))
                self._wait(at)

    def _entries(self, at: dict[str, Any]) -> list[Any]:
        end = at["end"]
        if end is not None and _id(at["after"]) >= _id(end):
            return []
        return self._ask("XRANGE", self._table.stream, f"({at['after']}", end or "+", "COUNT", _ENTRIES)

    def _wait(self, at: dict[str, Any]) -> None:
        """Until there is an entry, or some time has passed."""
        words = ("XREAD", "COUNT", 1, "BLOCK", _WAIT_MILLISECONDS, "STREAMS", self._table.stream, at["after"])
        self._ask(*words)

    def _info(self) -> dict[bytes, Any] | None:
        """What the server knows of the stream; None where there is none yet."""
        if self._ask("EXISTS", self._table.stream) == 0:
            return None
        found = self._ask("XINFO", "STREAM", self._table.stream)
        return dict(zip(found[::2], found[1::2], strict=True))

    def _begin(self) -> dict[str, Any]:
        info = self._info()
        newest = _FIRST if info is None else info[b"last-generated-id"]
        added = 0 if info is None else int(info.get(b"entries-added", 0))
        latest = self._table.starts == "latest"
        return {
            "after": (newest if latest else _FIRST).decode(),
            "end": newest.decode() if self._table.bounded else None,
            "next": added if latest or info is None else added - int(info[b"length"]),
        }

    def _check(self, at: dict[str, Any]) -> None:
        """Raises ConnectorError E3243 where entries that were not read are gone."""
        info = self._info()
        if info is None:
            gone = at["next"] > 0 and at["after"] != _FIRST.decode()
        elif b"entries-added" not in info or info.get(b"max-deleted-entry-id", _FIRST) != _FIRST:
            # Somebody deletes entries by their ids, or the server is too old to count.
            gone = _id(info[b"last-generated-id"].decode()) < _id(at["after"])
        else:
            first = int(info[b"entries-added"]) - int(info[b"length"])
            gone = first > at["next"] or _id(info[b"last-generated-id"].decode()) < _id(at["after"])
        if gone:
            raise ConnectorError(
                f"{self._table.place()}: entries behind {at['after']} are gone before they were read",
                code="E3243",
                hint="the stream is trimmed faster than it is read, or was made anew: keep more of it, or begin anew",
            )

    def _rows(self, entries: Sequence[Any]) -> tuple[pa.RecordBatch, list[RejectedRow]]:
        """Entries are taken apart one by one, as the client gives them."""
        table = self._table
        fields = [dict(zip(pairs[::2], pairs[1::2], strict=True)) for _, pairs in entries]
        columns: list[pa.Array] = []
        reasons: dict[int, str] = {}
        for field in table.schema:
            if field.name == table.id_column:
                columns.append(pa.array([id_.decode() for id_, _ in entries], pa.string()).cast(field.type.arrow))
                continue
            name = field.name.encode()
            column, bad = read_column([found.get(name) for found in fields], field.type, table.time_zone)
            for row in np.flatnonzero(bad) if bad is not None else ():
                reasons.setdefault(int(row), f"field {field.name} is no {field.type}")
            columns.append(column)
        rows = pa.RecordBatch.from_arrays(columns, names=list(table.schema.names))
        if not reasons:
            return rows, []
        kept = np.ones(len(entries), np.bool_)
        kept[list(reasons)] = False
        rejected = [
            RejectedRow(f"{entries[r][0].decode()}: {why}", repr(fields[r])[:_SHOWN]) for r, why in reasons.items()
        ]
        return rows.filter(pc.cast(pa.array(kept), pa.bool_())), rejected


def _id(text: str) -> tuple[int, int]:
    time, _, number = text.partition("-")
    return int(time), int(number or 0)
