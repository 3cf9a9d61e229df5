"""A naive model of MATCH_RECOGNIZE with the meaning of the SQL standard: a search with backtracking over the whole sorted
partition.

From each row on where matching begins it tries the ways through the pattern in the standard's order, each to its end, and
takes the first that comes to the end of the pattern. It knows no automaton and no state. A way that lacks rows, or asks for
the end of the partition (`$`), is not known to fail while the watermark may still bring rows, so then the search is open, and
so is all that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.unit.operators.match_model import Condition, Mapped, Row

ENDED = 1 << 60


class Excluded(int):
    """A variable within an exclusion."""


@dataclass(frozen=True)
class Part:
    """A variable, an anchor, or parts one after the other or as alternatives, with its quantifier. The variables of one that is
    excluded are `Excluded`."""

    variable: int = -1
    parts: tuple[Part, ...] = ()
    either: bool = False
    least: int = 1
    most: int | None = 1
    greedy: bool = True
    excluded: bool = False
    anchor: str = ""

    def text(self, names: str) -> str:
        if self.anchor:
            return self.anchor
        inner = names[self.variable] if self.variable >= 0 else ""
        if self.variable < 0:
            inner = f"({(' | ' if self.either else ' ').join(part.text(names) for part in self.parts)})"
        if self.excluded:
            inner = f"{{- {inner} -}}"
        if (self.least, self.most) == (1, 1):
            return inner
        return f"{inner}{{{self.least},{'' if self.most is None else self.most}}}" + ("" if self.greedy else "?")


class Open(Exception):
    """What the search finds depends on rows that may still come."""


Behind = Callable[[Mapped], Iterator[Mapped]]


class Search:
    """One partition: all rows that the watermark has passed; where it is `ENDED`, no more come.

    `skip`: "past", "next", or ("first" or "last", variables)."""

    def __init__(
        self,
        part: Part,
        conditions: Sequence[Condition],
        rows: list[Row],
        skip: str | tuple[str, frozenset[int]],
        within: int,
        watermark: int,
    ) -> None:
        self.part = part
        self.conditions = conditions
        self.rows = rows
        self.skip = skip
        self.within = within
        self.watermark = watermark
        self.begin = len(rows)
        # Whether no row comes, and how many $ the way at hand has passed.
        self.ended = False
        self.ends = 0

    def matches(self) -> list[tuple[int, Mapped]]:
        """The places where matches begin, with the matches, up to the first that is open, which `begin` is then. Raises
        LookupError where matching would go on nowhere."""
        found: list[tuple[int, Mapped]] = []
        start = 0
        while start < len(self.rows):
            try:
                match = self._first(start)
            except Open:
                self.begin = start
                return found
            if match is None:
                start += 1
                continue
            found.append((start, match))
            start += self._rows_on(match)
        return found

    def unmatched(self) -> list[Row]:
        """The rows that are in no match, nor will be."""
        matched: set[int] = set()
        for start, match in self.matches():
            matched.update(range(start, start + max(len(match), 1)))
        return [row for place, row in enumerate(self.rows[: self.begin]) if place not in matched]

    def _first(self, start: int) -> Mapped | None:
        """The first way. While rows may still come, there are two worlds: in one a row does, in the other none."""
        self.ended, self.ends = True, 0
        at_end = next(self._ways(self.part, start, [], lambda mapped: iter((mapped,))), None)
        if self.watermark >= ENDED:
            return at_end
        if at_end is not None and self.ends:
            raise Open
        self.ended = False
        return next(self._ways(self.part, start, [], lambda mapped: iter((mapped,))), None)

    def _rows_on(self, match: Mapped) -> int:
        if not match or self.skip == "next":
            return 1
        if self.skip == "past":
            return len(match)
        mine = [i for i, (v, _) in enumerate(match) if v in self.skip[1]]
        if not mine or not mine[0 if self.skip[0] == "first" else -1]:
            raise LookupError
        return mine[0 if self.skip[0] == "first" else -1]

    def _ways(self, part: Part, start: int, mapped: Mapped, behind: Behind) -> Iterator[Mapped]:
        return self._times(part, 0, start, mapped, behind)

    def _times(self, part: Part, count: int, start: int, mapped: Mapped, behind: Behind) -> Iterator[Mapped]:
        """The ways on from a part that was repeated so often."""

        def again(inner: Mapped) -> Iterator[Mapped]:
            # A repetition that is not needed maps a row at least.
            if count < part.least or len(inner) > len(mapped):
                yield from self._times(part, count + 1, start, inner, behind)

        if count < part.least:
            yield from self._once(part, start, mapped, again)
            return
        may = part.most is None or count < part.most
        if may and part.greedy:
            yield from self._once(part, start, mapped, again)
        yield from behind(mapped)
        if may and not part.greedy:
            yield from self._once(part, start, mapped, again)

    def _once(self, part: Part, start: int, mapped: Mapped, behind: Behind) -> Iterator[Mapped]:
        if part.anchor == "^":
            if not start and not mapped:
                yield from behind(mapped)
        elif part.anchor == "$":
            if start + len(mapped) == len(self.rows) and mapped and self.ended:
                self.ends += 1
                yield from behind(mapped)
                self.ends -= 1
        elif part.variable >= 0:
            yield from self._row(part.variable, start, mapped, behind)
        elif part.either:
            for inner in part.parts:
                yield from self._ways(inner, start, mapped, behind)
        else:
            yield from self._sequence(part.parts, start, mapped, behind)

    def _sequence(self, parts: Sequence[Part], start: int, mapped: Mapped, behind: Behind) -> Iterator[Mapped]:
        if not parts:
            yield from behind(mapped)
            return
        yield from self._ways(parts[0], start, mapped, lambda m: self._sequence(parts[1:], start, m, behind))

    def _row(self, variable: int, start: int, mapped: Mapped, behind: Behind) -> Iterator[Mapped]:
        place, first = start + len(mapped), self.rows[start][0]
        if place == len(self.rows):
            if not self.ended and (not self.within or self.watermark < first + self.within):
                raise Open
            return
        row = self.rows[place]
        if self.within and row[0] >= first + self.within:
            return
        if self.conditions[variable](mapped, row):
            yield from behind([*mapped, (variable, row)])
