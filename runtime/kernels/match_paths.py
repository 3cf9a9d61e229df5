"""The walk of a pattern with the meaning of the SQL standard over the rows of partitions, row by row, in C and in Python.

It goes row by row, because what a row may be mapped to depends on the rows before it. The standard says which match a row
begins: the first that a search with backtracking finds, which takes the edges of each state in their order. A stream cannot
go back, so all runs of a search go on at once, in the order in which it would try them (the threads of Pike's machine). A
run that is complete ends those behind it; it is the match when no run is left before it.

Runs of a partition stand by their first rows, then by preference. A run that is complete stands in the state `FINAL`, as
the last of those that began with its row. The last of all is the run that has not begun. Two runs in one state with one
path have one future, and without conditions that depend on the run so have all runs in one state: the first stays.

A run that is complete if no row follows (`$`) waits until one does or the rows are at their end, however long it is.
"""

from __future__ import annotations

import numpy as np

from runtime.core.cancellation import look
from runtime.core.clock import MAX_WATERMARK
from runtime.core.errors import ExpressionError, InternalError
from runtime.kernels.match_walk import (
    COMPLETE,
    COMPLETE_AT_END,
    COUNTS,
    EXCLUDED,
    FINAL,
    NOT_BEGUN,
    PAST_LAST_ROW,
    START,
    STATE,
    TIME,
    TO_FIRST,
    TO_NEXT_ROW,
    VARIABLE_BITS,
    Automaton,
    Paths,
    Rules,
    Runs,
    Steps,
    first_row_again,
    nothing_mapped,
)
from runtime.kernels.native import kernel

__all__ = ["walk_paths"]

_match_paths = kernel("match_paths", "iiiwIiiwwiiiiiwiIIIIIIIInnnnnn")

_MAPPED = (1 << VARIABLE_BITS) - 1
_ONE = 1 << VARIABLE_BITS
_MOST_RUNS = 10_000


