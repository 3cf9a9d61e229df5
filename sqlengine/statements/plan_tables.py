"""The tables of a compiled plan: by name in the file, opened by the catalog when the plan is carried out.

    {"path": ["default_catalog", "default_database", "orders"], "hints": {"scan.startup.mode": "earliest-offset"},
     "filters": [...], "limit": 10, "bounded": true}

A table of the past has the moment as of which it is read, in milliseconds since 1970 (`"as_of": 1717243260000`).

A table that gives groups has their columns and functions, whose types are those of the node's columns:

    {"path": [...], "group": ["item"], "aggregates": [["COUNT", null], ["MAX", "price"]], "bounded": true}

The file has no other options of a table, so no secret is in it, and a stranger's file reads and writes nothing but tables
that the catalog has, where the catalog says that they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import pyarrow as pa

from connectors.memory.snapshot import PastRows
from connectors.values.constants import ConstantTable
from runtime.core.errors import CatalogError, FormatError, did_you_mean
from runtime.core.schema import Field, Schema
from runtime.core.secrets import is_secret
from runtime.core.types import BIGINT, DataType, TypeRoot, decimal
from runtime.expr.nodes import Constants, Expr
from runtime.plan.base import PhysicalNode
from runtime.plan.call_types import check_expression
from runtime.plan.decoding import Wrong, decode_as
from runtime.plan.nodes import LookupJoinExec, SinkExec, SourceExec
from runtime.plan.values import encode_value
from runtime.plan.walk import walk_all
from runtime.spi.abilities import (
    AggregateName,
    AskedAggregate,
    SupportsAggregates,
    SupportsFilters,
    SupportsLimit,
    SupportsOverwrite,
    SupportsProjection,
    TellsAggregates,
    TellsPushDown,
)
from runtime.spi.lookup import LookupTable
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable
from sqlengine.catalog.objects import CatalogTable, CatalogView, EpochNumber, ObjectPath, OpenTable
from sqlengine.database.binding import Binding, NamedTable
from sqlengine.database.session import PYTHON_DATABASE, Session
from sqlengine.parse.nodes import FILE_DATABASE

__all__ = ["OpenedTables", "SinkName", "check_tables", "table_entry"]

_HINTS: Final = (
    "scan.",
    "sink.",
    "lookup.",
    "source.",
    "csv.",
    "json.",
    "avro.",
    "parquet.",
    "orc.",
    "canal-json.",
    "debezium-json.",
    "maxwell-json.",
    "ogg-json.",
    "raw.",
)
"""What hints in a plan may begin with: how a table is read or written, never where it is."""
_ENTRY: Final = (
    "path",
    "hints",
    "filters",
    "limit",
    "group",
    "aggregates",
    "bounded",
    "primary_key",
    "overwrite",
    "constants",
    "as_of",
)


_FIRST: Final = -62_135_596_800_000
_LAST: Final = 253_402_300_799_999
"""The first and the last millisecond that a TIMESTAMP has."""


class SinkName:
    """The table of an INSERT: its path, the options of its hint, and the partition that INSERT OVERWRITE names."""

    def __init__(self, table: CatalogTable, hints: Mapping[str, str], overwrite: Mapping[str, Any] | None) -> None:
        self.table = table
        self.hints = hints
        self.overwrite = overwrite


def table_entry(node: PhysicalNode, opened: Sequence[NamedTable], sink: SinkName | None) -> Mapping[str, Any]:
    """What a plan says of the table of a node. `opened`: those of the statement; `sink`: that of a root. Raises FormatError
    E3211 for one that nobody could open again."""
    if isinstance(node, SinkExec) and sink is not None:
        entry: dict[str, Any] = _named(sink.table.path.parts, sink.hints, sink.table.path.name)
        entry["primary_key"] = list(node.table.primary_key)
        if sink.overwrite is not None:
            entry["overwrite"] = {name: encode_value(value) for name, value in sink.overwrite.items()}
        return entry
    if isinstance(node, SourceExec) and isinstance(node.table, ConstantTable):
        rows = node.table.rows
        return {"constants": [encode_value(tuple(column.to_pylist())) for column in rows.columns]}
    for named in opened:
        if _title(named.opened) != node.outside_name:
            continue
        found = _again(named, node)
        if found is not None:
            return found
    raise FormatError(
        f"what is read of {node.outside_name} cannot stand in a plan",
        code="E3211",
        hint="the rows that a program gives, and filters that a connector keeps for itself, are in no catalog",
    )


def _title(opened: OpenTable) -> str:
    """What the node that reads a table is called."""
    return opened.source.title if isinstance(opened.source, PastRows) else str(opened.table.path)


def _named(path: Sequence[str], hints: Mapping[str, str], name: str) -> dict[str, Any]:
    for key in hints:
        if is_secret(key) or not key.startswith(_HINTS):
            raise FormatError(
                f"the hint '{key}' of {name} cannot stand in a plan",
                code="E3211",
                hint="give it to the table: the catalog says where a table is, and keeps its secrets",
            )
    return {"path": list(path), **({"hints": dict(hints)} if hints else {})}


def _again(named: NamedTable, node: PhysicalNode) -> dict[str, Any] | None:
    """The entry from which the table of a node is made again of the one that was opened; None when it is another one."""
    if named.opened.table.path.database in (PYTHON_DATABASE, FILE_DATABASE):
        return None
    if isinstance(node, LookupJoinExec):
        entry = _named(named.path, named.hints, named.opened.table.path.name)
        return entry if named.opened.lookup == node.table else None
    base = named.opened.source
    if base is None or not isinstance(node, SourceExec):
        return None
    filters, limit = node.table.pushed(base.schema) if isinstance(node.table, TellsPushDown) else ([], None)
    asked = node.table.aggregated() if isinstance(node.table, TellsAggregates) else None
    if _pushed(base, filters, limit, node.table.schema.names, asked) != node.table:
        return None
    entry = _named(named.path, named.hints, named.opened.table.path.name)
    if isinstance(named.moment, EpochNumber):
        raise FormatError(
            f"{named.opened.table.path.name} as of {named.moment} cannot stand in a plan",
            code="E3211",
            hint="a plan outlives the numbers of epochs: read it FOR SYSTEM_TIME AS OF a timestamp",
        )
    if named.moment is not None:
        entry["as_of"] = named.moment
    if filters:
        entry["filters"] = [encode_value(f) for f in filters]
    if limit is not None:
        entry["limit"] = limit
    if asked is not None:
        entry["group"] = list(asked[0])
        entry["aggregates"] = [[call.function, call.column] for call in asked[1]]
    return {**entry, "bounded": base.bounded}


def _pushed(
    base: SourceTable,
    filters: Sequence[Expr],
    limit: int | None,
    names: Sequence[str],
    asked: tuple[Sequence[str], Sequence[AskedAggregate]] | None,
) -> SourceTable | None:
    """The table with what is pushed down into it; None when it does not take that."""
    table: Any = base
    if filters:
        if not isinstance(table, SupportsFilters):
            return None
        table, left = table.with_filters(filters)
        if left:
            return None
    if limit is not None:
        if not isinstance(table, SupportsLimit):
            return None
        table = table.with_limit(limit)
    if asked is not None:
        given: Any = table.with_aggregates(*asked) if isinstance(table, SupportsAggregates) else None
        return given
    if tuple(names) != base.schema.names:
        if not isinstance(table, SupportsProjection):
            return None
        table = table.with_columns(names)
    return table


class OpenedTables:
    """Opens the tables of a plan. `targets`: the tables that it writes, in order."""

    def __init__(self, session: Session, *, live: bool) -> None:
        self._session = session
        self._live = live
        self.targets: list[CatalogTable] = []
        self.reads: list[tuple[tuple[str, ...], OpenTable]] = []
        self.past: list[ObjectPath] = []
        """What is read as of a moment."""

    def __call__(self, use: str, name: str, entry: dict[str, Any], schema: Schema) -> Any:
        """The table of a node. Raises Wrong, and CatalogError E1418 for one that is another one now."""
        for key in entry:
            if key not in _ENTRY:
                raise Wrong("a table has no such member", did_you_mean(key, _ENTRY)).within(key)
        if "constants" in entry:
            return _constants(use, entry["constants"], schema)
        path = _field(entry, "path", tuple[str, ...])
        hints = self._hints(entry)
        if not 2 <= len(path) <= 4 or not all(path) or FILE_DATABASE in path[:2]:
            raise Wrong("catalog, database and name of a table are wanted").within("path")
        if use == "sink":
            return self._sink(path, hints, entry, schema)
        found = self._found(path, hints, _field(entry, "as_of", int | None, None))
        if isinstance(found, CatalogView):
            raise _changed(name, "it is a view now")
        if _title(found) != name:
            raise Wrong(f"it is {_title(found)}, and the node reads {name}").within("path")
        self.reads.append((path, found))
        if "as_of" in entry:
            self.past.append(found.table.path)
        if use == "lookup":
            return self._lookup(name, found.lookup, schema)
        return self._source(name, found.source, entry, schema)

    def _found(self, path: tuple[str, ...], hints: Mapping[str, str], as_of: int | None) -> OpenTable | CatalogView:
        binding = Binding(self._session, self._session.harness.inserts_follow)
        if as_of is None:
            return binding.resolve(path, None, hints)
        if not _FIRST <= as_of <= _LAST:
            raise Wrong("it is a moment, in milliseconds since 1970").within("as_of")
        return binding.past(path, None, hints, as_of)

    def _hints(self, entry: dict[str, Any]) -> dict[str, str]:
        hints = entry.get("hints", {})
        if not isinstance(hints, dict) or not all(isinstance(value, str) for value in hints.values()):
            raise Wrong("an object of texts is wanted").within("hints")
        for key in hints:
            if is_secret(key) or not key.startswith(_HINTS):
                raise Wrong("a plan cannot say where a table is, nor have secrets").within(key).within("hints")
        return hints

    def _source(self, name: str, base: SourceTable | None, entry: dict[str, Any], schema: Schema) -> SourceTable:
        if base is None:
            raise _changed(name, "it can only be looked up by key now")
        bounded = _field(entry, "bounded", bool)
        if bounded != base.bounded:
            raise _changed(name, "its input has no end now" if bounded else "its input has an end now")
        asked = _aggregates(base.schema, schema, entry) if "aggregates" in entry else None
        if asked is None:
            _check_columns(name, base.schema, schema)
        else:
            _check_columns(name, base.schema, Schema(schema.fields[: len(asked[0])]))
        filters = _field(entry, "filters", tuple[Expr, ...], ())
        for index, condition in enumerate(filters):
            try:
                check_expression(condition, base.schema.types, self._session.functions)
                if condition.type.root is not TypeRoot.BOOLEAN or isinstance(condition, Constants):
                    raise Wrong("a filter is BOOLEAN")
            except Wrong as wrong:
                raise wrong.within(index).within("filters") from None
        limit = _field(entry, "limit", int | None, None)
        if limit is not None and limit < 0:
            raise Wrong("it is at least 0").within("limit")
        table = _pushed(base, filters, limit, schema.names, asked)
        if table is None:
            raise _changed(name, "its connector does not take filters, a limit, columns or aggregates as it did")
        if asked is not None and table.schema != schema:
            raise Wrong("the node has other columns").within("aggregates")
        return table

    def _lookup(self, name: str, table: LookupTable | None, schema: Schema) -> LookupTable:
        if table is None:
            raise _changed(name, "it cannot be looked up by key now")
        # The node has the columns of its input before those of the table.
        looked_up = Schema(schema.fields[len(schema) - len(table.schema) :])
        if len(schema) < len(table.schema) or looked_up.names != table.schema.names:
            raise _changed(name, f"its columns are ({', '.join(table.schema.names)}) now")
        _check_columns(name, table.schema, looked_up)
        return table

    def _sink(self, path: tuple[str, ...], hints: dict[str, str], entry: dict[str, Any], schema: Schema) -> SinkTable:
        session = self._session
        found = session.catalogs.get(path, None)
        if not isinstance(found, CatalogTable):
            raise _changed(".".join(path), "it is a view now")
        table = session.open_sink(found, hints, live=self._live)
        _check_columns(str(found.path), table.schema, schema)
        if table.schema.names != schema.names:
            raise _changed(str(found.path), f"its columns are ({', '.join(table.schema.names)}) now")
        key = _field(entry, "primary_key", tuple[str, ...])
        if key != tuple(table.primary_key):
            raise _changed(str(found.path), f"its primary key is ({', '.join(table.primary_key)}) now")
        if "overwrite" in entry:
            table = _overwriting(table, str(found.path), entry["overwrite"])
        self.targets.append(found)
        return table


def _overwriting(table: SinkTable, name: str, values: Any) -> SinkTable:
    if not isinstance(table, SupportsOverwrite):
        raise _changed(name, "it cannot be overwritten now")
    types = {f.name: f.type for f in table.schema}
    if not isinstance(values, dict) or not values.keys() <= types.keys():
        raise Wrong("the values of columns are wanted").within("overwrite")
    found = {column: decode_as(Any, value) for column, value in values.items()}
    for column, value in found.items():
        _array([value], types[column].arrow, "overwrite")
    return table.with_overwrite(found)


def _constants(use: str, columns: Any, schema: Schema) -> ConstantTable:
    if use != "source" or not isinstance(columns, list) or len(columns) != len(schema):
        raise Wrong("a list for each column is wanted").within("constants")
    arrays = [
        _array(
            [decode_as(Any, value) for value in column] if isinstance(column, list) else None, f.type.arrow, "constants"
        )
        for column, f in zip(columns, schema, strict=True)
    ]
    if len({len(array) for array in arrays}) != 1:
        raise Wrong("all columns have as many values").within("constants")
    return ConstantTable(schema, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))


def _array(values: Sequence[Any] | None, arrow: pa.DataType, place: str) -> pa.Array:
    try:
        if values is not None:
            return pa.array(values, arrow)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError):
        pass
    raise Wrong(f"values of {arrow} are wanted").within(place)


def _field(entry: dict[str, Any], key: str, kind: Any, default: Any = ...) -> Any:
    if key not in entry and default is not ...:
        return default
    try:
        return decode_as(kind, entry.get(key))
    except Wrong as wrong:
        raise wrong.within(key) from None


def _aggregates(
    there: Schema, planned: Schema, entry: dict[str, Any]
) -> tuple[Sequence[str], Sequence[AskedAggregate]]:
    """What a plan asks a table for instead of its rows. Raises Wrong for what has no such result."""
    group = _field(entry, "group", tuple[str, ...], ())
    calls = _field(entry, "aggregates", tuple[tuple[str | None, ...], ...])
    if tuple(f.name for f in planned.fields[: len(group)]) != group or len(planned) != len(group) + len(calls):
        raise Wrong("the node has other columns").within("group")
    made: list[AskedAggregate] = []
    for index, (call, result) in enumerate(zip(calls, planned.fields[len(group) :], strict=True)):
        if len(call) != 2 or not _has_result(call[0], call[1], there, result.type):
            raise (
                Wrong("a function and a column are wanted, whose result the node has")
                .within(index)
                .within("aggregates")
            )
        made.append(AskedAggregate(cast(AggregateName, call[0]), call[1], result.type))
    return group, made


def _has_result(function: str | None, column: str | None, there: Schema, result: DataType) -> bool:
    index = -1 if column is None else there.index_of(column)
    if function == "COUNT":
        return (column is None or index >= 0) and result == BIGINT.not_null()
    if index < 0 or function not in ("SUM", "MIN", "MAX"):
        return False
    type_ = there[index].type.materialized()
    if function == "SUM" and type_.root is TypeRoot.DECIMAL:
        type_ = decimal(38, type_.scale)
    same = type_.with_nullable(True) == result.with_nullable(True)
    return same and (result.nullable or not there[index].type.nullable)


def _check_columns(name: str, there: Schema, planned: Schema) -> None:
    for column in planned:
        index = there.index_of(column.name)
        if index < 0:
            raise _changed(name, f"it has no column {column.name} now", did_you_mean(column.name, there.names))
        if not _same(there[index], column):
            raise _changed(name, f"its column {column.name} is {there[index].type} now, and was {column.type}")


def _same(there: Field, planned: Field) -> bool:
    """Whether values of a column are those that were planned with; they may be less often NULL than that."""
    a, b = there.type.materialized(), planned.type.materialized()
    return a.with_nullable(True) == b.with_nullable(True) and (b.nullable or not a.nullable)


def check_tables(roots: Sequence[PhysicalNode], tables: OpenedTables) -> None:
    """Raise CatalogError E1418 for tables that give or take other kinds of changes than those that were planned with, and
    views without a key that was relied on."""
    keys = {_title(opened): opened.known_keys for _, opened in tables.reads}
    for node in walk_all(roots):
        if isinstance(node, SourceExec):
            for key in node.relied_on:
                if not any(set(known) <= set(key) for known in keys.get(node.name, ())):
                    raise _changed(node.name, f"({', '.join(key)}) is no key of it now")
        if isinstance(node, SourceExec) and node.mode != node.table.changelog_mode:
            raise _changed(node.name, f"its changes are {node.table.changelog_mode} now, and were {node.mode}")
        if isinstance(node, SinkExec):
            taken = node.table.accepts(node.mode)
            lacks = taken.update_before and node.mode.update_after and not node.mode.update_before
            if lacks or not node.mode.kinds <= taken.kinds:
                raise _changed(node.name, f"it takes the changes {taken} now, and gets {node.mode}")


def _changed(name: str, what: str, hint: str | None = None) -> CatalogError:
    return CatalogError(
        f"{name} is not as it was when the plan was compiled: {what}",
        code="E1418",
        hint=hint or "compile the statement again, or give the table back its columns and options",
    )
