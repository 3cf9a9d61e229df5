"""Rows of keys: each key is a request, or many keys are one; some requests are under way at once."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.json_encoder import JsonSpelling, object_text
from connectors.formats.message_rows import MessageRows
from connectors.formats.value_text import value_text
from connectors.http.address import Address
from connectors.http.client import Way, client_of
from runtime.core.errors import ConnectorError, UnsupportedError
from runtime.core.schema import Schema
from runtime.kernels.row_index import RowIndex
from runtime.spi.format import Format, Payloads

__all__ = ["HttpBatchLookup", "HttpKeyLookup"]

_NOBODY = frozenset({404, 410})
_DOTS = pa.array(["", ".", ".."])
"""Values that would make another path."""
_SHOWN = 160
_MOST_THREADS = 64


@functools.lru_cache(maxsize=4)
def _threads(process: int) -> ThreadPoolExecutor:
    # Threads do not come along when a process is forked.
    del process
    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="http lookup")


@dataclass(frozen=True)
class _Lookup:
    """What both kinds are.

    Attributes:
        method: GET, or POST with the key as an object of JSON.
        parallel: so many requests are under way at once.
    """

    schema: Schema
    name: str
    address: Address
    method: str
    way: Way
    parallel: int
    time_zone: str
    format: Format = field(compare=False)

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} ({self.address})"

    @property
    def distributed_lookups(self) -> bool:
        """Each process has its own connections."""
        return True

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "http", "columns": list(self.schema.names)}
        return {**described, "options": {"url": str(self.address), "method": self.method, "format": self.format.name}}

    def _types(self, names: Sequence[str]) -> list[Any]:
        return [self.schema[self.schema.index_of(name)].type for name in names]

    def _asked(self, url: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        client = client_of(self.way)
        answer = client.ask(self.method, url, body, headers)
        if answer.status in _NOBODY:
            return b""
        return client.accepted(answer, self.place()).body.strip()

    def _read(self, bodies: Sequence[bytes]) -> tuple[np.ndarray, pa.RecordBatch]:
        """The rows of answers, and of which one each is. Raises ConnectorError E3251 for an answer that has none."""
        rows = MessageRows.of(self.format, self.schema, self.schema.names, self.time_zone, self.way.most)
        decoded = rows.decode(Payloads.of(pa.array(bodies, pa.large_binary())))
        if decoded.rejected and not getattr(self.format, "ignore_parse_errors", False):
            row = decoded.rejected[0][1]
            raise ConnectorError(
                f"{self.place()} answers what is no {self.format.name}: {row.reason}: {row.raw[:_SHOWN]}",
                code="E3251",
                hint=f"'{self.format.name}.ignore-parse-errors' = 'true' takes such an answer for none",
            )
        return decoded.message_of_row, decoded.batch.rows


@dataclass(frozen=True)
class HttpKeyLookup(_Lookup):
    """A request for each key (`AsyncLookupTable`). Rows of an answer are rows of the key, whatever they say of it."""

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """See `LookupTable`. Raises ConnectorError E3250, E3251, UnavailableError."""
        known, requests = self._requests(key_columns, keys)
        if len(requests) < 2:
            bodies = [self._asked(*request) for request in requests]
        else:
            with ThreadPoolExecutor(min(self.parallel, len(requests))) as pool:
                bodies = list(pool.map(lambda request: self._asked(*request), requests))
        there = [place for place, body in enumerate(bodies) if body]
        of_row, rows = self._read([bodies[place] for place in there])
        places = known[np.array(there, np.int64)][of_row] if there else np.empty(0, np.int64)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        for number, name in enumerate(key_columns):
            columns[name] = keys.column(number).take(pa.array(places)).cast(columns[name].type)
        found = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return pa.array(places, pa.int64()), found

    async def lookup_async(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """See `AsyncLookupTable`."""
        threads = _threads(os.getpid())
        return await asyncio.get_running_loop().run_in_executor(threads, self.lookup, key_columns, keys)

    def _requests(
        self, key_columns: Sequence[str], keys: pa.RecordBatch
    ) -> tuple[np.ndarray, list[tuple[str, bytes | None, dict[str, str]]]]:
        """Places of keys that may have rows, and the request of each."""
        missing = [name for name in self.address.columns if name not in key_columns]
        if missing:
            raise UnsupportedError(
                f"the address of {self.name} names the column {missing[0]}, by which it is not looked up",
                code="E1643",
                hint=f"join by {missing[0]}, too",
            )
        types = self._types(key_columns)
        texts = [value_text(c, t, separator="T") for c, t in zip(keys.columns, types, strict=True)]
        known = np.ones(keys.num_rows, bool)
        for name, text in zip(key_columns, texts, strict=True):
            known &= np.asarray(text.is_valid())
            if name in self.address.columns:
                known &= ~np.asarray(pc.is_in(text, _DOTS))
        places = np.flatnonzero(known)
        values = pa.RecordBatch.from_arrays([t.take(pa.array(places)) for t in texts], names=list(key_columns))
        if self.method == "POST":
            columns = [c.take(pa.array(places)) for c in keys.columns]
            bodies = object_text(columns, tuple(key_columns), tuple(types), JsonSpelling()).to_pylist()
            kind = {"Content-Type": "application/json"}
            # The names of one key after the other: a request is made of texts.
            return places, [
                (self.address.url(row), body.encode(), kind) for row, body in zip(values.to_pylist(), bodies)
            ]
        return places, [(self._with_query(row), None, {}) for row in values.to_pylist()]

    def _with_query(self, values: dict[str, str]) -> str:
        """The address for a key: what it does not name of it is in the query."""
        url = self.address.url(values)
        more = [f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in values.items() if n not in self.address.columns]
        return url + (("&" if "?" in url else "?") + "&".join(more) if more else "")


@dataclass(frozen=True)
class HttpBatchLookup(_Lookup):
    """A POST for many keys: an array of objects goes there, and an array of rows, which say their keys, comes back.

    Attributes:
        size: keys of a request.
    """

    size: int = 100

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """See `LookupTable`. Raises ConnectorError E3250, E3251, UnavailableError."""
        types = self._types(key_columns)
        valid = np.ones(keys.num_rows, bool)
        for column in keys.columns:
            valid &= np.asarray(column.is_valid())
        places = np.flatnonzero(valid)
        wanted = keys.take(pa.array(places))
        texts = object_text(wanted.columns, tuple(key_columns), tuple(types), JsonSpelling())
        bodies = [
            b"[" + ",".join(texts.slice(at, self.size).to_pylist()).encode() + b"]"
            for at in range(0, len(texts), self.size)
        ]
        kind = {"Content-Type": "application/json"}
        with ThreadPoolExecutor(min(self.parallel, max(1, len(bodies)))) as pool:
            answers = list(pool.map(lambda body: self._asked(self.address.url(), body, kind), bodies))
        _, rows = self._read([answer for answer in answers if answer])
        index = RowIndex([rows.column(name) for name in key_columns])
        columns = [c.cast(rows.column(n).type) for c, n in zip(wanted.columns, key_columns, strict=True)]
        of_key, of_row = index.find(columns)
        order = np.argsort(of_key, kind="stable")
        return pa.array(places[of_key[order]], pa.int64()), rows.take(pa.array(of_row[order]))
