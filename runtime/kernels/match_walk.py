"""The walk of MATCH_RECOGNIZE's automaton over the rows of partitions, in C and in Python.

It goes row by row, because what a row may be mapped to depends on the rows before it. It follows Flink's NFA: all runs are
kept that may still become a match; a match is given when no run that began before it can become one; then runs are given
up as AFTER MATCH says. Which of several matches that began with the same row is given depends on the order of the runs,
which Flink keeps in Java's PriorityQueue; so the order here is that of this heap.

A run is (position of its first row, time of that row in milliseconds, state, number of rows of each variable), int64; the
run that has not begun has the position `NOT_BEGUN`, and every partition has one. Rows of a run follow one another, so this
says which row is mapped to what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from runtime.core.cancellation import look
from runtime.core.errors import ExpressionError, InternalError
from runtime.kernels.grow import expand_ranges
from runtime.kernels.native import kernel

__all__ = [
    "COMPLETE",
    "COMPLETE_AT_END",
    "COUNTS",
    "EXCLUDED",
    "FINAL",
    "NOT_BEGUN",
    "PAST_LAST_ROW",
    "START",
    "STATE",
    "TIME",
    "TO_FIRST",
    "TO_LAST",
    "TO_NEXT_ROW",
    "VARIABLE_BITS",
    "Automaton",
    "Paths",
    "Rules",
    "Runs",
    "Steps",
    "first_row_again",
    "nothing_mapped",
    "walk",
]

_match_walk = kernel("match_walk", "iiiwwwIiiwwiiiwiiiIIIIIInnnnnn")

FINAL = 0
"""The state of a match."""
COMPLETE, COMPLETE_AT_END = -1, -2
"""In the place of the variable of an edge, where runs have paths: the match is complete; if no row follows."""
START, TIME, STATE, COUNTS = 0, 1, 2, 3
"""The words of a run."""
NOT_BEGUN = np.iinfo(np.int64).max
EXCLUDED = 1 << 6
"""Added to a variable that stands in an exclusion: the variables are below."""
VARIABLE_BITS = 7
"""Of a step of a path: these low bits are the variable and `EXCLUDED`, those above how many rows in turn are mapped so."""
PAST_LAST_ROW, TO_NEXT_ROW, TO_FIRST, TO_LAST = range(4)
"""Where matching goes on after a match."""
_NO_BEGIN = np.empty(0, np.int64)
_NO_ROOM, _FIRST_ROW_AGAIN, _NOTHING_MAPPED = 1, 2, 3
_DONE, _RUNS_USED, _HELD_USED, _MATCHES_USED, _FAILED = range(5)


@dataclass(frozen=True, slots=True)
class Automaton:
    """Edges in arrays, those of state s from `begin[s]` up to before `begin[s + 1]`.

    `start`: the state in which runs begin, `first`: with the first row of a partition; `target`: the state behind, of a
    PROCEED one with a lower number; `variable`: to which the row is mapped (of runs with paths with `EXCLUDED`), -1 for
    PROCEED; `must`, `must_not`: bits of the variables whose conditions hold and do not hold; `reach`: by state the bits of
    all variables whose conditions its rows may be asked for.
    """

    start: int
    first: int
    begin: np.ndarray
    target: np.ndarray
    variable: np.ndarray
    must: np.ndarray
    must_not: np.ndarray
    reach: np.ndarray

    @property
    def waits(self) -> np.ndarray:
        """By state whether a run in it is complete if no row follows."""
        found = np.zeros(len(self.reach), np.bool_)
        found[np.repeat(np.arange(len(found)), np.diff(self.begin))[self.variable == COMPLETE_AT_END]] = True
        return found


@dataclass(frozen=True, slots=True)
class Rules:
    """`after`: 0 past the last row, 1 to the next row, 2 to the first and 3 to the last row of the variables whose bits are
    in `skip_to`; `within`: the length of no match, milliseconds (0: none); `asked`: bits of the variables whose conditions
    depend on the run; `counted`: a run has the number of rows of each variable."""

    variables: int
    after: int
    skip_to: int
    within: int
    asked: int
    counted: bool = True

    @property
    def width(self) -> int:
        """The words of a run."""
        return COUNTS + self.variables * self.counted


@dataclass(slots=True)
class Steps:
    """The rows of partitions, those of one together: partition p is at row `at[p]` and goes up to before `end[p]`; row r
    has the position `r + shift[p]` in it.

    Bits of the variables by row: `begins`, those whose conditions hold where no run has begun; `alone`, those for which
    what their conditions say of the row alone holds. `times`: milliseconds, ascending within a partition.
    """

    at: np.ndarray
    end: np.ndarray
    shift: np.ndarray
    begins: np.ndarray
    alone: np.ndarray
    times: np.ndarray


@dataclass(frozen=True, slots=True)
class Paths:
    """To what the rows of runs are mapped: the steps of run r from `begin[r]` up to before `begin[r + 1]` of `steps`."""

    begin: np.ndarray
    steps: np.ndarray

    @classmethod
    def none(cls, runs: int) -> Paths:
        """Of runs without rows."""
        return cls(np.zeros(runs + 1, np.int64), np.empty(0, np.int64))

    @classmethod
    def of(cls, lists: list[list[int]]) -> Paths:
        begin = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        return cls(begin, np.array([step for steps in lists for step in steps], np.int64))

    def take(self, runs: np.ndarray) -> Paths:
        """Those of some runs, by number."""
        sizes = np.diff(self.begin)[runs]
        begin = np.zeros(len(runs) + 1, np.int64)
        np.cumsum(sizes, out=begin[1:])
        return Paths(begin, self.steps[expand_ranges(self.begin[:-1][runs], sizes)[1]])

    @staticmethod
    def together(parts: list[Paths]) -> Paths:
        sizes = np.concatenate([np.diff(part.begin) for part in parts])
        begin = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=begin[1:])
        return Paths(begin, np.concatenate([part.steps for part in parts]))

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of all runs, one run after the other: `(run, variable, whether it is excluded)`."""
        counts = self.steps >> VARIABLE_BITS
        run = np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))
        excluded = (self.steps & EXCLUDED) != 0
        return np.repeat(run, counts), np.repeat(self.steps & (EXCLUDED - 1), counts), np.repeat(excluded, counts)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs (n, width) in the order of their heaps, or by preference where they have `paths`; those of partition p from
    `begin[p]` up to before `begin[p + 1]`."""

    begin: np.ndarray
    rows: np.ndarray
    paths: Paths | None = None

    def take(self, runs: np.ndarray) -> Runs:
        """Some, by number, without their partitions."""
        return Runs(_NO_BEGIN, self.rows[runs], None if self.paths is None else self.paths.take(runs))


def walk(
    automaton: Automaton,
    rules: Rules,
    steps: Steps,
    runs: Runs,
    held: Runs,
    answers: np.ndarray,
    answered: np.ndarray,
    now: int,
) -> tuple[Runs, Runs, np.ndarray]:
    """Walks each partition to the end of its rows, or to a row of which a run asks for a condition that depends on it;
    `steps.at` says how far. At the end of its rows, runs go that are too long at the time `now` (milliseconds).

    Args:
        held: matches that wait for runs that began before them.
        answers: for each run the bits of the variables whose conditions hold for the run and the row `at`, uint64; of
            those partitions for which `answered` is 1 (int64).

    Returns:
        Runs and held matches as they are now, and the matches, in the order in which they came: partition, the row by
        which it came, position of its first row, number of rows of each variable.

    Raises:
        ExpressionError: E2017, AFTER MATCH leads to no other row.
    """
    if _match_walk is None:
        return _walk(automaton, rules, steps, runs, held, answers, answered, now)
    width, partitions = rules.width, len(steps.at)
    room = [2 * len(runs.rows) + partitions + 64, len(held.rows) + partitions + 64, len(steps.alone) // 4 + 64]
    new = [np.empty((size, width), np.int64) for size in room]
    begins = [np.zeros(partitions + 1, np.int64) for _ in range(2)]
    status = np.zeros(5, np.int64)
    while True:
        look()
        _match_walk(
            automaton.begin,
            automaton.target,
            automaton.variable,
            automaton.must,
            automaton.must_not,
            automaton.reach,
            steps.at,
            steps.end,
            steps.shift,
            steps.alone,
            steps.begins,
            steps.times,
            runs.begin,
            runs.rows,
            answers,
            answered,
            held.begin,
            held.rows,
            begins[0],
            new[0],
            begins[1],
            new[1],
            new[2],
            status,
            rules.variables,
            rules.asked,
            rules.after,
            rules.skip_to,
            rules.within,
            now,
        )
        _check(int(status[_FAILED]))
        used = status[[_RUNS_USED, _HELD_USED, _MATCHES_USED]].tolist()
        if not status[_FAILED]:
            break
        new = [_larger(old, size) for old, size in zip(new, used, strict=True)]
    found = [old[:size] for old, size in zip(new, used, strict=True)]
    return Runs(begins[0], found[0]), Runs(begins[1], found[1]), found[2]


def _larger(rows: np.ndarray, used: int) -> np.ndarray:
    found = np.empty((2 * len(rows), rows.shape[1]), np.int64)
    found[:used] = rows[:used]
    return found


def _check(failed: int) -> None:
    if failed == _FIRST_ROW_AGAIN:
        first_row_again()
    if failed == _NOTHING_MAPPED:
        nothing_mapped()
    if failed not in (0, _NO_ROOM):
        raise InternalError(f"the walk of a pattern failed ({failed})")


def first_row_again() -> NoReturn:
    """Raise E2017: AFTER MATCH SKIP leads to the first row of the match."""
    raise ExpressionError(
        "AFTER MATCH SKIP leads to the first row of the match, so the same match would be found for ever",
        code="E2017",
        hint="skip to a variable behind the first row, or SKIP TO NEXT ROW",
    )


def nothing_mapped() -> NoReturn:
    """Raise E2017: AFTER MATCH SKIP leads to a variable without rows."""
    raise ExpressionError(
        "AFTER MATCH SKIP leads to a variable to which no row of the match is mapped",
        code="E2017",
        hint="skip to a variable that is not optional",
    )


# --- the twin -------------------------------------------------------------------------------------------------------------

_Run = list[int]
_Heap = list[_Run]


def _walk(
    automaton: Automaton,
    rules: Rules,
    steps: Steps,
    runs: Runs,
    held: Runs,
    answers: np.ndarray,
    answered: np.ndarray,
    now: int,
) -> tuple[Runs, Runs, np.ndarray]:
    """`walk` in Python, row by row."""
    walker = _Walker(automaton, rules)
    reach, asked = automaton.reach.tolist(), rules.asked
    alone, begins, times = steps.alone.tolist(), steps.begins.tolist(), steps.times.tolist()
    new: tuple[list[_Heap], list[_Heap]] = ([], [])
    for p in range(len(steps.at)):
        look()
        walker.runs = runs.rows[runs.begin[p] : runs.begin[p + 1]].tolist()
        walker.held = held.rows[held.begin[p] : held.begin[p + 1]].tolist()
        given = answers[runs.begin[p] : runs.begin[p + 1]].tolist() if answered[p] else None
        row, end, shift = int(steps.at[p]), int(steps.end[p]), int(steps.shift[p])
        while row < end:
            walker.expire(times[row], p, row)
            if given is None and any(
                r[START] != NOT_BEGUN and reach[r[STATE]] & asked & alone[row] for r in walker.runs
            ):
                break
            walker.take_row(row + shift, times[row], begins[row], alone[row], given, p, row)
            given, row = None, row + 1
        if row == end:
            walker.expire(now, p, row - 1)
        steps.at[p] = row
        new[0].append(walker.runs)
        new[1].append(walker.held)
    both = [_runs_of(heaps, rules.width) for heaps in new]
    return both[0], both[1], np.array(walker.matches, np.int64).reshape(-1, rules.width)


def _runs_of(heaps: list[_Heap], width: int) -> Runs:
    begin = np.cumsum([0, *(len(heap) for heap in heaps)], dtype=np.int64)
    return Runs(begin, np.array([run for heap in heaps for run in heap], np.int64).reshape(-1, width))


class _Walker:
    """The runs and held matches of one partition at a time, and the matches of all."""

    def __init__(self, automaton: Automaton, rules: Rules) -> None:
        edges = list(
            zip(
                automaton.target.tolist(),
                automaton.variable.tolist(),
                automaton.must.tolist(),
                automaton.must_not.tolist(),
                strict=True,
            )
        )
        begin = automaton.begin.tolist()
        self._edges = [edges[begin[s] : begin[s + 1]] for s in range(len(begin) - 1)]
        self._rules = rules
        self.runs: _Heap = []
        self.held: _Heap = []
        self.matches: list[list[int]] = []

    def expire(self, now: int, partition: int, row: int) -> None:
        """Takes out the runs that are too long at a time."""
        within = self._rules.within
        kept = [r for r in self.runs if within <= 0 or r[START] == NOT_BEGUN or now < r[TIME] + within]
        if len(kept) < len(self.runs):
            self.runs = []
            for run in kept:
                _add(self.runs, run)
            self._settle(partition, row)

    def take_row(
        self, position: int, time: int, begins: int, alone: int, answers: list[int] | None, partition: int, row: int
    ) -> None:
        asked = self._rules.asked
        runs, found = [], []
        for number, run in enumerate(self.runs):
            first = run[START] == NOT_BEGUN
            truth = begins if first else alone & (~asked | (answers[number] if answers is not None else 0))
            for target, variable in self._takes(run[STATE], truth):
                taken = [position, time, target, *run[COUNTS:]] if first else [*run[:STATE], target, *run[COUNTS:]]
                taken[COUNTS + variable] += 1
                _add(found if target == FINAL else runs, taken)
                if self._may_end(target, truth):
                    _add(found, taken)
            if first:
                _add(runs, run)
        for match in found:
            _add(self.held, match)
        self.runs = runs
        self._settle(partition, row)

    def _takes(self, state: int, truth: int) -> list[tuple[int, int]]:
        """Where the row can be mapped to: next state and variable."""
        found: list[tuple[int, int]] = []
        waiting = [state]
        while waiting:
            for target, variable, must, must_not in self._edges[waiting.pop()]:
                if truth & must == must and not truth & must_not:
                    if variable < 0:
                        waiting.append(target)
                    else:
                        found.append((target, variable))
        return found

    def _may_end(self, state: int, truth: int) -> bool:
        """Whether what is left of the pattern may be left out."""
        waiting = [state]
        while waiting:
            for target, variable, must, must_not in self._edges[waiting.pop()]:
                if variable < 0 and truth & must == must and not truth & must_not:
                    if target == FINAL:
                        return True
                    waiting.append(target)
        return False

    def _settle(self, partition: int, row: int) -> None:
        """Gives the matches before which no run may still become one."""
        rules = self._rules
        while self.held and (not self.runs or self.held[0][START] <= self.runs[0][START]):
            match = _take_first(self.held)
            counts = match[COUNTS:]
            bound = match[START]
            if rules.after == PAST_LAST_ROW:
                bound += sum(counts)
            elif rules.after == TO_NEXT_ROW:
                bound += 1
            else:
                mapped = [v for v, count in enumerate(counts) if rules.skip_to >> v & 1 and count]
                if not mapped:
                    _check(_NOTHING_MAPPED)
                to = mapped[0 if rules.after == TO_FIRST else -1]
                bound += sum(counts[:to])
                bound += 0 if rules.after == TO_FIRST else counts[to] - 1
                if bound == match[START]:
                    _check(_FIRST_ROW_AGAIN)
            self.runs, self.held = _pruned(self.runs, bound), _pruned(self.held, bound)
            self.matches.append([partition, row, match[START], *counts])


def _add(heap: _Heap, run: _Run) -> None:
    heap.append(run)
    k = len(heap) - 1
    while k > 0:
        parent = (k - 1) >> 1
        if run[START] >= heap[parent][START]:
            break
        heap[k] = heap[parent]
        k = parent
    heap[k] = run


def _sift_down(heap: _Heap, k: int, run: _Run) -> None:
    while k < len(heap) >> 1:
        child = 2 * k + 1
        if child + 1 < len(heap) and heap[child][START] > heap[child + 1][START]:
            child += 1
        if run[START] <= heap[child][START]:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = run


def _take_first(heap: _Heap) -> _Run:
    first, last = heap[0], heap.pop()
    if heap:
        _sift_down(heap, 0, last)
    return first


def _pruned(heap: _Heap, bound: int) -> _Heap:
    """Without the runs that began before `bound`."""
    kept = [run for run in heap if run[START] >= bound]
    if len(kept) < len(heap):
        for k in reversed(range(len(kept) >> 1)):
            _sift_down(kept, k, kept[k])
    return kept
