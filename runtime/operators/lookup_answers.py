"""What a lookup join asks: a table outside, again when it fails."""

from __future__ import annotations

import time as wall_clock
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from runtime.core.errors import ConnectorError
from runtime.core.retries import Retries, retried
from runtime.core.schema import Schema
from runtime.operators.operator import CacheFigures
from runtime.spi.lookup import LookupTable

__all__ = ["Answers", "AskedTable", "Found", "asked_again", "found_in"]

T = TypeVar("T")


class Found(NamedTuple):
    """Rows that were found: for each the position of its key, ascending, int64, and the columns."""

    positions: np.ndarray
    columns: list[pa.Array]


class Answers(Protocol):
    """Where a lookup join finds rows by key."""

    @property
    def figures(self) -> CacheFigures | None:
        """None when nothing is remembered."""
        ...

    def answer(self, keys: pa.RecordBatch, rows: int, now: int) -> Found:
        """The rows of keys, each once and without NULL.

        Args:
            keys: named as the columns of the table. rows: how many rows ask for them.
            now: milliseconds of processing time.
        """
        ...


class AskedTable:
    """Asks for every key."""

    def __init__(self, table: LookupTable, retries: int = 0) -> None:
        self._table = table
        self._retries = retries
        self._schema = table.schema

    @property
    def figures(self) -> CacheFigures | None:
        return None

    def answer(self, keys: pa.RecordBatch, rows: int, now: int) -> Found:
        names = keys.schema.names
        positions, found = asked_again(lambda: self._table.lookup(names, keys), self._retries)
        return found_in(self._schema, np.asarray(positions, np.int64), found.columns)


def found_in(schema: Schema, positions: np.ndarray, columns: Sequence[pa.Array]) -> Found:
    """What a table has given, with the types of its schema."""
    types = [f.type.arrow for f in schema]
    return Found(positions, [c if c.type == t else c.cast(t) for c, t in zip(columns, types, strict=True)])


def asked_again(ask: Callable[[], T], retries: int, pause: Callable[[float], object] = wall_clock.sleep) -> T:
    """What `ask` gives; when it raises ConnectorError it is called again so many times, after pauses that double, and
    raises what the last call did."""
    return retried(ask, Retries(retries), ConnectorError, pause)
