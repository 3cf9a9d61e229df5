"""ALTER TABLE: columns, watermark, key, options, names. The contents of a table in memory follow its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from connectors.memory import MemoryTable, OpenChanges
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import (
    BindError,
    CatalogError,
    OptionError,
    Span,
    TypeMismatchError,
    UnsupportedError,
    did_you_mean,
    pointing_at,
)
from runtime.core.rooms import Room
from runtime.core.schema import Field, Schema
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.expr.nodes import Cast, InputRef
from runtime.expr.typing import implicit_cast
from sqlengine.catalog.objects import (
    CatalogTable,
    ComputedColumn,
    DefaultValue,
    PhysicalColumn,
    TableColumn,
    TableDistribution,
    is_numbered,
)
from sqlengine.catalog.statistics import MeasuredTable
from sqlengine.database.maintained_view import MOST_GATHERED
from sqlengine.database.session import Session, physical_schema
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.spans import identifiers
from sqlengine.results.result import Result
from sqlengine.statements.connector_options import check_connector
from sqlengine.statements.tables import (
    catalog_column,
    catalog_distribution,
    catalog_watermark,
    checked_table,
    get_table,
    sequences_follow,
)
from sqlengine.statements.view_options import keep_history

if TYPE_CHECKING:
    import sqlengine.statements.column_values as _column_values
    import sqlengine.statements.constraints as _constraints
    import sqlengine.statements.partitions as _partitions
else:
    _column_values = Room("sqlengine.statements.column_values")
    _constraints = Room("sqlengine.statements.constraints")
    _partitions = Room("sqlengine.statements.partitions")

__all__ = ["alter_table"]


def alter_table(statement: st.AlterTable, session: Session) -> Result:
    """Change a table; nothing is changed when the change is refused."""
    path = session.catalogs.qualify(statement.name.parts)
    if session.catalogs.find(path) is None and statement.if_exists:
        return Result.ok()
    table = get_table(session, statement.name)
    with pointing_at(statement.name.span):
        if isinstance(statement.action, ddl.RenameTo):
            _rename(table, statement.action, session)
        elif isinstance(statement.action, ddl.DropPartitions):
            return _partitions.drop_partitions(statement.action, table, session)
        else:
            _change(table, statement.action, session)
    return Result.ok()


def _change(table: CatalogTable, action: ddl.AlterAction, session: Session) -> None:
    changed = _changed(table, action)
    if isinstance(action, ddl.AddParts) and action.constraints:
        changed = _constraints.with_constraints(changed, action.constraints, session)
    changed = checked_table(changed, session)
    named = (action.old.text, action.new.text) if isinstance(action, ddl.RenameColumn) else None
    sequences_follow(table, changed, session, named)
    if isinstance(action, ddl.SetOptions | ddl.ResetOptions):
        check_connector(changed, session, action.options if isinstance(action, ddl.SetOptions) else ())
    if _declared(changed) != _declared(table) or _kept_as(changed) != _kept_as(table):
        _check_unread(table, session)
    if table.storage in session.memory and _kept_as(changed) != _kept_as(table):
        renamed = action if isinstance(action, ddl.RenameColumn) else None
        _follow_contents(table, changed, renamed, session)
    elif table.storage in session.memory and changed.constraints != table.constraints:
        _constraints.enforce(changed, session.memory[table.storage], session)
    session.catalogs.replace(replace(changed, measured=_still_measured(table, changed)))
    if changed.connector is None and isinstance(action, ddl.SetOptions | ddl.ResetOptions):
        keep_history(changed, session)


def _declared(table: CatalogTable) -> list[TableColumn]:
    """The columns as readers know them: without what new rows have of which an INSERT says nothing."""
    return [replace(c, default=None, identity=None) if isinstance(c, PhysicalColumn) else c for c in table.columns]


def _still_measured(before: CatalogTable, after: CatalogTable) -> MeasuredTable | None:
    """What ANALYZE TABLE found, without the columns that are no longer what they were."""
    same = [c.name for c in after.columns if before.column(c.name) == c]
    return before.measured.of_columns(same) if before.measured is not None else None


def _kept_as(table: CatalogTable) -> tuple[object, ...]:
    """What decides how rows in memory are kept."""
    return physical_schema(table), table.primary_key, table.watermark is None, table.options.get("changelog-mode")


def _check_unread(table: CatalogTable, session: Session) -> None:
    dependents = session.views.dependents(table.storage)
    if dependents:
        raise CatalogError(
            f'"{table.path.name}" is read by the materialized view "{dependents[0].name}"',
            code="E1410",
            hint="drop the view first, and create it again afterwards",
        )


def _changed(table: CatalogTable, action: ddl.AlterAction) -> CatalogTable:
    match action:
        case ddl.AddParts():
            return _added(table, action)
        case ddl.ModifyParts():
            return _modified(table, action)
        case ddl.DropColumns(columns=names, if_exists=if_exists):
            if if_exists:
                names = tuple(n for n in names if table.column(n.text) is not None)
            return _without_columns(table, names)
        case ddl.DropPart():
            return _without_part(table, action)
        case ddl.RenameColumn(old=old, new=new):
            _column(table, old)
            if table.column(new.text) is not None:
                raise CatalogError(
                    f'column "{new.text}" exists already', code="E1401", span=new.span, hint="choose another name"
                )
            _refuse_if_used(table, old, "renamed")
            columns = tuple(replace(c, name=new.text) if c.name == old.text else c for c in table.columns)
            return replace(
                table,
                columns=columns,
                primary_key=tuple(new.text if k == old.text else k for k in table.primary_key),
                partitioned_by=tuple(new.text if k == old.text else k for k in table.partitioned_by),
                distribution=_with_renamed(table.distribution, old.text, new.text),
                constraints=_constraints.with_renamed_column(table, old.text, new.text) if table.constraints else (),
            )
        case ddl.AlterColumn():
            return _with_column(table, action)
        case ddl.SetOptions(options=options):
            return replace(table, options={**table.options, **st.options_dict(options)})
        case ddl.ResetOptions(keys=keys):
            if not keys:
                raise OptionError("RESET () names no option", hint="for example RESET ('changelog-mode')")
            for key in keys:
                if key.text == "connector":
                    raise OptionError(
                        "the option 'connector' cannot be reset",
                        span=key.span,
                        hint="DROP the table and create it again",
                    )
            gone = {k.text for k in keys}
            return replace(table, options={k: v for k, v in table.options.items() if k not in gone})
        case _:
            raise UnsupportedError(
                "partitions of this table are made by writing to it",
                code="E1603",
                hint="INSERT INTO ... PARTITION (...)",
            )


def _with_column(table: CatalogTable, action: ddl.AlterColumn) -> CatalogTable:
    """The table with another default value, type or NOT NULL of a column."""
    found = _column(table, action.column)
    if not isinstance(found, PhysicalColumn):
        raise CatalogError(
            f'column "{found.name}" is computed or metadata, and has neither a default value nor NOT NULL',
            code="E1415",
            span=action.column.span,
            hint="MODIFY changes it",
        )
    match action.what:
        case "DEFAULT":
            given = action.default
            if found.identity is not None:
                raise CatalogError(
                    f'column "{found.name}" is numbered, and has no default value',
                    code="E1415",
                    span=action.column.span,
                    hint=f"MODIFY {found.name} {found.type} makes it a plain column",
                )
            new = replace(found, default=None if given is None else DefaultValue(given.expression, given.text))
        case "NULL":
            if action.nullable and (found.name in table.primary_key or found.identity is not None):
                raise CatalogError(
                    f'column "{found.name}" is part of the primary key, or numbered, and stays NOT NULL',
                    code="E1415",
                    span=action.column.span,
                    hint="DROP PRIMARY KEY first",
                )
            new = replace(found, type=found.type.with_nullable(action.nullable))
        case _:
            assert action.type is not None
            new = replace(found, type=action.type.with_nullable(found.type.nullable))
    return replace(table, columns=tuple(new if c is found else c for c in table.columns))


def _added(table: CatalogTable, action: ddl.AddParts) -> CatalogTable:
    columns = list(table.columns)
    for place in action.columns:
        if any(c.name == place.column.name.text for c in columns):
            if place.if_not_exists:
                continue
            raise CatalogError(
                f'column "{place.column.name.text}" exists already',
                code="E1401",
                span=place.column.name.span,
                hint="use MODIFY to change it",
            )
        _insert_at(columns, catalog_column(place.column), place)
    changed = replace(table, columns=tuple(columns))
    if action.watermark is not None:
        _refuse_second(table.watermark, "watermark", action.watermark.span)
        changed = replace(changed, watermark=catalog_watermark(action.watermark))
    if action.primary_key is not None:
        _refuse_second(table.primary_key, "primary key", action.primary_key.span)
        changed = _with_key(changed, action.primary_key)
    if action.distribution is not None:
        _refuse_second(table.distribution, "distribution", action.distribution.span)
        changed = replace(changed, distribution=catalog_distribution(action.distribution))
    return changed


def _refuse_second(there: object, what: str, span: Span | None) -> None:
    """Raise CatalogError E1401 when a table has already what is added."""
    if there:
        raise CatalogError(
            f"the table has a {what} already", code="E1401", span=span, hint=f"use MODIFY {what.upper()}"
        )


def _refuse_first(there: object, what: str, span: Span | None) -> None:
    """Raise CatalogError E1414 when a table has not what is modified."""
    if not there:
        raise CatalogError(
            f"the table has no {what} to modify", code="E1414", span=span, hint=f"use ADD {what.upper()}"
        )


def _with_key(table: CatalogTable, key: ddl.PrimaryKey) -> CatalogTable:
    columns = tuple(n.text for n in key.columns)
    return replace(table, primary_key=columns, constraint_name=None if key.name is None else key.name.text)


def _with_renamed(distribution: TableDistribution | None, old: str, new: str) -> TableDistribution | None:
    if distribution is None:
        return None
    return replace(distribution, columns=tuple(new if c == old else c for c in distribution.columns))


def _modified(table: CatalogTable, action: ddl.ModifyParts) -> CatalogTable:
    columns = list(table.columns)
    for place in action.columns:
        name = place.column.name
        _column(table, name)
        new = catalog_column(place.column)
        position = next(i for i, c in enumerate(columns) if c.name == name.text)
        if place.first or place.after is not None:
            del columns[position]
            _insert_at(columns, new, place)
        else:
            columns[position] = new
    changed = replace(table, columns=tuple(columns))
    if action.watermark is not None:
        _refuse_first(table.watermark, "watermark", action.watermark.span)
        changed = replace(changed, watermark=catalog_watermark(action.watermark))
    if action.primary_key is not None:
        _refuse_first(table.primary_key, "primary key", action.primary_key.span)
        changed = _with_key(changed, action.primary_key)
    if action.distribution is not None:
        _refuse_first(table.distribution, "distribution", action.distribution.span)
        changed = replace(changed, distribution=catalog_distribution(action.distribution))
    return changed


def _insert_at(columns: list[TableColumn], column: TableColumn, place: ddl.ColumnPlace) -> None:
    if place.first:
        columns.insert(0, column)
    elif place.after is not None:
        names = [c.name for c in columns]
        if place.after.text not in names:
            raise BindError(
                f'unknown column "{place.after.text}"',
                code="E1201",
                span=place.after.span,
                hint=did_you_mean(place.after.text, names),
            )
        columns.insert(names.index(place.after.text) + 1, column)
    else:
        columns.append(column)


def _without_columns(table: CatalogTable, names: tuple[ddl.Name, ...]) -> CatalogTable:
    for name in names:
        _column(table, name)
        _refuse_if_used(table, name, "dropped")
        if name.text in (*table.primary_key, *table.partitioned_by):
            raise CatalogError(
                f'column "{name.text}" is part of the primary key or the partitions',
                code="E1415",
                span=name.span,
                hint="DROP PRIMARY KEY first",
            )
        if table.distribution is not None and name.text in table.distribution.columns:
            raise CatalogError(
                f'the table is distributed by "{name.text}"',
                code="E1415",
                span=name.span,
                hint="DROP DISTRIBUTION first",
            )
    gone = {n.text for n in names}
    constraints = _constraints.without_column(table, gone) if table.constraints else ()
    return replace(table, columns=tuple(c for c in table.columns if c.name not in gone), constraints=constraints)


def _without_part(table: CatalogTable, action: ddl.DropPart) -> CatalogTable:
    if action.part == "WATERMARK" and table.watermark is not None:
        return replace(table, watermark=None)
    if action.part == "DISTRIBUTION" and table.distribution is not None:
        return replace(table, distribution=None)
    if action.part == "CONSTRAINT" and action.name is not None:
        return _without_constraint(table, action.name, action.if_exists)
    if action.part == "PRIMARY KEY" and table.primary_key:
        return replace(table, primary_key=(), constraint_name=None)
    raise CatalogError(
        f"the table has no {action.part.lower()} to drop",
        code="E1414",
        hint=f"DESCRIBE {table.path.name} shows what it has",
    )


def _without_constraint(table: CatalogTable, name: ddl.Name, if_exists: bool) -> CatalogTable:
    """The table without a constraint, which may be the primary key; that has a name where nobody has given it one."""
    left = _constraints.without_constraint(table, name.text) if table.constraints else None
    if left is not None:
        return left
    key = table.constraint_name or f"{table.path.name}_pkey"
    flinks = "" if table.constraint_name else f"PK_{'_'.join(table.primary_key)}"
    if table.primary_key and name.text in (key, flinks):
        return replace(table, primary_key=(), constraint_name=None)
    if if_exists:
        return table
    names = [c.name for c in table.constraints] + ([key] if table.primary_key else [])
    raise CatalogError(
        f'unknown constraint "{name.text}"', code="E1414", span=name.span, hint=did_you_mean(name.text, names)
    )


def _column(table: CatalogTable, name: ddl.Name) -> TableColumn:
    found = table.column(name.text)
    if found is None:
        raise BindError(
            f'unknown column "{name.text}"',
            code="E1201",
            span=name.span,
            hint=did_you_mean(name.text, [c.name for c in table.columns]),
        )
    return found


def _refuse_if_used(table: CatalogTable, name: ddl.Name, what: str) -> None:
    """A column that a watermark or a computed column reads stays as it is."""
    texts = {c.name: c.expression for c in table.columns if isinstance(c, ComputedColumn)}
    readers = [n for n, e in texts.items() if n != name.text and name.text in identifiers(e)]
    if table.watermark is not None and (
        name.text in table.watermark.column or name.text in identifiers(table.watermark.expression)
    ):
        readers.append("the watermark")
    if readers:
        raise CatalogError(
            f'column "{name.text}" cannot be {what}: {readers[0]} reads it',
            code="E1415",
            span=name.span,
            hint=f"drop {readers[0]} first, and add it again afterwards",
        )


def _rename(table: CatalogTable, action: ddl.RenameTo, session: Session) -> None:
    _check_unread(table, session)
    renamed = replace(table, path=session.catalogs.qualify(action.name.parts))
    session.catalogs.create(renamed, span=action.name.span)
    session.catalogs.remove(table)
    sequences_follow(table, renamed, session)
    contents = session.memory.pop(table.storage, None)
    for column in renamed.columns if is_numbered(renamed) else ():
        session.database.sequences.move((table.storage, column.name), (renamed.storage, column.name))
    if contents is not None:
        contents.name = str(renamed.path)
        session.memory[renamed.storage] = contents
        if session.epoch is not None:
            session.epoch.move(table.storage, session.epoch.find(table.storage), renamed.storage)


def _follow_contents(
    before: CatalogTable, after: CatalogTable, renamed: ddl.RenameColumn | None, session: Session
) -> None:
    """Rows that a table in memory holds, brought into its new columns: new ones NULL, changed types cast. Changes of an
    open epoch stay changes of that epoch. Meanwhile others wait only where they need the table, or change definitions."""
    old = session.memory[before.storage]
    old_names = {renamed.new.text: renamed.old.text} if renamed is not None else {}
    schema = physical_schema(after)
    if renamed is not None:
        sequences = session.database.sequences if is_numbered(after) else None
        if sequences is not None:
            sequences.move((before.storage, renamed.old.text), (after.storage, renamed.new.text))
    changes = None if session.epoch is None else session.epoch.find(before.storage)

    def added(name: str, count: int) -> pa.Array:
        column = after.column(name)
        assert isinstance(column, PhysicalColumn)
        return _column_values.added_values(after, column, count, session, open_rows=changes is not None)

    def converted(rows: pa.Table, kinds: np.ndarray | None = None) -> ChangelogBatch:
        columns = [_converted(rows, old.schema, old_names.get(f.name, f.name), f, session, added) for f in schema]
        return ChangelogBatch.of(columns, schema, kinds)

    batches = () if changes is None else changes.batches
    new = session.database.new_table(after, session.options)
    beside = session.views.lock.held_once and len(old) + sum(map(len, batches)) > MOST_GATHERED
    with session.views.apart({before.storage}) if beside else nullcontext():
        new.apply(converted(old.contents()))
        pending = [converted(pa.Table.from_batches([batch.rows]), batch.kinds) for batch in batches]
        new.publish()
        new.show()  # An open epoch need not hear of these rows.
    session.database.keep(after.storage, new)
    if session.epoch is not None:
        session.epoch.move(before.storage, _reopened(new, pending), after.storage)


def _reopened(table: MemoryTable, pending: Sequence[ChangelogBatch]) -> OpenChanges:
    changes = OpenChanges(table)
    changes.apply(*pending)
    return changes


def _converted(
    rows: pa.Table, old: Schema, name: str, field: Field, session: Session, added: Callable[[str, int], pa.Array]
) -> pa.Array:
    """The values of a column, from those of the column `name` that there was; of a new one they are `added`."""
    target = field.type
    position = old.index_of(name)
    if position < 0:
        values = added(name, rows.num_rows)
        if not target.nullable and values.null_count:
            raise TypeMismatchError(
                f'column "{name}" is NOT NULL, but the table has rows without it',
                code="E1431",
                hint="add it as nullable, or with a DEFAULT",
            )
        return values
    source = old[position].type
    if source.with_nullable(True) != target.with_nullable(True) and not implicit_cast(source, target):
        raise TypeMismatchError(
            f'column "{name}" holds {source} values, which are not {target}',
            code="E1432",
            hint="create a new table and INSERT with CAST",
        )
    column = rows.column(position).combine_chunks()
    if not target.nullable and column.null_count:
        raise TypeMismatchError(
            f'column "{name}" is NOT NULL, but {column.null_count} rows have no value for it',
            code="E1431",
            hint="DELETE or UPDATE those rows first",
        )
    if source.with_nullable(True) == target.with_nullable(True):
        return column
    batch = pa.RecordBatch.from_arrays([column], names=[name])
    evaluator = Evaluator((Cast(InputRef(0, source), target),), session.functions)
    (converted,) = evaluator.evaluate(batch, BatchContext(num_rows=batch.num_rows, time_zone=session.time_zone))
    return converted
