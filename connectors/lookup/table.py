"""The lookup table `lookup-jsonl`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connectors.filesystem.files import local_path
from connectors.filesystem.opening import open_plain
from connectors.formats.records import malformed_error
from connectors.options import FORMAT, PATH, TableOptions
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.kernels.row_index import RowIndex
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
    _cache: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The matching rows of each key, in the order of the file."""
        index = self._index(tuple(key_columns))
        positions, rows = index.find([keys.column(i) for i in range(len(key_columns))])
        return pa.array(positions, pa.int64()), self._rows().take(pa.array(rows))

    @property
    def distributed_lookups(self) -> bool:
        """A file is there for whoever sees the folder."""
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Without what it remembers of the file."""
        return {**self.__dict__, "_cache": {}}

    def describe(self) -> dict[str, Any]:
        return {"connector": "lookup-jsonl", "path": self.path}

    def _rows(self) -> pa.RecordBatch:
        try:
            status = os.stat(self.path)
            stamp = (status.st_mtime_ns, status.st_size)
            if self._cache.get("stamp") != stamp:
                with open_plain(self.path) as file:
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

    def _index(self, columns: tuple[str, ...]) -> RowIndex:
        rows = self._rows()
        found = self._cache.get(columns)
        if found is None:
            found = self._cache[columns] = RowIndex([rows.column(c) for c in columns])
        return found


def _lookup(request: TableRequest) -> JsonlLookup:
    options = TableOptions(request.options, "connector 'lookup-jsonl'", (PATH, FORMAT), ("json.",))
    path = local_path(options.required(PATH))
    assert request.registry is not None
    return JsonlLookup(request.schema, path, request.time_zone, request.registry.format("json", request.options))


LOOKUP_JSONL = ConnectorFactory(
    name="lookup-jsonl",
    document="a file of JSON lines that can only be looked up, by equality on any columns",
    lookup=_lookup,
    options=(PATH, FORMAT),
)
