"""What a database holds beside tables and views: models, connections, procedures and sequences. Each kind has names of its
own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runtime.core.schema import Field, Schema
from runtime.core.secrets import shown_value
from runtime.core.types import BIGINT, INT, SMALLINT, TINYINT, DataType
from sqlengine.catalog.catalog import Catalogs
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn, is_numbered

__all__ = [
    "CatalogConnection",
    "CatalogModel",
    "CatalogProcedure",
    "CatalogSequence",
    "NamedDefinition",
    "column_sequence",
    "range_of_type",
    "seen_sequences",
]

_BITS = {TINYINT.root: 8, SMALLINT.root: 16, INT.root: 32, BIGINT.root: 64}


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatalogSequence(NamedDefinition):
    """A sequence: which numbers it gives, without where it is. `owner`: the table and column with which it goes."""

    kind: ClassVar[str] = "sequence"
    type: DataType
    start: int
    step: int
    low: int
    high: int
    cache: int = 1
    cycle: bool = False
    owner: tuple[ObjectPath, str] | None = None


def range_of_type(type_: DataType) -> tuple[int, int]:
    """The least and the greatest whole number of a type."""
    limit = 1 << (_BITS[type_.root] - 1)
    return -limit, limit - 1


def column_sequence(table: CatalogTable, column: PhysicalColumn) -> CatalogSequence:
    """The sequence of a numbered column, under the name that it has in PostgreSQL."""
    assert column.identity is not None
    low, high = range_of_type(column.type)
    rises = column.identity.step > 0
    return CatalogSequence(
        path=ObjectPath(table.path.catalog, table.path.database, f"{table.path.name}_{column.name}_seq"),
        temporary=table.temporary,
        type=column.type.with_nullable(True),
        start=column.identity.start,
        step=column.identity.step,
        low=min(1, column.identity.start) if rises else low,
        high=high if rises else max(-1, column.identity.start),
        owner=(table.path, column.name),
    )


def seen_sequences(catalogs: Catalogs, catalog: str, database: str) -> Iterator[tuple[CatalogSequence, bool]]:
    """The sequences of a database of which whoever acts may know, and whether each is that of a numbered column."""
    for definition in catalogs.seen_definitions("sequence", catalog, database):
        assert isinstance(definition, CatalogSequence)
        yield definition, False
    for table in catalogs.seen_objects(catalog, database):
        if isinstance(table, CatalogTable) and is_numbered(table):
            for column in table.columns:
                if isinstance(column, PhysicalColumn) and column.identity is not None:
                    yield column_sequence(table, column), True
