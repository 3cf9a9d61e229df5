"""The handle of a stream that a Python program pushes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.pushed import PushedTable
from runtime.core.cancellation import Cancellation
from runtime.core.changelog import KIND_NAMES, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import TypeMismatchError, UnsupportedError
from runtime.core.schema import Schema
from sqlengine.values.python_data import arrow_of_frame, elements

__all__ = ["Input"]

_EPOCH = dt.datetime(1970, 1, 1)


class Input:
    """A table of the catalog that this program fills: `TableEnvironment.create_input`.

        clicks = t_env.create_input("clicks", {"user": "STRING", "n": "INT"})
        clicks.push([("ada", 1), ("bob", 2)])
        clicks.close()

    Every method may be called from any thread; those that end in `_async` are for asyncio. The rows of one call become
    visible together, in one epoch. A push waits while queries have more than `capacity` rows still to read.

    Rows are tuples, dicts, Arrow tables and batches, or data frames of pandas and polars.
    """

    def __init__(self, table: PushedTable) -> None:
        self._table = table

    @property
    def name(self) -> str:
        """Its full name in the catalog."""
        return self._table.name

    @property
    def schema(self) -> Schema:
        """The columns that are pushed."""
        return self._table.schema

    def push_row(self, *values: Any, kind: str = "+I", timeout: float | None = None) -> None:
        """Push one row, a value for each column."""
        self.push([values], kind, timeout=timeout)

    def push(self, rows: Any, kind: str | Sequence[str] | np.ndarray = "+I", *, timeout: float | None = None) -> None:
        """Push rows, with one row kind (`+I`, `-U`, `+U`, `-D`) for all, or one for each.

        Args:
            timeout: seconds to wait for room; None waits as long as it takes.

        Raises:
            TypeMismatchError: E1325 rows do not fit the columns; E1326 NULL in a NOT NULL column; E1327 row kinds.
            UnsupportedError: E1625 a row kind that the input does not take.
            ConnectorError: E3120 it is closed; E3121 there is no room.
            SqlEngineError: what made the query fail that read it.
        """
        batch = self._batch(rows, kind)
        if len(batch):
            self._table.push(batch, timeout)
        else:
            self._table.check_open()

    def update(self, before: Any, after: Any, *, timeout: float | None = None) -> None:
        """Update rows, given as pairs of old and new rows: for an input with 'retract'."""
        old, new = (self._columns(rows) for rows in (before, after))
        if old.num_rows != new.num_rows:
            raise TypeMismatchError(
                f"{old.num_rows} rows before and {new.num_rows} after",
                code="E1327",
                hint="give each row as it was and as it is now",
            )
        order = np.arange(2 * old.num_rows).reshape(2, -1).T.ravel()
        both = pa.concat_batches([old, new]).take(pa.array(order))
        kinds = np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER], dtype=np.int8), old.num_rows)
        if len(kinds):
            self._push_kinds(both, kinds, timeout)

    def upsert(self, rows: Any, *, timeout: float | None = None) -> None:
        """Insert rows, or replace rows with the same key: for an input with 'upsert'."""
        self.push(rows, "+U", timeout=timeout)

    def delete(self, rows: Any, *, timeout: float | None = None) -> None:
        """Delete rows: for an input with 'retract' (whole rows) or 'upsert' (by key)."""
        self.push(rows, "-D", timeout=timeout)

    async def push_async(
        self, rows: Any, kind: str | Sequence[str] | np.ndarray = "+I", *, timeout: float | None = None
    ) -> None:
        """`push` for asyncio: waits for room without blocking the event loop. A push whose task is cancelled while it
        waits pushes nothing."""
        batch = self._batch(rows, kind)
        if not len(batch):
            self._table.check_open()
        elif self._table.has_room():
            self._table.push(batch, timeout)
        else:
            # Loaded here: whoever only imports the engine shall not wait for it.
            import asyncio

            stopped = Cancellation()
            try:
                await asyncio.to_thread(self._table.push, batch, timeout, stopped)
            except asyncio.CancelledError:
                stopped.request()
                self._table.wake()
                raise

    def advance_watermark(self, time: dt.datetime | int) -> None:
        """Advance the watermark to a time: a datetime (without a zone: as in the column), or milliseconds since 1970.

        Only for an input with `rowtime`; one with a WATERMARK expression takes it from its rows (UnsupportedError
        E1625). A time that is not later changes nothing.
        """
        if not self._table.timed:
            raise UnsupportedError(
                f"nobody can tell {self.name} its watermark",
                code="E1625",
                hint='name the event-time column: create_input(name, schema, rowtime="ts")',
            )
        if isinstance(time, dt.datetime):
            plain = time.astimezone(dt.UTC).replace(tzinfo=None) if time.tzinfo is not None else time
            time = (plain - _EPOCH) // dt.timedelta(milliseconds=1)
        self._table.advance(int(time))

    def mark_idle(self) -> None:
        """Mark the input idle: until its next push or watermark, other inputs do not wait for its watermark."""
        self._table.rest()

    def close(self) -> None:
        """End the input: windows close, queries end. Harmless when called again."""
        self._table.close()

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _batch(self, rows: Any, kind: str | Sequence[str] | np.ndarray) -> ChangelogBatch:
        columns = self._columns(rows)
        if isinstance(kind, str):
            kinds = np.full(columns.num_rows, _number(kind), dtype=np.int8)
        elif isinstance(kind, np.ndarray) and kind.dtype.kind in "iu":
            kinds = kind.astype(np.int8)
        else:
            kinds = np.array([_number(k) for k in kind], dtype=np.int8)
        if len(kinds) != columns.num_rows:
            raise TypeMismatchError(
                f"{len(kinds)} row kinds for {columns.num_rows} rows", code="E1327", hint="give one kind, or one a row"
            )
        return self._checked(columns, kinds)

    def _push_kinds(self, columns: pa.RecordBatch, kinds: np.ndarray, timeout: float | None) -> None:
        self._table.push(self._checked(columns, kinds), timeout)

    def _checked(self, columns: pa.RecordBatch, kinds: np.ndarray) -> ChangelogBatch:
        allowed = self._table.changelog_mode.kinds
        wrong = [k for k in np.unique(kinds).tolist() if k not in allowed]
        if wrong:
            raise UnsupportedError(
                f"{self.name} takes no {KIND_NAMES[wrong[0]]} rows"
                if 0 <= wrong[0] < 4
                else f"{wrong[0]} is no row kind",
                code="E1625",
                hint="create it with changelog_mode='retract', or 'upsert' and a primary key",
            )
        return ChangelogBatch(columns, kinds)

    def _columns(self, rows: Any) -> pa.RecordBatch:
        if self._is_one_row(rows):
            raise TypeMismatchError(
                f"{self.name} takes a list of rows, and this is one row",
                code="E1325",
                hint="push([row]), or push_row(value, ...)",
            )
        if isinstance(rows, (list, tuple)):
            _, table = elements(rows, self.schema)
        else:
            table = self._by_name(rows)
        for field in self.schema:
            if not field.type.nullable and table.column(field.name).null_count:
                raise TypeMismatchError(
                    f'the column "{field.name}" of {self.name} is NOT NULL, and a row has NULL there',
                    code="E1326",
                    hint="leave the row out, or declare the column without NOT NULL",
                )
        batches = table.combine_chunks().to_batches()
        if batches:
            return batches[0]
        return ChangelogBatch.empty(self.schema).rows

    def _is_one_row(self, rows: Any) -> bool:
        if isinstance(rows, (list, tuple)):
            return len(self.schema) > 1 and bool(rows) and not any(isinstance(r, (list, tuple, dict)) for r in rows)
        return isinstance(rows, dict)

    def _by_name(self, rows: Any) -> pa.Table:
        """Arrow and data frames: columns by name, where they have the names, else in order."""
        found, table = arrow_of_frame(_arrow(rows))
        names = self.schema.names
        if set(names) <= set(found.names):
            table = table.select(list(names))
        return arrow_of_frame(table, self.schema)[1]


def _arrow(rows: Any) -> Any:
    # pandas is known by its class's home, so that nobody has to import it here.
    if type(rows).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    return rows


def _number(kind: str) -> int:
    if kind not in KIND_NAMES:
        raise TypeMismatchError(
            f"{kind!r} is no row kind", code="E1327", hint="the row kinds are '+I', '-U', '+U' and '-D'"
        )
    return KIND_NAMES.index(kind)
