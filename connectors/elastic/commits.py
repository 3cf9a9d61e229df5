"""Rows as documents.

A cluster has no transactions. So each commit has a number, and each of its documents has an id and, as its external version, the
number of the commit, counted from the moment at which the sink began for the first time (milliseconds since 1970, so that it
is greater than any version that a cluster has counted itself). Whoever goes on writes a commit that was cut short again: what is
there is replaced by itself. Without a key ids are made of the commit's number and the row's place in it. The document of the sink
in the index `sqlengine-commits` has the number of its newest whole commit; a new run writes itself into it, and an older one is
told by that, and by the versions, that it is not the writer any more.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.newest import newest_by_key
from connectors.elastic.cluster import quoted, told
from connectors.elastic.names import document_ids
from connectors.formats.json_encoder import JsonSpelling, object_text
from connectors.formats.message_rows import encoded_messages
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError, UnavailableError
from runtime.core.logs import connector_log
from runtime.core.types import STRING
from runtime.spi.format import Payloads

if TYPE_CHECKING:
    from connectors.elastic.table import ElasticTable

__all__ = ["COMMITS", "ElasticCommits", "ElasticDocuments"]

COMMITS = "sqlengine-commits"
_NDJSON = "application/x-ndjson"


class ElasticDocuments:
    """Writes rows at once (`TransactionWriter`): documents of a key replace each other, so what comes twice is once."""

    def __init__(self, table: ElasticTable) -> None:
        self._table = table
        self._log = connector_log(__name__)

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        self._write(batches, None, "")

    def close(self) -> None:
        """Connections are the process's."""

    def _write(self, batches: Iterable[ChangelogBatch], version: int | None, name: str) -> None:
        """All rows. `version`: of the documents; `name`: what ids without a key begin with, empty for those of the cluster."""
        for actions in self._actions(batches, version, name):
            for body in self._bodies(actions):
                self._bulk(body)

    def _actions(self, batches: Iterable[ChangelogBatch], version: int | None, name: str) -> Iterator[pa.Array]:
        """What is to be done, an action in each text, large_string."""
        table = self._table
        if not table.primary_key:
            at = 0
            for batch in batches:
                rows = batch.decoded().rows
                ids = pa.array([f"{name}-{i}" for i in range(at, at + len(rows))]) if name else None
                at += len(rows)
                yield self._indexed(rows, ids, version)
            return
        found = newest_by_key([batch.decoded() for batch in batches], table.primary_key)
        if found is None:
            return
        there, gone = found
        if len(gone):
            yield _lines(self._heads("delete", gone, self._ids(gone), version))
        if len(there):
            yield self._indexed(there, self._ids(there), version)

    def _ids(self, rows: pa.RecordBatch) -> pa.Array:
        table = self._table
        ids = document_ids(rows, table.primary_key, table.schema, table.delimiter)
        if ids.null_count:
            raise ConnectorError(
                f"{table.place()}: a part of the key is NULL", code="E3261", hint="leave such rows out"
            )
        return ids

    def _indexed(self, rows: pa.RecordBatch, ids: pa.Array | None, version: int | None) -> pa.Array:
        table = self._table
        batch = ChangelogBatch(pa.RecordBatch.from_arrays(rows.columns, names=list(table.schema.names)))
        documents = encoded_messages(table.format, table.schema, batch, table.time_zone).cast(pa.large_string())
        return _lines(self._heads("index", batch.rows, ids, version), documents)

    def _heads(self, action: str, rows: pa.RecordBatch, ids: pa.Array | None, version: int | None) -> pa.Array:
        """The line of an action for each row."""
        table = self._table
        index = table.index.of(rows, table.schema, table.time_zone, time.time())
        columns = [index] if ids is None else [index, ids]
        meta = object_text(columns, ("_index", "_id")[: len(columns)], (STRING,) * len(columns), JsonSpelling())
        ends = "}" if version is None else f',"version":{version},"version_type":"external_gte"}}'
        return pc.binary_join_element_wise(
            pa.scalar(f'{{"{action}":'), pc.replace_substring_regex(meta, r"\}$", ""), pa.scalar(ends + "}"), ""
        )

    def _bodies(self, actions: pa.Array) -> Iterator[bytes]:
        """Actions in requests of at most so many, and so many bytes, or one."""
        table = self._table
        texts = Payloads.of(actions.cast(pa.large_binary()))
        at, count = 0, len(texts)
        while at < count:
            begin = int(texts.starts[at])
            last = int(np.searchsorted(texts.ends, begin + table.bulk_size, "right"))
            last = min(max(last, at + 1), at + table.bulk_actions, count)
            yield texts.data[begin : int(texts.ends[last - 1])].tobytes()
            at = last

    def _bulk(self, body: bytes) -> None:
        """Raises UnavailableError where something was not taken now, ConnectorError E3262 where something is refused."""
        table = self._table
        status, answer = table.cluster.ask("POST", "/_bulk", body, _NDJSON)
        if status != 200:
            raise table.cluster.refused(f"{table.place()} is written", status, answer)
        # Only what went wrong is looked at one by one.
        if b'"errors":false' in answer[:200].replace(b" ", b""):
            return
        found = json.loads(answer)
        for item in found["items"] if found["errors"] else ():
            (action, told_of) = next(iter(item.items()))
            self._look(action, told_of)

    def _look(self, action: str, done: Any) -> None:
        table, status = self._table, int(done["status"])
        if status < 300 or (action == "delete" and status == 404):
            return
        reason = told(json.dumps({"error": done.get("error", {})}).encode())
        what = f"{table.place()}: the document '{done.get('_id')}' of {done.get('_index')}: HTTP {status} {reason}"
        if status == 429 or status >= 500:
            raise UnavailableError(what, hint="it is written again")
        if status == 409:
            raise FencedError(
                f"{what}: it is newer there: another run of the job, or somebody else, has written it",
                hint="end the other one; documents of this sink are its own",
            )
        if table.ignores:
            self._log.failure("a document is left out", ConnectorError(what, code="E3262"), logging.WARNING)
            return
        raise ConnectorError(
            what,
            code="E3262",
            hint="mend the mapping of the index, or the query; 'failure-handler' = 'ignore' leaves it out",
        )


