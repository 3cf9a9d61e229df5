"""What a connection does, for `pg_stat_activity`: written by its own messages, read by others' questions."""

from __future__ import annotations

import datetime as dt

from runtime.core.secrets import masked_sql

__all__ = ["Activity"]

_LONGEST = 1024
"""So many characters of a statement are shown, as PostgreSQL's `track_activity_query_size` says."""


class Activity:
    """The statement of a connection that is at hand, or that was the last one.

    `active`: whether it is at hand. `statement_since`: when it began. `since`: when that has changed. `transaction_since`: when
    the transaction began, None where none is open.
    """

    def __init__(self) -> None:
        self.connected = self.since = dt.datetime.now(dt.UTC)
        self.active = False
        self.statement_since: dt.datetime | None = None
        self.transaction_since: dt.datetime | None = None
        self._text = ""

    @property
    def text(self) -> str:
        """The statement with its secrets masked; what is longer than PostgreSQL shows is cut."""
        return masked_sql(self._text)[:_LONGEST]

    def begin(self, text: str) -> None:
        """A statement is at hand."""
        self._text = text
        self.active, self.since = True, dt.datetime.now(dt.UTC)
        self.statement_since = self.since
        self.transaction_since = self.transaction_since or self.since

    def end(self, *, in_transaction: bool) -> None:
        """It has ended."""
        self.active, self.since = False, dt.datetime.now(dt.UTC)
        if not in_transaction:
            self.transaction_since = None
