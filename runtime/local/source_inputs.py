"""What one source gives to one epoch after another, read ahead while the epoch before is computed."""

from __future__ import annotations

import time as wall_clock
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from runtime.core.cancellation import governed, look
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK, Clock, seconds_until
from runtime.core.logs import connector_log
from runtime.core.wakeup import nobody
from runtime.local.availability import keeps_turn, reader_wait, shortest, splits_wait
from runtime.local.dataflow import SourceInput
from runtime.local.flush import FlushMark, refresh_splits
from runtime.local.pace import EpochRoom, Pace
from runtime.local.rejected import SourceContext
from runtime.local.split_progress import OpenSplit, Reached, SplitProgress, given_to, take_split, taken_in
from runtime.operators.operator import SplitRows
from runtime.plan.nodes import SourceExec
from runtime.spi.abilities import (
    SupportsChangeDetection,
    SupportsPartitionDiscovery,
    SupportsSplitEvents,
    SupportsStatementChanges,
)
from runtime.spi.reader import (
    BacklogReader,
    BufferingReader,
    CheckpointListener,
    DictionaryReader,
    EndOffsetReader,
    FailureListener,
    SkippedInput,
    SourceReader,
    TurnReader,
)
from runtime.spi.source import Split

__all__ = ["SourceContext", "SourceInputs"]

SIDE_BY_SIDE = 16
"""How many splits of an aligned source are read side by side: each holds what its reader has decoded."""
TURNS_AHEAD = 4
"""How many splits are open of a source whose splits keep their turn: the later ones are read in the background."""
FIRST_ROWS = 1024
"""How many rows of an aligned split are read to see where in time it stands."""


_Taken = tuple[str, list[ChangelogBatch]]
"""A split, and what it gave."""


