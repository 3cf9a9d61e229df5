"""Schemas: the named, typed columns of a table or of a physical plan's edge."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from runtime.core.node import Node, node
from runtime.core.types import DataType

__all__ = ["Field", "Schema"]


@node
class Field(Node):
    """One column: its name and SQL type. Names need not be unique on an edge of a plan."""

    name: str
    type: DataType


@node
class Schema(Node):
    """An ordered list of columns."""

    fields: tuple[Field, ...]

    @staticmethod
    def of(*columns: tuple[str, DataType]) -> Schema:
        return Schema(tuple(Field(name, type_) for name, type_ in columns))

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __getitem__(self, index: int) -> Field:
        return self.fields[index]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(f.type for f in self.fields)

    def index_of(self, name: str) -> int:
        """The position of a column by exact name; -1 when there is none."""
        for index, column in enumerate(self.fields):
            if column.name == name:
                return index
        return -1

    def select(self, positions: tuple[int, ...]) -> Schema:
        return Schema(tuple(self.fields[i] for i in positions))

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type.arrow, f.type.nullable) for f in self.fields])

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {f.type}" for f in self.fields)
