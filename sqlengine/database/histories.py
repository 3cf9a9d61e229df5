"""What tables and materialized views were: the histories that are kept of some, and the moments of epochs.

An epoch has one moment, that at which it is complete. The log has it, so that histories are the same after a restart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from connectors.memory import MemoryTable
from runtime.core.clock import MIN_WATERMARK, Clock
from runtime.core.rooms import Room
from sqlengine.catalog.objects import ObjectPath

if TYPE_CHECKING:
    import connectors.memory.past as _past
else:
    _past = Room("connectors.memory.past")

__all__ = ["Histories"]


class Histories:
    """The histories of the tables of a database. Changed with the lock of its views held."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: WeakKeyDictionary[MemoryTable, _past.TableHistory] = WeakKeyDictionary()
        self._last = MIN_WATERMARK
        self._at_hand: int | None = None
        self.lost_is_read = False
        """Whether a view or job goes on that has read what it asks for, which may be forgotten by now."""

    def of(self, table: MemoryTable) -> _past.TableHistory | None:
        """The history of a table, if it has one."""
        return self._kept.get(table)

    def keep(self, table: MemoryTable, retention: int | None) -> None:
        """Keep the history of a table for so many milliseconds from now on; None: no longer."""
        known = self._kept.get(table)
        if retention is None:
            if known is not None:
                table.remembers = False
                table.tell_no_more(known)
                del self._kept[table]
        elif known is None:
            keys = table.key_positions if table.primary_key else ()
            self._kept[table] = history = _past.TableHistory(table.schema.arrow, keys, retention, table.files)
            table.remembers = True
            table.tell(history)
        elif known.retention != retention:
            known.keep_for(retention, self.now())

    def forget(self, table: MemoryTable) -> None:
        """The history of a table begins anew."""
        known = self._kept.get(table)
        if known is not None:
            self.keep(table, None)
            self.keep(table, known.retention)

    def rows(self, tables: Mapping[ObjectPath, MemoryTable], epoch: int) -> list[tuple[object, ...]]:
        """What `system.history` says of some tables, by name; moments in microseconds; `epoch`: the newest one. From any
        thread."""
        found: list[tuple[object, ...]] = []
        # Others may make tables meanwhile.
        named = tuple(tables.items())
        for path, table in sorted(named, key=lambda item: item[0].parts):
            history = self.of(table)
            if history is not None:
                oldest, newest = history.oldest(self.now()), history.newest
                moments = [None if moment is None else moment * 1000 for moment in (oldest, newest)]
                first = epoch if history.first_epoch is None else history.first_epoch
                sizes = (history.rows, history.nbytes)
                found.append((str(path), history.retention, *moments, *sizes, first, history.newest_epoch))
        return found

    # --- moments

    def now(self) -> int:
        """The moment, milliseconds since 1970. It does not go back."""
        return max(self._last, self._clock.now())

    def moment(self) -> int:
        """That of the epoch at hand."""
        if self._at_hand is None:
            self._at_hand = self.now()
        return self._at_hand

    def replay(self, moment: int | None) -> None:
        """The epoch that comes next was complete at some moment before; None: at one that nobody knows, about as the one
        before it."""
        self._at_hand = self._last if moment is None else max(moment, self._last)

    def restart(self) -> None:
        """What comes next is replayed."""
        self._last, self._at_hand = MIN_WATERMARK, None

    def is_to_come(self, moment: int) -> bool:
        """Whether an epoch is about to be shown that was complete at a moment."""
        at_hand = self._at_hand
        return at_hand is not None and at_hand <= moment

    def end_epoch(self, *, caught_up: bool = False) -> int:
        """The epoch at hand is complete; gives its moment. `caught_up`: it goes on; views have taken in what they had let gather."""
        self._last = self.now() if self._at_hand is None else self._at_hand
        if not caught_up:
            self._at_hand = None
        return self._last

    def note(self, changed: Iterable[MemoryTable], moment: int, epoch: int) -> None:
        """Tables have shown what they have changed in an epoch, by its number."""
        for table in changed if self._kept else ():
            history = self._kept.get(table)
            if history is not None:
                history.note(moment, epoch)

    def begin(self, shown: Collection[MemoryTable], moment: int, epoch: int) -> None:
        """Those that have not begun do, of tables that are shown now."""
        for table, history in self._kept.items():
            if history.first_epoch is None and table in shown:
                history.begin(moment, epoch)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """While a view or job is made again that has read its tables already."""
        self.lost_is_read = True
        try:
            yield
        finally:
            self.lost_is_read = False