def walk_paths(
    automaton: Automaton,
    rules: Rules,
    steps: Steps,
    runs: Runs,
    answers: np.ndarray,
    answered: np.ndarray,
    now: int,
) -> tuple[Runs, np.ndarray, Paths]:
    """Walks each partition to the end of its rows, or to a row of which a run asks for a condition that depends on it;
    `steps.at` says how far. At the end of its rows, runs go that are too long at the time `now` (milliseconds), and all of
    them where no more rows come.

    Args:
        automaton: the edges of a state by preference; one to `FINAL`, without a variable, is the last, but where it asks
            for the end.
        answers: for each run the bits of the variables whose conditions hold for the run and the row `at`, uint64; of
            those partitions for which `answered` is 1 (int64).

    Returns:
        Runs as they are now, and the matches, in the order in which they came: partition, the row by which
        it came, position of its first row; and their paths.

    Raises:
        ExpressionError: E2017, AFTER MATCH leads to no other row; E2021, a row begins too many runs.
    """
    if _match_paths is None:
        return _walk(automaton, rules, steps, runs, answers, answered, now)
    assert runs.paths is not None
    room = _Room(len(runs.rows) + len(steps.at) + 64, len(steps.alone) // 4 + 64, len(runs.paths.steps))
    begin = np.zeros(len(steps.at) + 1, np.int64)
    status = np.zeros(6, np.int64)
    while True:
        look()
        _match_paths(
            automaton.begin,
            automaton.target,
            automaton.variable,
            automaton.reach,
            steps.at,
            steps.end,
            steps.shift,
            steps.alone,
            steps.begins,
            steps.times,
            runs.begin,
            runs.rows,
            runs.paths.begin,
            runs.paths.steps,
            answers,
            answered,
            begin,
            *room.arrays,
            status,
            automaton.start,
            rules.asked,
            rules.after,
            rules.skip_to,
            rules.within,
            now,
        )
        used = status.tolist()
        failed = used.pop()
        if failed:
            _raise(failed)
            room.grow(used[1:])
            continue
        made, paths, matches, match_paths = room.found(used[1:])
        return Runs(begin, made, paths), matches, match_paths


_NO_ROOM, _FIRST_ROW_AGAIN, _NOTHING_MAPPED, _TOO_MANY = 1, 2, 3, 4


def _raise(failed: int) -> None:
    if failed == _FIRST_ROW_AGAIN:
        first_row_again()
    if failed == _NOTHING_MAPPED:
        nothing_mapped()
    if failed == _TOO_MANY:
        _too_many()
    if failed != _NO_ROOM:
        raise InternalError(f"the walk of a pattern failed ({failed})")


class _Room:
    """Where the kernel writes runs and matches, each with its words, where its path ends, and the steps of all paths.

    Args:
        runs, matches: for how many.
        steps: of paths that are there.
    """

    def __init__(self, runs: int, matches: int, steps: int) -> None:
        self.arrays = [
            array for rows, more in ((runs, steps), (matches, 0)) for array in _arrays(rows, 2 * rows + more)
        ]

    def found(self, used: list[int]) -> tuple[np.ndarray, Paths, np.ndarray, Paths]:
        """Runs and matches with their paths: `used` are the numbers of runs, of their steps, of matches and of theirs."""
        rows, steps, matches, match_steps = used
        made = self.arrays
        return (
            made[0][:rows],
            Paths(made[1][: rows + 1], made[2][:steps]),
            made[3][:matches],
            Paths(made[4][: matches + 1], made[5][:match_steps]),
        )

    def grow(self, used: list[int]) -> None:
        """Twice as much."""
        old = self.arrays
        sizes = [used[0], used[0] + 1, used[1], used[2], used[2] + 1, used[3]]
        self.arrays = [a for i in (0, 3) for a in _arrays(2 * len(old[i]), 2 * len(old[i + 2]))]
        for array, before, size in zip(self.arrays, old, sizes, strict=True):
            array[:size] = before[:size]


def _arrays(rows: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty((rows, COUNTS), np.int64), np.zeros(rows + 1, np.int64), np.empty(steps, np.int64)


# --- the twin -------------------------------------------------------------------------------------------------------------


def _walk(
    automaton: Automaton,
    rules: Rules,
    steps: Steps,
    runs: Runs,
    answers: np.ndarray,
    answered: np.ndarray,
    now: int,
) -> tuple[Runs, np.ndarray, Paths]:
    """`walk_paths` in Python, row by row."""
    walker = _Walker(automaton, rules)
    reach, asked = automaton.reach.tolist(), rules.asked
    alone, begins, times = steps.alone.tolist(), steps.begins.tolist(), steps.times.tolist()
    assert runs.paths is not None
    ends, given_paths = runs.paths.begin.tolist(), runs.paths.steps.tolist()
    sizes: list[int] = []
    kept: list[list[int]] = []
    kept_paths: list[list[int]] = []
    for p in range(len(steps.at)):
        look()
        first, last = int(runs.begin[p]), int(runs.begin[p + 1])
        walker.begin_partition(
            runs.rows[first:last].tolist(), [given_paths[ends[r] : ends[r + 1]] for r in range(first, last)]
        )
        given = answers[first:last].tolist() if answered[p] else None
        row, end, shift = int(steps.at[p]), int(steps.end[p]), int(steps.shift[p])
        while row < end:
            walker.expire(times[row], p, row, over=False)
            if given is None and any(
                r[START] != NOT_BEGUN and reach[r[STATE]] & asked & alone[row] for r in walker.runs
            ):
                break
            walker.take_row(row + shift, times[row], begins[row], alone[row], given, p, row)
            given, row = None, row + 1
        if row == end:
            walker.expire(now, p, row - 1, over=True)
        steps.at[p] = row
        sizes.append(len(walker.runs))
        kept += [run[:COUNTS] for run in walker.runs]
        kept_paths += [walker.path(run) for run in walker.runs]
    return (
        Runs(
            np.cumsum([0, *sizes], dtype=np.int64),
            np.array(kept, np.int64).reshape(-1, COUNTS),
            Paths.of(kept_paths),
        ),
        np.array(walker.matches, np.int64).reshape(-1, 3),
        Paths.of(walker.match_paths),
    )


_BEFORE, _LAST = COUNTS, COUNTS + 1
"""Words of a run while it walks: the node of the steps before its last one (-1: none), and its last step (0: none)."""
_Run = list[int]


class _Walker:
    """The runs of one partition at a time, and the matches of all. Runs share the steps that they have in common: a node is
    a step with the node of those before it, and is there once."""

    def __init__(self, automaton: Automaton, rules: Rules) -> None:
        edges = list(zip(automaton.target.tolist(), automaton.variable.tolist(), strict=True))
        begin = automaton.begin.tolist()
        every = [edges[begin[s] : begin[s + 1]] for s in range(len(begin) - 1)]
        self._edges = [[(target, variable) for target, variable in of if variable >= 0] for of in every]
        self._ends = [any(variable == COMPLETE for _, variable in of) for of in every]
        self._ends_at_end = [any(variable == COMPLETE_AT_END for _, variable in of) for of in every]
        self._start = automaton.start
        self._rules = rules
        self.runs: list[_Run] = []
        self.matches: list[list[int]] = []
        self.match_paths: list[list[int]] = []
        self._nodes: list[tuple[int, int]] = []
        self._node_of: dict[tuple[int, int], int] = {}

    def begin_partition(self, runs: list[_Run], paths: list[list[int]]) -> None:
        self._nodes, self._node_of = [], {}
        self.runs = []
        for run, path in zip(runs, paths, strict=True):
            before = -1
            for step in path[:-1]:
                before = self._node(before, step)
            self.runs.append([*run, before, path[-1] if path else 0])

    def _node(self, before: int, step: int) -> int:
        key = (before, step)
        found = self._node_of.get(key)
        if found is None:
            found = self._node_of[key] = len(self._nodes)
            self._nodes.append(key)
        return found

    def path(self, run: _Run) -> list[int]:
        """The steps of a run."""
        found = [run[_LAST]] if run[_LAST] else []
        before = run[_BEFORE]
        while before >= 0:
            before, step = self._nodes[before]
            found.append(step)
        return found[::-1]

    def expire(self, now: int, partition: int, row: int, *, over: bool) -> None:
        """Takes out the runs that are too long at a time. `over`: behind the rows there are, where a run waits for what may
        be the end; at the end it is complete."""
        within = self._rules.within
        end = over and now == MAX_WATERMARK
        kept: list[_Run] = []
        changed = ended = False
        of_start = -1
        for run in self.runs:
            ended = ended and run[START] == of_start
            of_start = run[START]
            if run[START] != NOT_BEGUN and (run[STATE] != FINAL or ended):
                waits = over and self._ends_at_end[run[STATE]]
                if end and waits and not ended:
                    ended = changed = True
                    run = [*run[:STATE], FINAL, *run[COUNTS:]]
                elif end or (within > 0 and not waits and now >= run[TIME] + within):
                    changed = True
                    continue
            kept.append(run)
        self.runs = kept
        if changed:
            self._settle(partition, row)

    def take_row(
        self, position: int, time: int, begins: int, alone: int, answers: list[int] | None, partition: int, row: int
    ) -> None:
        asked = self._rules.asked
        new: list[_Run] = []
        began, complete, of_start = -1, False, 0
        seen: set[tuple[int, ...]] = set()
        for number, run in enumerate(self.runs):
            first = run[START] == NOT_BEGUN
            if run[START] != began:
                began, complete, of_start = run[START], False, len(new)
                seen.clear()
            if complete:
                continue
            if run[STATE] == FINAL:
                new.append(run)
                continue
            truth = begins if first else alone & (~asked | (answers[number] if answers is not None else 0))
            for target, variable in self._edges[run[STATE]]:
                if not truth >> (variable & (EXCLUDED - 1)) & 1:
                    continue
                taken = self._taken(run, position, time, target, variable)
                key = (target, taken[_BEFORE], taken[_LAST]) if asked else (target,)
                if key in seen:
                    continue
                seen.add(key)
                if self._edges[target] or self._ends_at_end[target]:
                    new.append(taken)
                if self._ends[target]:
                    new.append([*taken[:STATE], FINAL, *taken[COUNTS:]])
                    complete = True
                    break
            if first:
                if self._ends[run[STATE]] and not complete:
                    new.append([position, time, FINAL, -1, 0])
                new.append([*run[:STATE], self._start, *run[COUNTS:]])
            if len(new) - of_start > _MOST_RUNS:
                _too_many()
        self.runs = new
        self._settle(partition, row)

    def _taken(self, run: _Run, position: int, time: int, target: int, variable: int) -> _Run:
        """The run with one more row."""
        before, last = run[_BEFORE], run[_LAST]
        if last and last & _MAPPED == variable:
            last += _ONE
        else:
            before, last = self._node(before, last) if last else -1, _ONE | variable
        if run[START] == NOT_BEGUN:
            return [position, time, target, before, last]
        return [run[START], run[TIME], target, before, last]

    def _settle(self, partition: int, row: int) -> None:
        """Gives the matches before which no run may still become one."""
        while self.runs[0][STATE] == FINAL:
            match = self.runs[0]
            path = self.path(match)
            self.matches.append([partition, row, match[START]])
            self.match_paths.append(path)
            self._begin_at(match[START] + self._rows_on(path))
        if self._rules.after == PAST_LAST_ROW:
            self._give_up_covered()

    def _give_up_covered(self) -> None:
        """Rows of a match begin no other one. Which match the first row begins may be open; that it begins one, and how many
        rows it has at least, is known by the run that is complete."""
        first = self.runs[0][START]
        for number, run in enumerate(self.runs):
            if run[START] != first:
                return
            if run[STATE] == FINAL:
                bound = first + self._rows_on(self.path(run))
                before = number + 1
                self.runs[before:] = [r for r in self.runs[before:] if r[START] >= bound]
                return

    def _begin_at(self, bound: int) -> None:
        self.runs = [run for run in self.runs if run[START] >= bound]

    def _rows_on(self, path: list[int]) -> int:
        """How many rows behind its first one matching goes on. Behind a match without rows it is the next row."""
        rules = self._rules
        if not path or rules.after == TO_NEXT_ROW:
            return 1
        rows, first, last = 0, -1, -1
        for step in path:
            count = step >> VARIABLE_BITS
            if rules.skip_to >> (step & (EXCLUDED - 1)) & 1:
                first = rows if first < 0 else first
                last = rows + count - 1
            rows += count
        if rules.after == PAST_LAST_ROW:
            return rows
        to = first if rules.after == TO_FIRST else last
        if to < 0:
            nothing_mapped()
        if to == 0:
            first_row_again()
        return to


def _too_many() -> None:
    raise ExpressionError(
        f"a row begins more than {_MOST_RUNS:,} runs of PATTERN",
        code="E2021",
        hint="let conditions in DEFINE exclude one another, or give PATTERN a length: WITHIN INTERVAL '1' HOUR",
    )
