"""How state is declared: the tables that a physical node keeps, and what bounds them. Its operator opens them from that
declaration, EXPLAIN STATE and advice show it.

A bound is a phrase: `the watermark`, `2 h without change`, `the number of keys`, `10 rows a key`, or `nothing` when the
state follows the number of rows ever read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from runtime.core.schema import Schema

__all__ = [
    "CLOCK",
    "KEYS",
    "NOTHING",
    "ONE_ROW",
    "WATERMARK",
    "StateSpec",
    "column_names",
    "duration_text",
    "figure",
    "key_text",
    "touched",
    "until_idle",
]

NOTHING: Final = "nothing"
WATERMARK: Final = "the watermark"
CLOCK: Final = "the clock"
KEYS: Final = "the number of keys"
ONE_ROW: Final = "one row"
_KEPT_BESIDE = frozenset(
    f"${name}"
    for name in [
        "arrival",
        "count",
        "deleted",
        "end",
        "kind",
        "held",
        "known",
        "left",
        "matched",
        "matches",
        "order",
        "owner",
        "right",
        "round",
        "rows",
        "sent",
        "slot",
        "start",
        "state",
        "time",
        "touched",
        "written",
    ]
)


class StateSpec(NamedTuple):
    """One table of an operator's state.

    Attributes:
        name: unique within the operator; the same in every version of the query that computes the same.
        holds: what, for people; empty for a figure that says nothing to them.
        bound: what bounds it.
        schema, key: the positions `key` of the columns of `schema` decide to which key group a row belongs; none: all
            rows belong to the same one.
        owner: the table to whose rows these rows belong; then they are where their owner is.
        figure: no keyed state but one figure of the whole operator, which every task keeps.
    """

    name: str
    holds: str
    bound: str
    schema: Schema = Schema(())
    key: Sequence[int] = ()
    owner: str = ""
    figure: bool = False

    @property
    def grows(self) -> bool:
        """Whether nothing bounds it."""
        return self.bound == NOTHING

    @property
    def key_names(self) -> list[str]:
        """The names of the key's columns in the table."""
        names = column_names(self.schema)
        return [names[k] for k in self.key]


def figure(name: str, holds: str = "") -> StateSpec:
    """A figure of the whole operator."""
    return StateSpec(name, holds, ONE_ROW, figure=True)


def touched(schema: Schema, keys: Sequence[int], ttl: int) -> tuple[StateSpec, ...]:
    """Where keys expire together with all that they hold (`ttl` milliseconds): when each was touched."""
    held = f"the time of the last change by {key_text(schema, keys)}"
    return (StateSpec("touched", held, until_idle(ttl, NOTHING), schema, keys),) if ttl else ()


def until_idle(ttl: int, otherwise: str) -> str:
    """The bound of what expires after `ttl` milliseconds without change; 0: it does not."""
    return f"{duration_text(ttl)} without change" if ttl else otherwise


def key_text(schema: Schema, keys: Sequence[int], empty: str = "nothing") -> str:
    """The columns of a key by name; `empty` when there are none."""
    names = column_names(schema)
    return ", ".join(names[k] for k in keys) or empty


def column_names(schema: Schema) -> tuple[str, ...]:
    """Names of columns that tell them apart: a name that is there already gets a number, `id`, `id0`, `id1`; one that
    operators use for what they keep beside the columns (`$count`) an underscore before it."""
    taken: set[str] = set()
    found: list[str] = []
    for name in schema.names:
        name = f"_{name}" if name in _KEPT_BESIDE else name
        unique, number = name, 0
        while unique in taken:
            unique, number = f"{name}{number}", number + 1
        taken.add(unique)
        found.append(unique)
    return tuple(found)


def duration_text(milliseconds: int) -> str:
    """`2 h`, `90 s`, `1500 ms`."""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds} ms"
