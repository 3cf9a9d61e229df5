"""Queries of the Table API as SQL: the clauses that operations have added, and the text that they make.

An operation goes into the SELECT at hand where SQL means the same there; otherwise what is there becomes a subquery.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlengine.values.code import Code, compose

__all__ = ["Query", "listed"]


@dataclass(frozen=True)
class Query:
    """`SELECT [DISTINCT] columns FROM source [WHERE] [tail] [ORDER BY] [LIMIT] [OFFSET]`.

    source: a relation for FROM. tail: GROUP BY or WINDOW. whole: a complete query (a set operation) that is the source
    as long as no clause is added. Without `columns` it is `*`.
    """

    source: Code | None = None
    columns: Code | None = None
    where: Code | None = None
    tail: Code | None = None
    order: Code | None = None
    limit: int | None = None
    offset: int | None = None
    distinct: bool = False
    whole: Code | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the source is there."""
        return self.source is not None and self == Query(self.source)

    @property
    def is_open(self) -> bool:
        """Whether columns may still be chosen: nothing comes after WHERE."""
        return self.whole is None and self == Query(self.source, where=self.where)

    @property
    def code(self) -> Code:
        """The whole query."""
        if self.whole is not None:
            return self.whole
        assert self.source is not None
        parts: list[str | Code] = ["SELECT DISTINCT " if self.distinct else "SELECT "]
        parts += [self.columns or "*", " FROM ", self.source]
        if self.where is not None:
            parts += [" WHERE ", self.where]
        if self.tail is not None:
            parts += [" ", self.tail]
        if self.order is not None:
            parts += [" ORDER BY ", self.order]
        if self.limit is not None:
            parts.append(f" LIMIT {self.limit}")
        if self.offset is not None:
            parts.append(f" OFFSET {self.offset}")
        return compose(parts)

    @property
    def relation(self) -> Code:
        """The query as it stands in FROM."""
        if self.is_plain:
            assert self.source is not None
            return self.source
        return compose(["(", self.code, ")"])

    @property
    def operand(self) -> Code:
        """The query as it stands beside UNION and its like."""
        if self.order is None and self.limit is None and self.offset is None and self.whole is None:
            return self.code
        return compose(["(", self.code, ")"])

    def below(self) -> Query:
        """A query over this one, to which any clause can be added."""
        return self if self.is_plain else Query(self.relation)

    def opened(self) -> Query:
        """This query where columns may still be chosen, else one over it."""
        return self if self.is_open else Query(self.relation)

    def ordered(self) -> Query:
        """This query where ORDER BY may be added, else one over it."""
        fits = self.whole is None and self.order is None and self.limit is None and self.offset is None
        # Over groups ORDER BY would see their calls, and of DISTINCT only what is selected.
        return self if fits and not self.distinct and self.columns is None else Query(self.relation)

    def with_columns(self, columns: Code) -> Query:
        return replace(self.opened(), columns=columns)

    def with_where(self, condition: Code, level: int) -> Query:
        """Rows that fulfil a condition, too. `level` is how tightly its operator binds: OR is put in parentheses."""
        condition = compose(["(", condition, ")"]) if level <= 1 else condition
        if not self.is_open:
            return Query(self.relation, where=condition)
        return replace(self, where=condition if self.where is None else compose([self.where, " AND ", condition]))


def listed(codes: Sequence[Code]) -> Code:
    """Pieces with commas between them."""
    parts: list[str | Code] = []
    for index, code in enumerate(codes):
        parts += [", ", code] if index else [code]
    return compose(parts)
