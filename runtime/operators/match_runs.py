"""The runs of MATCH_RECOGNIZE, which may become matches, with their rows, by partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ExpressionError
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.kernels.grow import grown
from runtime.kernels.match_walk import COUNTS, FINAL, NOT_BEGUN, START, STATE, TIME, Automaton, Paths, Rules, Runs
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.match_values import LaidRows, MappedRows
from runtime.operators.operator import StateSize
from runtime.plan.nodes import MatchExec
from runtime.plan.pattern import MatchRows
from runtime.plan.state import column_names
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable
from runtime.state.timed import time_words

__all__ = ["OpenRuns", "from_first_open", "none"]

_RUN, _HELD = 0, 1
_SAVED = 5
"""Columns of a saved run besides its partition and its counts."""


class OpenRuns:
    """Partitions that have runs, or matches that are held until runs before them are decided.

    Positions count from the first row that a partition keeps: that with which its first run begins. The run that has not
    begun is in every partition and not kept; what is kept is the place of each run in its heap.

    Args:
        width: the words of a run.
    """

    def __init__(self, node: MatchExec, width: int, automaton: Automaton) -> None:
        schema = node.input.schema
        types = [schema[i].type for i in node.partition]
        self._node = node
        self._keys = KeyIndex([t.arrow for t in types], [t.nullable for t in types])
        self._not_begun = np.zeros(width, np.int64)
        self._not_begun[START], self._not_begun[STATE] = NOT_BEGUN, automaton.start
        # A run that is complete, or may be at the end, is never too long, and holds the watermark back as a match that is
        # held does.
        self._stays = automaton.waits
        self._stays[FINAL] = True
        self.store = ColumnStore([t.arrow for t in schema.types])
        self._row_slots = SlotAllocator()
        self._row_lists = BlockLists()
        self._arrival = np.zeros(0, np.int64)
        # Whether rows are in matches that were given, where it matters.
        self._matched = np.zeros(0, np.bool_) if node.rows is MatchRows.UNMATCHED else None
        self._next_arrival = 0
        self._run_slots = SlotAllocator()
        self._lists = (BlockLists(), BlockLists())
        self._runs = np.zeros((0, width), np.int64)
        self._paths = None if node.pattern.shape is None else ColumnStore([pa.binary()])
        self._partition = np.zeros(0, np.int64)
        self._order = np.zeros(0, np.int64)
        self._kind = np.zeros(0, np.int8)
        self._by_time = SortedRuns(1)
        self._within = node.pattern.within
        self._row_table = self._made_row_table()
        self._run_table = self._made_run_table()

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._row_table, self._run_table)

    @property
    def state_size(self) -> StateSize:
        parts = (self._keys, self.store, self._row_slots, self._row_lists, self._run_slots, *self._lists, self._by_time)
        parts += () if self._paths is None else (self._paths,)
        arrays = (
            self._arrival,
            *([] if self._matched is None else [self._matched]),
            self._runs,
            self._partition,
            self._order,
            self._kind,
        )
        size = sum(part.nbytes for part in parts) + sum(array.nbytes for array in arrays)
        return StateSize(len(self._row_slots) + len(self._run_slots), size)

    # --- what a step reads

    def partitions(self, columns: list[pa.Array], count: int) -> np.ndarray:
        """The slots of the partitions of rows."""
        return self._keys.insert(columns, count)[0] if count else np.empty(0, np.int64)

    def key_columns(self, slots: np.ndarray) -> list[pa.Array]:
        return self._keys.columns(slots)

    def earliest(self, *, runs: bool) -> int | None:
        """The time at which the first held match begins, or with `runs` the first run; None without any."""
        kinds = np.array([_HELD, _RUN] if runs else [_HELD])
        _, found = self._by_time.first(kinds, 1)
        return int(self._runs[found, TIME].min()) if len(found) else None

    def expires(self, now: int) -> bool:
        """Whether runs are too long at a time."""
        return len(self.expired(now)) > 0

    def expired(self, now: int) -> np.ndarray:
        """The partitions with runs that are too long at a time; where no more rows come, those whose matches or rows wait
        for that. A partition may be there twice."""
        no_more = now == MAX_WATERMARK and (self._paths is not None or self._matched is not None)
        if not (self._within or no_more) or now == MIN_WATERMARK or not len(self._by_time):
            return np.empty(0, np.int64)
        kinds = np.array([_RUN, _HELD] if no_more else [_RUN])
        limit = np.full(len(kinds), now if now == MAX_WATERMARK else max(now - self._within, MIN_WATERMARK))
        _, found = self._by_time.range(kinds, None, time_words(limit), True, True)
        return self._partition[found]

    def matched(self, kept: np.ndarray, rows: LaidRows, matches: MappedRows) -> np.ndarray:
        """By place whether a row is in a match that was given, or is now."""
        assert self._matched is not None
        found = np.zeros(len(rows), np.bool_)
        old = rows.order < len(kept)
        found[old] = self._matched[kept[rows.order[old]]]
        found[matches.each[2]] = True
        # That with which a match without rows begins, too.
        found[matches.start] = True
        return found

    def rows(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that partitions keep, in order: `(index into slots, row slot)`."""
        return self._row_lists.probe(slots)

    def of(self, slots: np.ndarray) -> tuple[Runs, Runs]:
        """The runs and the held matches of partitions."""
        owner, found = self._lists[_RUN].probe(slots)
        begin = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(np.bincount(owner, minlength=len(slots)) + 1, out=begin[1:])
        rows = np.tile(self._not_begun, (int(begin[-1]), 1))
        at = begin[owner] + self._order[found]
        rows[at] = self._runs[found]
        paths = None if self._paths is None else _placed(self._paths.take(found)[0], at, len(rows))
        owner, found = self._lists[_HELD].probe(slots)
        held_begin = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(np.bincount(owner, minlength=len(slots)), out=held_begin[1:])
        held = np.empty((int(held_begin[-1]), self._runs.shape[1]), np.int64)
        held[held_begin[owner] + self._order[found]] = self._runs[found]
        return Runs(begin, rows, paths), Runs(held_begin, held)

    # --- what a step leaves

    def put(
        self,
        slots: np.ndarray,
        runs: Runs,
        held: Runs,
        rows: LaidRows,
        first: np.ndarray,
        before: np.ndarray,
        come: Sequence[pa.Array],
        kept_from: np.ndarray,
        matched: np.ndarray | None,
    ) -> None:
        """What partitions have now. Partition p has the rows at the places from `first[p]` up to before `first[p + 1]`,
        `before[p]` of them were kept; `come` are the columns of the others. Rows from the position `kept_from[p]` on stay;
        `matched`: by place, where it matters."""
        began = runs.rows[:, START] != NOT_BEGUN
        owners = [np.repeat(np.arange(len(slots)), np.diff(r.begin)) for r in (runs, held)]
        if matched is not None:
            self._note_matched(slots, rows, matched, int(before.sum()))
        self._drop_rows(slots, kept_from, before)
        if len(come):
            self._keep_rows(slots, kept_from, rows, first, before, come, matched)
        self._replace(slots, runs, held, owners, kept_from, began)
        gone = kept_from == np.diff(first)
        if gone.any():
            self._keys.remove(slots[gone])

    def _note_matched(self, slots: np.ndarray, rows: LaidRows, matched: np.ndarray, old: int) -> None:
        """Rows that were kept are in matches now."""
        assert self._matched is not None
        kept = self._row_lists.probe(slots)[1]
        of_kept = rows.order < old
        now = np.zeros(old, np.bool_)
        now[rows.order[of_kept]] = matched[of_kept]
        new = kept[now & ~self._matched[kept]]
        self._matched[new] = True
        self._row_table.wrote(new)

    def _drop_rows(self, slots: np.ndarray, kept_from: np.ndarray, before: np.ndarray) -> None:
        shorter = np.flatnonzero((kept_from > 0) & (before > 0))
        if not len(shorter):
            return
        owner, found = self._row_lists.probe(slots[shorter])
        start = np.cumsum(before[shorter]) - before[shorter]
        gone = np.arange(len(owner)) - start[owner] < kept_from[shorter[owner]]
        whole = kept_from[shorter] >= before[shorter]
        self._row_lists.drop_keys(slots[shorter[whole]])
        some = gone & ~whole[owner]
        self._row_lists.remove(slots[shorter[owner[some]]], found[some])
        self.store.free(found[gone])
        self._row_slots.free(found[gone])
        self._row_table.freed(found[gone])

    def _keep_rows(
        self,
        slots: np.ndarray,
        kept_from: np.ndarray,
        rows: LaidRows,
        first: np.ndarray,
        before: np.ndarray,
        come: Sequence[pa.Array],
        matched: np.ndarray | None,
    ) -> None:
        old = int(before.sum())
        owner = np.repeat(np.arange(len(slots)), np.diff(first))
        place = np.arange(len(owner))
        places = np.flatnonzero((rows.order >= old) & (place - first[owner] >= kept_from[owner]))
        if not len(places):
            return
        take = pa.array(rows.order[places] - old)
        self._add_rows(slots[owner[places]], [c.take(take) for c in come], None if matched is None else matched[places])

    def _add_rows(
        self, partitions: np.ndarray, columns: Sequence[pa.Array], matched: np.ndarray | None = None
    ) -> np.ndarray:
        found = self._row_slots.allocate(len(partitions))
        self._arrival = grown(self._arrival, self._row_slots.high)
        self._arrival[found] = np.arange(self._next_arrival, self._next_arrival + len(found))
        self._next_arrival += len(found)
        if self._matched is not None:
            self._matched = grown(self._matched, self._row_slots.high)
            self._matched[found] = matched
        self.store.put(found, columns)
        self._row_lists.append(partitions, found)
        self._row_table.wrote(found)
        return found

    def _replace(
        self,
        slots: np.ndarray,
        runs: Runs,
        held: Runs,
        owners: list[np.ndarray],
        kept_from: np.ndarray,
        began: np.ndarray,
    ) -> None:
        old = np.concatenate([lists.probe(slots)[1] for lists in self._lists])
        if len(old):
            for lists in self._lists:
                lists.drop_keys(slots)
            self._by_time.remove(old)
            self._run_slots.free(old)
            self._run_table.freed(old)
            if self._paths is not None:
                self._paths.free(old)
        for kind, new, chosen in ((_RUN, runs, began), (_HELD, held, np.ones(len(held.rows), np.bool_))):
            owner = owners[kind][chosen]
            if not len(owner):
                continue
            found = new.rows[chosen]
            found[:, START] -= kept_from[owner]
            order = (np.arange(len(new.rows)) - new.begin[owners[kind]])[chosen]
            paths = None if new.paths is None else _binary(new.paths.take(np.flatnonzero(chosen)))
            self._add_runs(slots[owner], np.full(len(owner), kind, np.int8), order, found, paths)

    def _add_runs(
        self, partitions: np.ndarray, kinds: np.ndarray, order: np.ndarray, runs: np.ndarray, paths: pa.Array | None
    ) -> np.ndarray:
        found = self._run_slots.allocate(len(partitions))
        high = self._run_slots.high
        if high > len(self._runs):
            more = np.zeros((max(high, 2 * len(self._runs)) - len(self._runs), self._runs.shape[1]), np.int64)
            self._runs = np.concatenate((self._runs, more))
        self._partition, self._order = grown(self._partition, high), grown(self._order, high)
        self._kind = grown(self._kind, high)
        self._partition[found], self._order[found], self._kind[found] = partitions, order, kinds
        self._runs[found] = runs
        if self._paths is not None:
            assert paths is not None
            self._paths.put(found, [paths])
        for kind in (_RUN, _HELD):
            of_kind = kinds == kind
            self._lists[kind].append(partitions[of_kind], found[of_kind])
        timed = np.where(self._stays[runs[:, STATE]], _HELD, kinds).astype(np.int64)
        self._by_time.insert(timed, time_words(runs[:, TIME]), None, found)
        self._run_table.wrote(found)
        return found

    # --- how it is saved

    def _made_row_table(self) -> StateTable:
        spec = self._node.kept("rows")
        names = column_names(spec.schema)

        width = len(names)

        def read(found: np.ndarray) -> list[pa.Array]:
            matched = [] if self._matched is None else [pa.array(self._matched[found])]
            return [*self.store.take(found), *matched, pa.array(self._arrival[found])]

        def load(columns: list[pa.Array]) -> np.ndarray:
            order = np.argsort(columns[-1].to_numpy(), kind="stable")
            take = pa.array(order)
            rows = [c.take(take) for c in columns[:width]]
            partitions = self.partitions([rows[i] for i in self._node.partition], len(order))
            matched = None if self._matched is None else columns[width].to_numpy(zero_copy_only=False)[order]
            placed = np.empty(len(order), np.int64)
            placed[order] = self._add_rows(partitions, rows, matched)
            return placed

        return StateTable(
            spec.name,
            [
                *((n, f.type.arrow) for n, f in zip(names, spec.schema, strict=True)),
                *([] if self._matched is None else [("$matched", pa.bool_())]),
                ("$arrival", pa.int64()),
            ],
            live=self._row_slots.live_slots,
            read=read,
            load=load,
            key=spec.key_names,
        )

    def _made_run_table(self) -> StateTable:
        spec = self._node.kept("runs")
        names = column_names(spec.schema)
        keys = len(spec.key)
        with_paths = self._paths is not None

        def read(found: np.ndarray) -> list[pa.Array]:
            runs = self._runs[found]
            counts = [pa.array(runs[:, i]) for i in range(COUNTS, runs.shape[1])]
            own = [
                pa.array(a)
                for a in (self._kind[found], self._order[found], runs[:, START], runs[:, TIME], runs[:, STATE])
            ]
            paths = [] if self._paths is None else self._paths.take(found)
            return [*self._keys.columns(self._partition[found]), *counts, *paths, *own]

        def load(columns: list[pa.Array]) -> np.ndarray:
            kinds, order, start, time, state = (c.to_numpy() for c in columns[-_SAVED:])
            partitions = self.partitions(columns[:keys], len(kinds))
            mapped = columns[keys:-_SAVED]
            counts = [] if with_paths else [c.to_numpy() for c in mapped]
            runs = np.stack([start, time, state, *counts], axis=1)
            return self._add_runs(partitions, kinds, order, runs, mapped[0] if with_paths else None)

        return StateTable(
            spec.name,
            [
                *((n, f.type.arrow) for n, f in zip(names, spec.schema, strict=True)),
                *([("$path", pa.binary())] if with_paths else []),
                ("$held", pa.int8()),
                ("$order", pa.int64()),
                ("$start", pa.int64()),
                ("$time", pa.int64()),
                ("$state", pa.int64()),
            ],
            live=self._run_slots.live_slots,
            read=read,
            load=load,
            key=spec.key_names,
        )


