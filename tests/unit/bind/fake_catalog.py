"""A catalog for tests of the binder: tables and views from DDL text, with sources that nobody opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import BindError, Span, did_you_mean
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.expr.function import FunctionRegistry
from runtime.expr.library import builtin_functions
from runtime.spi.sink import Delivery
from runtime.spi.statistics import TableStatistics
from sqlengine.catalog.objects import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    MetadataColumn,
    ObjectPath,
    OpenTable,
    PhysicalColumn,
    TableColumn,
    Watermark,
)
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_script
from sqlengine.parse import statement_nodes as st

FUNCTIONS = builtin_functions()


@dataclass(frozen=True)
class FakeTable:
    """A source, sink and lookup table that has a schema and nothing else."""

    name: str
    schema: Schema
    primary_key: tuple[str, ...] = ()
    changelog_mode: ChangelogMode = APPEND
    bounded: bool = True

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Any]:
        return []

    def open(self, split: Any, context: Any) -> Any:
        raise AssertionError("the binder opens nothing")

    @property
    def delivery(self) -> Delivery:
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def open_writer(self, job: str) -> Any:
        raise AssertionError("the binder writes nothing")

    def lookup(self, key_columns: Any, keys: Any) -> Any:
        raise AssertionError("the binder reads nothing")

    def describe(self) -> dict[str, Any]:
        return {"connector": "fake"}


@dataclass
class FakeCatalog:
    """`BindContext` over one database. A table with 'connector' = 'lookup' can only be looked up, one with 'sink' only
    written."""

    objects: dict[str, CatalogTable | CatalogView] = field(default_factory=dict)
    time_zone: str = "UTC"
    parameters: None = None
    current_database: str = "default_database"
    hinted: dict[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=Options)

    @property
    def functions(self) -> FunctionRegistry:
        return FUNCTIONS

    def run(self, script: str) -> FakeCatalog:
        """Carry out CREATE TABLE and CREATE VIEW statements."""
        for statement in parse_script(script):
            match statement:
                case st.CreateTable():
                    self.objects[statement.name.parts[-1]] = _table(statement)
                case st.CreateView():
                    name = statement.name.parts[-1]
                    columns = tuple(c.name.text for c in statement.columns)
                    self.objects[name] = CatalogView(_path(name), statement.query.query, statement.query.text, columns)
                case _:
                    raise AssertionError(f"not for a catalog: {statement.text}")
        return self

    def resolve(self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str]) -> OpenTable | CatalogView:
        found = self.objects.get(path[-1])
        if found is None:
            raise BindError(
                f'unknown table "{path[-1]}"', code="E1202", span=span, hint=did_you_mean(path[-1], self.objects)
            )
        self.hinted.update(options)
        if isinstance(found, CatalogView):
            return found
        table = self.sink(found, virtual=True)
        match found.connector:
            case "lookup":
                return OpenTable(found, None, table)
            case "sink":
                return OpenTable(found, None, None)
            case _:
                return OpenTable(found, table, None, idle_timeout=0)

    @property
    def batch(self) -> bool:
        return False

    @property
    def now(self) -> int | None:
        return 0

    def past(self, path: tuple[str, ...], span: Span | None, options: Mapping[str, str], moment: int) -> OpenTable:
        found = self.resolve(path, span, options)
        assert isinstance(found, OpenTable)
        return found

    def kept_query(self, path: tuple[str, ...]) -> CatalogView | None:
        return None

    def within(self, view: CatalogView) -> FakeCatalog:
        return self

    def sink(self, table: CatalogTable, *, virtual: bool = False) -> FakeTable:
        """The table with its physical and metadata columns; `virtual` ones too when it is read."""
        physical = [(c.name, c.type) for c in table.columns if isinstance(c, PhysicalColumn)]
        metadata = [
            (c.name, c.type) for c in table.columns if isinstance(c, MetadataColumn) and (virtual or not c.virtual)
        ]
        return FakeTable(table.path.name, Schema.of(*physical, *metadata), table.primary_key)


def _path(name: str) -> ObjectPath:
    return ObjectPath("c", "d", name)


def _table(statement: st.CreateTable) -> CatalogTable:
    name = statement.name.parts[-1]
    key = tuple(n.text for n in statement.primary_key.columns) if statement.primary_key is not None else ()
    watermark = None
    if statement.watermarks:
        written = statement.watermarks[0]
        watermark = Watermark(written.column.parts, written.expression.expression, written.expression.text)
    columns = tuple(_column(c, key) for c in statement.columns)
    return CatalogTable(_path(name), columns, watermark, key, options=st.options_dict(statement.options))


def _column(column: ddl.ColumnDefinition, key: tuple[str, ...]) -> TableColumn:
    name = column.name.text
    match column:
        case ddl.PhysicalColumn():
            return PhysicalColumn(name, column.type.not_null() if name in key else column.type)
        case ddl.MetadataColumn():
            return MetadataColumn(name, column.type, column.key or name, column.virtual)
        case ddl.ComputedColumn():
            return ComputedColumn(name, column.expression.expression, column.expression.text)
        case _:
            raise AssertionError(f"no such column: {name}")
