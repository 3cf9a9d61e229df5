"""A stand-in for Elasticsearch and OpenSearch, in memory: what is documented of bulk, mget, documents, points in time and
search_after. It knows no mappings but what a test refuses, and one shard."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from tests.servers.web import Reply, Request, WebServer, web_server

__all__ = ["Cluster", "cluster"]


@dataclass
class Document:
    source: Any
    version: int
    number: int
    there: bool = True


@dataclass
class Cluster:
    """`refused`: ids that no mapping takes; `busy`: so many of the next actions are told to come later."""

    web: WebServer
    kind: str
    indices: dict[str, dict[str, Document]] = field(default_factory=dict[str, dict[str, Document]])
    points: dict[str, list[tuple[str, Any]]] = field(default_factory=dict[str, list[tuple[str, Any]]])
    refused: set[str] = field(default_factory=set[str])
    busy: int = 0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def url(self) -> str:
        return self.web.url

    def documents(self, index: str) -> dict[str, Any]:
        """What is there, by id."""
        return {i: d.source for i, d in self.indices.get(index, {}).items() if d.there}

    def put(self, index: str, ident: str, source: Any) -> None:
        """As a client does that counts no versions."""
        self._done("index", {"_index": index, "_id": ident}, source)

    def answer(self, request: Request) -> Reply:
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        body = request.body
        match request.method, parts:
            case "POST", ["_bulk"]:
                assert body.endswith(b"\n") and request.headers["Content-Type"] == "application/x-ndjson"
                return _json(self._bulk([json.loads(line) for line in body.splitlines()]))
            case "POST", ["_mget"]:
                return _json({"docs": [self._one(d["_index"], d["_id"]) for d in json.loads(body)["docs"]]})
            case "GET", [index, "_doc", ident]:
                found = self._one(index, ident)
                return _json(found, 200 if found["found"] else 404)
            case "PUT", [index, "_create" | "_doc" as way, ident]:
                return self._written(index, ident, way, request.query, json.loads(body))
            case "POST", [index, "_pit"] if self.kind == "elasticsearch":
                return self._opened(index, "id")
            case "POST", [index, "_search", "point_in_time"] if self.kind == "opensearch":
                return self._opened(index, "pit_id")
            case "POST", ["_search"]:
                return self._search(json.loads(body))
            case _:
                return _json({"error": f"no handler for {request.method} {request.path}"}, 400)

    def _one(self, index: str, ident: str) -> dict[str, Any]:
        found = self.indices.get(index, {}).get(ident)
        if found is None or not found.there:
            return {"_index": index, "_id": ident, "found": False}
        more = {"_version": found.version, "_seq_no": found.number, "_primary_term": 1}
        return {"_index": index, "_id": ident, **more, "found": True, "_source": found.source}

    def _written(self, index: str, ident: str, way: str, query: dict[str, str], source: Any) -> Reply:
        now = self.indices.get(index, {}).get(ident)
        if way == "_create" and now is not None and now.there:
            return _json({"error": {"reason": "version conflict, document already exists"}}, 409)
        if "if_seq_no" in query and (now is None or str(now.number) != query["if_seq_no"]):
            return _json({"error": {"reason": "version conflict, required seqNo"}}, 409)
        done = self._done("index", {"_index": index, "_id": ident}, source)
        return _json({**done, "_seq_no": self.indices[index][ident].number, "_primary_term": 1}, done["status"])

    def _bulk(self, lines: list[Any]) -> Any:
        items: list[Any] = []
        waiting = iter(lines)
        for line in waiting:
            ((action, meta),) = line.items()
            source = next(waiting) if action == "index" else None
            items.append({action: self._done(action, meta, source)})
        errors = any("error" in next(iter(item.values())) for item in items)
        return {"took": 1, "errors": errors, "items": items}

    def _done(self, action: str, meta: Any, source: Any) -> dict[str, Any]:
        index, ident = meta["_index"], meta.get("_id") or f"auto{next(self._numbers)}"
        told = {"_index": index, "_id": ident}
        if self.busy:
            self.busy -= 1
            return {**told, "status": 429, "error": {"reason": "rejected execution"}}
        if ident in self.refused:
            return {**told, "status": 400, "error": {"reason": f"failed to parse field of {ident}"}}
        held = self.indices.setdefault(index, {})
        now = held.get(ident)
        version = meta.get("version")
        if version is not None:
            assert meta["version_type"] == "external_gte"
            if now is not None and now.version > version:
                reason = f"version conflict, current version [{now.version}] is higher"
                return {**told, "status": 409, "error": {"reason": reason}}
        missing = now is None or not now.there
        number = next(self._numbers)
        held[ident] = Document(source, version or (now.version if now else 0) + 1, number, action == "index")
        if action == "delete":
            return {**told, "status": 404 if missing else 200, "result": "not_found" if missing else "deleted"}
        return {**told, "status": 201 if missing else 200, "result": "created"}

    def _opened(self, index: str, key: str) -> Reply:
        names = [n for n in self.indices if any(fnmatchcase(n, p) for p in index.split(","))]
        if not names and "*" not in index:
            return _json({"error": {"reason": f"no such index [{index}]"}}, 404)
        point = f"point{next(self._numbers)}"
        self.points[point] = [(i, s) for n in names for i, s in self.documents(n).items()]
        return _json({key: point})

    def _search(self, query: Any) -> Reply:
        point = query["pit"]["id"]
        if point not in self.points:
            return _json({"error": {"reason": "No search context found"}}, 404)
        ((order, way),) = query["sort"][0].items()
        assert way == "asc" and order == {"elasticsearch": "_shard_doc", "opensearch": "_id"}[self.kind]
        found = [(n if order == "_shard_doc" else i, i, s) for n, (i, s) in enumerate(self.points[point])]
        found.sort(key=lambda one: one[0])
        if "search_after" in query:
            found = [one for one in found if one[0] > query["search_after"][0]]
        hits = [
            {"_id": i, "_source": {k: s[k] for k in query["_source"] if k in s}, "sort": [order_value]}
            for order_value, i, s in found[: query["size"]]
        ]
        return _json({"pit_id": point, "timed_out": False, "hits": {"max_score": None, "hits": hits}})


def _json(value: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


@contextmanager
def cluster(kind: str = "elasticsearch") -> Iterator[Cluster]:
    """An empty one, `elasticsearch` or `opensearch`."""
    with web_server() as web:
        there = Cluster(web, kind)
        web.answer = there.answer
        yield there
