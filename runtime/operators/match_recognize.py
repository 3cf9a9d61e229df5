"""MATCH_RECOGNIZE: rows wait for their time, then each partition walks through the automaton of the pattern."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.kernels.grouping import group_ids
from runtime.kernels.match_paths import walk_paths
from runtime.kernels.match_walk import (
    NOT_BEGUN,
    PAST_LAST_ROW,
    START,
    STATE,
    TO_FIRST,
    TO_LAST,
    TO_NEXT_ROW,
    Paths,
    Rules,
    Runs,
    Steps,
    walk,
)
from runtime.kernels.sort import sort_indices
from runtime.operators.join_condition import JoinCondition
from runtime.operators.match_automaton import automaton
from runtime.operators.match_begun import BegunPartitions
from runtime.operators.match_numbers import MatchNumbers
from runtime.operators.match_paths import PathReader, all_rows
from runtime.operators.match_runs import OpenRuns, from_first_open, none
from runtime.operators.match_threads import thread_automaton
from runtime.operators.match_values import LaidRows, MappedRows, ValueReader
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.window_assign import milliseconds
from runtime.plan.nodes import MatchExec
from runtime.plan.pattern import AfterMatch, MatchRows, MatchValue, ValueSide
from runtime.state.table import StateTable
from runtime.state.timed import TimedRows, bound, microseconds
from runtime.state.timed_table import timed_table

__all__ = ["MatchOperator"]

_AFTER = {
    AfterMatch.PAST_LAST_ROW: PAST_LAST_ROW,
    AfterMatch.TO_NEXT_ROW: TO_NEXT_ROW,
    AfterMatch.TO_FIRST: TO_FIRST,
    AfterMatch.TO_LAST: TO_LAST,
}


class MatchOperator(Operator):
    """The partition columns and what was asked of the rows of each match. Append-only in and out.

    Event time: rows wait for the watermark, then they are taken by time, further columns, arrival; rows not above the
    watermark of the epoch before are late and rejected. Processing time: rows are taken as they come, those of one epoch
    by the further columns.

    What DEFINE says of a row alone has been evaluated in columns. What it says of the match so far is evaluated in columns
    for all partitions at once, each time for the next row of each that asks for it. The walk itself goes row by row.

    State: rows that wait; runs, which may become matches; the rows of runs; where matches are numbered, how many there were;
    where a match may be asked to begin with the first row of its partition, which ones have begun.
    """

    def __init__(self, node: MatchExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        schema = node.input.schema
        pattern = node.pattern
        self._time = node.order[0].index
        computed = {column for _, column in node.alone}
        self._shown = [i for i in range(len(schema)) if i not in computed]
        standard = pattern.shape is not None
        self._automaton = thread_automaton(pattern) if standard else automaton(pattern)
        asked = 0
        for variable, _ in node.asked:
            asked |= 1 << variable
        self._rules = Rules(
            len(pattern.variables),
            _AFTER[pattern.after],
            sum(1 << v for v in pattern.members(pattern.skip_to)),
            pattern.within,
            asked,
            counted=not standard,
        )
        self._asked = [(v, JoinCondition(e, len(schema), context)) for v, e in node.asked]
        one = node.rows is MatchRows.ONE
        self._tested = [self._reader(value, counted=not standard) for value in node.tested]
        self._found = [
            value.call.function
            if value.is_number or value.is_matched
            else self._reader(value, counted=one and not standard)
            for value in node.found
        ]
        self._numbers = MatchNumbers(node) if node.numbers else None
        self._begun = BegunPartitions(node) if node.asks_for_start else None
        self._unmatched = node.rows is MatchRows.UNMATCHED
        self._open = OpenRuns(node, self._rules.width, self._automaton)
        self._waiting = TimedRows(schema, keyed=False) if node.rowtime else None
        waiting = [] if self._waiting is None else [timed_table(self._waiting, node.kept("waiting"), _no_key)]
        further = [part.table for part in (self._numbers, self._begun) if part is not None]
        self._tables = (*waiting, *self._open.tables, *further)

    def _reader(self, value: MatchValue, *, counted: bool) -> ValueReader | PathReader:
        """`counted`: the rows of each variable lie together, which DISTINCT cannot use."""
        reader = ValueReader if counted and not value.call.distinct else PathReader
        return reader(value, self._node.pattern, self._node.input.schema.types)

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def state_size(self) -> StateSize:
        own = self._open.state_size
        for part in (self._numbers, self._begun):
            more = StateSize(0, 0) if part is None else part.state_size
            own = StateSize(own.rows + more.rows, own.bytes + more.bytes)
        if self._waiting is None:
            return own
        return StateSize(own.rows + self._waiting.rows, own.bytes + self._waiting.nbytes)

    def output_watermark(self, time: EpochTime) -> int:
        """Rows that come later are not late behind this operator: matches that wait for others hold the watermark back,
        and where their times may be those of any row, runs do."""
        if time.watermark in (MIN_WATERMARK, MAX_WATERMARK) or not self._node.rowtime:
            return time.watermark
        held = self._open.earliest(runs=self._node.follows_rows)
        return time.watermark if held is None else min(time.watermark, held - 1)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        now = time.watermark if self._node.rowtime else time.processing_time
        if time.watermark == MAX_WATERMARK:
            now = MAX_WATERMARK
        columns, times = self._due(batch, time)
        if not len(times) and not self._open.expires(now):
            return None
        return self._walk(columns, times, now, time)

    def _due(self, batch: ChangelogBatch | None, time: EpochTime) -> tuple[list[pa.Array], np.ndarray]:
        """The rows whose time has come, in order, and their times in milliseconds."""
        if self._waiting is None:
            columns = list(batch.columns) if batch is not None else []
            times = np.full(0 if batch is None else len(batch), time.processing_time, np.int64)
        else:
            come = None if batch is None or not len(batch) else self._take_in(self._waiting, batch, time)
            ready = self._waiting.due(bound(time.watermark, 1), with_slots=come)
            columns = self._waiting.take(ready) if len(ready) else []
            times = milliseconds(columns[self._time]) if columns else np.empty(0, np.int64)
            self._waiting.free(ready)
        further = self._node.order[1:]
        if not further or len(times) < 2:
            return columns, times
        keys = [pa.array(times), *(columns[s.index] for s in further)]
        order = sort_indices(keys, [False, *(s.descending for s in further)], [False, *(s.nulls_last for s in further)])
        take = pa.array(order)
        return [c.take(take) for c in columns], times[order]

    def _take_in(self, waiting: TimedRows, batch: ChangelogBatch, time: EpochTime) -> np.ndarray:
        """Keeps rows until their time; the slots of those whose time has come."""
        rows = batch.rows
        column = rows.column(self._time)
        if column.null_count:
            self._context.reject("NULL event time", rows.filter(column.is_null()).select(self._shown))
            rows = rows.filter(column.is_valid())
            column = rows.column(self._time)
        if time.previous_watermark != MIN_WATERMARK:
            late = milliseconds(column) <= time.previous_watermark
            if late.any():
                mask = pa.array(late)
                shown = rows.filter(mask).select(self._shown)
                self._context.reject("late", shown, time.previous_watermark, column.filter(mask))
                rows = rows.filter(pa.array(~late))
        return waiting.add_waiting(rows.columns, microseconds(rows.column(self._time)), bound(time.watermark, 1))[1]

    def _walk(self, columns: list[pa.Array], times: np.ndarray, now: int, time: EpochTime) -> ChangelogBatch | None:
        """Takes rows through the automaton, and gives the matches that come of it."""
        open_runs = self._open
        count = len(times)
        partition = open_runs.partitions([columns[i] for i in self._node.partition] if columns else [], count)
        slots, rank = _distinct(np.concatenate((partition, open_runs.expired(now))))
        owner, kept = open_runs.rows(slots)
        group = np.concatenate((owner, rank[:count]))
        order = np.argsort(group, kind="stable")
        rows = LaidRows(open_runs.store, kept, columns, order)
        before = np.bincount(owner, minlength=len(slots))
        first = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(np.bincount(group, minlength=len(slots)), out=first[1:])
        # Places in the order: those of a partition begin at `first`, with the rows that were kept.
        all_times = np.zeros(len(order), np.int64)
        come = order >= len(kept)
        all_times[come] = times[order[come] - len(kept)]
        alone = self._alone(rows, come)
        steps = Steps(
            first[:-1] + before,
            first[1:].copy(),
            -first[:-1],
            self._begins(rows, alone, come, time),
            alone,
            all_times,
        )
        runs, held = open_runs.of(slots)
        if self._begun is not None:
            self._begin(slots, np.diff(first) > before, runs)
        runs, held, matches = self._to_the_end(rows, steps, first[:-1], runs, held, now, time)
        if self._unmatched and now == MAX_WATERMARK:
            runs, held = none(len(slots), self._rules), none(len(slots), self._rules)
        output = [self._output(rows, matches, slots, first[:-1], order)]
        kept_from = from_first_open(runs, held, np.diff(first))
        matched = None
        if self._unmatched:
            matched = open_runs.matched(kept, rows, _mapped(matches, first)[1])
            output.append(self._in_no_match(rows, matched, slots, first, kept_from))
        open_runs.put(slots, runs, held, rows, first, before, columns, kept_from, matched)
        given = [batch for batch in output if batch is not None]
        return ChangelogBatch.concat(given) if given else None

    def _begin(self, slots: np.ndarray, come: np.ndarray, runs: Runs) -> None:
        """Partitions that get their first row have another state to begin in."""
        assert self._begun is not None
        asked = np.flatnonzero(come)
        new = asked[self._begun.begin(self._open.key_columns(slots[asked]), len(asked))]
        not_begun = runs.begin[new + 1] - 1
        runs.rows[not_begun, STATE] = self._automaton.first

    def _alone(self, rows: LaidRows, come: np.ndarray) -> np.ndarray:
        """By row that has come the variables for which what is said of the row alone holds, as bits."""
        everything = (1 << self._rules.variables) - 1
        places = np.flatnonzero(come)
        bits = np.full(len(rows), everything, np.uint64)
        if len(places):
            for variable, column in self._node.alone:
                holds = rows.column(column, places).fill_null(False).to_numpy(zero_copy_only=False)
                bits[places[~holds]] &= np.uint64(everything & ~(1 << variable))
        return bits

    def _begins(self, rows: LaidRows, alone: np.ndarray, come: np.ndarray, time: EpochTime) -> np.ndarray:
        """The same for rows with which a run would begin: then conditions that depend on the run follow the row, too."""
        bits = alone.copy()
        reach = int(self._automaton.reach[self._automaton.start] | self._automaton.reach[self._automaton.first])
        for variable, condition in self._asked:
            bit = np.uint64(1 << variable)
            if not reach >> variable & 1:
                continue
            places = np.flatnonzero(come & ((alone & bit) != 0))
            none = Runs(
                np.empty(0, np.int64),
                np.zeros((len(places), self._rules.width), np.int64),
                None if self._rules.counted else Paths.none(len(places)),
            )
            holds = self._holds(condition, variable, rows, places, none, places, time)
            bits[places[~holds]] &= ~bit
        return bits

    def _holds(
        self,
        condition: JoinCondition,
        variable: int,
        rows: LaidRows,
        places: np.ndarray,
        runs: Runs,
        begin: np.ndarray,
        time: EpochTime,
    ) -> np.ndarray:
        """Whether the condition of a variable holds for rows, each after the rows of a run of a partition that begins at a
        place."""
        mapped = MappedRows(begin, runs, variable)

        def value(index: int, chosen: np.ndarray) -> pa.Array:
            return self._tested[index].read(rows, mapped)

        return condition.holds(rows.column, places, value, np.arange(len(places)), time)

    def _to_the_end(
        self, rows: LaidRows, steps: Steps, begin: np.ndarray, runs: Runs, held: Runs, now: int, time: EpochTime
    ) -> tuple[Runs, Runs, Runs]:
        """Walks all partitions to their ends. Those that ask for conditions go on together when these are known."""
        active = np.arange(len(begin), dtype=np.int64)
        answers, answered = np.zeros(len(runs.rows), np.uint64), np.zeros(len(active), np.int64)
        done: list[tuple[np.ndarray, Runs, Runs]] = []
        matches: list[np.ndarray] = []
        paths: list[Paths] = []
        while True:
            if self._rules.counted:
                runs, held, found = walk(self._automaton, self._rules, steps, runs, held, answers, answered, now)
            else:
                runs, found, on = walk_paths(self._automaton, self._rules, steps, runs, answers, answered, now)
                paths.append(on)
            found[:, 0] = active[found[:, 0]]
            matches.append(found)
            goes_on = steps.at < steps.end
            if not goes_on.any():
                done.append((active, runs, held))
                break
            if not goes_on.all():
                done.append((active[~goes_on], _chosen(runs, ~goes_on), _chosen(held, ~goes_on)))
                active, runs, held = active[goes_on], _chosen(runs, goes_on), _chosen(held, goes_on)
                steps = Steps(
                    steps.at[goes_on], steps.end[goes_on], steps.shift[goes_on], steps.begins, steps.alone, steps.times
                )
            answers, answered = self._answers(rows, steps, begin[active], runs, time), np.ones(len(active), np.int64)
        return (
            _together([(a, r) for a, r, _ in done], len(begin)),
            _together([(a, h) for a, _, h in done], len(begin)),
            Runs(np.empty(0, np.int64), np.concatenate(matches), Paths.together(paths) if paths else None),
        )

    def _answers(self, rows: LaidRows, steps: Steps, begin: np.ndarray, runs: Runs, time: EpochTime) -> np.ndarray:
        """By run the variables whose conditions hold for the next row of its partition, as bits."""
        partition = np.repeat(np.arange(len(begin), dtype=np.int64), np.diff(runs.begin))
        at = steps.at[partition]
        wanted = self._automaton.reach[runs.rows[:, STATE]] & steps.alone[at]
        wanted[runs.rows[:, START] == NOT_BEGUN] = 0
        answers = np.zeros(len(partition), np.uint64)
        for variable, condition in self._asked:
            bit = np.uint64(1 << variable)
            asking = np.flatnonzero(wanted & bit)
            if len(asking):
                of = partition[asking]
                holds = self._holds(condition, variable, rows, at[asking], runs.take(asking), begin[of], time)
                answers[asking[holds]] |= bit
        return answers

    def _output(
        self, rows: LaidRows, matches: Runs, slots: np.ndarray, begin: np.ndarray, order: np.ndarray
    ) -> ChangelogBatch | None:
        """The matches in the order of the rows by which they came; each is its partition, that row, and what a run has
        behind its first words."""
        if not len(matches.rows):
            return None
        matches = matches.take(np.argsort(order[matches.rows[:, 1]], kind="stable"))
        partition, mapped = _mapped(matches, begin)
        keys = self._open.key_columns(slots[partition])
        numbers = None if self._numbers is None else pa.array(self._numbers.take(keys, len(partition)))
        if self._node.rows is not MatchRows.ONE:
            return self._all_rows(rows, mapped, keys, numbers)
        values = [numbers if isinstance(reader, str) else reader.read(rows, mapped) for reader in self._found]
        return ChangelogBatch.of([*keys, *values], self._node.schema)

    def _all_rows(
        self, rows: LaidRows, mapped: MappedRows, keys: list[pa.Array], numbers: pa.Array | None
    ) -> ChangelogBatch | None:
        """All rows of matches, whose partition columns and numbers are given."""
        shown = all_rows(mapped, empty=self._node.rows is not MatchRows.OMIT_EMPTY)
        if not len(shown.match):
            return None
        take = pa.array(shown.match)
        values: list[pa.Array] = []
        for reader in self._found:
            if isinstance(reader, PathReader):
                values.append(reader.read(rows, mapped, shown))
            elif reader == "IS_MATCHED":
                values.append(pa.array(np.ones(len(shown.match), np.bool_)))
            else:
                assert numbers is not None
                values.append(numbers.take(take))
        return ChangelogBatch.of([*(key.take(take) for key in keys), *values], self._node.schema)

    def _in_no_match(
        self, rows: LaidRows, matched: np.ndarray, slots: np.ndarray, first: np.ndarray, kept_from: np.ndarray
    ) -> ChangelogBatch | None:
        """The rows before the first with which a match may still begin, that are in none."""
        partition = np.repeat(np.arange(len(slots)), np.diff(first))
        places = np.flatnonzero(~matched & (np.arange(len(partition)) - first[partition] < kept_from[partition]))
        if not len(places):
            return None
        values: list[pa.Array] = []
        for value in self._node.found:
            if value.side is ValueSide.ROW:
                values.append(rows.column(value.call.args[0], places))
            elif value.is_matched:
                values.append(pa.array(np.zeros(len(places), np.bool_)))
            else:
                values.append(pa.nulls(len(places), value.call.type.arrow))
        return ChangelogBatch.of([*self._open.key_columns(slots[partition[places]]), *values], self._node.schema)


def _mapped(matches: Runs, begin: np.ndarray) -> tuple[np.ndarray, MappedRows]:
    """The partitions of matches, which begin at places, and the rows that are mapped."""
    partition = matches.rows[:, 0]
    rows = matches.rows.copy()
    rows[:, START] = rows[:, 2]
    return partition, MappedRows(begin[partition], Runs(matches.begin, rows, matches.paths))


def _no_key(columns: list[pa.Array]) -> np.ndarray:
    return np.full(len(columns[0]), -1, np.int64)


def _distinct(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slots, each once, and which of these each is."""
    first, rank = group_ids(slots.view(np.uint64).reshape(-1, 1))
    return slots[first], rank


def _chosen(runs: Runs, chosen: np.ndarray) -> Runs:
    """Those of some partitions."""
    sizes = np.diff(runs.begin)
    begin = np.zeros(int(chosen.sum()) + 1, np.int64)
    np.cumsum(sizes[chosen], out=begin[1:])
    some = runs.take(np.flatnonzero(np.repeat(chosen, sizes)))
    return Runs(begin, some.rows, some.paths)


def _together(parts: list[tuple[np.ndarray, Runs]], partitions: int) -> Runs:
    """Runs of all partitions, from those of some."""
    if len(parts) == 1:
        return parts[0][1]
    owner = np.concatenate([np.repeat(active, np.diff(runs.begin)) for active, runs in parts])
    begin = np.zeros(partitions + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=partitions), out=begin[1:])
    paths = [runs.paths for _, runs in parts if runs.paths is not None]
    every = Runs(begin, np.concatenate([runs.rows for _, runs in parts]), Paths.together(paths) if paths else None)
    ordered = every.take(np.argsort(owner, kind="stable"))
    return Runs(begin, ordered.rows, ordered.paths)
