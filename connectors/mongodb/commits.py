"""Rows as documents.

A single server has no transactions, and a transaction of a replica set has a limit of time and size. So a commit is a write that
may be repeated: each of its documents has an `_id`, that of its key, or else one made of the commit's number and the row's place
in it, and whoever goes on writes a commit that was cut short again. The document of the sink in `sqlengine_commits` has the
number of its newest whole commit. A new run writes itself into it, by which an older one knows that it is not the writer any more.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.databases.newest import newest_by_key
from connectors.mongodb.address import client_of, pymongo, telling
from connectors.mongodb.reading import collection_of
from connectors.mongodb.values import ID, as_values, id_of
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError

if TYPE_CHECKING:
    from connectors.mongodb.table import MongoTable

__all__ = ["COMMITS", "MongoCommits", "MongoDocuments"]

COMMITS = "sqlengine_commits"


class MongoDocuments:
    """Writes rows at once (`TransactionWriter`): documents of a key replace each other, so what comes twice is once."""

    def __init__(self, table: MongoTable) -> None:
        self._table = table

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        self._write(batches, "")

    def close(self) -> None:
        """Connections are the process's."""

    def _write(self, batches: Iterable[ChangelogBatch], name: str) -> None:
        """All rows. `name`: what `_id`s without a key begin with; empty for those of the client."""
        with telling(self._table.address, f"{self._table.name} is written"):
            collection = collection_of(self._table)
            for part in _parts(self._requests(batches, name), self._table.batch):
                self._bulk(collection, part)

    def _bulk(self, collection: Any, requests: list[Any]) -> None:
        try:
            collection.bulk_write(requests, ordered=False)
        except pymongo().errors.BulkWriteError as error:
            failed = (error.details or {}).get("writeErrors") or []
            if not failed:
                raise
            raise ConnectorError(
                f"{self._table.place()} refuses a document: {str(failed[0].get('errmsg'))[:300]}",
                code="E3282",
                hint="mend the query, or the rules and unique indexes of the collection",
            ) from error

    def _requests(self, batches: Iterable[ChangelogBatch], name: str) -> Iterator[Any]:
        table, client = self._table, pymongo()
        if not table.primary_key:
            at = 0
            for batch in batches:
                rows = batch.decoded().rows
                for number, document in enumerate(self._documents(rows), at):
                    if ID in document:
                        document[ID] = id_of(document[ID])
                    elif name:
                        document[ID] = f"{name}-{number}"
                    yield (
                        client.ReplaceOne({ID: document[ID]}, document, upsert=True)
                        if ID in document
                        else (client.InsertOne(document))
                    )
                at += rows.num_rows
            return
        found = newest_by_key([batch.decoded() for batch in batches], table.primary_key)
        if found is None:
            return
        there, gone = found
        for key in self._ids(gone):
            yield client.DeleteOne({ID: key})
        for key, document in zip(self._ids(there), self._documents(there), strict=True):
            document.pop(ID, None)
            # Of a table of its key alone there is nothing to set, and an update must not be empty.
            yield client.UpdateOne(
                {ID: key}, {"$set": document} if document else {"$setOnInsert": {ID: key}}, upsert=True
            )

    def _documents(self, rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        schema = self._table.schema
        columns = [as_values(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
        for values in zip(*columns, strict=True):
            yield dict(zip(schema.names, values, strict=True))

    def _ids(self, rows: pa.RecordBatch) -> list[Any]:
        """The `_id` of each key: its value, or a document of its values."""
        table, schema = self._table, self._table.schema
        columns = [as_values(rows.column(n), schema[schema.index_of(n)].type) for n in table.primary_key]
        if any(value is None for column in columns for value in column):
            raise ConnectorError(
                f"{table.place()}: a part of the key is NULL", code="E3282", hint="leave such rows out"
            )
        if len(columns) == 1:
            return [id_of(value) for value in columns[0]]
        return [dict(zip(table.primary_key, values, strict=True)) for values in zip(*columns, strict=True)]


def _parts(requests: Iterator[Any], size: int) -> Iterator[list[Any]]:
    part: list[Any] = []
    for request in requests:
        part.append(request)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


class MongoCommits(MongoDocuments):
    """`EpochCommits`: see the module."""

    def __init__(self, table: MongoTable, job: str) -> None:
        super().__init__(table)
        address = table.address
        self._id = hashlib.sha256(f"{address.collection}\0{job}".encode()).hexdigest()[:32]
        self._run = uuid.uuid4().hex

    def last(self) -> int:
        with telling(self._table.address, f"{COMMITS} is read"):
            marks = self._marks()
            try:
                known = marks.find_one_and_update({ID: self._id}, {"$set": {"run": self._run}})
                if known is None:
                    marks.insert_one({ID: self._id, "number": 0, "run": self._run, "sink": self._table.name})
            except pymongo().errors.DuplicateKeyError as error:
                raise self._fenced() from error
        return 0 if known is None else int(known["number"])

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        with telling(self._table.address, f"{COMMITS} is read"):
            if self._marks().find_one({ID: self._id, "run": self._run}) is None:
                raise self._fenced()
        self._write_rows(number, batches)
        self._keep(number)

    def _write_rows(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        self._write(batches, f"{self._id}-{number}")

    def _keep(self, number: int) -> None:
        """The commit is whole."""
        with telling(self._table.address, f"{COMMITS} is written"):
            mine = {ID: self._id, "run": self._run}
            if self._marks().find_one_and_update(mine, {"$set": {"number": number}}) is None:
                raise self._fenced()

    def _marks(self) -> Any:
        return client_of(self._table.address)[self._table.address.database][COMMITS]

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another run of the job that writes {self._table.place()} has taken the place of this one",
            hint="end one of them",
        )
