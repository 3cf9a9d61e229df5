"""A table that is asked by key, for lookup joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from runtime.core.schema import Schema

__all__ = ["AsyncLookupTable", "LookupTable"]


@runtime_checkable
class LookupTable(Protocol):
    """A table that can be asked for the rows of given keys."""

    @property
    def schema(self) -> Schema:
        """The columns of the rows that `lookup` gives, in order."""
        ...

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The rows whose `key_columns` equal a key row. Gives an int64 array of positions in `keys`, ascending, and the
        matching rows, of the same length. A NULL matches nothing. Raises ConnectorError when the system cannot be
        asked."""
        ...

    def describe(self) -> dict[str, Any]:
        """A JSON object for EXPLAIN."""
        ...


@runtime_checkable
class AsyncLookupTable(LookupTable, Protocol):
    """A table whose system answers keys one by one, and several at the same time."""

    async def lookup_async(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """`lookup` of a single key, awaited together with others on one event loop. It waits without blocking the loop;
        `asyncio.to_thread` runs what blocks."""
        ...
