"""The automaton of a pattern with alternatives and groups: what the SQL standard tries first stands first.

A state is a place of a variable in the pattern, with its repetitions written out: that whose row was mapped last. Its edges
lead to the places that may take the next row, in the order in which a search with backtracking tries them; an edge to
`FINAL`, without a variable, says that the match is complete. What would be tried behind that is never the match. Behind `$`
the match is complete if no row follows. `^` is passed only by runs that begin with the first row: they have a state to
begin in of their own.

A repetition that may be left out maps at least one row, so `(A*)*` comes to an end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from runtime.kernels.match_walk import COMPLETE, COMPLETE_AT_END, EXCLUDED, FINAL, Automaton
from runtime.plan.pattern import Anchor, Pattern, PatternPart

__all__ = ["thread_automaton"]


@dataclass(slots=True)
class _Point:
    """A point of a search. With a `variable` (and `EXCLUDED`) it maps a row; else it goes on to the points `to`, by preference. One that
    `opens` a repetition is behind it only by a row, which the one that `closes` it asks for. An `anchor` is passed at the
    start or the end of a partition only. The end has none of them."""

    to: list[_Point] = field(default_factory=list)
    variable: int = -1
    state: int = FINAL
    opens: int = 0
    closes: int = 0
    anchor: Anchor | None = None


def thread_automaton(pattern: Pattern) -> Automaton:
    """The automaton of a pattern with a shape. Its last states are those in which runs begin: anywhere, and with the first
    row of a partition."""
    assert pattern.shape is not None
    made = _Points()
    start = made.of(pattern.shape, _Point())
    edges = [
        [],
        *(_edges(point.to[0]) for point in made.places),
        _begins(start, first=False),
        _begins(start, first=True),
    ]
    flat = [edge for of in edges for edge in of]
    bits = [sum(1 << v for v in {v & (EXCLUDED - 1) for _, v in of if v >= 0}) for of in edges]
    return Automaton(
        len(edges) - 2,
        len(edges) - 1,
        np.cumsum([0, *map(len, edges)], dtype=np.int64),
        np.array([target for target, _ in flat], np.int64),
        np.array([variable for _, variable in flat], np.int64),
        np.array([0 if v < 0 else 1 << (v & (EXCLUDED - 1)) for _, v in flat], np.uint64),
        np.zeros(len(flat), np.uint64),
        np.array(bits, np.uint64),
    )


def _begins(start: _Point, *, first: bool) -> list[tuple[int, int]]:
    """The edges of runs that begin. A match begins with a row, so without one it is not at the end."""
    return [edge for edge in _edges(start, first=first) if edge[1] != COMPLETE_AT_END]


class _Points:
    """Points made of parts. `places`: those that map a row, by state, of which the first is 1."""

    def __init__(self) -> None:
        self.places: list[_Point] = []
        self._repetitions = 0
        self._exclusions = 0

    def of(self, part: PatternPart, behind: _Point) -> _Point:
        """The first point of a part; `behind` follows it."""
        self._exclusions += part.excluded
        found = self._repeated(part, behind)
        self._exclusions -= part.excluded
        return found

    def _repeated(self, part: PatternPart, behind: _Point) -> _Point:
        found = behind
        if part.most is None:
            found = _Point()
            self._may_repeat(part, found, behind, found)
        else:
            for _ in range(part.most - part.least):
                optional = _Point()
                self._may_repeat(part, optional, behind, found)
                found = optional
        for _ in range(part.least):
            found = self._once(part, found)
        return found

    def _may_repeat(self, part: PatternPart, choice: _Point, out: _Point, again: _Point) -> None:
        self._repetitions += 1
        number = self._repetitions
        closing = _Point([again], closes=number)
        opening = _Point([self._once(part, closing)], opens=number)
        choice.to = [opening, out] if part.greedy else [out, opening]

    def _once(self, part: PatternPart, behind: _Point) -> _Point:
        if part.variable >= 0:
            mapped = part.variable | (EXCLUDED if self._exclusions else 0)
            place = _Point([behind], mapped, len(self.places) + 1)
            self.places.append(place)
            return place
        if part.anchor is not None:
            return _Point([behind], anchor=part.anchor)
        if part.either:
            return _Point([self.of(inner, behind) for inner in part.parts])
        for inner in reversed(part.parts):
            behind = self.of(inner, behind)
        return behind


def _edges(begin: _Point, *, first: bool = False) -> list[tuple[int, int]]:
    """The states behind a point, with their variables; `first`: no row of the partition is before it."""
    found: dict[int, int] = {}
    none: frozenset[int] = frozenset()
    seen: set[tuple[int, frozenset[int], bool]] = set()
    waiting = [(begin, none, False)]
    while waiting:
        point, opened, ended = waiting.pop()
        if (id(point), opened, ended) in seen or point.closes in opened:
            continue
        seen.add((id(point), opened, ended))
        if point.variable >= 0:
            # No row is behind the end.
            if not ended:
                found.setdefault(point.state, point.variable)
        elif not point.to:
            if not ended:
                return [*found.items(), (FINAL, COMPLETE)]
            found.setdefault(FINAL, COMPLETE_AT_END)
        elif point.anchor is not Anchor.START or first:
            inside = opened | {point.opens} if point.opens else opened
            ended = ended or point.anchor is Anchor.END
            waiting += [(to, inside, ended) for to in reversed(point.to)]
    return list(found.items())
