"""Rows as messages, each once.

JetStream has no transactions, so each message of a commit says in a header which commit it is of and the how-many-eth, and the
bucket `sqlengine_commits` keeps the number of the newest whole commit and the sequence of the stream behind it. Whoever goes on
looks at the messages behind that: those of the next commit that are there already are not sent again. A new run puts itself in
the place of an older one by a new revision of the key in the bucket, which is looked at before anything is sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from connectors.formats.message_rows import encoded_messages
from connectors.nats.address import at_server
from connectors.nats.reading import messages_behind
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FencedError

if TYPE_CHECKING:
    from connectors.nats.table import NatsTable

__all__ = ["BUCKET", "NatsCommits", "NatsMessages"]

BUCKET = "sqlengine_commits"
_HEADER = "Sqlengine-Commit"
_AT_ONCE = 500


class NatsMessages:
    """Sends rows (`TransactionWriter`); what an error cuts short is sent again."""

    def __init__(self, table: NatsTable) -> None:
        self._table = table

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        at_server(
            self._table.address, self._table.place(), lambda client: self._send(client, batches, None, frozenset())
        )

    def close(self) -> None:
        """Each commit has a connection of its own."""

    async def _send(
        self, client: Any, batches: Iterable[ChangelogBatch], commit: str | None, there: frozenset[int]
    ) -> int:
        """Send what is not there, in order, some at once; the sequence of the last one, 0 when there was none."""
        table, stream = self._table, client.jetstream()
        number, last = 0, 0
        for batch in batches:
            values = encoded_messages(table.format, table.value, _stored(table, batch), table.time_zone)
            for at in range(0, len(values), _AT_ONCE):
                piece = values.slice(at, _AT_ONCE).to_pylist()
                sent = [
                    stream.publish(
                        table.target,
                        data or b"",
                        stream=table.stream,
                        timeout=table.address.timeout,
                        headers=None if commit is None else {_HEADER: f"{commit};{number + i}"},
                    )
                    for i, data in enumerate(piece)
                    if number + i not in there
                ]
                number += len(piece)
                last = max([last, *(answer.seq for answer in await asyncio.gather(*sent))])
        return last


def _stored(table: NatsTable, batch: ChangelogBatch) -> ChangelogBatch:
    return batch.decoded().select([table.schema.index_of(name) for name in table.value.names])


class NatsCommits(NatsMessages):
    """`EpochCommits`: see the module."""

    def __init__(self, table: NatsTable, job: str) -> None:
        super().__init__(table)
        self._key = hashlib.sha256(f"{table.stream}\0{table.target}\0{job}".encode()).hexdigest()[:32]
        self._revision = 0
        self._there: frozenset[int] = frozenset()
        self._number = 0

    def last(self) -> int:
        at_server(self._table.address, self._table.place(), self._look)
        return self._number

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        last = self._send_rows(number, batches)
        self._keep(number, last)
        self._there, self._number = frozenset(), number

    def _send_rows(self, number: int, batches: Iterable[ChangelogBatch]) -> int:
        """What is not there of a commit, as long as no other run writes; the sequence of the last message, 0 for none."""

        async def sent(client: Any) -> int:
            kept = await self._bucket(client)
            if (await kept.get(self._key)).revision != self._revision:
                raise self._fenced()
            there = self._there if number == self._number + 1 else frozenset[int]()
            return await self._send(client, batches, f"{self._key};{number}", there)

        return at_server(self._table.address, self._table.place(), sent)

    def _keep(self, number: int, last: int) -> None:
        """The commit is whole."""
        at_server(self._table.address, self._table.place(), lambda client: self._kept(client, number, last))

    async def _look(self, client: Any) -> None:
        """What is there, and from now on this run is the one that writes."""
        from nats.js.errors import KeyNotFoundError

        stream, kept = client.jetstream(), await self._bucket(client)
        try:
            entry = await kept.get(self._key)
        except KeyNotFoundError:
            state = (await stream.stream_info(self._table.stream)).state
            self._revision = await kept.put(self._key, json.dumps({"number": 0, "after": state.last_seq}).encode())
            self._number, self._there = 0, frozenset()
            return
        known = json.loads(entry.value or b"{}")
        self._number = int(known["number"])
        found = {
            int(said.rpartition(";")[2])
            async for message in messages_behind(self._table.writing, stream, int(known["after"]))
            if (said := (message.headers or {}).get(_HEADER, "")).startswith(f"{self._key};{self._number + 1};")
        }
        self._there = frozenset(found)
        self._revision = await kept.update(self._key, entry.value, entry.revision)

    async def _kept(self, client: Any, number: int, last: int) -> None:
        from nats.js.errors import KeyWrongLastSequenceError

        kept = await self._bucket(client)
        after = last or (await client.jetstream().stream_info(self._table.stream)).state.last_seq
        try:
            value = json.dumps({"number": number, "after": after}).encode()
            self._revision = await kept.update(self._key, value, self._revision)
        except KeyWrongLastSequenceError as error:
            raise self._fenced() from error

    async def _bucket(self, client: Any) -> Any:
        from nats.js.errors import BucketNotFoundError

        stream = client.jetstream()
        try:
            return await stream.key_value(BUCKET)
        except BucketNotFoundError:
            return await stream.create_key_value(bucket=BUCKET, history=1)

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another run of the job that writes {self._table.place()} has taken the place of this one",
            hint="end one of them",
        )
