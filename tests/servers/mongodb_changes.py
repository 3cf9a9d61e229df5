"""A stand-in for a replica set of MongoDB, in this process: what its documentation says of `find`, change streams and their tokens,
over its wire protocol (OP_MSG). The server of `mongodb.py` has none. A command that it does not know, or other fields, are errors.
"""

from __future__ import annotations

import itertools
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.timestamp import Timestamp

__all__ = ["ChangingCollection", "changing_collection"]

_CODEC: Any = CodecOptions(uuid_representation=4)
_SENT = {"lsid", "$clusterTime", "$db", "$readPreference", "txnNumber"}
_OP_MSG = 2013
_SECONDS = 1_700_000_000


class _Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class ChangingCollection:
    """The collection `shop.items`.

    Attributes:
        images: it keeps documents of before and after changes.
        alone: it is no replica set.
        forgotten: events of before this one are not in the log any more.
        refusing: what the next commands of a name are answered, as code and message.
        seen: the commands that came.
    """

    port: int = 0
    images: bool = True
    alone: bool = False
    forgotten: int = 0
    refusing: dict[str, list[tuple[int, str]]] = field(default_factory=dict[str, list[tuple[int, str]]])
    seen: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    documents: dict[Any, dict[str, Any]] = field(default_factory=dict[Any, dict[str, Any]])
    log: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _past: list[dict[Any, dict[str, Any]]] = field(default_factory=lambda: [{}])
    _cursors: dict[int, tuple[int, dict[str, Any]]] = field(default_factory=dict[int, tuple[int, dict[str, Any]]])
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1000))

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    # --- what a test does

    def put(self, *documents: dict[str, Any]) -> None:
        """Insert or replace."""
        for document in documents:
            before = self.documents.get(document["_id"])
            self._note("insert" if before is None else "replace", document["_id"], before, document)

    def set(self, ident: Any, **fields: Any) -> None:
        before = self.documents[ident]
        self._note("update", ident, before, {**before, **fields})

    def delete(self, *idents: Any) -> None:
        for ident in idents:
            self._note("delete", ident, self.documents[ident], None)

    def end(self, what: str) -> None:
        """`drop` or `rename`."""
        self._note(what, None, None, None)

    def _note(self, what: str, ident: Any, before: Any, after: Any) -> None:
        with self._changed:
            if after is not None:
                self.documents[ident] = after
            elif ident is not None:
                del self.documents[ident]
            self.log.append({"operationType": what, "id": ident, "before": before, "after": after})
            self._past.append(dict(self.documents))
            self._changed.notify_all()

    # --- what a client asks

    def now(self) -> Timestamp:
        """The moment of the newest event."""
        return _moment(len(self.log))

    def answered(self, command: dict[str, Any]) -> dict[str, Any]:
        name = next(iter(command))
        with self._changed:
            self.seen.append(command)
            if refusals := self.refusing.get(name):
                raise _Refused(*refusals.pop(0))
            answer: Callable[[dict[str, Any]], dict[str, Any]] | None = getattr(self, f"_{name.lower()}", None)
            if answer is None:
                raise _Refused(59, f"no such command: '{name}'")
            found = answer({k: v for k, v in command.items() if k not in _SENT})
            return found if self.alone else {**found, "operationTime": self.now()}

    def _hello(self, command: dict[str, Any]) -> dict[str, Any]:
        found = {
            "isWritablePrimary": True, "ismaster": True, "minWireVersion": 0, "maxWireVersion": 21, "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "logicalSessionTimeoutMinutes": 30, "helloOk": True,
        }  # fmt: skip
        return found if self.alone else {**found, "setName": "rs0", "hosts": [f"127.0.0.1:{self.port}"]}

    _ismaster = _hello

    def _ping(self, command: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _endsessions(self, command: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _find(self, command: dict[str, Any]) -> dict[str, Any]:
        concern = command.pop("readConcern", None)
        documents = self.documents
        if concern is not None:
            assert not self.alone
            if concern["level"] == "snapshot":
                documents = self._past[_number(concern["atClusterTime"])]
            else:
                assert concern.keys() == {"level", "afterClusterTime"} and concern["level"] == "majority"
                assert concern["afterClusterTime"] <= self.now()
        assert command.keys() == {"find", "filter", "sort", "limit", "batchSize", "singleBatch"}, command
        assert command["sort"] == {"_id": 1} and command["singleBatch"] and command["limit"] == command["batchSize"]
        ids = sorted(documents)
        ids = [i for i in ids if not command["filter"] or i > command["filter"]["$or"][0]["_id"]["$gt"]]
        return self._batch(0, [documents[i] for i in ids[: command["limit"]]], "firstBatch")

    def _aggregate(self, command: dict[str, Any]) -> dict[str, Any]:
        if self.alone:
            raise _Refused(40573, "The $changeStream stage is only supported on replica sets")
        assert command.keys() == {"aggregate", "pipeline", "cursor", "readConcern"}
        assert command["readConcern"] == {"level": "majority"}
        ((stage,),) = (command["pipeline"],)
        stream = stage["$changeStream"]
        if "resumeAfter" in stream:
            at = int(stream["resumeAfter"]["_data"], 16)
        else:
            at = _number(stream["startAtOperationTime"]) - 1
            assert stream["startAtOperationTime"].inc > 0
        if at < self.forgotten:
            raise _Refused(
                286, "Resume of change stream was not possible, as the resume point may no longer be in the oplog"
            )
        ident = next(self._numbers)
        self._cursors[ident] = (at, stream)
        return self._next(ident, command["cursor"]["batchSize"], "firstBatch")

    def _getmore(self, command: dict[str, Any]) -> dict[str, Any]:
        assert command.keys() == {"getMore", "collection", "batchSize", "maxTimeMS"}
        ident = command["getMore"]
        if ident not in self._cursors:
            raise _Refused(43, f"cursor id {ident} not found")
        at, _ = self._cursors[ident]
        self._changed.wait_for(lambda: len(self.log) > at, command["maxTimeMS"] / 1000)
        return self._next(ident, command["batchSize"], "nextBatch")

    def _killcursors(self, command: dict[str, Any]) -> dict[str, Any]:
        for ident in command["cursors"]:
            self._cursors.pop(ident, None)
        return {"cursorsKilled": command["cursors"]}

    def _next(self, ident: int, size: int, name: str) -> dict[str, Any]:
        at, stream = self._cursors[ident]
        events = [self._event(number, stream) for number in range(at, min(len(self.log), at + size))]
        self._cursors[ident] = (at + len(events), stream)
        return self._batch(ident, events, name, {"postBatchResumeToken": _token(at + len(events))})

    def _event(self, number: int, stream: dict[str, Any]) -> dict[str, Any]:
        noted = self.log[number]
        event = {"_id": _token(number + 1), "operationType": noted["operationType"], "clusterTime": _moment(number + 1)}
        event["ns"] = {"db": "shop", "coll": "items"}
        if noted["id"] is None:
            return event
        event["documentKey"] = {"_id": noted["id"]}
        required = stream["fullDocument"] == "required"
        if required and not self.images:
            raise _Refused(
                47, "Change stream was configured to require a post-image for all update events, but it was not found"
            )
        if noted["operationType"] in ("insert", "replace"):
            event["fullDocument"] = noted["after"]
        elif noted["operationType"] == "update":
            event["fullDocument"] = noted["after"] if required else self.documents.get(noted["id"])
        if required and noted["before"] is not None:
            assert stream["fullDocumentBeforeChange"] == "required"
            event["fullDocumentBeforeChange"] = noted["before"]
        return event

    def _batch(self, ident: int, rows: list[Any], name: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"cursor": {"id": bson.Int64(ident), "ns": "shop.items", name: rows, **(more or {})}}


def _token(number: int) -> dict[str, str]:
    return {"_data": f"{number:08X}"}


def _moment(number: int) -> Timestamp:
    """Of an event: ten have a second."""
    return Timestamp(_SECONDS + number // 10, number % 10 + 1)


def _number(moment: Timestamp) -> int:
    """The event of a moment, or the one behind it."""
    return max(1, (moment.time - _SECONDS) * 10 + moment.inc - 1)


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        there: ChangingCollection = self.server.there  # type: ignore[attr-defined]
        while (head := self._read(16)) is not None:
            length, request, _, code = struct.unpack("<iiii", head)
            body = self._read(length - 16)
            assert body is not None
            # The first question may come in the protocol of before, OP_QUERY.
            document = body[body.index(b"\0", 4) + 9 :] if code == 2004 else body[5:]
            assert code in (_OP_MSG, 2004)
            command = bson.decode(document[: struct.unpack("<i", document[:4])[0]], _CODEC)
            try:
                answer = {**there.answered(command), "ok": 1.0}
            except _Refused as error:
                answer = {"ok": 0.0, "code": error.code, "errmsg": str(error), "codeName": "Refused"}
            told = bson.encode(answer, codec_options=_CODEC)
            if code == 2004:
                reply = struct.pack("<iqii", 8, 0, 0, 1) + told
            else:
                reply = struct.pack("<iB", 0, 0) + told
            kind = 1 if code == 2004 else _OP_MSG
            try:
                self.request.sendall(struct.pack("<iiii", 16 + len(reply), 0, request, kind) + reply)
            except OSError:
                return

    def _read(self, size: int) -> bytes | None:
        found = b""
        while len(found) < size:
            try:
                part = self.request.recv(size - len(found))
            except OSError:
                return None
            if not part:
                return None
            found += part
        return found


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    there: ChangingCollection


@contextmanager
def changing_collection() -> Iterator[ChangingCollection]:
    """An empty one."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.there = ChangingCollection(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server.there
        finally:
            server.shutdown()
            thread.join()
