"""How messages of Protobuf become columns and back: what the nodes of a program do, which `proto_read` and `proto_write` run for
each message. `programs` says what a node is. Node 0 is the message, a MESSAGE."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Encoding", "Read", "Wire", "Write"]


class Wire(IntEnum):
    """How long a value is, as the tag before it says."""

    VARINT = 0
    WIDE = 1
    """8 bytes."""
    LENGTH = 2
    """As many bytes as the number before them says."""
    START = 3
    END = 4
    NARROW = 5
    """4 bytes."""


class Encoding(IntEnum):
    """How an integer is written."""

    INT32 = 0
    INT64 = 1
    UINT32 = 2
    UINT64 = 3
    SINT32 = 4
    SINT64 = 5
    FIXED32 = 6
    FIXED64 = 7
    SFIXED32 = 8
    SFIXED64 = 9
    BOOL = 10


class Read(IntEnum):
    """What a node is, or does with the bytes that come next; `a` to `d` are the node's numbers."""

    MESSAGE = 0
    """Its children are FIELD, REPEATED or OTHER, in the order of their numbers, and before them NOTHING for columns of which it has
    no field. With a column, adds a row to it."""
    FIELD = 1
    """Of number `a`. `b`: 1 + which child of the message is the first member of its oneof. `c`: it is required. Its children: what
    reads the value, and what is done where there is none."""
    REPEATED = 2
    """As FIELD; its child reads an element. `d`: none is an empty list, not NULL."""
    OTHER = 3
    """As FIELD, of no column. `d`: how long its values are (`Wire`)."""
    NOTHING = 4
    """Adds NULL, and runs its children, which do so for the fields of a row."""
    DEFAULT = 5
    """Runs its child over constants from `a` on, `b` bytes."""
    INTEGER = 6
    """From `a` to `b`, written as `c` (`Encoding`)."""
    DECIMAL = 7
    """An integer for a column of DECIMAL, written as `c`."""
    FLOAT = 8
    DOUBLE = 9
    BYTES = 10
    """`a`: they must be a text in UTF-8."""
    ENUM = 11
    """The first `a` children are its symbols, in the order of their numbers. `b`: another number counts as no value; otherwise the
    last child is its text. For a column of numbers: from `c` to `d`."""
    SYMBOL = 12
    """The text of number `a`: constants from `b` on, `c` bytes."""
    TIMESTAMP = 13
    """A message of seconds and nanoseconds. `a`: units of the column in a second. `b`: nanoseconds in one. `c`: how many units the
    column tells apart."""


class Write(IntEnum):
    """What a node writes of the value of its column."""

    MESSAGE = 0
    FIELD = 1
    """With the tag `a`. `b`: not when it is 0 or empty. `c`: it must not be NULL."""
    REPEATED = 2
    """Each element with the tag `a`; `b`: all of them behind one tag."""
    VARINT = 3
    ZIGZAG = 4
    FIXED = 5
    BYTES = 6
    TIMESTAMP = 7
    """`a` units in a second, `b` nanoseconds in one."""
