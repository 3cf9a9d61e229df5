"""What a table that is asked by key looks like is asked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["Asking"]


class Asking:
    """Asks a table for rows by key. What it looks like is kept, and asked again after an error.

    Args:
        describe: what the table looks like there; raises ConnectorError when it is not as it is declared.
        ask: the rows, by the table, what it looks like, the key columns and their values.
    """

    def __init__(
        self,
        describe: Callable[[Any], Any],
        ask: Callable[[Any, Any, Sequence[str], pa.RecordBatch], tuple[pa.Array, pa.RecordBatch]],
    ) -> None:
        self._describe = describe
        self._ask = ask
        self._relation: Any = None

    def __reduce__(self) -> tuple[type[Asking], tuple[Any, Any]]:
        return Asking, (self._describe, self._ask)

    def __call__(self, table: Any, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        try:
            if self._relation is None:
                self._relation = self._describe(table)
            return self._ask(table, self._relation, key_columns, keys)
        except BaseException:
            self._relation = None
            raise
