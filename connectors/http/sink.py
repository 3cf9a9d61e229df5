"""Rows that a server is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.databases.writing import EpochWriter
from connectors.http.address import Address
from connectors.http.client import Way
from connectors.http.sending import HttpCommits, HttpRequests, NumberedSpool, RepeatingWriter
from runtime.core.changelog import ChangelogMode
from runtime.core.retries import Retries
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.sink import Delivery
from runtime.spi.writer import SinkWriter

__all__ = ["HttpSink"]

_ONCE = Retries(0)
"""Each request is tried again by itself."""


@dataclass(frozen=True)
class HttpSink:
    """It opens nothing by itself.

    Attributes:
        size: rows of a request.
        array: rows of a request are an array of JSON, even one; otherwise lines.
        with_checkpoint: requests are sent when the checkpoint that has the rows is complete, not at the end of the epoch.
        spool: the most bytes that a checkpoint holds.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    name: str
    address: Address
    method: str
    way: Way
    size: int
    array: bool
    content_type: str
    with_checkpoint: bool
    spool: int
    time_zone: str
    format: Format = field(compare=False)

    def place(self) -> str:
        """For messages and lineage."""
        return f"{self.name} ({self.address})"

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"connector": "http", "columns": list(self.schema.names)}
        return {**described, "options": {"url": str(self.address), "method": self.method, "format": self.format.name}}

    @property
    def delivery(self) -> Delivery:
        return "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return self.format.changelog_mode

    def joined(self, messages: Sequence[bytes]) -> bytes:
        """The body of a request."""
        if self.array:
            return b"[" + b",".join(messages) + b"]"
        return b"\n".join(messages)

    def open_writer(self, job: str) -> SinkWriter:
        requests = HttpRequests(self)
        if not self.with_checkpoint:
            return EpochWriter(self.name, requests, retries=_ONCE)
        spool = NumberedSpool(self.name, self.schema.names, self.spool)
        return RepeatingWriter(self.name, spool, HttpCommits(requests), retries=_ONCE)
