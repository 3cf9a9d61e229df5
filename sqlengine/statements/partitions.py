"""ALTER TABLE .. DROP PARTITION: the files of a partition go, as an INSERT OVERWRITE of no rows takes them away."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from runtime.core.errors import BindError, CatalogError, UnsupportedError, did_you_mean
from runtime.core.types import STRING
from runtime.eval.constant import fold_constant
from runtime.expr.nodes import Literal
from runtime.spi.abilities import ListsPartitions
from sqlengine.bind.construct import cast_explicitly
from sqlengine.bind.insert import partition_values
from sqlengine.catalog.objects import CatalogTable, PhysicalColumn
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.create_text import quoted
from sqlengine.statements.queries import Inserts, run_writing

__all__ = ["drop_partitions"]


def drop_partitions(action: ddl.DropPartitions, table: CatalogTable, session: Session) -> Result:
    """Remove partitions, one after another; those that are to be dropped are looked for before the first one goes.

    Raises:
        CatalogError: E1414, there is no such partition.
        BindError: E1226, what is named is no partition column, or not all of them are.
        UnsupportedError: E1603, the table has no partitions of files.
    """
    binding = Binding(session, False)
    source = binding.resolve(table.path.parts, None, {}).source if table.partitioned_by else None  # type: ignore[union-attr]
    if not isinstance(source, ListsPartitions):
        raise UnsupportedError(
            f'"{table.path.name}" has no partitions of files that could be dropped',
            code="E1603",
            hint="DELETE removes rows of a table in memory",
        )
    statements = [_emptying(spec, table) for spec in action.partitions]
    there = _typed(source.partitions(), table, binding)
    sink = session.open_sink(table, {}, live=False)
    chosen: list[st.Insert] = []
    for spec, statement in zip(action.partitions, statements, strict=True):
        values = partition_values(statement, sink, binding)
        if any(all(found[name] == value for name, value in values.items()) for found in there):
            chosen.append(statement)
        elif not action.if_exists:
            raise CatalogError(
                f'"{table.path.name}" has no such partition',
                code="E1414",
                span=spec.span,
                hint=f"SHOW PARTITIONS {table.path.name} lists them; DROP IF EXISTS PARTITION takes what is there",
            )
    before, session.inserts_in_background = session.inserts_in_background, False
    try:
        for statement in chosen:
            run_writing(Inserts([(statement, table)], statement.text), session)
    finally:
        session.inserts_in_background = before
    return Result.ok()


def _typed(
    folders: Iterable[Mapping[str, str | None]], table: CatalogTable, binding: Binding
) -> list[dict[str, object]]:
    """The values of partitions, of which the folders have the texts."""

    @functools.cache
    def value(name: str, text: str | None) -> object:
        column = table.column(name)
        assert isinstance(column, PhysicalColumn)
        if text is None:
            return None
        made = cast_explicitly(Literal(text, STRING), column.type.with_nullable(True), True, None)
        return fold_constant(made, binding.functions, binding.time_zone, binding.now).value

    return [{name: value(name, text) for name, text in folder.items()} for folder in folders]


def _emptying(spec: ddl.PartitionSpec, table: CatalogTable) -> st.Insert:
    """INSERT OVERWRITE of the partition with no rows."""
    names = [name.text for name, value in spec.values if value is not None]
    for name, _ in spec.values:
        if name.text not in table.partitioned_by:
            raise BindError(
                f'"{name}" is no partition column of {table.path.name}',
                code="E1226",
                span=name.span,
                hint=did_you_mean(name.text, table.partitioned_by),
            )
    if set(names) != set(table.partitioned_by):
        raise BindError(
            "DROP PARTITION names a value of each partition column",
            code="E1226",
            span=spec.span,
            hint=f"they are {', '.join(table.partitioned_by)}",
        )
    others = [c for c in table.columns if isinstance(c, PhysicalColumn) and c.name not in names]
    nothing = ", ".join(f"CAST(NULL AS {c.type.with_nullable(True)})" for c in others)
    path = ".".join(map(quoted, table.path.parts))
    insert = parse_statement(f"INSERT OVERWRITE {path} SELECT {nothing} WHERE FALSE")
    assert isinstance(insert, st.Insert)
    return insert.with_(partition=spec, table=ddl.ObjectName(table.path.parts, spec.span))
