"""Rows as requests.

A request that got no answer is sent again, so a server may see it twice; both have the same `Idempotency-Key`. Rows that are
in a checkpoint have the keys there, too, so whoever goes on from it sends the same requests again, under the same keys: a
server that leaves out the keys it knows takes each row once, whatever is killed. One that does not gets them at least once.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from connectors.formats.message_rows import encoded_messages
from connectors.http.client import client_of, patiently
from connectors.kit.commits import StagedWriter
from connectors.kit.spool import Spool, spooled
from runtime.core.changelog import ChangelogBatch
from runtime.core.logs import connector_log
from runtime.core.retries import Retries

if TYPE_CHECKING:
    from connectors.http.sink import HttpSink

__all__ = ["HttpCommits", "HttpRequests", "NumberedSpool", "RepeatingWriter"]

_RETRIES = Retries(8, 0.1, 10.0, jitter=0.5)
Commit = tuple[str, Iterable[ChangelogBatch]]
"""What its requests are called, and the rows."""


class HttpRequests:
    """Sends rows in requests of at most `HttpSink.size` (`TransactionWriter`)."""

    def __init__(self, sink: HttpSink) -> None:
        self._sink = sink
        self._log = connector_log(__name__)
        self.tries = 0
        """How often it was tried again."""

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        self.send(uuid.uuid4().hex, batches)

    def close(self) -> None:
        """Connections are the process's."""

    def send(self, name: str, batches: Iterable[ChangelogBatch]) -> None:
        """All rows, in order; request `n` has the key `<name>-<n>`. Raises ConnectorError E3250, UnavailableError E3150 when
        the server does not take one, after some tries."""
        for number, body in enumerate(self._bodies(batches)):
            self._sent(f"{name}-{number}", body)

    def _sent(self, key: str, body: bytes) -> None:
        sink = self._sink
        client = client_of(sink.way)
        headers = {"Content-Type": sink.content_type, "Idempotency-Key": key}
        patiently(
            lambda: client.accepted(client.ask(sink.method, sink.address.url(), body, headers), sink.place()),
            _RETRIES,
            self._tried,
        )

    def _bodies(self, batches: Iterable[ChangelogBatch]) -> Iterator[bytes]:
        sink = self._sink
        for batch in batches:
            for at in range(0, len(batch), sink.size):
                rows = batch.slice(at, sink.size)
                yield sink.joined(encoded_messages(sink.format, sink.schema, rows, sink.time_zone).to_pylist())

    def _tried(self, error: Exception, seconds: float) -> None:
        self.tries += 1
        self._log.failure(f"{self._sink.place()} is told again in {seconds:.1f} s", error, logging.WARNING)


class HttpCommits:
    """`EpochCommits` of a system that keeps no number: nothing is known of what it has."""

    def __init__(self, requests: HttpRequests) -> None:
        self._requests = requests

    def last(self) -> int:
        return 0

    def commit(self, number: int, batches: Commit) -> None:
        self._requests.send(*batches)

    def close(self) -> None:
        self._requests.close()


class NumberedSpool(Spool):
    """Rows in the checkpoint, and what their requests are called."""

    def __init__(self, name: str, names: Sequence[str], most: int) -> None:
        super().__init__(name, most)
        self._names = tuple(names)

    def take(self) -> list[str]:
        rows = super().take()
        return [uuid.uuid4().hex, *rows] if rows else []

    def rows(self, texts: Sequence[str]) -> Commit:
        return texts[0], spooled(texts[1:], self._names)

    def drop(self) -> None:
        super().take()


class RepeatingWriter(StagedWriter[Commit]):
    """Numbers count the commits of a run; what a checkpoint names is sent again."""

    def recover(self, committables: Sequence[Any]) -> None:
        for committable in committables:
            self.publish(committable)
        self._number = self._done
