"""The lookup table `lookup-jsonl`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.filesystem.files import local_path
from connectors.formats.records import malformed_error
from connectors.options import FORMAT, PATH, TableOptions
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder
from runtime.spi.format import Format
from runtime.spi.registry import ConnectorFactory, TableRequest

__all__ = ["LOOKUP_JSONL", "JsonlLookup"]


@dataclass(frozen=True)
class JsonlLookup:
    """Looks rows up by equality on any columns. The file is read again when it changes; NULL keys match nothing."""

    schema: Schema
    path: str
    time_zone: str
    format: Format = field(compare=False)
    _cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The matching rows of each key, in the order of the file."""
        index = self._index(tuple(key_columns))
        positions, rows = index.find([keys.column(i) for i in range(len(key_columns))])
        return pa.array(positions, pa.int64()), self._rows().take(pa.array(rows))

    def describe(self) -> dict[str, Any]:
        return {"connector": "lookup-jsonl", "path": self.path}

    def _rows(self) -> pa.RecordBatch:
        try:
            status = os.stat(self.path)
            stamp = (status.st_mtime_ns, status.st_size)
            if self._cache.get("stamp") != stamp:
                with open(self.path, "rb") as file:
                    decoded = self.format.decoder(self.schema, self.time_zone).decode(file.read(), True)
                if decoded.rejected:
                    raise malformed_error(self.path, self.format.name, decoded.rejected[0], 1)
                self._cache.clear()
                self._cache.update(stamp=stamp, rows=decoded.batch.rows)
        except OSError as error:
            raise ConnectorError(
                f"cannot read {self.path}: {error.strerror}", code="E3104", hint="check the option 'path'"
            ) from error
        rows: pa.RecordBatch = self._cache["rows"]
        return rows

    def _index(self, columns: tuple[str, ...]) -> _RowIndex:
        rows = self._rows()
        found = self._cache.get(columns)
        if found is None:
            found = self._cache[columns] = _RowIndex([rows.column(c) for c in columns])
        return found


class _RowIndex:
    """Rows by key: rows sorted by the slot of their key, and where each slot's rows begin."""

    def __init__(self, columns: list[pa.Array]) -> None:
        self._types = [c.type for c in columns]
        self._encoder = KeyEncoder(self._types)
        words = self._encoder.encode(columns)
        self._index = HashIndex(self._encoder.width, max(16, len(words)))
        slots, _ = self._index.insert(words)
        whole = ~_has_null(columns)
        rows = np.flatnonzero(whole)
        self._by_slot = rows[np.argsort(slots[rows], kind="stable")]
        self._counts = np.bincount(slots[rows], minlength=self._index.capacity)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts)])

    def find(self, keys: list[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of key position, ascending, and row."""
        typed = [k if k.type == t else k.cast(t) for k, t in zip(keys, self._types, strict=True)]
        slots = self._index.find(self._encoder.probe(typed))
        hits = np.flatnonzero((slots >= 0) & ~_has_null(typed))
        counts = self._counts[slots[hits]]
        positions = np.repeat(hits, counts)
        ends = np.cumsum(counts)
        within = np.arange(len(positions)) - np.repeat(ends - counts, counts)
        return positions, self._by_slot[np.repeat(self._starts[slots[hits]], counts) + within]


def _has_null(columns: list[pa.Array]) -> np.ndarray:
    return np.logical_or.reduce([c.is_null().to_numpy(zero_copy_only=False) for c in columns])


def _lookup(request: TableRequest) -> JsonlLookup:
    options = TableOptions(request.options, "connector 'lookup-jsonl'", (PATH, FORMAT), ("json.",))
    path = local_path(options.required(PATH))
    assert request.registry is not None
    return JsonlLookup(request.schema, path, request.time_zone, request.registry.format("json", request.options))


LOOKUP_JSONL = ConnectorFactory(
    name="lookup-jsonl",
    document="a file of JSON lines that can only be looked up, by equality on any columns",
    lookup=_lookup,
)
