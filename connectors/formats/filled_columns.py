"""The columns that a program fills from records, with what is within them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow.types as pt

from runtime.core.types import DataType, TypeRoot
from runtime.kernels.column_filling import LISTS, STRINGS, STRUCT, Slot

__all__ = ["FilledColumn", "FilledColumns"]


@dataclass(frozen=True)
class FilledColumn:
    """A column to fill: its number, its type, and what is within it."""

    number: int
    type: DataType
    children: tuple[FilledColumn, ...]


@dataclass
class FilledColumns:
    """Numbers columns. `slots`: what the kernel is told of each."""

    slots: list[Slot] = field(default_factory=list[Slot])

    def add(self, type_: DataType, nested: bool = False) -> FilledColumn:
        """A column, and those within it. `nested`: it is within a list."""
        number = len(self.slots)
        self.slots.append(Slot(0, type_.arrow))
        match type_.root:
            case TypeRoot.ROW:
                kind, within = STRUCT, [self.add(f.type, nested) for f in type_.fields]
            case TypeRoot.ARRAY | TypeRoot.MAP:
                kind, within = LISTS, [self.add(child, True) for child in type_.children]
            case TypeRoot.MULTISET:
                kind = LISTS
                within = [self.add(child, True) for child in (type_.children[0], DataType(TypeRoot.INT))]
            case _:
                kind, within = _kind(type_), []
        self.slots[number] = Slot(kind, type_.arrow, tuple(c.number for c in within), nested)
        return FilledColumn(number, type_, tuple(within))


def _kind(type_: DataType) -> int:
    if pt.is_string(type_.arrow) or pt.is_binary(type_.arrow):
        return STRINGS
    return 1 if pt.is_boolean(type_.arrow) else type_.arrow.bit_width // 8
