"""How records of Avro become columns and back: a program of nodes, which `avro_read` and `avro_write` run for each record.

`programs` says what a node is. Node 0 is the record.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Read", "Write"]


class Read(IntEnum):
    """What a node does with the bytes that come next; `a` to `d` are the node's numbers."""

    SKIP_FIXED = 0
    """Passes over `a` bytes."""
    SKIP_INTEGER = 1
    SKIP_BYTES = 2
    SKIP_ITEMS = 3
    """Passes over the blocks of an array or map. `a`: the fewest bytes of an item."""
    GROUP = 4
    """Runs its children; with a column, adds a row to it."""
    UNION = 5
    """Runs the child whose number comes next."""
    ABSENT = 6
    """Adds NULL, and runs its children, which do so for the fields of a row."""
    INTEGER = 7
    """From `a` to `b`, divided by `d` and rounded down, times `c`."""
    INTEGER_AS_FLOAT = 8
    FLOAT = 9
    DOUBLE = 10
    BOOLEAN = 11
    BYTES = 12
    """`b`: they must be a text in UTF-8."""
    FIXED = 13
    """`a` bytes; `b` as above."""
    DECIMAL = 14
    """Of `a` bytes (-1: their number comes first), below the number of which `b` and `c` are the upper and lower half."""
    TEXT = 15
    """Adds constants from `a` on, `b` bytes."""
    DEFAULT = 16
    """Runs its child over constants from `a` on, `b` bytes."""
    ITEMS = 17
    """Runs its child for each item of an array or map, and adds a list. `a`: the fewest bytes of an item."""
    REJECT = 18
    """No record has this."""


class Write(IntEnum):
    """What a node writes of the value of its column."""

    GROUP = 0
    NULLABLE = 1
    """The number `a` of the branch for NULL, or `b` and what its child writes."""
    INTEGER = 2
    """Divided by `b` and rounded down, times `a`."""
    FLOAT = 3
    DOUBLE = 4
    BOOLEAN = 5
    BYTES = 6
    FIXED = 7
    """`a` bytes, without their number."""
    DECIMAL = 8
    """In `a` bytes; -1: in as few as it takes, their number first."""
    ITEMS = 9
    NOTHING = 10