def from_first_open(runs: Runs, held: Runs, rows: np.ndarray) -> np.ndarray:
    """By partition the position of the first row with which a run or a held match begins; how many `rows` it has, where there
    is none."""
    found = rows.copy()
    for some in (runs, held):
        began = some.rows[:, START] != NOT_BEGUN
        owner = np.repeat(np.arange(len(found)), np.diff(some.begin))
        np.minimum.at(found, owner[began], some.rows[began, START])
    return found


def none(partitions: int, rules: Rules) -> Runs:
    """No runs in any partition."""
    rows = np.empty((0, rules.width), np.int64)
    return Runs(np.zeros(partitions + 1, np.int64), rows, None if rules.counted else Paths.none(0))


_STEP = 8
"""Bytes of a step of a path."""


def _binary(paths: Paths) -> pa.Array:
    """Paths as they are kept."""
    if len(paths.steps) * _STEP > np.iinfo(np.int32).max:
        raise ExpressionError(
            "matches that are not complete take more than 2 GB in an epoch",
            code="E2021",
            hint="give PATTERN a length: WITHIN INTERVAL '1' HOUR",
        )
    ends = pa.py_buffer((paths.begin * _STEP).astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(paths.begin) - 1, [None, ends, pa.py_buffer(paths.steps)])


def _placed(kept: pa.Array, at: np.ndarray, runs: int) -> Paths:
    """The paths of runs, of which those at some numbers are kept; the others have none."""
    if not len(kept):
        return Paths.none(runs)
    _, ends, data = kept.buffers()
    begin = np.frombuffer(ends, np.int32)[kept.offset : kept.offset + len(kept) + 1].astype(np.int64)
    steps = np.empty(0, np.int64)
    if begin[-1] > begin[0]:
        steps = np.frombuffer(np.frombuffer(data, np.uint8)[begin[0] : begin[-1]].tobytes(), np.int64)
    every = Paths((begin - begin[0]) // _STEP, steps)
    sizes = np.zeros(runs + 1, np.int64)
    sizes[at + 1] = np.diff(every.begin)
    return Paths(np.cumsum(sizes), every.take(np.argsort(at, kind="stable")).steps)
