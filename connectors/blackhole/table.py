"""The sink `blackhole`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


class _Writer:
    accepts_dictionaries = True

    def write(self, batch: ChangelogBatch) -> None:
        """Nothing is kept."""

    def flush(self, epoch: int) -> None:
        """Nothing is shown."""

    def prepare(self) -> None:
        """Nothing is prepared."""

    def publish(self, committable: Any) -> None:
        """Nothing is published."""

    def recover(self, committables: Sequence[Any]) -> None:
        """Nothing was hidden."""

    def discard(self, committable: Any) -> None:
        """Nothing is taken back."""

    def abort(self) -> None:
        """Nothing is left."""

    def close(self) -> None:
        """Nothing is open."""


def _sink(request: TableRequest) -> BlackholeSink:
    TableOptions(request.options, "connector 'blackhole'", ())
    return BlackholeSink(request.schema, request.primary_key)


BLACKHOLE = ConnectorFactory(name="blackhole", document="takes everything and keeps nothing", sink=_sink, check=_sink)
