"""What a database holds beside tables and views: models, connections and procedures. Each kind has names of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runtime.core.schema import Field, Schema
from runtime.core.secrets import shown_value
from sqlengine.catalog.objects import ObjectPath, PhysicalColumn

__all__ = ["CatalogConnection", "CatalogModel", "CatalogProcedure", "NamedDefinition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDefinition:
    """What they have in common. `kind` is what SQL calls it."""

    kind: ClassVar[str] = ""
    path: ObjectPath
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    temporary: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Its place in its database."""
        return self.kind, self.path.name

    @property
    def is_kept(self) -> bool:
        """Whether a statement makes it again."""
        return True

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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatalogProcedure(NamedDefinition):
    """A procedure. `identifier`: where it is found, `package.module.name`; empty for an object that a program has given.
    `declared`: what it takes, gives and does (`sqlengine.user_functions.procedures`)."""

    kind: ClassVar[str] = "procedure"
    identifier: str = ""
    declared: object = None

    @property
    def is_kept(self) -> bool:
        return bool(self.identifier)
