"""What a database holds beside tables and views: models and connections. They have names of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runtime.core.schema import Field, Schema
from runtime.core.secrets import shown_value
from sqlengine.catalog.objects import ObjectPath, PhysicalColumn

__all__ = ["CatalogConnection", "CatalogModel", "NamedDefinition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDefinition:
    """What models and connections have in common. `kind` is what SQL calls it."""

    kind: ClassVar[str] = ""
    path: ObjectPath
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    temporary: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Its place in its database."""
        return self.kind, self.path.name

    def __repr__(self) -> str:
        options = {key: shown_value(key, value) for key, value in self.options.items()}
        return f"{type(self).__name__}({self.path}, {options})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatalogModel(NamedDefinition):
    """A model: what it takes, what it gives, and where it is."""

    kind: ClassVar[str] = "model"
    inputs: tuple[PhysicalColumn, ...]
    outputs: tuple[PhysicalColumn, ...]

    @property
    def input_schema(self) -> Schema:
        return Schema(tuple(Field(c.name, c.type) for c in self.inputs))

    @property
    def output_schema(self) -> Schema:
        return Schema(tuple(Field(c.name, c.type) for c in self.outputs))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatalogConnection(NamedDefinition):
    """Options that tables and models share, secrets among them."""

    kind: ClassVar[str] = "connection"
