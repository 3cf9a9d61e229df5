"""Programs that kernels run for each message: nodes, each checked before the first byte is read.

A node is eight numbers: what to do, the column, four numbers of the operation, and which of `links` are its children, as the
first one and their number. What there is to do is said by the format: `avro_programs`, `proto_programs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from runtime.kernels.column_filling import Slot

__all__ = ["NODE", "NO_COLUMN", "Program", "ProgramBuilder"]

NODE = 8
NO_COLUMN = -1
_UNSET = -1
"""No operation of any kernel."""


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
        self._nodes.append([_UNSET, NO_COLUMN, 0, 0, 0, 0, 0, 0])
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
