"""How records of Avro become columns and back: a program of nodes, which `avro_read` and `avro_write` run for each record.

A node is eight numbers: what to do, the column, four numbers of the operation, and which of `links` are its children, as the
first one and their number. Node 0 is the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from runtime.kernels.column_filling import Slot

__all__ = ["NO_COLUMN", "NODE", "Program", "ProgramBuilder", "Read", "Write"]

NODE = 8
NO_COLUMN = -1


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


@dataclass(frozen=True)
class Program:
    """What is done for each record.

    Attributes:
        nodes: int64 (n * NODE,). links: int64. constants: uint8.
        names: of each node what it is about, for messages.
        slots: the columns to fill; `roots` are those of the record.
    """

    nodes: np.ndarray
    links: np.ndarray
    constants: np.ndarray
    names: tuple[str, ...]
    slots: tuple[Slot, ...] = ()
    roots: tuple[int, ...] = ()


@dataclass
class ProgramBuilder:
    """Puts a program together, node by node; node 0 comes first."""

    _nodes: list[list[int]] = field(default_factory=list[list[int]])
    _links: list[int] = field(default_factory=list[int])
    _constants: bytearray = field(default_factory=bytearray)
    _names: list[str] = field(default_factory=list[str])

    def begin(self, name: str) -> int:
        """The number of a node whose meaning comes later, because what is within it may lead back to it."""
        self._nodes.append([int(Read.REJECT), NO_COLUMN, 0, 0, 0, 0, 0, 0])
        self._names.append(name)
        return len(self._nodes) - 1

    def set(
        self,
        node: int,
        operation: IntEnum,
        column: int = NO_COLUMN,
        numbers: Sequence[int] = (),
        children: Sequence[int] = (),
    ) -> int:
        """Says what a node does; gives its number."""
        four = [*numbers, 0, 0, 0, 0][:4]
        self._nodes[node] = [int(operation), column, *four, len(self._links), len(children)]
        self._links += children
        return node

    def add(
        self,
        name: str,
        operation: IntEnum,
        column: int = NO_COLUMN,
        numbers: Sequence[int] = (),
        children: Sequence[int] = (),
    ) -> int:
        """A node, by its number."""
        return self.set(self.begin(name), operation, column, numbers, children)

    def constant(self, data: bytes) -> tuple[int, int]:
        """Where these bytes are among the constants, and how many."""
        self._constants += data
        return len(self._constants) - len(data), len(data)

    def __len__(self) -> int:
        return len(self._nodes)

    def program(self, slots: Sequence[Slot] = (), roots: Sequence[int] = ()) -> Program:
        """What was put together."""
        return Program(
            np.array(self._nodes, np.int64).reshape(-1),
            np.array(self._links, np.int64),
            np.frombuffer(bytes(self._constants), np.uint8),
            tuple(self._names),
            tuple(slots),
            tuple(roots),
        )
