"""REPLICATE DATABASE: what read replicas send, each with a version of what it understands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runtime.core.wakeup import Wakeup
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.folder.changes import bodies_of
from sqlengine.database.replica_state import FollowedBy
from sqlengine.database.session import Session
from sqlengine.server.feeds import Behind, Feeds
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Outcome, Piece
from sqlengine.server.postgres.subscribing import too_slow
from sqlengine.server.postgres.types import TYPES, Described, PgType
from sqlengine.server.postgres.words import Reader
from sqlengine.server.replication.sending import Cuts

__all__ = ["ReplicateStatement"]

_COLUMNS = (Described("epoch", TYPES["int8"]), Described("complete", TYPES["bool"]), Described("body", TYPES["bytea"]))
_VERSION = "1"
_SECONDS = 1.0
"""A replica hears of the leader at least so often."""


class ReplicateStatement:
    """The rows of a cut are its bodies (`sqlengine/database/folder/changes.py`), of which the last one is `complete`."""

    in_failed_transaction = False
    writes: str | None = None
    parameters: Sequence[PgType | None] = ()
    columns: Sequence[Described] | None = _COLUMNS

    def __init__(self, session: Session, feeds: Feeds, client: str) -> None:
        self._session = session
        self._feeds = feeds
        self._client = client

    @staticmethod
    def read(environment: TableEnvironment, feeds: Feeds, text: str, client: str) -> ReplicateStatement | None:
        """None for another statement. Raises PgError. `client`: who asks."""
        reader = Reader(text)
        if not reader.accept("replicate", "database"):
            return None
        reader.accept("version")
        version = reader.value()
        if not reader.ended:
            raise reader.unexpected("the end of the statement")
        if version != _VERSION:
            raise PgError(
                "0A000",
                f"replicas of version {version} are not supported; it is {_VERSION}",
                hint="the replica and the server that it follows should be of one version",
            )
        authority = environment.session.authority
        if authority is not None and not authority.is_superuser:
            raise PgError(
                "42501",
                "a replica gets all there is, so superusers alone may replicate",
                hint="ALTER ROLE .. SUPERUSER",
            )
        if environment.session.database.replica is not None:
            raise PgError(
                "0A000",
                "this server is a replica itself",
                hint=f"follow {environment.session.database.replica.leader}",
            )
        return ReplicateStatement(environment.session, feeds, client)

    def run(self, values: Sequence[Any]) -> Outcome:
        """See `Statement`."""
        replication = _Replication(self._session, self._feeds, self._client)
        return Outcome(lambda count: f"REPLICATE {count}", _COLUMNS, replication, (), replication.stop)


class _Replication:
    def __init__(self, session: Session, feeds: Feeds, client: str) -> None:
        self._session = session
        self._sent = FollowedBy(client)
        self._wakeup = Wakeup()
        self._cuts = Cuts(session, feeds, self._wakeup)
        self._stopped = False

    def stop(self) -> None:
        """It gives no more; from any thread."""
        self._stopped = True
        self._wakeup.wake()

    def __iter__(self) -> Iterator[Piece]:
        session, told = self._session, -1
        session.database.replicas.add(self._sent)
        try:
            while not self._stopped and not session.closed.is_set():
                try:
                    epoch, changes = self._cuts.take()
                except Behind:
                    raise too_slow() from None
                if changes and session.durable is not None:
                    session.durable.settle()
                bodies = bodies_of(changes)
                for number, body in enumerate(bodies, 1):
                    whole = pa.array([b"".join(body)], pa.binary())
                    yield [pa.array([epoch], pa.int64()), pa.array([number == len(bodies)]), whole]
                self._sent.epoch = epoch
                if not changes and epoch == told:
                    self._wakeup.wait(_SECONDS)
                told = epoch if not changes else -1
        finally:
            session.database.replicas.discard(self._sent)
            self._cuts.close()