class SourceInputs:
    """The readers of one source.

    Splits are read one after another; a split that has nothing now lets the next one begin. Splits of a source with an
    alignment are read side by side (at most `SIDE_BY_SIDE` of them, unless rows may be taken back: then their order
    matters), the one with the least watermark first, and those too far ahead are left alone.

    `read_ahead` has a worker read the next input while operators compute: decoding then takes the other core. It does
    so only for bounded tables without idleness and alignment, where it makes no difference to a result when a row is
    read. Whoever reads, only one thread at a time does, and what counts as given, `finished` and `position` included,
    is what `poll` has returned.

    Args:
        position: what `position` of an earlier run gave: reading goes on behind it.
        rows_per_second: the most rows a second, by the clock, also of a source that has a higher limit; 0 is without one.
        coded: text columns may come as Arrow dictionaries (`ChangelogBatch`).
    Raises:
        ConnectorError: at a position of a split that is gone (E3107) or has changed.
    """

    def __init__(
        self,
        node: SourceExec,
        context: SourceContext,
        clock: Clock,
        position: Any = None,
        *,
        rows_per_second: int = 0,
        coded: bool = False,
    ) -> None:
        self.node = node
        self._log = connector_log(type(node.table).__module__)
        self._context = context
        self._clock = clock
        self._coded = coded
        self._seen: set[str] = set()
        self._waiting: list[Split] = []
        self._open: list[OpenSplit] = []
        self._last_row_at = clock.now()
        rates = [rate for rate in (rows_per_second, node.rate_limit) if rate > 0]
        told = isinstance(node.table, SupportsStatementChanges)
        self._pace = Pace(0 if told or not rates else min(rates), clock)
        in_real_time = not node.table.bounded or node.idle_timeout > 0 or self._pace.limited
        self._may_read_ahead = not in_real_time and node.alignment is None
        self._in_shares = isinstance(node.table, SupportsPartitionDiscovery)
        self._ahead: Future[SourceInput] | None = None
        self._side_by_side = node.alignment is not None and node.mode.is_append_only
        self._marks: Mapping[str, int] = {}
        self._watermark = MIN_WATERMARK
        self._flush = FlushMark()
        self._gathering: list[BacklogReader] = []
        self._progress = SplitProgress(position)
        self._reached = Reached(0, (), ())
        self._stop_watching, self._splits_changed = nobody, False
        if not node.table.bounded and isinstance(node.table, SupportsSplitEvents):
            self._stop_watching = node.table.watch_splits(self._have_changed)
        try:
            self._resume()
            self._discover()
        except BaseException:
            self.close()
            raise
        self._finished = self._exhausted
        self._reached = self._reach()

    def poll(self, max_rows: int, until: int = MAX_WATERMARK) -> SourceInput:
        """The next rows, at most so many (or those read ahead); raises what reading them raised.

        Splits whose watermark is beyond `until` are left alone. It is asked for only when there is an alignment.
        """
        ahead, self._ahead = self._ahead, None
        given = self._read(max_rows, until) if ahead is None else ahead.result()
        self._finished = given.finished
        self._reached = given.reached or self._reached
        if given.refused:
            self._context.rejections.reject_raw(self._context.source, given.refused)
        return given

    def read_ahead(self, max_rows: int, worker: ThreadPoolExecutor) -> None:
        """Have the worker read what the next `poll` will give."""
        if self._may_read_ahead and not self._finished and self._ahead is None:
            self._ahead = worker.submit(governed(self._read), max_rows, MAX_WATERMARK)

    @property
    def wants_read_ahead(self) -> bool:
        return self._may_read_ahead and not self._finished

    @property
    def finished(self) -> bool:
        """Whether `poll` has given all there is."""
        return self._finished

    def position(self) -> Any:
        """Where reading goes on after what `poll` has returned: a JSON value for the constructor."""
        return self._progress.json(self._reached)

    @property
    def buffered(self) -> list[ChangelogBatch]:
        """Rows that were read ahead or that readers hold, as far as they tell. From any thread."""
        held = [
            batch for o in tuple(self._open) if isinstance(o.reader, BufferingReader) for batch in o.reader.buffered
        ]
        ahead = self._ahead
        if ahead is not None and ahead.done() and not ahead.cancelled() and ahead.exception() is None:
            batch = ahead.result().batch
            held += [] if batch is None else [batch]
        return held

    @property
    def reached(self) -> Reached:
        """Where reading stands after what `poll` has returned."""
        return self._reached

    def saved(self, position: Any) -> None:
        """A checkpoint is complete that holds what `position` gave then."""
        known = dict(position["active"])
        for opened in self._open:
            if isinstance(opened.reader, CheckpointListener) and opened.split.id in known:
                opened.reader.checkpoint_complete(known[opened.split.id])

    def available_in(self) -> float | None:
        """How many seconds `poll` would give nothing, nor anything of time, after one that gave nothing; None: until the
        job is woken, or its clock moves. 0 when nobody knows."""
        if self._finished:
            return None
        if self._pace.room(1) == 0:
            return self._pace.seconds()
        if (self._waiting and len(self._in_turn) == len(self._open)) or self._splits_changed or self._ahead is not None:
            return 0.0
        silences = [o.last_row_at for o in self._open if not self._is_idle(o)] if self._open else [self._last_row_at]
        timeout = self.node.idle_timeout
        ends = [moment + timeout for moment in silences if timeout > 0 and not self._silent_since(moment)]
        readers = (reader_wait(o.reader) for o in self._in_turn)
        return shortest([splits_wait(self.node.table), *(seconds_until(self._clock, end) for end in ends), *readers])

    # --- alignment
    # -----------------------------------------------------------------------------------------------------------

    def note(self, watermark: int, splits: Mapping[str, int]) -> None:
        """How far the rows given so far are in event time: the source, and its splits that go on. Told after every
        epoch when there is an alignment."""
        self._watermark, self._marks = watermark, splits

    @property
    def slowest(self) -> int | None:
        """The least watermark among the splits that were begun and others wait for; None when nobody waits for the
        source: it has ended or is idle."""
        if self._finished:
            return None
        if not self._open:
            return None if self._idle() else self._watermark
        active = [o for o in self._open if not self._is_idle(o)]
        return min((self._mark(o) for o in active), default=None)

    def _mark(self, open_split: OpenSplit) -> int:
        if not self._side_by_side or len(self._seen) == 1:
            return self._watermark
        return self._marks.get(open_split.split.id, MIN_WATERMARK)

    # --- FLUSH
    # ---------------------------------------------------------------------------------------------------------------

    def begin_flush(self) -> None:
        """From now on `flushed` tells whether what was there at this moment has been given."""
        if self._ahead is not None:
            wait([self._ahead])
        if not self.node.table.bounded:
            refresh_splits(self.node.table)
            self._discover()
        for opened in self._open:
            if isinstance(opened.reader, EndOffsetReader):
                opened.reader.fetch_end_offset()
        self._flush = FlushMark([o.split.id for o in self._open] + [s.id for s in self._waiting])

    @property
    def flushed(self) -> bool:
        """Whether that was given (`FlushMark`)."""
        return self._finished if self.node.table.bounded else self._flush.reached

    @property
    def waiting(self) -> bool:
        """Whether there is more of what statements of the session have changed."""
        return any(o.told is not None and o.told.waiting for o in self._open)

    # --- changes that nobody waits for

    def told(self) -> list[BacklogReader]:
        """The readers of what statements change: from now on they miss nothing."""
        if isinstance(self.node.table, SupportsStatementChanges):
            self._begin_all()
        return [o.told for o in self._open if o.told is not None]

    def gather(self) -> bool:
        """From now on `poll` gives the changes of several statements at once; False, and nothing changes, when it reads
        something else, too."""
        told = self.told()
        if self._waiting or len(told) < len(self._open):
            return False
        for reader in told:
            reader.gather()
        self._gathering = told
        return True

    @property
    def gathers(self) -> bool:
        """Whether changes of statements gather until it is asked for them."""
        return bool(self._gathering)

    @property
    def backlog(self) -> int:
        """How much has gathered."""
        return sum(reader.backlog for reader in self._gathering)

    # --- reading

    def failed(self, error: BaseException) -> None:
        """Tell the readers that the job has failed."""
        for opened in self._open:
            if isinstance(opened.reader, FailureListener):
                opened.reader.job_failed(error)

    def close(self) -> None:
        """Close the readers, after what is being read ahead; its rows and errors are dropped."""
        self._stop_watching()
        ahead, self._ahead = self._ahead, None
        if ahead is not None and not ahead.cancel():
            ahead.exception()
        for open_split in self._open:
            open_split.reader.close()
        self._open.clear()
        self._waiting.clear()
        # Of splits that wait a position needs the names; what they hold to be opened with is given back.
        names = tuple(Split(split.id) for split in self._reached.waiting)
        self._reached = replace(self._reached, waiting=names)

    def _read(self, max_rows: int, until: int) -> SourceInput:
        started, since = wall_clock.perf_counter(), taken_in(self._open)
        if not self.node.table.bounded and not self._waiting:
            self._discover()
        if self._side_by_side:
            taken = self._read_side_by_side(max_rows, until)
        elif self._in_shares:
            taken = self._read_in_shares(max_rows)
        else:
            taken = self._read_in_turn(max_rows, until)
        batches = [batch for _, given in taken for batch in given]
        pieces = tuple((split, sum(map(len, given))) for split, given in taken if given)
        batch = ChangelogBatch.concat(batches) if batches else None
        self._pace.took(0 if batch is None else len(batch))
        return SourceInput(
            batch,
            self._exhausted,
            self._idle(),
            self._own_watermark(),
            self._split_rows(pieces),
            self._reach(),
            wall_clock.perf_counter() - started,
            self._context.refused.take(),
            (since, given_to(self._open)),
        )

    def _read_in_turn(self, max_rows: int, until: int) -> list[_Taken]:
        taken: list[_Taken] = []
        room, position = EpochRoom(self._pace.room(max_rows)), 0
        while room.rows > 0 and (position < len(self._open) or self._waiting):
            if position == len(self._open):
                self._begin(self._waiting.pop(0))
            open_split = self._open[position]
            if self._mark(open_split) > until:
                break
            self._prefetch()
            taken.append((open_split.split.id, self._take(open_split, room, room.rows)))
            if keeps_turn(open_split.reader) and not open_split.reader.finished:
                break
            position += position < len(self._open) and self._open[position] is open_split
        if max_rows > 0:
            self._not_asked(self._open[position:])
        return taken

    def _prefetch(self) -> None:
        """Splits whose turn comes soon begin to be read."""
        while self._waiting and self._open and keeps_turn(self._open[0].reader) and len(self._open) < TURNS_AHEAD:
            reader = self._begin(self._waiting.pop(0))
            if isinstance(reader, TurnReader):
                reader.prefetch()

    @property
    def _in_turn(self) -> list[OpenSplit]:
        """The open splits but for those that wait for their turn."""
        return self._open[:1] if self._open and keeps_turn(self._open[0].reader) else self._open

    def _read_in_shares(self, max_rows: int) -> list[_Taken]:
        taken: list[_Taken] = []
        room = EpochRoom(self._pace.room(max_rows))
        self._begin_all()
        # Whoever had the first share has the last one next time.
        asked = list(self._open)
        self._open = [*asked[1:], *asked[:1]]
        for number, open_split in enumerate(asked):
            share = -(-room.rows // (len(asked) - number))
            if share <= 0:
                self._not_asked([open_split])
                continue
            taken.append((open_split.split.id, self._take(open_split, room, share)))
        return taken

    def _begin_all(self) -> None:
        while self._waiting:
            self._begin(self._waiting.pop(0))

    def _read_side_by_side(self, max_rows: int, until: int) -> list[_Taken]:
        taken: list[_Taken] = []
        room = EpochRoom(self._pace.room(max_rows))
        if self._in_shares:
            self._begin_all()
        while room.rows > 0 and self._waiting and len(self._open) < SIDE_BY_SIDE:
            self._begin(self._waiting.pop(0))
        for open_split in sorted(self._open, key=self._mark):
            mark = self._mark(open_split)
            wanted = min(room.rows, FIRST_ROWS) if mark == MIN_WATERMARK else room.rows
            if mark > until or wanted <= 0:
                self._not_asked([open_split])
                continue
            taken.append((open_split.split.id, self._take(open_split, room, wanted)))
        return taken

    def _begin(self, split: Split) -> SourceReader:
        reader = self._reader(split)
        if self._coded and isinstance(reader, DictionaryReader):
            reader.use_dictionaries()
        self._log.debug("%s: %s begun", self.node.name, split.id, source=self.node.name, split=split.id)
        self._open.append(OpenSplit.of(split, reader, self._clock.now()))
        return reader

    def _reader(self, split: Split) -> SourceReader:
        return self.node.table.open(split, self._context)

    def _take(self, open_split: OpenSplit, room: EpochRoom, wanted: int) -> list[ChangelogBatch]:
        """Read a split until it has nothing now, or has given so many rows, or there is no room for more."""
        reader, batches, over = open_split.reader, list[ChangelogBatch](), False
        while wanted > 0 and room.rows > 0 and not over:
            look()
            batch = reader.poll(wanted)
            if batch is not None and len(batch):
                batches.append(batch)
                room.took(batch)
                wanted -= len(batch)
            over = batch is None or reader.finished
            if self._context.refused.is_full:
                room.end()
        if batches:
            open_split.last_row_at = self._last_row_at = self._clock.now()
        if reader.finished:
            self._end(open_split)
            reader.close()
        self._flush.asked(open_split.split, over and (reader.finished or not keeps_turn(reader)))
        return batches

    def _end(self, open_split: OpenSplit) -> None:
        """A split has given its last row."""
        self._open.remove(open_split)
        name = open_split.split.id
        self._log.debug("%s: %s ended", self.node.name, name, source=self.node.name, split=name)
        table, mark = self.node.table, None
        if isinstance(table, SupportsChangeDetection) and not self.node.table.bounded:
            mark = table.fingerprint(open_split.reader.position())
        self._progress.finish(open_split.split.id, mark)

    def _not_asked(self, splits: Sequence[OpenSplit]) -> None:
        """Splits that might have had rows: they are not idle."""
        for open_split in splits:
            open_split.last_row_at = self._clock.now()

    def _own_watermark(self) -> int:
        """The least that the readers know of."""
        known = [o.timed.watermark for o in self._open if o.timed is not None]
        return min(known) if known and len(known) == len(self._open) else MIN_WATERMARK

    def _split_rows(self, pieces: tuple[tuple[str, int], ...]) -> SplitRows | None:
        """Which splits gave the rows; None as long as the source has only one."""
        if len(self._seen) <= 1:
            return None
        return SplitRows(
            pieces,
            frozenset(o.split.id for o in self._in_turn),
            frozenset(o.split.id for o in self._in_turn if self._is_idle(o)),
            (bool(self._waiting) or len(self._in_turn) < len(self._open)) and not self.node.splits_in_order,
        )

    def _reach(self) -> Reached:
        """Where reading stands now. Only by whoever reads."""
        active = tuple((o.split.id, o.reader.position()) for o in self._open)
        return Reached(len(self._progress.finished), active, tuple(self._waiting))

    def _resume(self) -> None:
        """Open what was being read at the position that this begins from, and leave out what was finished.

        Raises ConnectorError E3107 when a split is gone that was not finished; or what the reader says of a changed one.
        """
        self._seen.update(self._progress.finished)
        active, waiting = self._progress.active, self._progress.waiting
        if not active and not waiting:
            return
        there = {split.id: split for split in self.node.table.splits()}
        for name, position in active:
            self._begin(take_split(there, name, self.node.name)).seek(position)
        self._waiting += [take_split(there, name, self.node.name) for name in waiting]
        self._seen.update(name for name, _ in active)
        self._seen.update(waiting)

    def _have_changed(self) -> None:
        self._splits_changed = True
        self._context.wake()

    def _discover(self) -> None:
        table = self.node.table
        self._splits_changed = False
        later, marks = bool(self._seen), self._progress.marks
        changed = table.changed if isinstance(table, SupportsChangeDetection) else None
        for split in table.splits():
            if split.id not in self._seen:
                self._seen.add(split.id)
                self._waiting.append(
                    table.discovered(split) if later and isinstance(table, SupportsPartitionDiscovery) else split
                )
            elif changed and split.id in marks and (told := changed(split, marks[split.id])) is not None:
                self._context.reject([SkippedInput("a change of what was read before", told[0])])
                marks[split.id] = told[1]

    @property
    def _exhausted(self) -> bool:
        return self.node.table.bounded and not self._open and not self._waiting

    def _idle(self) -> bool:
        """Whether all splits that go on are idle, or there has been none for so long."""
        idle = all(map(self._is_idle, self._open)) if self._open else self._silent_since(self._last_row_at)
        return idle and not self._waiting

    def _is_idle(self, open_split: OpenSplit) -> bool:
        return bool(open_split.timed and open_split.timed.idle) or self._silent_since(open_split.last_row_at)

    def _silent_since(self, moment: int) -> bool:
        timeout = self.node.idle_timeout
        return timeout > 0 and self._clock.now() - moment >= timeout
