"""Documents and changes, from a position on.

The commands are those of MongoDB's documentation, given as they are: a cursor of the client would hold back changes that have come
until it knows whether others do.

    position   {since, behind}   documents up to this `_id` were read; changes are wanted since then
               {since}           all documents were read
               {token}           the changes up to this event were
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.kit.prefetch import Fetched
from connectors.mongodb.address import bson, client_of, pymongo, telling
from connectors.mongodb.reading import behind
from connectors.mongodb.values import ID, as_columns
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import ConnectorError, UnavailableError

if TYPE_CHECKING:
    from connectors.mongodb.cdc.table import MongoCdcSource

__all__ = ["read_changes"]

_NOTHING = ChangelogBatch(pa.RecordBatch.from_arrays([], names=[]))
_MICROS = 1_000_000
_LOST = frozenset((136, 260, 280, 286))
"""The stream cannot go on from a token: what is behind it is gone, or it is of another collection."""
_UNTOLD = frozenset((2, 9, 123, 303, 40324, 40573))
"""The server has no change streams, or not with what is asked for."""
_OLD_SNAPSHOT = frozenset((239, 246))
_AGAIN = frozenset((43, 237))
"""A cursor that is gone: another one goes on."""
_NO_IMAGE = 47
_ENDING = frozenset(("drop", "dropDatabase", "rename", "invalidate"))
_WRITTEN = frozenset(("insert", "replace", "update"))


def read_changes(table: MongoCdcSource, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """As `Fetching` says."""
    address = table.options.address
    with telling(address, f"{table.name} is read"), _following(table):
        database = client_of(address)[address.database]
        if position is None:
            position = _begin(table, database)
            # Before anything is read: whoever begins again begins at the same moment.
            yield Fetched(_NOTHING, position)
        if "behind" in position:
            yield from _documents(table, database, position, stop)
            if table.bounded or stop.is_set():
                return
            position = {"since": position["since"]}
            yield Fetched(_NOTHING, position)
        yield from _events(table, database, position, stop)


def _begin(table: MongoCdcSource, database: Any) -> dict[str, Any]:
    start = table.options.start
    if start == "timestamp":
        return {"since": [table.options.since // 1000, 1]}
    now = database.command("ping").get("operationTime")
    if now is None and not table.bounded:
        raise _untold(table, "the server is none of a replica set, and has no log of changes")
    # An event of this very moment is among the documents.
    since = [0, 0] if now is None else [now.time, now.inc + 1]
    return {"since": since} if start == "latest-offset" else {"since": since, "behind": None}


def _documents(table: MongoCdcSource, database: Any, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    """The documents behind an `_id`, in its order."""
    since, last, first = position["since"], position["behind"], position["behind"] is None
    json = bson().json_util
    while not stop.is_set():
        command: dict[str, Any] = {
            "find": table.options.address.collection,
            "filter": {} if first else behind(json.loads(last, json_options=json.CANONICAL_JSON_OPTIONS)),
            "sort": {ID: 1},
            "limit": table.options.page,
            "batchSize": table.options.page,
            "singleBatch": True,
        }
        if since[0]:
            moment = bson().timestamp.Timestamp(since[0], since[1] - 1)
            command["readConcern"] = (
                {"level": "snapshot", "atClusterTime": moment}
                if table.options.full
                else {"level": "majority", "afterClusterTime": moment}
            )
        found = _asked(database, command)["cursor"]["firstBatch"]
        if not found:
            return
        ids = [json.dumps(document[ID], json_options=json.CANONICAL_JSON_OPTIONS) for document in found]
        columns = _columns(table, found)
        rows = table.batch(columns, len(found), None, None, table.constants)
        last, first = ids[-1], False
        yield _part(rows, [{"since": since, "behind": each} for each in ids])


def _events(table: MongoCdcSource, database: Any, position: Any, stop: threading.Event) -> Iterator[Fetched]:
    options = table.options
    json = bson().json_util
    stream: dict[str, Any] = {"fullDocument": "required" if options.full else "updateLookup"}
    if options.full:
        stream["fullDocumentBeforeChange"] = "required"
    if "token" in position:
        stream["resumeAfter"] = json.loads(position["token"], json_options=json.CANONICAL_JSON_OPTIONS)
    else:
        stream["startAtOperationTime"] = bson().timestamp.Timestamp(*position["since"])
    with client_of(options.address).start_session(causal_consistency=False) as session:
        command: dict[str, Any] = {
            "aggregate": options.address.collection,
            "pipeline": [{"$changeStream": stream}],
            "cursor": {"batchSize": options.page},
            "readConcern": {"level": "majority"},
        }
        cursor = _asked(database, command, session)["cursor"]
        more = {
            "getMore": bson().int64.Int64(cursor["id"]),
            "collection": options.address.collection,
            "batchSize": options.page,
            "maxTimeMS": options.wait,
        }
        try:
            events = cursor["firstBatch"]
            while not stop.is_set():
                if events:
                    yield from _changes(table, events)
                token = cursor.get("postBatchResumeToken") or (events[-1][ID] if events else None)
                if token is not None:
                    position = {"token": json.dumps(token, json_options=json.CANONICAL_JSON_OPTIONS)}
                yield Fetched(_NOTHING if events else None, position)
                cursor = _asked(database, more, session)["cursor"]
                events = cursor["nextBatch"]
        finally:
            with contextlib.suppress(pymongo().errors.PyMongoError):
                database.command(
                    {"killCursors": options.address.collection, "cursors": [more["getMore"]]}, session=session
                )


def _changes(table: MongoCdcSource, events: Sequence[Any]) -> Iterator[Fetched]:
    """Events as rows. Raises ConnectorError E3172 behind the last one that can be followed."""
    json = bson().json_util
    documents, kinds, moments, tokens = list[Any](), list[int](), list[int](), list[Any]()
    ended = ""
    for event in events:
        what = event["operationType"]
        if what in _ENDING:
            ended = what
            break
        rows = list(_rows(event, what, full=table.options.full))
        for kind, document in rows:
            documents.append(document)
            kinds.append(kind)
            moments.append(event["clusterTime"].time * _MICROS)
            tokens.append({"token": json.dumps(event[ID], json_options=json.CANONICAL_JSON_OPTIONS)})
    if documents:
        times, numbers = np.array(moments, np.int64), np.array(kinds, np.int8)
        batch = table.batch(_columns(table, documents), len(documents), times, numbers, table.constants)
        # Of an old and a new row a token names both: they are counted, and come again as they were.
        yield Fetched(batch, tokens[-1]) if table.options.full else _part(batch, tokens)
    if ended:
        raise ConnectorError(
            f"{table.place} has ended ({ended}): its documents are in no place that its changes tell",
            code="E3172",
            hint="begin anew with the collection as it is now",
        )


def _rows(event: Any, what: str, *, full: bool) -> Iterator[tuple[int, Any]]:
    """Kind and document of each row of an event."""
    if what in _WRITTEN:
        document = event.get("fullDocument")
        if full and what != "insert":
            yield UPDATE_BEFORE, event["fullDocumentBeforeChange"]
        # One that has been deleted since cannot be looked up; its deletion comes.
        if document is not None:
            yield (INSERT if full and what == "insert" else UPDATE_AFTER), document
    elif what == "delete":
        yield DELETE, event["fullDocumentBeforeChange"] if full else {ID: event["documentKey"][ID]}


def _columns(table: MongoCdcSource, documents: Sequence[Any]) -> dict[str, pa.Array]:
    rows = as_columns(documents, table.inner_schema(()), table.place)
    return dict(zip(rows.schema.names, rows.columns, strict=True))


def _part(rows: ChangelogBatch, positions: Sequence[Any]) -> Fetched:
    """Rows with the position behind each: they may be others when they are read again."""
    return Fetched(rows, positions[-1], within=lambda count: (positions[count - 1], 0))


def _asked(database: Any, command: dict[str, Any], session: Any = None) -> Any:
    return database.command(command, session=session, codec_options=database.codec_options)


@contextmanager
def _following(table: MongoCdcSource) -> Generator[None]:
    """Errors of the server that have a meaning for who follows a collection."""
    errors: Any = importlib.import_module(f"{pymongo().__name__}.errors")
    try:
        yield
    except errors.OperationFailure as error:
        said = str(error).split(", full error:")[0][:300]
        if error.code in _AGAIN or error.has_error_label("ResumableChangeStreamError"):
            raise UnavailableError(f"{table.place}: {said}", hint="it is asked again") from error
        if error.code in _LOST:
            raise ConnectorError(
                f"the changes of {table.place} cannot be gone on with: {said}",
                code="E3170",
                hint="the server's log (oplog) no longer has what was not read; give it more room, and begin anew",
            ) from error
        if error.code in _OLD_SNAPSHOT:
            raise ConnectorError(
                f"the documents of {table.place} cannot be read as they were when reading began: {said}",
                code="E3173",
                hint="raise the server's 'minSnapshotHistoryWindowInSeconds', or leave 'scan.full-changelog' out",
            ) from error
        if error.code == _NO_IMAGE or error.code in _UNTOLD:
            raise _untold(table, said) from error
        raise


def _untold(table: MongoCdcSource, why: str) -> ConnectorError:
    return ConnectorError(
        f"the changes of {table.place} are not told: {why}",
        code="E3171",
        hint="change streams need a replica set, and 'scan.full-changelog' MongoDB 6 and a collection with "
        "changeStreamPreAndPostImages: {enabled: true}",
    )
