"""Where reading of a table is, and which transactions its snapshots have seen.

A snapshot is taken after the slot was made, so what comes from the slot may be in it already. PostgreSQL says of each
snapshot which transactions it sees, and of each change which transaction has made it: what a snapshot has seen is left out.
Where reading stopped in the middle of a snapshot, the next one goes on behind its last key: each range of keys then has a
snapshot of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from runtime.core.errors import ConnectorError

__all__ = ["Position", "Seen", "lsn_text"]

_XIDS = 1 << 32


@dataclass(frozen=True, slots=True)
class Seen:
    """What a snapshot has seen.

    Attributes:
        through: the last key of its range, as texts; None: it goes to the end.
        low, high, open: transactions from `high` on, and those in `open`, are not seen; all others below `high` are, those
        below `low` at once.
        until: a place in the log; what is committed behind it is not seen.
    """

    through: tuple[str, ...] | None
    low: int
    high: int
    open: tuple[int, ...]
    until: int

    @staticmethod
    def of(text: str, until: int) -> Seen:
        """Of what `pg_current_snapshot()` says: `xmin:xmax:xip,xip`."""
        low, high, open_ = text.split(":")
        return Seen(None, int(low), int(high), tuple(int(x) for x in open_.split(",") if x), until)

    def sees(self, xid: int) -> bool:
        """Whether it has seen a transaction. `xid`: its number without the epoch, 32 bits."""
        distance = (xid - self.high) % _XIDS
        whole = self.high + (distance if distance < _XIDS // 2 else distance - _XIDS)
        return whole < self.low or (whole < self.high and whole not in self.open)


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading is.

    Attributes:
        lsn: all transactions that were committed before were given.
        skip: so many changes of the next one were given, too.
        seen: the snapshots, range by range, as long as they matter.
        reading: not all rows of the snapshot were given.
        stuck: and they have no key by which to go on.
    """

    lsn: int
    skip: int = 0
    seen: tuple[Seen, ...] = ()
    reading: bool = False
    stuck: bool = False

    def json(self) -> dict[str, Any]:
        """The value that a checkpoint holds."""
        return {
            "lsn": lsn_text(self.lsn),
            "skip": self.skip,
            "seen": [
                [s.through and list(s.through), s.low, s.high, list(s.open), lsn_text(s.until)] for s in self.seen
            ],
            "reading": self.reading,
            "stuck": self.stuck,
        }

    @staticmethod
    def of(value: Any) -> Position:
        """Raises ConnectorError E3113 for what `json` has not given."""
        try:
            seen = tuple(
                Seen(
                    None if through is None else tuple(str(text) for text in through),
                    int(low),
                    int(high),
                    tuple(int(x) for x in open_),
                    lsn_of(until),
                )
                for through, low, high, open_, until in value["seen"]
            )
            return Position(
                lsn_of(value["lsn"]), int(value["skip"]), seen, value["reading"] is True, value["stuck"] is True
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConnectorError(
                "a checkpoint has a place of another source",
                code="E3113",
                hint="was the connector of the table changed? Begin anew, or change it back",
            ) from error

    def matters(self) -> Position:
        """Without snapshots that have seen nothing of what comes."""
        return self if not self.seen or any(s.until > self.lsn for s in self.seen) else replace(self, seen=())


def lsn_text(lsn: int) -> str:
    """A place in the log as PostgreSQL writes it: `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """The place that is written so; raises ValueError."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


__all__ += ["lsn_of"]
