"""The transaction of a connection: an epoch of the database. Its changes become visible together at COMMIT, and are gone
at ROLLBACK. Definitions are no part of it: they take effect at once."""

from __future__ import annotations

from collections.abc import Mapping

from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.objects import ObjectPath
from sqlengine.server.postgres.notifying import Listener
from sqlengine.server.postgres.sqlstate import PgError

__all__ = ["Transaction"]


class Transaction:
    """Whether a transaction is open, and whether it has failed.

    `state`: `I` none is open, `T` one is, `E` it has failed.
    """

    def __init__(self, environment: TableEnvironment, listener: Listener) -> None:
        self._environment = environment
        self._listener = listener
        self._savepoints: list[tuple[str, Mapping[ObjectPath, int], tuple[int, int]]] = []
        self.state = b"I"
        self.defined = False
        """Whether it has changed definitions."""

    def begin(self) -> str | None:
        """Open one; a warning where one is open."""
        if self.state != b"I":
            return "there is already a transaction in progress"
        self._environment.execute_sql("BEGIN EPOCH")
        self.state, self.defined = b"T", False
        self._savepoints = []
        return None

    def commit(self) -> tuple[str, str | None]:
        """End it: the command tag, and a warning. Raises what END EPOCH raises; then it is rolled back."""
        if self.state == b"E":
            return "ROLLBACK", self.roll_back()
        if self.state == b"I":
            return "COMMIT", "there is no transaction in progress"
        self.state = b"I"
        try:
            self._environment.execute_sql("END EPOCH")
        except BaseException:
            self._listener.back_to((0, 0))
            raise
        self._listener.commit()
        return "COMMIT", None

    def roll_back(self) -> str | None:
        """Forget what it has changed; a warning."""
        if self.state == b"I":
            return "there is no transaction in progress"
        self.state = b"I"
        self._listener.back_to((0, 0))
        if self._environment.session.in_epoch:
            self._environment.execute_sql("ROLLBACK EPOCH")
        return "definitions that the transaction has changed stay changed" if self.defined else None

    def fail(self) -> None:
        """A statement has failed."""
        if self.state == b"T":
            self.state = b"E"

    def check(self) -> None:
        """Raise PgError 25P02 when it has failed."""
        if self.state == b"E":
            raise PgError(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
                hint="ROLLBACK, or ROLLBACK TO a savepoint",
            )

    def savepoint(self, name: str) -> None:
        self._needs_one("SAVEPOINT")
        epoch = self._environment.session.epoch
        self._savepoints.append((name, {} if epoch is None else epoch.mark(), self._listener.mark()))

    def release(self, name: str) -> None:
        self._needs_one("RELEASE SAVEPOINT")
        del self._savepoints[self._find(name) :]

    def back_to(self, name: str) -> None:
        """Forget what has changed since a savepoint, also the failure."""
        self._needs_one("ROLLBACK TO SAVEPOINT")
        at = self._find(name)
        epoch = self._environment.session.epoch
        if epoch is not None:
            epoch.back_to(self._savepoints[at][1])
        self._listener.back_to(self._savepoints[at][2])
        del self._savepoints[at + 1 :]
        self.state = b"T"

    def _find(self, name: str) -> int:
        for at in reversed(range(len(self._savepoints))):
            if self._savepoints[at][0] == name:
                return at
        raise PgError("3B001", f'savepoint "{name}" does not exist')

    def _needs_one(self, word: str) -> None:
        if self.state == b"I":
            raise PgError("25P01", f"{word} can only be used in transaction blocks", hint="BEGIN opens one")
