"""The changes of tables and views as events, from the feeds that all subscribers share."""

from __future__ import annotations

import json

from aiohttp import web

from connectors.memory import MemoryTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import SqlEngineError
from runtime.core.schema import Schema
from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.acting import check_read
from sqlengine.server.feeds import Behind, Feeds, Shared, Start
from sqlengine.server.http.access import WHO
from sqlengine.server.http.refused import Refused
from sqlengine.server.http.sessions import in_thread
from sqlengine.server.web.events import ALIVE_SECONDS, EVENTS, EventStream, LoopWakeup, Streams, after_of
from sqlengine.server.web.monitoring import path_of
from sqlengine.server.web.pages import columns_of, rows_of
from sqlengine.server.web.problems import problem_of
from sqlengine.server.web.route import Parameter, Route, number, number_of

__all__ = ["Following"]

_PIECE = 2000
_MOST = number("most", 100_000, 0, 10**9, "refuse a table with more rows than these")
_AFTER = Parameter(
    "after",
    {"type": "integer", "minimum": 0},
    "go on behind this epoch, without the rows that were there; as the header Last-Event-ID does",
)


class Following:
    """What the paths answer."""

    def __init__(self, environment: TableEnvironment, feeds: Feeds, streams: Streams) -> None:
        self._session = environment.session
        self._feeds = feeds
        self._streams = streams

    def routes(self) -> list[Route]:
        """The paths."""
        return [
            Route(
                "GET", "/api/v1/changes/{catalog}/{database}/{name}", self.changes, "follow",
                "The rows of a table in memory or a view (events `columns`, then `rows`), then the changes of each epoch"
                " (`changes`), each with the number of its epoch.",
                EVENTS, parameters=(_AFTER, _MOST), refuses=(404, 409, 413, 503),
            )
        ]  # fmt: skip

    async def changes(self, request: web.Request) -> web.StreamResponse:
        after, most = after_of(request), number_of(request, _MOST)
        stream = EventStream(request)
        with self._streams:
            wakeup = LoopWakeup()
            found = self._found(request)
            table, start = await in_thread(lambda: self._start(found, wakeup, after))
            try:
                if start.rows is not None and table.held > most:
                    raise Refused(413, f"{found.path} has {table.held} rows, more than {most}; query it instead")
                start.follower.on_behind = lambda: wakeup.call(stream.abort)
                await stream.begin()
                await self._send(stream, found, table, start, wakeup)
            finally:
                start.follower.close()
        return stream.response

    def _found(self, request: web.Request) -> CatalogTable | MaterializedView:
        path = path_of(request)
        home = self._session.database.shown.catalogs.get(path.catalog)
        database = None if home is None else home.databases.get(path.database)
        found = None if database is None else database.objects.get(path.name)
        if isinstance(found, MaterializedView) or (isinstance(found, CatalogTable) and found.connector is None):
            check_read(WHO.get(), found, None)
            return found
        raise Refused(404, f"{path} is no materialized view, and no table in memory")

    def _start(
        self, found: CatalogTable | MaterializedView, wakeup: LoopWakeup, after: int | None
    ) -> tuple[MemoryTable, Start]:
        try:
            return self._feeds.subscribe(self._session, found, wakeup, snapshot=after is None, after=after)
        except Behind as behind:
            raise Refused(409, f"changes are kept behind epoch {behind.since}; begin anew") from None
        except ValueError as newest:
            raise Refused(409, f"epoch {after} has not come yet: the newest one is {newest}") from None

    async def _send(
        self,
        stream: EventStream,
        found: CatalogTable | MaterializedView,
        table: MemoryTable,
        start: Start,
        wakeup: LoopWakeup,
    ) -> None:
        session, follower, schema = self._session, start.follower, table.schema
        await stream.send("columns", {"columns": columns_of(schema), "epoch": start.epoch})
        if start.rows is not None:
            for batch in start.rows.rows().to_batches(max_chunksize=_PIECE):
                await stream.send("rows", _rows(start.epoch, ChangelogBatch(batch), schema))
            start.rows = None
            await stream.send("complete", {"epoch": start.epoch}, start.epoch)
        while not session.closed.is_set():
            there = session.memory.get(found.storage) is table
            try:
                if there:
                    session.views.check(found.storage)
                entries, _ = await in_thread(follower.take)
                if entries and session.durable is not None:
                    await in_thread(session.durable.settle)
            except Behind:
                return
            except SqlEngineError as error:
                await stream.send("problem", problem_of(error))
                return
            for entry in entries:
                for text in _shared(entry, schema):
                    await stream.send("changes", text, entry.epoch)
            if not there:
                await stream.send(
                    "problem", {"status": 404, "title": "Not Found", "detail": f"{found.path} was dropped"}
                )
                return
            if not entries and not await wakeup.woken(ALIVE_SECONDS):
                await stream.alive()


def _rows(epoch: int, batch: ChangelogBatch, schema: Schema) -> str:
    return json.dumps({"epoch": epoch, **rows_of(batch, schema, "UTC")}, ensure_ascii=False)


def _shared(entry: Shared, schema: Schema) -> list[str]:
    """The texts of an epoch, the same ones for all who listen."""

    def made() -> list[str]:
        batch = entry.batch
        pieces = range(0, len(batch), _PIECE)
        return [_rows(entry.epoch, batch.slice(at, min(_PIECE, len(batch) - at)), schema) for at in pieces]

    return entry.made("json", made)
