"""Documents as rows: those of given ids, and all of an index.

An answer is read as one record of JSON with the documents in it, in columns, so no document is an object of Python.

A scan reads a point in time of the index, page by page, each behind the last document of the one before. A position is the point
in time and that document, so a job goes on where it was as long as the cluster keeps the point in time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.elastic.cluster import quoted
from connectors.elastic.names import document_ids
from connectors.formats.json_encoder import JsonSpelling, object_text
from connectors.formats.message_rows import MessageRows
from connectors.kit.prefetch import Fetched
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import BOOLEAN, STRING, DataType, array, row
from runtime.spi.format import Payloads

if TYPE_CHECKING:
    from connectors.elastic.table import ElasticTable

__all__ = ["look_up", "read_documents"]

_IDS = 1000
_ERROR = 300


def look_up(table: ElasticTable, keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
    """For keys in the order of the primary key: places of those that are there, and their rows."""
    valid = np.ones(len(keys), bool)
    for column in keys.columns:
        valid &= np.asarray(column.is_valid())
    known = np.flatnonzero(valid)
    rows = keys.take(pa.array(known))
    names = table.index.of(rows, table.schema, table.time_zone, 0.0)
    ids = document_ids(rows, table.primary_key, table.schema, table.delimiter)
    wanted = object_text([names, ids], ("_index", "_id"), (STRING, STRING), JsonSpelling())
    places: list[np.ndarray] = []
    found: list[pa.StructArray] = []
    for at in range(0, len(wanted), _IDS):
        asked = wanted.slice(at, _IDS).to_pylist()
        body = f'{{"docs":[{",".join(asked)}]}}'.encode()
        status, answer = table.cluster.ask(
            "POST", f"/_mget?_source_includes={quoted(','.join(table.schema.names))}", body
        )
        if status != 200:
            raise table.cluster.refused(f"{table.place()} is looked up", status, answer)
        read = _read(table, answer, ("docs", array(row(("found", BOOLEAN), ("_source", _type(table))))))
        each = read.column(0).flatten()
        there = np.flatnonzero(np.asarray(pc.fill_null(each.field(0), False)))
        places.append(known[at + there])
        found.append(each.field(1).take(pa.array(there)))
    return pa.array(np.concatenate(places) if places else np.empty(0, np.int64), pa.int64()), _rows(table, found)


def read_documents(table: ElasticTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """See `Fetching`. A position is the point in time, and the values behind which reading goes on, or null."""
    if position is None:
        point, after = table.dialect.opened(table), None
        yield Fetched(None, [point, None])
    else:
        point, after = position
    while not stop.is_set():
        query: dict[str, Any] = {
            "size": table.page,
            "pit": {"id": point, "keep_alive": f"{table.keep}s"},
            "sort": [{table.dialect.order: "asc"}],
            "_source": list(table.schema.names),
            "track_total_hits": False,
            **({} if after is None else {"search_after": after}),
        }
        status, answer = table.cluster.ask("POST", "/_search", query)
        if status == 404:
            raise ConnectorError(
                f"{table.place()}: the point in time at which it is read is gone",
                code="E3263",
                hint="the job stood still for longer than 'scan.keep-time'; begin anew",
            )
        if status != 200:
            raise table.cluster.refused(f"{table.place()} is read", status, answer)
        hits = row(("hits", array(row(("_source", _type(table)), ("sort", array(STRING))))))
        page = _read(table, answer, ("pit_id", STRING), ("timed_out", BOOLEAN), ("hits", hits))
        if page.column(1)[0].as_py():
            raise TimeoutError(f"{table.place()} takes too long to be read")
        each = page.column(2).field(0).flatten()
        if not len(each):
            return
        point = page.column(0)[0].as_py() or point
        after = [table.dialect.value(text) for text in each.field(1)[len(each) - 1].as_py()]
        yield Fetched(_rows(table, [each.field(0)]), [point, after])


def _type(table: ElasticTable) -> DataType:
    """A document."""
    return row(*((f.name, f.type) for f in table.schema))


def _read(table: ElasticTable, answer: bytes, *fields: tuple[str, DataType]) -> pa.RecordBatch:
    """An answer, of one row with these columns. Raises ConnectorError E3264 where documents do not have the columns' types."""
    schema = Schema.of(*fields)
    rows = MessageRows.of(table.format, schema, schema.names, table.time_zone, len(answer))
    decoded = rows.decode(Payloads.of(pa.array([answer], pa.large_binary())))
    if decoded.rejected or len(decoded.batch) != 1:
        why = decoded.rejected[0][1].reason if decoded.rejected else "the cluster answers oddly"
        raise ConnectorError(
            f"{table.place()}: documents are not what the columns say: {why[:_ERROR]}",
            code="E3264",
            hint="declare the columns as they are in the documents; a field that holds several kinds of values as STRING",
        )
    return decoded.batch.rows


def _rows(table: ElasticTable, parts: Sequence[pa.StructArray]) -> pa.RecordBatch:
    """The columns of documents."""
    columns: list[pa.Array] = []
    for number, field in enumerate(table.schema):
        type_ = field.type.arrow
        found = [part.flatten()[number].cast(type_) for part in parts]
        columns.append(pa.concat_arrays(found) if found else pa.nulls(0, type_))
    return pa.RecordBatch.from_arrays(columns, names=list(table.schema.names))
