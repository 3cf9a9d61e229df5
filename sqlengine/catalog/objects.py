"""What a catalog holds: tables, views, materialized views. Plain descriptions; nothing here is open or running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from runtime.core.errors import Span
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.secrets import shown_value
from runtime.core.types import DataType
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Expr
from runtime.plan.parts import Alignment
from runtime.spi.lookup import LookupTable
from runtime.spi.source import SourceTable
from sqlengine.catalog.statistics import MeasuredTable
from sqlengine.parse.ddl_nodes import Identity
from sqlengine.parse.nodes import FILE_DATABASE
from sqlengine.parse.trees import Tree

__all__ = [
    "AskedModel",
    "BindContext",
    "CatalogTable",
    "CatalogView",
    "ComputedColumn",
    "Constraint",
    "DefaultValue",
    "EpochNumber",
    "MaterializedView",
    "MetadataColumn",
    "ObjectPath",
    "OpenTable",
    "ParameterValues",
    "PhysicalColumn",
    "TableDistribution",
    "TableColumn",
    "TableRefresh",
    "Watermark",
    "is_numbered",
]


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """The full name of a catalog object."""

    catalog: str
    database: str
    name: str

    @property
    def parts(self) -> tuple[str, str, str]:
        return self.catalog, self.database, self.name

    def __str__(self) -> str:
        return f"'{self.name}'" if self.database == FILE_DATABASE else f"{self.catalog}.{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class DefaultValue:
    """What a column is in a row that says nothing of it, or a condition: `expression` is unbound, `text` is Flink SQL."""

    expression: Tree
    text: str


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """A column that the connector stores. What a row does not say of it is its `default`, or the next number of its
    `identity`."""

    name: str
    type: DataType
    comment: str | None = None
    default: DefaultValue | None = None
    identity: Identity | None = None


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A column that the connector knows beside the row. `key` is the connector's name for it; virtual ones are never
    written."""

    name: str
    type: DataType
    key: str
    virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column computed from the others: `expression` is unbound, `text` is how it was written."""

    name: str
    expression: Tree
    text: str
    comment: str | None = None


TableColumn = PhysicalColumn | MetadataColumn | ComputedColumn


@dataclass(frozen=True, slots=True)
class Watermark:
    """WATERMARK FOR column AS expression. `column` is a path when it names a nested field."""

    column: tuple[str, ...]
    expression: Tree
    text: str


@dataclass(frozen=True, slots=True)
class TableDistribution:
    """`DISTRIBUTED [BY [kind] (columns)] [INTO buckets BUCKETS]`; `kind` is HASH, RANGE or None."""

    columns: tuple[str, ...] = ()
    kind: str | None = None
    buckets: int | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """What holds for every row of a table: `condition`, of CHECK, is not false; or, of UNIQUE, no two rows have the same
    values in `columns`. `columns` of CHECK are those that it reads."""

    name: str
    columns: tuple[str, ...]
    condition: DefaultValue | None = None
    nulls_distinct: bool = True


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table with a connector, or (no `connector` option) one that lives in memory."""

    path: ObjectPath
    columns: tuple[TableColumn, ...]
    watermark: Watermark | None = None
    primary_key: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    temporary: bool = False
    constraint_name: str | None = None
    measured: MeasuredTable | None = None
    """What ANALYZE TABLE has found."""
    session: int = 0
    """The number of the session that a temporary table belongs to."""
    distribution: TableDistribution | None = None
    """What DISTRIBUTED says; no connector here has buckets."""
    constraints: tuple[Constraint, ...] = ()
    """CHECK and UNIQUE, of tables without connector."""

    def __repr__(self) -> str:
        options = {key: shown_value(key, value) for key, value in self.options.items()}
        return f"CatalogTable({self.path}, {options})"

    @property
    def connector(self) -> str | None:
        return self.options.get("connector")

    @property
    def storage(self) -> ObjectPath:
        """The path under which rows in memory are kept: a temporary table has its own, beside those of the table that
        it hides."""
        return (
            ObjectPath(f"{self.path.catalog} (temporary {self.session})", self.path.database, self.path.name)
            if self.temporary
            else self.path
        )

    def column(self, name: str) -> TableColumn | None:
        return next((c for c in self.columns if c.name == name), None)


def is_numbered(table: CatalogTable) -> bool:
    """Whether the table has an identity column."""
    return any(isinstance(c, PhysicalColumn) and c.identity is not None for c in table.columns)


@dataclass(frozen=True, slots=True)
class CatalogView:
    """A named query. `columns` rename its output when given. Names inside resolve against the catalog and database of
    `path`."""

    path: ObjectPath
    query: Tree
    text: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    column_comments: tuple[str | None, ...] = ()
    """As many as `columns`, or none."""
    keeps: tuple[object, ...] = field(default=(), compare=False, repr=False)
    """What keeps the rows of Python that it reads."""


