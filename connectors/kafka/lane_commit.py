"""A share of a commit of a sink of Kafka, carried out anywhere, once or more often: see `LaneCommit`."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from connectors.kafka import client
from connectors.kafka.outgoing import produce
from connectors.kit.lane_files import LaneFiles
from runtime.core.errors import ConnectorError, FencedError, UnavailableError

__all__ = ["LaneCommit", "end_lanes", "group_of"]


@dataclass(frozen=True)
class LaneCommit:
    """Sends what a lane of files has, in order, in a transaction with a marker: the number of the commit, and what tells it
    from another commit of that number, which a job has begun and then gone back behind. Where the marker is there already
    nothing is sent. Two that do so at a time: the later one ends the transaction of the earlier one, which then fails.

    Args:
        name: of the sink's transactions, and of the group with its marker.
        files: in `folder`, all with the same number of lanes.
    """

    topic: str
    properties: Mapping[str, str] = field(repr=False)
    name: str
    folder: str
    files: tuple[str, ...]
    lanes: int
    lane: int
    number: int

    def __call__(self) -> None:
        """Raises UnavailableError E3131 what may work later; FencedError E3413 a newer run has committed more."""
        files = LaneFiles(self.folder)
        # Before anything is sent all is read once, and what is damaged told. (Files of which this lane has nothing cost
        # their heads alone.)
        mine = [name for name in self.files if files.read(name, self.lane) is not None]
        if not mine:
            return
        servers, lane = self.properties["bootstrap.servers"], f"{self.name}-{self.lane}"
        try:
            with client.told(servers), _open.taken(self.properties, lane) as (producer, group):
                number, note = client.marked(group, self.topic)
                if number < self.number or (number == self.number and note != self.note):
                    self._send(producer, group, files, mine)
        except (ConnectorError, FencedError) as error:
            if isinstance(error, FencedError) or client.is_fatal(error.__cause__):
                # By another attempt, most likely: whether a newer run has taken over the commit itself finds out.
                raise UnavailableError(error.message, code="E3131", hint=error.hint) from error
            raise
        if number > self.number:
            raise FencedError(
                f"commit {self.number} of {self.topic} comes late: there is one with a later number",
                hint="another run of this job writes",
            )

    def _send(self, producer: Any, group: Any, files: LaneFiles, mine: Sequence[str]) -> None:
        producer.begin_transaction()
        for file in mine:
            rows = files.read(file, self.lane)
            assert rows is not None
            produce(producer, self.topic, rows, lambda: None)
        client.mark(producer, group, self.topic, self.number, self.note)
        producer.commit_transaction(client.ANSWER_SECONDS * 3)

    @property
    def note(self) -> str:
        """What tells this commit from any other."""
        return hashlib.sha256("\n".join(self.files).encode()).hexdigest()[:32]


def group_of(properties: Mapping[str, str], name: str) -> Any:
    """A consumer whose group has a marker."""
    known = {k: v for k, v in properties.items() if k != "isolation.level"}
    return client.consumer({**known, "group.id": name})


def end_lanes(name: str) -> None:
    """What this process holds for the lanes of a sink is given back."""
    _open.end(f"{name}-")


class _Open:
    """The producers of lanes that this process has committed, because to begin one takes half a second.

    One that is there still has its lane: whoever else begins one for it has the brokers refuse this one's transactions. So
    what has failed is given up, and the next one begins anew, which ends what may be open.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Any, Any]] = {}

    @contextmanager
    def taken(self, properties: Mapping[str, str], name: str) -> Generator[tuple[Any, Any]]:
        """A producer for a lane and the group with its marker, for nobody else meanwhile."""
        key = name, tuple(sorted(properties.items()))
        with self._lock:
            found = self._kept.pop(key, None)
        try:
            if found is None:
                producer = client.transactional_producer(properties, name)
                found = producer, group_of(properties, name)
                producer.init_transactions(client.ANSWER_SECONDS)
            yield found
        except BaseException:
            _close(found)
            raise
        with self._lock:
            doubled, self._kept[key] = self._kept.pop(key, None), found
            oldest = next(iter(self._kept)) if len(self._kept) > _MOST_OPEN else None
            old = None if oldest is None else self._kept.pop(oldest)
        _close(doubled)
        _close(old)

    def end(self, prefix: str) -> None:
        """Give back those whose names begin so."""
        with self._lock:
            keys = [key for key in self._kept if key[0].startswith(prefix)]
            found = [self._kept.pop(key) for key in keys]
        for one in found:
            _close(one)


def _close(found: tuple[Any, Any] | None) -> None:
    if found is not None:
        producer, group = found
        producer.purge()
        group.close()


_MOST_OPEN = 16
_open = _Open()
