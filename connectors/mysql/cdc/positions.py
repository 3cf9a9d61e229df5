"""Where reading of a table is: in which snapshot, and where in the log.

A snapshot is taken at a place in the log, so all changes behind it are not in it. Where reading stopped in the middle of a
snapshot, the next one goes on behind its last key: each range of keys then has a place of its own, from which on its changes
count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from runtime.core.errors import ConnectorError

__all__ = ["Place", "Position", "Range"]

_NUMBER = re.compile(r"(\d+)$")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the log: a file, whose names end with ascending numbers, and bytes in it."""

    file: str
    at: int

    def __str__(self) -> str:
        return f"{self.file}:{self.at}"

    @property
    def order(self) -> tuple[int, int]:
        found = _NUMBER.search(self.file)
        return int(found[1]) if found else 0, self.at

    def before(self, other: Place) -> bool:
        return self.order < other.order


@dataclass(frozen=True, slots=True)
class Range:
    """Keys up to one (None: to the end), as they were at a place. The key as texts."""

    through: tuple[str, ...] | None
    place: Place


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading is.

    Attributes:
        server: who has the log.
        place: all transactions before were given.
        skip: so many changes of the next one were given, too.
        columns: of the table there, as (name, type, character set, whether it may be NULL).
        ranges: of keys, as long as they matter.
        reading: not all rows of the snapshot were given.
        stuck: and they have no key by which to go on.
    """

    server: str
    place: Place
    skip: int = 0
    columns: tuple[tuple[str, str, str, bool], ...] = ()
    ranges: tuple[Range, ...] = ()
    reading: bool = False
    stuck: bool = False

    def json(self) -> dict[str, Any]:
        """The value that a checkpoint holds."""
        return {
            "server": self.server,
            "file": self.place.file,
            "at": self.place.at,
            "skip": self.skip,
            "columns": [list(c) for c in self.columns],
            "ranges": [[r.through and list(r.through), r.place.file, r.place.at] for r in self.ranges],
            "reading": self.reading,
            "stuck": self.stuck,
        }

    @staticmethod
    def of(value: Any) -> Position:
        """Raises ConnectorError E3113 for what `json` has not given."""
        try:
            ranges = tuple(
                Range(None if through is None else tuple(map(str, through)), Place(str(file), int(at)))
                for through, file, at in value["ranges"]
            )
            return Position(
                str(value["server"]),
                Place(str(value["file"]), int(value["at"])),
                int(value["skip"]),
                tuple((str(n), str(t), str(c), bool(null)) for n, t, c, null in value["columns"]),
                ranges,
                value["reading"] is True,
                value["stuck"] is True,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectorError(
                "a checkpoint has a place of another source",
                code="E3113",
                hint="was the connector of the table changed? Begin anew, or change it back",
            ) from error

    def matters(self) -> Position:
        """Without ranges from whose places on all changes count."""
        return self if any(self.place.before(r.place) for r in self.ranges) else replace(self, ranges=())
