"""A naive model of MATCH_RECOGNIZE with Flink's meaning: runs as lists of (variable, row), over the whole sorted partition.

It takes its steps from the pattern and knows no automaton: a run has so many rows of a variable, and takes one more, or
goes on to the next variable, or over those that are optional. Behind a greedy variable nothing is taken, and nothing passed
over, by a row that the greedy one could take. Runs and matches stand in Java's PriorityQueue, as Flink has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

Row = tuple[int, int, int | None]
"""Time, number of arrival, value."""
Mapped = list[tuple[int, Row]]
Condition = Callable[[Mapped, Row], bool]


@dataclass
class Variable:
    name: str
    least: int
    most: int | None
    greedy: bool
    holds: Condition
    """Of the rows that are mapped so far and the row that is tested."""

    @property
    def takes_all(self) -> bool:
        return self.greedy and self.least != self.most and (self.least, self.most) != (0, 1)


@dataclass
class Run:
    mapped: Mapped = field(default_factory=list)
    at: tuple[int, int] = (0, 0)
    """The variable, and how many rows of it."""

    @property
    def key(self) -> tuple[int, int]:
        return self.mapped[0][1][:2] if self.mapped else (1 << 62, 0)


class JavaQueue:
    """java.util.PriorityQueue, in the order of its array."""

    def __init__(self) -> None:
        self.array: list[Run] = []

    def add(self, run: Run) -> None:
        self.array.append(run)
        at = len(self.array) - 1
        while at and run.key < self.array[(at - 1) // 2].key:
            self.array[at], self.array[(at - 1) // 2] = self.array[(at - 1) // 2], self.array[at]
            at = (at - 1) // 2

    def sink(self, at: int) -> None:
        while 2 * at + 1 < len(self.array):
            child = 2 * at + 1
            if child + 1 < len(self.array) and self.array[child + 1].key < self.array[child].key:
                child += 1
            if self.array[at].key <= self.array[child].key:
                return
            self.array[at], self.array[child] = self.array[child], self.array[at]
            at = child

    def poll(self) -> Run:
        first, last = self.array[0], self.array.pop()
        if self.array:
            self.array[0] = last
            self.sink(0)
        return first

    def keep(self, kept: Callable[[Run], bool]) -> None:
        left = [run for run in self.array if kept(run)]
        if len(left) < len(self.array):
            self.array = left
            for at in reversed(range(len(left) // 2)):
                self.sink(at)


class Model:
    """One partition. `skip`: "past", "next", or ("first" or "last", variables)."""

    def __init__(self, variables: Sequence[Variable], skip: str | tuple[str, frozenset[int]], within: int) -> None:
        self.variables = variables
        self.skip = skip
        self.within = within
        self.runs = JavaQueue()
        self.runs.add(Run())
        self.held = JavaQueue()
        self.matches: list[Mapped] = []

    def take(self, row: Row) -> None:
        self.advance(row[0])
        runs, found = JavaQueue(), JavaQueue()
        for run in self.runs.array:
            for variable, count in self._steps(run, row):
                taken = Run([*run.mapped, (variable, row)], (variable, count))
                complete = self._is_full(taken.at) and variable == len(self.variables) - 1
                if not complete:
                    runs.add(taken)
                if complete or self._may_end(run, taken, row):
                    found.add(taken)
            if not run.mapped:
                runs.add(run)
        for match in found.array:
            self.held.add(match)
        self.runs = runs
        self._settle()

    def advance(self, now: int) -> None:
        """Gives up the runs that are too long."""
        if self.within and any(run.mapped and now - run.key[0] >= self.within for run in self.runs.array):
            old, self.runs = self.runs, JavaQueue()
            for run in old.array:
                if not run.mapped or now - run.key[0] < self.within:
                    self.runs.add(run)
            self._settle()

    def _is_full(self, at: tuple[int, int]) -> bool:
        return self.variables[at[0]].most == at[1]

    def _steps(self, run: Run, row: Row) -> Iterator[tuple[int, int]]:
        """The variables that take the row, with their numbers of rows then."""
        variable, count = run.at
        if not self._is_full(run.at):
            if self.variables[variable].holds(run.mapped, row):
                yield variable, count + 1
            if count < self.variables[variable].least:
                return
        while variable + 1 < len(self.variables):
            if self.variables[variable].takes_all and self.variables[variable].holds(run.mapped, row):
                return
            variable += 1
            if self.variables[variable].holds(run.mapped, row):
                yield variable, 1
            if self.variables[variable].least:
                return

    def _may_end(self, run: Run, taken: Run, row: Row) -> bool:
        """Whether all that is left may be left out; the row that was taken decides what greedy variables could take."""
        variable, count = taken.at
        if count < self.variables[variable].least:
            return False
        for after in range(variable + 1, len(self.variables)):
            before = self.variables[after - 1]
            if self.variables[after].least or (before.takes_all and before.holds(run.mapped, row)):
                return False
        return True

    def _settle(self) -> None:
        while self.held.array and self.held.array[0].key <= self.runs.array[0].key:
            match = self.held.poll()
            rows = [row[:2] for _, row in match.mapped]
            if self.skip == "past":
                bound = (rows[-1][0], rows[-1][1] + 1)
            elif self.skip == "next":
                bound = (rows[0][0], rows[0][1] + 1)
            else:
                mine = [row[:2] for v, row in match.mapped if v in self.skip[1]]
                bound = mine[0 if self.skip[0] == "first" else -1]
            self.runs.keep(lambda run, bound=bound: run.key >= bound)
            self.held.keep(lambda run, bound=bound: run.key >= bound)
            self.matches.append(match.mapped)
