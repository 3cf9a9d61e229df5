"""What has changed in tables and views that clients subscribe to, epoch by epoch, once for all subscribers.

A feed hears what readers are shown and keeps it, up to a bound. A subscriber has a position in it and nothing of its own,
so that a thousand of them cost what one costs, whoever reads slowly keeps nobody up, and a client that has lost its
connection goes on behind the last epoch that it has seen.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from connectors.memory import MemoryTable
from connectors.memory.difference import difference
from connectors.memory.rows import TableVersion
from runtime.core.changelog import ChangelogBatch
from runtime.core.memory import HeldBeside
from runtime.core.wakeup import Wakeup
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.database import Database
from sqlengine.database.session import Session
from sqlengine.server.made_once import MadeOnce

__all__ = ["Behind", "Feed", "Feeds", "Follower", "Shared", "Start"]

MOST_BYTES = 64 * 1024 * 1024
"""Of changes that a feed keeps for followers who have not read them."""
_READ_BYTES = 8 * 1024 * 1024
"""Of those that all have read: for who goes on behind an epoch."""
_ENTRY_BYTES, _COLUMN_BYTES = 1024, 512
"""What an epoch of a feed, and each of its columns, takes beside its values: many epochs are a few rows each."""
_ENCODED = 16
"""The newest epochs keep the bytes that were made of them."""


class Behind(Exception):
    """A follower, or an epoch that is asked for, is further back than changes are kept. `since`: the oldest epoch behind
    which one may go on."""

    def __init__(self, since: int) -> None:
        super().__init__(since)
        self.since = since


class Shared(MadeOnce):
    """The changes of an epoch, for all subscribers."""

    def __init__(self, epoch: int, batch: ChangelogBatch) -> None:
        super().__init__()
        self.epoch = epoch
        self.batch = batch
        self.nbytes = _ENTRY_BYTES + batch.rows.num_columns * _COLUMN_BYTES + batch.rows.nbytes


class Follower:
    """A position in a feed.

    Args:
        wakeup: is woken when there is more.
    """

    def __init__(self, feed: Feed, position: int, wakeup: Wakeup) -> None:
        self._feed = feed
        self.position = position
        self.wakeup = wakeup
        self.on_behind: Callable[[], object] | None = None
        """Called once when it is too far behind; from the thread that changes the table."""

    def take(self) -> tuple[list[Shared], int]:
        """What has come since the last time, and the epoch up to which that is all. Raises Behind."""
        return self._feed.take(self)

    def take_shown(self) -> tuple[list[Shared], int]:
        """The same, for whoever holds `Database.showing`, and so takes from many feeds as they are after one epoch."""
        return self._feed.take_shown(self)

    def changes(self) -> list[Shared]:
        """What has come since the last time, without a word on other tables: waits for nobody. Raises Behind."""
        return self._feed.changes(self)

    def close(self) -> None:
        """It follows no more."""
        self._feed.forget(self)


class Feed:
    """The newest changes of a table. Made while nobody changes the table: `begin` is the epoch of its rows then."""

    def __init__(self, database: Database, table: MemoryTable, begin: int) -> None:
        self._database = database
        # Who is followed lets no changes gather; what is published is heard below, when it is shown.
        self._reader = table.follow()
        self._reader.seek(table.token)
        self._entries: deque[Shared] = deque()
        self._first = 0
        self._bytes = 0
        self._since = begin
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()
        """A subscription that nobody has begun to read does not close its own."""
        self._guard = threading.Lock()
        table.tell(self)

    def hear(self, changes: Sequence[ChangelogBatch]) -> None:
        """Readers are shown changes. Called while `Database.showing` is held."""
        while self._reader.poll(1) is not None:
            pass
        batch = ChangelogBatch.concat([change.decoded() for change in changes if len(change)])
        if not len(batch):
            return
        with self._guard:
            entry = Shared(self._database.shown.epoch, batch)
            self._entries.append(entry)
            self._bytes += entry.nbytes
            if len(self._entries) > _ENCODED:
                self._entries[-_ENCODED - 1].forget()
            followers = tuple(self._followers)
            self._let_go(min((f.position for f in followers), default=self._first + len(self._entries)))
            behind = [f for f in followers if f.position < self._first]
            self._followers.difference_update(behind)
        for follower in followers:
            if follower in behind and follower.on_behind is not None:
                follower.on_behind()
            follower.wakeup.wake()

    def _let_go(self, unread: int) -> None:
        """Of the oldest changes, but for the newest epoch. `unread`: the position that all followers have reached."""
        while len(self._entries) > 1 and self._bytes > (_READ_BYTES if self._first < unread else MOST_BYTES):
            gone = self._entries.popleft()
            self._bytes -= gone.nbytes
            self._first += 1
            self._since = gone.epoch

    def follow(self, wakeup: Wakeup, after: int | None) -> Follower:
        """From now on, or from behind an epoch. Raises Behind."""
        with self._guard:
            position = self._first + len(self._entries)
            if after is not None:
                if after < self._since:
                    raise Behind(self._since)
                position -= sum(1 for entry in self._entries if entry.epoch > after)
            follower = Follower(self, position, wakeup)
            self._followers.add(follower)
            return follower

    def take(self, follower: Follower) -> tuple[list[Shared], int]:
        """See `Follower.take`."""
        with self._database.showing:
            return self.take_shown(follower)

    def take_shown(self, follower: Follower) -> tuple[list[Shared], int]:
        """See `Follower.take_shown`."""
        return self.changes(follower), self._database.shown.epoch

    def changes(self, follower: Follower) -> list[Shared]:
        """See `Follower.changes`."""
        with self._guard:
            if follower.position < self._first:
                raise Behind(self._since)
            start = follower.position - self._first
            found = [self._entries[i] for i in range(start, len(self._entries))]
            follower.position += len(found)
            return found

    def forget(self, follower: Follower) -> None:
        """Somebody follows no more."""
        with self._guard:
            self._followers.discard(follower)

    def held(self) -> tuple[int, int, list[pa.RecordBatch]]:
        """How many changes it keeps, the bytes that are made of them, and their rows."""
        with self._guard:
            entries = list(self._entries)
        encoded = sum(entry.made_bytes for entry in entries)
        return sum(len(entry.batch) for entry in entries), encoded, [entry.batch.rows for entry in entries]

    def close(self) -> None:
        """The table is gone."""
        self._reader.close()


class Start:
    """Where a subscription begins: a follower, and the rows that were there, as of `epoch`; or, in their place, what was
    `missed` up to there."""

    def __init__(
        self, follower: Follower, rows: TableVersion | None, epoch: int, missed: ChangelogBatch | None = None
    ) -> None:
        self.follower = follower
        self.rows = rows
        self.epoch = epoch
        self.missed = missed


class Feeds:
    """The feeds of a database; a table has one from its first subscription on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._feeds: dict[MemoryTable, Feed] = {}
        database.memory_accounts.add(self.held)

    def held(self) -> Iterator[HeldBeside]:
        """The changes that are kept, for `system.memory`."""
        for table, feed in tuple(self._feeds.items()):
            yield HeldBeside(table, "changes for subscribers", *feed.held())

    def start(
        self, table: MemoryTable, wakeup: Wakeup, *, snapshot: bool, after: int | None, by_history: bool = False
    ) -> Start:
        """Follow a table. Called with the lock of tables held.

        Args:
            by_history: what is no longer kept here is told by the history of the table, if it has one, as one change.
        Raises:
            Behind: nobody knows what has changed behind `after`.
            ValueError: an epoch to come.
        """
        database = self._database
        self._prune()
        # What it has let gather is taken in, and shown.
        table.version()
        database.show(caught_up=True)
        with database.showing:
            epoch, rows = database.shown.epoch, database.shown.versions[table]
        feed = self._feeds.get(table)
        if feed is None:
            feed = self._feeds[table] = Feed(database, table, epoch)
        if after is not None and after > epoch:
            raise ValueError(epoch)
        try:
            return Start(feed.follow(wakeup, after), rows if snapshot else None, epoch)
        except Behind:
            if after is None or not by_history or database.histories.of(table) is None:
                raise
            before = database.rows_after_epoch(table, after)
            if before is None:
                raise
            return Start(feed.follow(wakeup, None), None, epoch, difference(before.rows(), rows.rows()))

    def subscribe(
        self,
        session: Session,
        found: CatalogTable | MaterializedView,
        wakeup: Wakeup,
        *,
        snapshot: bool,
        after: int | None,
        by_history: bool = False,
    ) -> tuple[MemoryTable, Start]:
        """Follow a table in memory or a view, in the name of a session. `wakeup` is also woken when it was dropped, or has
        failed. Raises what `start` raises, and PlanningError E1713 when the view has failed."""
        session.views.let_time_pass()
        with session.alone():
            session.views.check(found.storage)
            table = session.memory_table(found)
            session.views.tell_followers(wakeup)
            return table, self.start(table, wakeup, snapshot=snapshot, after=after, by_history=by_history)

    def end(self, table: MemoryTable) -> None:
        """A table is gone."""
        with self._database.views.lock:
            feed = self._feeds.pop(table, None)
            if feed is not None:
                feed.close()

    def _prune(self) -> None:
        there = set(self._database.memory.values())
        for table in [table for table in self._feeds if table not in there]:
            self._feeds.pop(table).close()
