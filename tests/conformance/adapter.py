"""The engine as the checker of the Flink vectors wants it: rows arrive in the order of a vector's feed, one row an
epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runtime.core.clock import VirtualClock
from runtime.plan.nodes import SourceExec
from sqlengine import TableEnvironment
from sqlengine.values.rows import Timestamp9

__all__ = ["FeedAdapter"]

PAUSE_MILLISECONDS = 900
START = 1_800_000_000_000


class FeedCut:
    """Epochs as the feed says: one row of the table whose turn it is; at the end whatever is left."""

    def __init__(self, feed: Sequence[str], clock: VirtualClock) -> None:
        self._feed = list(feed)
        self._clock = clock
        self._at = 0

    def rows(self, sources: Sequence[SourceExec], epoch: int) -> list[int]:
        self._clock.advance_to(self._clock.now() + 1)
        if self._at >= len(self._feed):
            return [1_000_000] * len(sources)
        turn = self._feed[self._at]
        self._at += 1
        if turn == "PAUSE":
            self._clock.advance_to(self._clock.now() + PAUSE_MILLISECONDS)
        return [1 if source.name.rsplit(".", 1)[-1] == turn else 0 for source in sources]


class FeedAdapter:
    """See `open`, `begin` and `execute` in check.py."""

    ordered_feed = True

    def __init__(self) -> None:
        self._environment: TableEnvironment | None = None
        self._feed: Sequence[str] = ()

    def open(self, settings: dict[str, str]) -> None:
        if self._environment is not None:
            self._environment.close()
        self._clock = VirtualClock(START)
        self._environment = TableEnvironment.create(clock=self._clock)
        self._environment.session.harness.checked = True
        for key, value in settings.items():
            self._environment.get_config().set(key, value)

    def begin(self, vector: dict[str, Any]) -> None:
        self._feed = vector.get("feed", ())

    def execute(self, sql: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
        assert self._environment is not None
        self._environment.session.harness.cut = FeedCut(self._feed, self._clock) if self._feed else None
        result = self._environment.execute_sql(sql)
        return [(row.kind, tuple(_plain(v) for v in row)) for row in result.collect()]


def _plain(value: Any) -> Any:
    """Nanoseconds as text: the checker's own conversion of time zones would lose them."""
    return str(value) if isinstance(value, Timestamp9) else value
