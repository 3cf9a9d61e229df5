"""Where reading of tables is: in which snapshot, and where in the log.

A snapshot is taken at a place in the log, so all changes behind it are not in it. Where reading stopped in the middle of a
snapshot, the next one goes on behind its last key: each range of keys then has a place of its own, from which on its changes
count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from connectors.mysql.cdc import gtids as numbers
from runtime.core.errors import ConnectorError

__all__ = ["Described", "Place", "Position", "Range", "TablePosition"]

_NUMBER = re.compile(r"(\d+)$")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the log of a server: a file, whose names end with ascending numbers, and bytes in it.

    `gtids`: all transactions before it, which mean the same on other servers; None where they are not known. Without a file it
    is these alone.
    """

    file: str
    at: int
    gtids: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.at}" if self.file else f"GTID '{self.gtids}'"

    @property
    def order(self) -> tuple[int, int]:
        found = _NUMBER.search(self.file)
        return int(found[1]) if found else 0, self.at

    def before(self, other: Place) -> bool:
        """Whether there are transactions between it and a later one."""
        if self.gtids is not None and other.gtids is not None:
            return not numbers.holds(self.gtids, other.gtids)
        return self.order < other.order


@dataclass(frozen=True, slots=True)
class Range:
    """Keys up to one (None: to the end), as they were at a place. The key as texts."""

    through: tuple[str, ...] | None
    place: Place


Described: TypeAlias = tuple[tuple[str, str, str, bool], ...]
"""Columns of a table as (name, type, character set, whether it may be NULL)."""


@dataclass(frozen=True, slots=True)
class TablePosition:
    """Where reading of one table is.

    Attributes:
        columns: of the table there.
        ranges: of keys, as long as they matter.
        reading: not all rows of the snapshot were given.
        stuck: and they have no key by which to go on.
    """

    database: str
    table: str
    columns: Described = ()
    ranges: tuple[Range, ...] = ()
    reading: bool = False
    stuck: bool = False

    @property
    def name(self) -> tuple[str, str]:
        return self.database, self.table

    def json(self) -> list[Any]:
        ranges = [[r.through and list(r.through), r.place.file, r.place.at, r.place.gtids] for r in self.ranges]
        return [self.database, self.table, [list(c) for c in self.columns], ranges, self.reading, self.stuck]

    @staticmethod
    def of(database: Any, table: Any, columns: Any, ranges: Any, reading: Any, stuck: Any) -> TablePosition:
        return TablePosition(
            str(database),
            str(table),
            tuple((str(n), str(t), str(c), bool(null)) for n, t, c, null in columns),
            tuple(
                Range(None if through is None else tuple(map(str, through)), _place(*where))
                for through, *where in ranges
            ),
            reading is True,
            stuck is True,
        )


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading is.

    Attributes:
        server: who has the log.
        place: all transactions before were given.
        tables: that are read.
        skip: so many changes of the next one were given, too.
        within: the GTID of that one, if it has one, where some of it was given.
    """

    server: str
    place: Place
    tables: tuple[TablePosition, ...] = ()
    skip: int = 0
    within: str | None = None

    def json(self) -> dict[str, Any]:
        """The value that a checkpoint holds."""
        return {
            "server": self.server,
            "file": self.place.file,
            "at": self.place.at,
            "gtids": self.place.gtids,
            "skip": self.skip,
            "within": self.within,
            "tables": [t.json() for t in self.tables],
        }

    @staticmethod
    def of(value: Any, name: tuple[str, str]) -> Position:
        """Raises ConnectorError E3113 for what `json` has not given. `name`: of the table, which checkpoints of before have
        not."""
        try:
            tables = value.get("tables")
            if tables is None:
                tables = [[*name, value["columns"], value["ranges"], value["reading"], value["stuck"]]]
            return Position(
                str(value["server"]),
                _place(value["file"], value["at"], value.get("gtids")),
                tuple(TablePosition.of(*table) for table in tables),
                int(value["skip"]),
                value.get("within") and str(value["within"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConnectorError(
                "a checkpoint has a place of another source",
                code="E3113",
                hint="was the connector of the table changed? Begin anew, or change it back",
            ) from error

    @property
    def reading(self) -> bool:
        """Whether a snapshot was not given to its end."""
        return any(t.reading for t in self.tables)

    @property
    def begun(self) -> bool:
        """Whether its place in the log is one."""
        return bool(self.place.file) or self.place.gtids is not None

    @property
    def movable(self) -> bool:
        """Whether another server that has the same transactions can go on from it."""
        places = [self.place, *(r.place for t in self.tables for r in t.ranges)]
        return all(place.gtids is not None for place in places)

    def with_table(self, table: TablePosition) -> Position:
        """With another position of a table, or one more."""
        others = {t.name: t for t in self.tables} | {table.name: table}
        return replace(self, tables=tuple(others.values()))

    def matters(self) -> Position:
        """Without ranges from whose places on all changes count."""
        if not any(t.ranges for t in self.tables):
            return self
        tables = [
            t if any(self.place.before(r.place) for r in t.ranges) else replace(t, ranges=()) for t in self.tables
        ]
        return replace(self, tables=tuple(tables))


def _place(file: Any, at: Any, gtids: Any = None) -> Place:
    """Raises ValueError for GTIDs that are none. Checkpoints of before had none."""
    if gtids is not None:
        numbers.holds(str(gtids), "")
    return Place(str(file), int(at), None if gtids is None else str(gtids))
