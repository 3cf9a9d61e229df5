"""What MATCH_RECOGNIZE looks for, as plans hold it: the pattern, where matching goes on after a match, and what is read
of the rows of a match."""

from __future__ import annotations

import enum

from runtime.core.node import Node, node
from runtime.plan.parts import AggregateSpec

__all__ = ["UNIVERSAL", "AfterMatch", "MatchValue", "Pattern", "PatternSubset", "PatternVariable"]

UNIVERSAL = -1
"""In the place of a variable's number: all rows of the match."""


class AfterMatch(enum.Enum):
    """Where matching goes on after a match."""

    PAST_LAST_ROW = "past last row"
    TO_NEXT_ROW = "to next row"
    TO_FIRST = "to first"
    TO_LAST = "to last"


@node
class PatternVariable(Node):
    """One variable with its quantifier: at least `least` rows, at most `most` (None: any number)."""

    name: str
    least: int
    most: int | None
    greedy: bool

    def __str__(self) -> str:
        if (self.least, self.most) == (1, 1):
            return self.name
        marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        most = "" if self.most is None else str(self.most)
        times = f"{{{self.least}}}" if self.least == self.most else f"{{{self.least},{most}}}"
        return self.name + marks.get((self.least, self.most), times) + ("" if self.greedy else "?")


@node
class PatternSubset(Node):
    """A name for several variables, by number, ascending."""

    name: str
    variables: tuple[int, ...]


@node
class Pattern(Node):
    """Variables that follow one another without gaps. `skip_to` numbers the variable or subset of `AfterMatch.TO_FIRST` and
    `TO_LAST`; `within`: a match is shorter than so many milliseconds (0: of any length). The numbers of `subsets` follow
    those of the variables."""

    variables: tuple[PatternVariable, ...]
    after: AfterMatch
    skip_to: int = UNIVERSAL
    within: int = 0
    subsets: tuple[PatternSubset, ...] = ()

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
        return f"({' '.join(map(str, self.variables))}){subsets}{within} skip {after}"


@node
class MatchValue(Node):
    """A value of the rows that are mapped to a variable or subset (`UNIVERSAL`: to any). With `offset` FIRST_VALUE and
    LAST_VALUE are of the row so many after the first, or before the last, whatever is in it; without (None) they are, as
    all other calls, aggregates over all of the rows. `names`: the call has no arguments, and is of the names of the
    variables to which the rows are mapped. MATCH_NUMBER, without arguments, is the number of the match in its
    partition."""

    variable: int
    call: AggregateSpec
    offset: int | None = None
    names: bool = False

    @property
    def is_number(self) -> bool:
        """Whether it is the number of the match."""
        return self.call.function == "MATCH_NUMBER"
