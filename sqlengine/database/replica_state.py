"""What a database that follows another one knows of that: `system.replication`, its figures, and what writers are told."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

from runtime.core.metrics import Metric, Sample
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, DOUBLE, STRING

__all__ = ["REPLICATION", "REPLICA_METRICS", "FollowedBy", "ReplicaState"]

REPLICATION = Schema.of(("leader", STRING), ("state", STRING), ("epoch", BIGINT), ("behind_seconds", DOUBLE))
"""`state`: starting, following or disconnected; `epoch`: the last one of the leader that is shown here; `behind_seconds`: since
when the leader may have had others."""
REPLICA_EPOCH = Metric(
    "sqlengine_replica_epoch", "gauge", "", (), "the last epoch of the leader that a read replica shows"
)
REPLICA_BEHIND = Metric(
    "sqlengine_replica_behind_seconds",
    "gauge",
    "seconds",
    (),
    "how far a read replica is behind: since when the leader may have had changes that it does not show",
)
REPLICA_METRICS = (REPLICA_EPOCH, REPLICA_BEHIND)


class FollowedBy:
    """A replica that a leader sends to. `client`: who it is; `epoch`: the last one that was sent."""

    _numbers = itertools.count(1)

    def __init__(self, client: str) -> None:
        self.number = next(self._numbers)
        self.client = client
        self.epoch = 0

    def facts(self) -> dict[str, object]:
        """For those who operate the server."""
        return {"number": self.number, "client": self.client, "epoch": self.epoch}


class ReplicaState:
    """How far a replica is. Written by one thread, read by any.

    Args:
        leader: hosts and ports, without secrets.
        now: seconds.
    """

    def __init__(self, leader: str, now: Callable[[], float] = time.monotonic) -> None:
        self.leader = leader
        self._now = now
        self._complete = now()
        self._least: float | None = None
        self.epoch: int | None = None
        self.is_connected = False

    def shows(self, epoch: int, moment: int | None) -> None:
        """All up to an epoch is shown, which was the newest one at a moment of the leader's clock, milliseconds since 1970.

        Clocks need not agree: what counts is by how much a moment has taken longer to come here than the fastest one.
        """
        now = self._now()
        if moment is not None:
            took = now - moment / 1000
            self._least = took if self._least is None else min(self._least, took)
            now -= took - self._least
        self.epoch, self._complete = epoch, now

    @property
    def behind_seconds(self) -> float:
        """Since when the leader may have had changes that are not shown: an upper bound."""
        return max(0.0, self._now() - self._complete)

    def facts(self) -> dict[str, object]:
        """By the names of the columns of `system.replication`."""
        state = "starting" if self.epoch is None else "following" if self.is_connected else "disconnected"
        values = (self.leader, state, self.epoch, round(self.behind_seconds, 3))
        return dict(zip(REPLICATION.names, values, strict=True))

    def rows(self) -> list[tuple[object, ...]]:
        """Those of `system.replication`."""
        return [tuple(self.facts().values())]

    def samples(self) -> Iterator[Sample]:
        """Its figures."""
        yield REPLICA_EPOCH.sample(self.epoch or 0)
        yield REPLICA_BEHIND.sample(self.behind_seconds)
