"""A server of ClickHouse for tests: the one that `CLICKHOUSE_URL` names, or a stand-in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from connectors.clickhouse.server import Server
from connectors.http.client import Way
from tests.servers.clickhouse_stand_in import StandIn
from tests.servers.web import WebServer, web_server

__all__ = ["ClickHouse", "clickhouse", "running_clickhouse"]


class ClickHouse:
    """A server. `web`: that of a stand-in."""

    def __init__(self, url: str, web: WebServer | None) -> None:
        self.url = url
        self.web = web
        self._server = Server(url.rpartition("/")[0] if url.count("/") > 2 else url, "default", Way())

    def run(self, *statements: str) -> None:
        for statement in statements:
            self._server.run(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of an answer; texts are texts."""
        found = self._server.asked(query)
        return [tuple(v.decode() if isinstance(v, bytes) else v for v in row.values()) for row in found]


@contextmanager
def running_clickhouse() -> Iterator[ClickHouse]:
    """The server, whose tables may be anything; a stand-in is new."""
    if named := os.environ.get("CLICKHOUSE_URL"):
        yield ClickHouse(named, None)
        return
    with web_server() as web:
        web.answer = StandIn().answer
        yield ClickHouse(web.url, web)


@pytest.fixture
def clickhouse(no_pauses: None) -> Iterator[ClickHouse]:
    with running_clickhouse() as there:
        yield there
