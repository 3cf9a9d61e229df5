"""Tables of servers, which are asked by key; what such a table looks like is asked once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connectors.databases.table import DatabaseTable

__all__ = ["Asking", "ServedTable"]


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


@dataclass(frozen=True)
class ServedTable(DatabaseTable):
    """A table of a server. `names`: its database or schema, and its own."""

    names: tuple[str, str] = field(kw_only=True)
    _asking: list[Asking] = field(default_factory=list[Asking], compare=False, repr=False, kw_only=True)

    @abstractmethod
    def asking(self) -> Asking:
        """How it is asked."""
        ...

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The rows of each key, as they are in the database now."""
        if not self._asking:
            self._asking.append(self.asking())
        return self._asking[0](self, key_columns, keys)

    @property
    def distributed_lookups(self) -> bool:
        """Each process has its own connections."""
        return True