def _lines(*columns: pa.Array) -> pa.Array:
    """Columns of texts, each with a line end, as one text for each row."""
    parts: list[pa.Array | pa.Scalar] = []
    for column in columns:
        parts += [column.cast(pa.large_string()), pa.scalar("\n", pa.large_string())]
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()))


class ElasticCommits(ElasticDocuments):
    """`EpochCommits`: see the module."""

    def __init__(self, table: ElasticTable, job: str) -> None:
        super().__init__(table)
        self._id = hashlib.sha256(f"{table.index}\0{job}".encode()).hexdigest()[:32]
        self._run = uuid.uuid4().hex
        self._base = 0
        self._seen = (0, 0)
        """Sequence number and term of the sink's document, as this run has written it."""

    def last(self) -> int:
        cluster, path = self._table.cluster, f"/{COMMITS}/_doc/{self._id}"
        status, answer = cluster.ask("GET", path)
        if status == 404:
            self._base = time.time_ns() // 1_000_000
            self._kept(f"/{COMMITS}/_create/{self._id}", self._document(0))
            return 0
        if status != 200:
            raise cluster.refused(f"{COMMITS} is read", status, answer)
        found = json.loads(answer)
        source = found["_source"]
        self._base = int(source["base"])
        self._seen = (found["_seq_no"], found["_primary_term"])
        if source["run"] != self._run:
            self._put(int(source["number"]))
        return int(source["number"])

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        status, answer = self._table.cluster.ask("GET", f"/{COMMITS}/_doc/{self._id}")
        if status != 200 or json.loads(answer)["_source"]["run"] != self._run:
            raise self._fenced()
        self._write_rows(number, batches)
        self._keep(number)

    def _write_rows(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        self._write(batches, self._base + number, f"{self._id}-{number}")

    def _keep(self, number: int) -> None:
        """The commit is whole."""
        self._put(number)

    def _put(self, number: int) -> None:
        sequence, term = self._seen
        path = f"/{COMMITS}/_doc/{self._id}?if_seq_no={sequence}&if_primary_term={term}"
        self._kept(path, self._document(number))

    def _document(self, number: int) -> dict[str, Any]:
        return {"number": number, "base": self._base, "run": self._run, "sink": self._table.name}

    def _kept(self, path: str, document: dict[str, Any]) -> None:
        cluster = self._table.cluster
        status, answer = cluster.ask("PUT", path, document)
        if status == 409:
            raise self._fenced()
        if status not in (200, 201):
            raise cluster.refused(f"{quoted(COMMITS)} is written", status, answer)
        found = json.loads(answer)
        self._seen = (found["_seq_no"], found["_primary_term"])

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another run of the job that writes {self._table.place()} has taken the place of this one",
            hint="end one of them",
        )
