"""Rows and the number of their commit in one transaction of Redis.

The hash `_sqlengine:<stream or prefix>:<name of the sink>` has the number of its newest commit, and who writes. A new run puts
itself in the place of an older one; the older one finds that it is not the writer any more, because the hash is watched from
before it looks until its transaction is carried out.

The server carries a transaction out without anything between its commands, or not at all when it has refused one of them
(EXECABORT). What it may refuse later is looked at before: keys of another kind.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.newest import newest_by_key
from connectors.redis.address import connected, telling
from connectors.redis.commands import MOST_AT_ONCE, asked, commands, parts, whole
from connectors.redis.values import keys_of, text_of
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError, UnavailableError

if TYPE_CHECKING:
    from connectors.redis.table import RedisTable

__all__ = ["RedisCommits", "RedisTransactions"]


class RedisTransactions:
    """Writes rows in transactions of their own (`TransactionWriter`)."""

    def __init__(self, table: RedisTable) -> None:
        self._table = table
        self._open: Any = None

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        """In one transaction."""
        self._transaction(b"", batches)

    def close(self) -> None:
        if self._open is not None:
            with contextlib.suppress(Exception):
                self._open.disconnect()
            self._open = None

    def _ask(self, *words: str | bytes | int) -> Any:
        if self._open is None:
            self._open = connected(self._table.address)
        return next(asked(self._open, whole(*words), 1))

    def _transaction(self, first: bytes, batches: Iterable[ChangelogBatch]) -> None:
        """Carry out a command and put the rows in."""
        table = self._table
        try:
            with telling(table.address, table.place()):
                self._check_stream()
                self._ask("MULTI")
                if first:
                    next(asked(self._open, first, 1))
                for sent, count in self._changes(batches):
                    for _ in asked(self._open, sent, count):
                        pass  # QUEUED; what is refused is raised.
                answers = self._ask("EXEC")
                if answers is None:
                    raise UnavailableError(
                        f"{table.place()}: another run has begun to write", hint="it is looked again"
                    )
                failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
                if failed is not None:
                    raise failed
        except BaseException:
            self.close()
            raise

    def _check_stream(self) -> None:
        table = self._table
        if table.stream:
            kind = self._ask("TYPE", table.stream)
            if kind not in (b"stream", b"none"):
                raise ConnectorError(
                    f"{table.place()}: the key is a {kind.decode()}, and not a stream",
                    code="E3241",
                    hint="name another key",
                )

    def _changes(self, batches: Iterable[ChangelogBatch]) -> Iterable[tuple[bytes, int]]:
        table = self._table
        if table.stream:
            for batch in batches:
                for at in range(0, len(batch), MOST_AT_ONCE):
                    rows = batch.rows.slice(at, MOST_AT_ONCE)
                    yield self._entries(rows), len(rows)
            return
        changes = newest_by_key([batch.decoded() for batch in batches], table.primary_key)
        if changes is None:
            return
        there, gone = changes
        for at in range(0, len(gone), MOST_AT_ONCE):
            keys = parts(self._keys(gone.slice(at, MOST_AT_ONCE)))
            yield commands("DEL", np.full(len(keys), 2), [keys]), len(keys)
        for at in range(0, len(there), MOST_AT_ONCE):
            yield from self._hashes(there.slice(at, MOST_AT_ONCE))

    def _keys(self, rows: pa.RecordBatch) -> pa.Array:
        schema, key = self._table.schema, self._table.primary_key
        types = [schema[schema.index_of(name)].type for name in key]
        return keys_of(self._table.prefix, [rows.column(name) for name in key], types)

    def _hashes(self, rows: pa.RecordBatch) -> Iterable[tuple[bytes, int]]:
        """A hash is deleted before it is made anew, so that columns that became NULL are gone."""
        table, count = self._table, len(rows)
        keys = parts(self._keys(rows))
        numbers, fields = self._fields(rows)
        yield commands("DEL", np.full(count, 2), [keys]), count
        yield commands("HSET", numbers + 2, [keys, *fields]), count
        if table.ttl:
            after = parts(pa.array([str(table.ttl)] * count, pa.string()))
            yield commands("PEXPIRE", np.full(count, 3), [keys, after]), count

    def _entries(self, rows: pa.RecordBatch) -> bytes:
        table, count = self._table, len(rows)
        fixed = [table.stream, *(("MAXLEN", "~", str(table.most)) if table.most else ()), "*"]
        numbers, fields = self._fields(rows)
        # An entry has a field at least: one without a name where all columns are NULL.
        none = numbers == 0
        if none.any():
            empty = pc.if_else(pa.array(none), pa.scalar(b"$0\r\n\r\n", pa.binary()), pa.scalar(None, pa.binary()))
            fields, numbers = [*fields, empty, empty], numbers + 2 * none
        heads = [parts(pa.array([word] * count, pa.string())) for word in fixed]
        return commands("XADD", numbers + 1 + len(fixed), [*heads, *fields])

    def _fields(self, rows: pa.RecordBatch) -> tuple[np.ndarray, list[pa.Array]]:
        """Names and values of columns that are not NULL, and how many parts they are in each row."""
        made: list[pa.Array] = []
        numbers = np.zeros(len(rows), np.int64)
        for field in self._table.schema:
            value = parts(text_of(rows.column(field.name), field.type))
            valid = np.asarray(value.is_valid())
            name = parts(pa.array([field.name], pa.string()))[0].as_py()
            made += [
                pa.array([name], pa.binary()).take(pa.array(np.where(valid, 0, -1), pa.int64(), mask=~valid)),
                value,
            ]
            numbers += 2 * valid
        return numbers, made


class RedisCommits(RedisTransactions):
    """`EpochCommits`: see the module."""

    def __init__(self, table: RedisTable, job: str) -> None:
        super().__init__(table)
        self._name = f"_sqlengine:{table.stream or table.prefix}:{job}"
        self._writer = uuid.uuid4().hex

    def last(self) -> int:
        with telling(self._table.address, self._table.place()):
            try:
                self._ask("HSET", self._name, "writer", self._writer)
                found = self._ask("HGET", self._name, "number")
            except BaseException:
                self.close()
                raise
        return 0 if found is None else int(found)

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        table = self._table
        try:
            with telling(table.address, table.place()):
                self._ask("WATCH", self._name)
                writer, newest = self._ask("HMGET", self._name, "writer", "number")
        except BaseException:
            self.close()
            raise
        if writer != self._writer.encode() or (newest is not None and int(newest) >= number):
            self.close()
            raise FencedError(
                f"another run of the job that writes {table.place()} has taken the place of this one",
                hint="end one of them",
            )
        self._transaction(whole("HSET", self._name, "number", number), batches)
