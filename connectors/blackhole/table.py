"""The sink `blackhole`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connectors.kit.direct import DirectWriter
from connectors.options import TableOptions
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery

__all__ = ["BLACKHOLE", "BlackholeSink"]


@dataclass(frozen=True)
class BlackholeSink:
    """Takes all row kinds and forgets them."""

    schema: Schema
    primary_key: tuple[str, ...]

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    @property
    def delivery(self) -> Delivery:
        """Nothing is kept, so nothing is there twice."""
        return "exactly-once"

    def open_writer(self, job: str) -> _Writer:
        return _Writer()

    def describe(self) -> dict[str, Any]:
        return {"connector": "blackhole"}


class _Writer(DirectWriter):
    accepts_dictionaries = True

    def write(self, batch: ChangelogBatch) -> None:
        """Nothing is kept."""

    def task_writer(self) -> _TaskWriter:
        return _TaskWriter()

    def adopt(self, written: Any) -> None:
        """Nothing is kept anywhere."""


class _TaskWriter:
    """Forgets rows in a task of a cluster, so that they need not come to the driver for it."""

    def write(self, batch: ChangelogBatch) -> int:
        return len(batch)


def _sink(request: TableRequest) -> BlackholeSink:
    TableOptions(request.options, "connector 'blackhole'", ())
    return BlackholeSink(request.schema, request.primary_key)


BLACKHOLE = ConnectorFactory(name="blackhole", document="takes everything and keeps nothing", sink=_sink, check=_sink)