@dataclass(frozen=True, slots=True)
class TableRefresh:
    """How the rows of a materialized table are brought up to date.

    `freshness`: the interval as written, and in milliseconds. `full`: all is computed again when the rows are older than
    that, else they follow every change. `written`: whether the statement says which. `suspended`: they stay as they are
    until RESUME. `catalog`, `database` and `settings` are what was current when the query was written. `start`: the moment
    (milliseconds since 1970) from which on rows count; None: all do.
    """

    freshness: str
    milliseconds: int
    full: bool
    written: bool
    partitioned_by: tuple[str, ...]
    options: Mapping[str, str]
    suspended: bool
    catalog: str
    database: str
    settings: tuple[tuple[str, str], ...]
    start: int | None = None


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """A query whose answer is kept in memory, up to date or (a materialized table) as fresh as its `refresh` says. Read
    like a table: `schema` names are `columns`."""

    path: ObjectPath
    query: Tree
    text: str
    columns: tuple[PhysicalColumn, ...] = ()
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    measured: MeasuredTable | None = None
    refresh: TableRefresh | None = None
    own_options: Mapping[str, str] = field(default_factory=dict)
    """Those of a materialized view; of a materialized table `refresh` has them."""
    keys: tuple[tuple[str, ...], ...] = ()
    """By which columns its rows are told apart for life, as follows from the query."""

    @property
    def options(self) -> Mapping[str, str]:
        """What WITH says of it."""
        return self.own_options if self.refresh is None else self.refresh.options

    @property
    def storage(self) -> ObjectPath:
        """The path under which its rows are kept in memory."""
        return self.path

    @property
    def kind(self) -> str:
        """What SQL calls it."""
        return "materialized view" if self.refresh is None else "materialized table"

    @property
    def rests(self) -> bool:
        """Whether its rows stay as they are until the next refresh."""
        return self.refresh is not None and (self.refresh.full or self.refresh.suspended)


@dataclass(frozen=True, slots=True)
class EpochNumber:
    """The number of an epoch of the database, for `FOR SYSTEM_TIME AS OF EPOCH n`."""

    number: int

    def __str__(self) -> str:
        return f"epoch {self.number}"


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table as the binder needs it: its description and what its connector gives.

    `source.schema` has the physical columns in declared order and then the wanted metadata columns in declared order,
    under the columns' names and with the declared types. `source` is None when the connector cannot be scanned,
    `lookup` when it cannot be asked by key. `left_out`: rows of the source that do not count. `rate_limit`: of rows a second
    that are read, 0 without one. `known_keys`: those of a kept answer, by names.
    """

    table: CatalogTable
    source: SourceTable | None
    lookup: LookupTable | None
    idle_timeout: int = 0
    alignment: Alignment | None = None
    splits_in_order: bool = False
    left_out: SourceTable | None = None
    rate_limit: int = 0
    known_keys: tuple[tuple[str, ...], ...] = ()


class AskedModel(LookupTable, Protocol):
    """A model as the binder needs it: a table with its inputs and outputs, looked up by all of the inputs."""

    @property
    def name(self) -> str:
        """Its full name."""
        ...

    @property
    def inputs(self) -> Schema: ...

    @property
    def outputs(self) -> Schema: ...


class ParameterValues(Protocol):
    """What the binder asks of the parameters of a statement."""

    @property
    def asks(self) -> bool:
        """Whether places are asked for the types of parameters: a column may be NULL without a type, which it gets
        when the query is bound once more."""
        ...

    def expression(self, key: int | str, span: Span | None) -> Expr:
        """The parameter as an expression: a `Parameter`, whose type is NULL where its place is to say it."""
        ...

    def count(self, key: int | str, word: str, span: Span | None) -> int | None:
        """The value for LIMIT or OFFSET (`word`); None for NULL. Raises BindError E1219 for what is no number of
        rows."""
        ...

    def moment(self, key: int | str, otherwise: object) -> object:
        """The value for AS OF, which becomes a part of the plan; `otherwise` where no value is given yet."""
        ...


class BindContext(Protocol):
    """What the binder asks of its environment."""

    @property
    def functions(self) -> FunctionRegistry: ...

    @property
    def options(self) -> Options: ...

    @property
    def parameters(self) -> ParameterValues | None:
        """The values of the statement's parameters; None for a statement to which none are given."""
        ...

    @property
    def time_zone(self) -> str: ...

    @property
    def current_database(self) -> str: ...

    @property
    def batch(self) -> bool:
        """Whether the query is a batch query: its input ends, and nothing is known of it before that."""
        ...

    def resolve(self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str]) -> OpenTable | CatalogView:
        """The object of a one- to three-part name; `options` come from an OPTIONS hint. A materialized view and a table
        in memory come as `OpenTable` too. Raises BindError E1202 (unknown table, with a "did you mean")."""
        ...

    def past(
        self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str], moment: int | EpochNumber
    ) -> OpenTable:
        """A table as it was at a moment, milliseconds since 1970, or at the end of an epoch. Raises PlanningError E1721 where
        nobody knows."""
        ...

    @property
    def now(self) -> int | None:
        """The moment at which the query is asked; None when it is asked for good, as a view is."""
        ...

    def model(self, path: tuple[str, ...], span: Span | None) -> AskedModel:
        """The model of a one- to three-part name, loaded. Raises CatalogError E1450, and what its provider raises."""
        ...

    def kept_query(self, path: tuple[str, ...]) -> CatalogView | None:
        """The query of a materialized view, as a view; None for any other name."""
        ...

    def within(self, view: CatalogView) -> BindContext:
        """The same environment with the view's catalog and database as current ones."""
        ...
