"""The automaton of a pattern with alternatives and groups: what the SQL standard tries first stands first.

A state is a place of a variable in the pattern, with its repetitions written out: that whose row was mapped last. Its edges
lead to the places that may take the next row, in the order in which a search with backtracking tries them; an edge to
`FINAL`, without a variable, says that the match is complete. What would be tried behind that is never the match.

A repetition that may be left out maps at least one row, so `(A*)*` comes to an end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from runtime.kernels.match_walk import EXCLUDED, FINAL, Automaton
from runtime.plan.pattern import Pattern, PatternPart

__all__ = ["thread_automaton"]


@dataclass(slots=True)
class _Point:
    """A point of a search. With a `variable` (and `EXCLUDED`) it maps a row; else it goes on to the points `to`, by preference. One that
    `opens` a repetition is behind it only by a row, which the one that `closes` it asks for. The end has neither."""

    to: list[_Point] = field(default_factory=list)
    variable: int = -1
    state: int = FINAL
    opens: int = 0
    closes: int = 0


def thread_automaton(pattern: Pattern) -> Automaton:
    """The automaton of a pattern with a shape. Its last state is that in which runs begin."""
    assert pattern.shape is not None
    made = _Points()
    start = _Point([made.of(pattern.shape, _Point())])
    edges = [[], *(_edges(point.to[0]) for point in made.places), _edges(start.to[0])]
    flat = [edge for of in edges for edge in of]
    bits = [sum(1 << v for v in {v & (EXCLUDED - 1) for _, v in of if v >= 0}) for of in edges]
    return Automaton(
        len(edges) - 1,
        np.cumsum([0, *map(len, edges)], dtype=np.int64),
        np.array([target for target, _ in flat], np.int64),
        np.array([variable for _, variable in flat], np.int64),
        np.array([0 if v < 0 else 1 << (v & (EXCLUDED - 1)) for _, v in flat], np.uint64),
        np.zeros(len(flat), np.uint64),
        np.array(bits, np.uint64),
    )


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
        if part.either:
            return _Point([self.of(inner, behind) for inner in part.parts])
        for inner in reversed(part.parts):
            behind = self.of(inner, behind)
        return behind


def _edges(first: _Point) -> list[tuple[int, int]]:
    """The states behind a point, with their variables."""
    found: dict[int, int] = {}
    none: frozenset[int] = frozenset()
    seen: set[tuple[int, frozenset[int]]] = set()
    waiting = [(first, none)]
    while waiting:
        point, opened = waiting.pop()
        if (id(point), opened) in seen or point.closes in opened:
            continue
        seen.add((id(point), opened))
        if point.variable >= 0:
            found.setdefault(point.state, point.variable)
        elif not point.to:
            return [*found.items(), (FINAL, -1)]
        else:
            inside = opened | {point.opens} if point.opens else opened
            waiting += [(to, inside) for to in reversed(point.to)]
    return list(found.items())
