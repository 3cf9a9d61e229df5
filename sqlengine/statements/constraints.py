"""CHECK and UNIQUE of CREATE TABLE and ALTER TABLE: their names, and what becomes of them when columns change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from connectors.memory import MemoryTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import BindError, CatalogError, UnsupportedError, did_you_mean
from sqlengine.catalog.objects import CatalogTable, Constraint, DefaultValue, PhysicalColumn
from sqlengine.database.session import Session
from sqlengine.database.table_rules import columns_read, table_rules
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse.trees import with_renamed_column_in

__all__ = ["check_kept", "enforce", "with_constraints", "with_renamed_column", "without_column", "without_constraint"]


def with_constraints(table: CatalogTable, given: Sequence[ddl.Constraint], session: Session) -> CatalogTable:
    """The table with more constraints; those without a name get the one that PostgreSQL would give.

    Raises:
        UnsupportedError: E1607, rows of the table are not kept here.
        CatalogError: E1401, a name is taken.
        BindError: E1201 for a column that is not there, and what binding a condition raises.
    """
    for constraint in given:
        if table.connector is not None or session.catalogs.maker(table) is not None:
            raise UnsupportedError(
                f"{'UNIQUE' if constraint.condition is None else 'CHECK'} cannot be kept: the rows of "
                f"{table.path.name} lie elsewhere",
                code="E1607",
                span=constraint.span,
                hint="leave it out; a view with the condition in WHERE tells the rows that break it",
            )
        made = _made(table, constraint)
        if constraint.name is None:
            made = replace(made, name=_free_name(table, made))
        elif made.name in _names(table):
            raise CatalogError(
                f'the constraint "{made.name}" exists already',
                code="E1401",
                span=constraint.name.span,
                hint="choose another name",
            )
        table = replace(table, constraints=(*table.constraints, made))
    return table


def _made(table: CatalogTable, given: ddl.Constraint) -> Constraint:
    name = "" if given.name is None else given.name.text
    if given.condition is not None:
        made = Constraint(name, (), DefaultValue(given.condition.expression, given.condition.text))
        return replace(made, columns=columns_read(table, made))
    known = [c.name for c in table.columns if isinstance(c, PhysicalColumn)]
    for i, column in enumerate(given.columns):
        if column.text not in known:
            raise BindError(
                f'unknown column "{column.text}"', code="E1201", span=column.span, hint=did_you_mean(column.text, known)
            )
        if any(column.text == other.text for other in given.columns[:i]):
            raise BindError(
                f'the column "{column.text}" is in UNIQUE twice', code="E1224", span=column.span, hint="name it once"
            )
    return Constraint(name, tuple(c.text for c in given.columns), None, given.nulls_distinct)


def _names(table: CatalogTable) -> set[str]:
    key = {table.constraint_name or f"{table.path.name}_pkey"} if table.primary_key else set[str]()
    return {c.name for c in table.constraints} | key


def _free_name(table: CatalogTable, made: Constraint) -> str:
    columns = made.columns if made.condition is None or len(made.columns) == 1 else ()
    base = "_".join((table.path.name, *columns, "key" if made.condition is None else "check"))
    taken, name, number = _names(table), base, 0
    while name in taken:
        number += 1
        name = f"{base}{number}"
    return name


def check_kept(table: CatalogTable, session: Session) -> None:
    """Raise what keeps the constraints of a table from holding after its columns or options were changed, or copied."""
    if not table.constraints:
        return
    if table.connector is not None or session.catalogs.maker(table) is not None:
        raise UnsupportedError(
            f"CHECK and UNIQUE cannot be kept: the rows of {table.path.name} lie elsewhere",
            code="E1607",
            hint="LIKE .. (EXCLUDING CONSTRAINTS) leaves them out",
        )
    physical = {c.name for c in table.columns if isinstance(c, PhysicalColumn)}
    for constraint in table.constraints:
        computed = next((name for name in constraint.columns if name not in physical), None)
        if computed is not None:
            raise CatalogError(
                f'the constraint "{constraint.name}" is about "{computed}", which would be no column that is stored',
                code="E1415",
                hint=f"DROP CONSTRAINT {constraint.name} first",
            )
    table_rules(table, session.clock)


def without_constraint(table: CatalogTable, name: str) -> CatalogTable | None:
    """The table without a CHECK or UNIQUE; None when it has none of that name."""
    left = tuple(c for c in table.constraints if c.name != name)
    return replace(table, constraints=left) if len(left) < len(table.constraints) else None


def without_column(table: CatalogTable, gone: Collection[str]) -> tuple[Constraint, ...]:
    """The constraints that do not speak of columns that are dropped: the others go with them, as in PostgreSQL."""
    return tuple(c for c in table.constraints if not set(c.columns) & set(gone))


def with_renamed_column(table: CatalogTable, old: str, new: str) -> tuple[Constraint, ...]:
    """The constraints when a column has another name."""
    return tuple(_renamed(c, old, new) if old in c.columns else c for c in table.constraints)


def _renamed(constraint: Constraint, old: str, new: str) -> Constraint:
    columns = tuple(new if c == old else c for c in constraint.columns)
    if constraint.condition is None:
        return replace(constraint, columns=columns)
    tree, text = with_renamed_column_in(constraint.condition.expression, old, new)
    return replace(constraint, columns=columns, condition=DefaultValue(tree, text))


def enforce(table: CatalogTable, contents: MemoryTable, session: Session) -> None:
    """The constraints of a table hold for its rows, and for those of an open epoch, from now on; nothing has changed where
    they do not. Raises BrokenConstraint."""
    rules = table_rules(table, session.clock) if table.constraints else None
    if rules is not None:
        rows = [ChangelogBatch(batch) for batch in contents.contents().to_batches()]
        rules.check_rows(contents, rows)
        changes = None if session.epoch is None else session.epoch.find(table.storage)
        pending = () if changes is None else changes.batches
        rules.check_rows(contents, pending)
        for rule in rules.uniques:
            rule.check_all(contents)
        rules.check_net(contents, pending)
    contents.rules = rules
