"""Which view reads what, and which of them have something to take: kept as views are made and tables change.

So an epoch costs as much as the views that it touches, however many others there are. A view is touched when one of its
inputs has published something (`Job.wake`). It is brought up to date in the same epoch, or lets the changes gather
while nobody misses them.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING

from connectors.memory import MemoryTable
from sqlengine.catalog.objects import ObjectPath

if TYPE_CHECKING:
    from sqlengine.database.maintained_view import MaintainedView

__all__ = ["NEVER", "ViewGraph"]

NEVER = 2**63 - 1
"""Later than any time."""
AGAIN_MS = 20
"""After so many milliseconds a view is looked at again that somebody else changes."""


class ViewGraph:
    """The views of a database, in the order in which they are kept. Used with the lock of `Views` held; `touch` is called
    from any thread."""

    def __init__(self) -> None:
        self._kept: dict[ObjectPath, MaintainedView] = {}
        self._places: dict[MaintainedView, int] = {}
        self._numbers = itertools.count()
        self._readers: dict[ObjectPath, dict[MaintainedView, None]] = {}
        self._by_time: dict[MaintainedView, None] = {}
        """Those for which every statement is an epoch."""
        self._timed: dict[MaintainedView, None] = {}
        """Those whose answer may change with processing time alone."""
        self._touched: dict[MaintainedView, None] = {}
        self._gathered: dict[MaintainedView, None] = {}
        """Those that have let changes gather."""
        self._stale: frozenset[MemoryTable] | None = frozenset()
        """None: it is to be found anew."""

    def put(self, view: MaintainedView) -> None:
        """A view stands behind all others from now on, in the place of one of the same path."""
        self.drop(view.path)
        self._kept[view.path] = view
        self._places[view] = next(self._numbers)
        for path in view.inputs:
            self._readers.setdefault(path, {})[view] = None
        if view.follows_time and not view.outside:
            self._by_time[view] = None
        if view.follows_time and not (view.outside and view.calls_out):
            self._timed[view] = None
        self._touched[view] = None

    def drop(self, path: ObjectPath) -> None:
        """A view is kept no longer; harmless when there is none."""
        view = self._kept.pop(path, None)
        if view is None:
            return
        del self._places[view]
        for read in view.inputs:
            readers = self._readers[read]
            del readers[view]
            if not readers:
                del self._readers[read]
        for noted in (self._by_time, self._timed, self._touched, self._gathered):
            noted.pop(view, None)
        self._stale = None

    def touch(self, view: MaintainedView) -> None:
        """An input of a view has published something."""
        self._touched[view] = None

    def readers(self, path: ObjectPath) -> list[MaintainedView]:
        """The views that read a table or view, in their order."""
        return sorted(self._readers.get(path, ()), key=self._places.__getitem__)

    def above(self, paths: Iterable[ObjectPath]) -> list[MaintainedView]:
        """The views that read some tables or views, directly or through others, in their order."""
        found: dict[MaintainedView, None] = {}
        waiting = list(paths)
        while waiting:
            for view in self._readers.get(waiting.pop(), ()):
                if view not in found:
                    found[view] = None
                    waiting.append(view.path)
        return sorted(found, key=self._places.__getitem__)

    # --- time
    # -----------------------------------------------------------------------------------------------------------

    def due(self, now: int, without: Collection[Hashable]) -> list[MaintainedView]:
        """The views whose answers may have changed with processing time alone. `without`: what others keep."""
        return [v for v in self._timed if v.due is not None and v.due <= now and v.path not in without]

    def timers(self, now: int, without: Collection[Hashable]) -> tuple[int, int]:
        """The next processing time, after `now`, at which the answer of a view may change though nothing comes (NEVER:
        none), and the next one that is known to be such a time. What others keep (`without`) is looked at again soon."""
        known, possible = NEVER, NEVER
        for view in self._timed:
            if view.due is None or (view.due == 0 and view.outside):
                # Its thread asks it often.
                continue
            moment = max(view.due, now + (AGAIN_MS if view.path in without else 1))
            possible = min(possible, moment)
            if view.due:
                known = min(known, moment)
        return possible, known

    # --- an epoch
    # -----------------------------------------------------------------------------------------------------------

    def advance(
        self,
        follow: Callable[[MaintainedView], None],
        *,
        only: Collection[ObjectPath] | None = None,
        without: Collection[Hashable] = (),
        timed: Iterable[MaintainedView] | None = None,
    ) -> None:
        """Bring views up to date, in their order: those that were touched, or are while others advance, but for those that
        may let it gather. What is not reached, because `follow` raises, is left for the next time.

        Args:
            only: a part that the caller keeps without the lock. What may gather stays touched.
            without: what others keep.
            timed: those whose time has come; None: all that follow it.
        """
        due: list[tuple[int, MaintainedView]] = []
        listed: set[MaintainedView] = set()
        done: set[MaintainedView] = set()
        left: dict[MaintainedView, None] = {}
        may_wait: dict[MaintainedView, bool] = {}

        def concerns(view: MaintainedView) -> bool:
            return view.path not in without if only is None else view.path in only

        timed = self._by_time if timed is None else timed
        self._touched.update({view: None for view in timed if concerns(view)})
        try:
            while True:
                # Any thread may touch a view meanwhile: what is taken out here is gone at once.
                for view in filter(concerns, self._touched.copy()):
                    self._touched.pop(view, None)
                    if view in done or (view in self._places and self._may_wait(view, may_wait)):
                        # Whatever a view reads stands before it: who is done was touched by a view that was read.
                        left[view] = None
                    elif view in self._places and view not in listed:
                        listed.add(view)
                        heapq.heappush(due, (self._places[view], view))
                if not due:
                    break
                _, view = due[0]
                follow(view)
                may_wait.clear()
                heapq.heappop(due)
                done.add(view)
        finally:
            if only is None:
                for view in left:
                    self._note_gathered(view)
                left.clear()
            self._touched.update(left)
            self._touched.update((view, None) for _, view in due)

    def _may_wait(self, view: MaintainedView, known: dict[MaintainedView, bool]) -> bool:
        """Whether nobody misses what has gathered, of the view and of those that read it."""
        found = known.get(view)
        if found is None:
            readers = self._readers.get(view.path, ())
            found = known[view] = view.may_wait and all(self._may_wait(reader, known) for reader in readers)
        return found

    # --- what has gathered
    # --------------------------------------------------------------------------------------------------

    def _note_gathered(self, view: MaintainedView) -> None:
        if view not in self._gathered and view.has_gathered:
            self._gathered[view] = None
            self._stale = None

    def caught_up(self, view: MaintainedView) -> None:
        """A view has taken what had gathered."""
        if view in self._gathered and not view.has_gathered:
            del self._gathered[view]
            self._stale = None

    def stale(self, without: Collection[Hashable] = ()) -> frozenset[MemoryTable]:
        """The contents of views that have let changes gather, or read such a view. The same object while that is so.
        `without`: views that others keep: they show themselves as they were, and were up to date."""
        for view in self._touched.copy():
            if view.path not in without:
                self._note_gathered(view)
        if self._stale is None:
            found = dict.fromkeys(self._gathered)
            waiting = list(found)
            while waiting:
                for view in self._readers.get(waiting.pop().path, ()):
                    if view.gathers and view not in found:
                        found[view] = None
                        waiting.append(view)
            self._stale = frozenset(view.contents for view in found if view.contents is not None)
        return self._stale
