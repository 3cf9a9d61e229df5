"""What MATCH_RECOGNIZE looks for, as plans hold it: the pattern, where matching goes on after a match, and what is read
of the rows of a match."""

from __future__ import annotations

import enum

from runtime.core.node import Node, node
from runtime.plan.parts import AggregateSpec

__all__ = [
    "MOST_PLACES",
    "UNIVERSAL",
    "AfterMatch",
    "Anchor",
    "MatchRows",
    "MatchValue",
    "Pattern",
    "PatternPart",
    "PatternSubset",
    "PatternVariable",
    "ValueSide",
]

UNIVERSAL = -1
"""In the place of a variable's number: all rows of the match."""
MOST_PLACES = 1_000
"""How often variables stand in a pattern at most, with its repetitions written out."""


class AfterMatch(enum.Enum):
    """Where matching goes on after a match."""

    PAST_LAST_ROW = "past last row"
    TO_NEXT_ROW = "to next row"
    TO_FIRST = "to first"
    TO_LAST = "to last"


class MatchRows(enum.Enum):
    """The rows that come of a match: one, or one for each of its rows, and with `SHOW_EMPTY` one for a match without
    rows. `UNMATCHED`: these, and the rows that are in no match."""

    ONE = "one row"
    SHOW_EMPTY = "all rows, empty matches too"
    OMIT_EMPTY = "all rows"
    UNMATCHED = "all rows, empty matches and rows in none too"


class Anchor(enum.Enum):
    """A place of a partition that a part of a pattern asks for: before its first row, behind its last one."""

    START = "^"
    END = "$"


class ValueSide(enum.Enum):
    """Where matches have all their rows, what a value is of: the rows of the match up to this one, all of them, or this
    row."""

    RUNNING = "running"
    FINAL = "final"
    ROW = "row"


@node
class PatternVariable(Node):
    """One variable with its quantifier: at least `least` rows, at most `most` (None: any number)."""

    name: str
    least: int
    most: int | None
    greedy: bool

    def __str__(self) -> str:
        return self.name + _quantifier(self.least, self.most, self.greedy)


@node
class PatternPart(Node):
    """A part of a pattern with its quantifier: a variable by its number, or without (-1) `parts`, one after the other, or
    with `either` the first of them that leads to a match. An `anchor` has no parts. Rows of an `excluded` part are not among
    all rows of a match."""

    variable: int = -1
    parts: tuple[PatternPart, ...] = ()
    either: bool = False
    least: int = 1
    most: int | None = 1
    greedy: bool = True
    excluded: bool = False
    anchor: Anchor | None = None

    @property
    def anchors(self) -> frozenset[Anchor]:
        """The anchors in it."""
        own = frozenset[Anchor]() if self.anchor is None else frozenset((self.anchor,))
        return own.union(*(part.anchors for part in self.parts))

    @property
    def excludes(self) -> bool:
        """Whether rows of it are not among all rows of a match."""
        return self.excluded or any(part.excludes for part in self.parts)

    @property
    def places(self) -> int:
        """How often variables stand in it, with its repetitions written out."""
        once = 1 if self.variable >= 0 else sum(part.places for part in self.parts)
        return once * (self.least + 1 if self.most is None else self.most)

    def least_rows(self, variable: int) -> int:
        """How many rows of a match are mapped to a variable at least."""
        if self.variable >= 0:
            return self.least if self.variable == variable else 0
        rows = [part.least_rows(variable) for part in self.parts]
        return self.least * (min(rows) if self.either else sum(rows))

    def text(self, names: tuple[str, ...]) -> str:
        """As SQL writes it."""
        quantifier = _quantifier(self.least, self.most, self.greedy)
        if self.variable >= 0:
            return names[self.variable] + quantifier
        if self.anchor is not None:
            return self.anchor.value
        inner = (" | " if self.either else " ").join(part.text(names) for part in self.parts)
        return f"{{- {inner} -}}{quantifier}" if self.excluded else f"({inner}){quantifier}"


def _quantifier(least: int, most: int | None, greedy: bool) -> str:
    if (least, most) == (1, 1):
        return ""
    marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    times = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
    return marks.get((least, most), times) + ("" if greedy else "?")


@node
class PatternSubset(Node):
    """A name for several variables, by number, ascending."""

    name: str
    variables: tuple[int, ...]


@node
class Pattern(Node):
    """Variables that follow one another without gaps, with Flink's meaning; with a `shape` the variables stand there, each
    as often as it says, and of the matches that begin with a row the SQL standard's is given: `least` of a variable is then
    how many rows it has at least. `skip_to` numbers the variable or subset of `AfterMatch.TO_FIRST` and
    `TO_LAST`; `within`: a match is shorter than so many milliseconds (0: of any length). The numbers of `subsets` follow
    those of the variables."""

    variables: tuple[PatternVariable, ...]
    after: AfterMatch
    skip_to: int = UNIVERSAL
    within: int = 0
    subsets: tuple[PatternSubset, ...] = ()
    shape: PatternPart | None = None

    def members(self, number: int) -> tuple[int, ...]:
        """The variables that a number stands for."""
        if number == UNIVERSAL:
            return tuple(range(len(self.variables)))
        return (number,) if number < len(self.variables) else self.subsets[number - len(self.variables)].variables

    def name(self, number: int) -> str:
        """Of a variable or a subset."""
        return (*self.variables, *self.subsets)[number].name

    def __str__(self) -> str:
        after = self.after.value
        if self.after in (AfterMatch.TO_FIRST, AfterMatch.TO_LAST):
            after += f" {self.name(self.skip_to)}"
        subsets = "".join(
            f" {s.name} = ({', '.join(self.variables[v].name for v in s.variables)})" for s in self.subsets
        )
        within = f" within {self.within} ms" if self.within else ""
        if self.shape is None:
            text = f"({' '.join(map(str, self.variables))})"
        else:
            text = self.shape.text(tuple(v.name for v in self.variables))
            text = f"standard {text}" if text.startswith("(") else f"standard ({text})"
        return f"{text}{subsets}{within} skip {after}"


@node
class MatchValue(Node):
    """A value of the rows that are mapped to a variable or subset (`UNIVERSAL`: to any). With `offset` FIRST_VALUE and
    LAST_VALUE are of the row so many after the first, or before the last, whatever is in it; without (None) they are, as
    all other calls, aggregates over all of the rows. `names`: the call has no arguments, and is of the names of the
    variables to which the rows are mapped. MATCH_NUMBER, without arguments, is the number of the match in its
    partition, IS_MATCHED whether the row is of one. `side` has a meaning where matches have all their rows."""

    variable: int
    call: AggregateSpec
    offset: int | None = None
    names: bool = False
    side: ValueSide = ValueSide.RUNNING

    @property
    def is_number(self) -> bool:
        """Whether it is the number of the match."""
        return self.call.function == "MATCH_NUMBER"

    @property
    def is_matched(self) -> bool:
        """Whether it tells the rows of matches from those in none."""
        return self.call.function == "IS_MATCHED"
