"""Documents as rows: those of given values, and all of a collection in the order of `_id`.

A position is the `_id` behind which reading goes on, so it goes on in what the collection has then. MongoDB compares `_id`s of
one kind alone, so those of the kinds that come later are asked for by kind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.kit.prefetch import Fetched
from connectors.mongodb.address import bson, client_of, telling
from connectors.mongodb.conditions import filter_of
from connectors.mongodb.values import ID, as_columns, as_values, id_of
from runtime.core.errors import ConnectorError
from runtime.kernels.row_index import RowIndex

if TYPE_CHECKING:
    from connectors.mongodb.table import MongoTable

__all__ = ["behind", "collection_of", "look_up", "read_documents"]

_KEYS = 500
_KINDS: tuple[tuple[str, ...], ...] = (
    ("minKey",), ("null",), ("int", "long", "double", "decimal"), ("string",), ("object",), ("binData",), ("objectId",),
    ("bool",), ("date",), ("timestamp",), ("maxKey",),
)  # fmt: skip
"""The kinds of an `_id`, in their order."""


def collection_of(table: MongoTable) -> Any:
    address = table.address
    return client_of(address)[address.database][address.collection]


def look_up(table: MongoTable, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
    """Places of keys that are there, and their rows. Raises ConnectorError E3281 and E3283, UnavailableError."""
    schema = table.schema
    valid = np.ones(keys.num_rows, bool)
    for column in keys.columns:
        valid &= np.asarray(column.is_valid())
    places = np.flatnonzero(valid)
    wanted = keys.take(pa.array(places))
    types = [schema[schema.index_of(name)].type for name in key_columns]
    values = [as_values(column, type_) for column, type_ in zip(wanted.columns, types, strict=True)]
    documents: list[Any] = []
    with telling(table.address, f"{table.name} is looked up"):
        collection = collection_of(table)
        for at in range(0, len(places), _KEYS):
            asked = _of_keys(key_columns, [column[at : at + _KEYS] for column in values])
            documents += collection.find(asked, _projection(schema.names))
    rows = as_columns(documents, schema, table.place())
    index = RowIndex([rows.column(name) for name in key_columns])
    columns = [c.cast(rows.column(n).type) for c, n in zip(wanted.columns, key_columns, strict=True)]
    of_key, of_row = index.find(columns)
    order = np.argsort(of_key, kind="stable")
    return pa.array(places[of_key[order]], pa.int64()), rows.take(pa.array(of_row[order]))


def _of_keys(names: Sequence[str], values: Sequence[list[Any]]) -> dict[str, Any]:
    if len(names) == 1:
        return {names[0]: {"$in": _with_ids(values[0])}}
    each = [{n: {"$in": _with_ids([v])} for n, v in zip(names, row, strict=True)} for row in zip(*values, strict=True)]
    return {"$or": each}


def _with_ids(values: list[Any]) -> list[Any]:
    """Texts, and the ObjectIds that they may be."""
    return values + [found for v in values if (found := id_of(v)) is not v]


def read_documents(table: MongoTable, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """See `Fetching`."""
    json = bson().json_util
    options = json.CANONICAL_JSON_OPTIONS
    wanted = filter_of(table.conditions)
    if position is not None:
        wanted = (
            {"$and": [wanted, behind(json.loads(position, json_options=options))]}
            if wanted
            else behind(json.loads(position, json_options=options))
        )
    with telling(table.address, f"{table.name} is read"):
        found = collection_of(table).find(
            wanted, _projection((*table.schema.names, ID)), sort=[(ID, 1)], batch_size=table.page
        )
        with found:
            documents: list[Any] = []
            for document in found:
                documents.append(document)
                if len(documents) == table.page:
                    yield _fetched(table, documents)
                    documents = []
                    if stop.is_set():
                        return
            if documents:
                yield _fetched(table, documents)


def _fetched(table: MongoTable, documents: list[Any]) -> Fetched:
    json = bson().json_util
    after = json.dumps(documents[-1][ID], json_options=json.CANONICAL_JSON_OPTIONS)
    return Fetched(as_columns(documents, table.schema, table.place()), after)


def behind(last: Any) -> dict[str, Any]:
    """The documents behind an `_id`."""
    kind = next(i for i, kinds in enumerate(_KINDS) if _kind(last) in kinds)
    later = [name for kinds in _KINDS[kind + 1 :] for name in kinds]
    return {"$or": [{ID: {"$gt": last}}, {ID: {"$type": later}}]}


def _kind(value: Any) -> str:
    """The name of a value's kind. Raises ConnectorError E3283 for one that is no `_id`."""
    types = bson()
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "double"
        case str():
            return "string"
        case dict():
            return "object"
        case types.decimal128.Decimal128():
            return "decimal"
        case types.objectid.ObjectId():
            return "objectId"
        case types.timestamp.Timestamp():
            return "timestamp"
        case types.min_key.MinKey():
            return "minKey"
        case types.max_key.MaxKey():
            return "maxKey"
        case bytes() | types.binary.UUID():
            return "binData"
        case _ if hasattr(value, "utcoffset"):
            return "date"
        case _:
            raise ConnectorError(f"an _id of {type(value).__name__}", code="E3283", hint="such an _id has no order")


def _projection(names: Sequence[str]) -> dict[str, int]:
    """Fields of an answer; `_id` comes unless it is not wanted."""
    return {**dict.fromkeys(names, 1), **({} if ID in names else {ID: 0})}
