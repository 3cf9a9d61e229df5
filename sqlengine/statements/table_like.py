"""CREATE TABLE .. LIKE: what a table takes over from another one."""

from __future__ import annotations

from dataclasses import replace

from runtime.core.errors import CatalogError
from sqlengine.catalog.objects import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    MaterializedView,
    MetadataColumn,
    PhysicalColumn,
    TableColumn,
)
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl

__all__ = ["merged_like"]


def merged_like(table: CatalogTable, like: ddl.LikeClause, session: Session) -> CatalogTable:
    """The new table's parts over those of the source, by the merge matrix of Flink's CREATE TABLE LIKE."""
    source = session.catalogs.get(like.source.parts, like.source.span)
    if isinstance(source, CatalogView):
        raise CatalogError(
            f'"{source.path.name}" is a view: it has no columns to copy',
            code="E1411",
            span=like.source.span,
            hint="LIKE takes a table",
        )
    if isinstance(source, MaterializedView):
        plain = tuple(replace(c, type=c.type.materialized()) for c in source.columns)
        source = CatalogTable(source.path, plain)
    source = session.harness.declared.get(source.path, source)
    own = {c.name: c for c in table.columns}
    features = {ComputedColumn: "GENERATED", MetadataColumn: "METADATA", PhysicalColumn: ""}
    columns: list[TableColumn] = []
    for column in source.columns:
        feature = features[type(column)]
        strategy = like.strategy(feature) if feature else "INCLUDING"
        if strategy == "EXCLUDING":
            continue
        if isinstance(column, PhysicalColumn) and like.strategy("GENERATED") == "EXCLUDING":
            column = replace(column, default=None, identity=None)
        if column.name in own:
            if strategy == "OVERWRITING" and type(own[column.name]) is type(column):
                continue
            raise CatalogError(
                f'column "{column.name}" exists in "{source.path.name}" already',
                code="E1412",
                span=like.span,
                hint=f"leave it out, or say OVERWRITING {feature}" if feature else "leave it out",
            )
        columns.append(column)
    watermark = table.watermark
    if source.watermark is not None and like.strategy("WATERMARKS") != "EXCLUDING":
        if watermark is not None and like.strategy("WATERMARKS") == "INCLUDING":
            raise CatalogError(
                f'"{source.path.name}" has a watermark already',
                code="E1412",
                span=like.span,
                hint="say OVERWRITING WATERMARKS",
            )
        watermark = watermark or source.watermark
    key, partitions, distribution = table.primary_key, table.partitioned_by, table.distribution
    if source.primary_key and like.strategy("CONSTRAINTS") == "INCLUDING":
        if key:
            raise CatalogError(
                f'"{source.path.name}" has a primary key already',
                code="E1412",
                span=like.span,
                hint="say EXCLUDING CONSTRAINTS",
            )
        key = source.primary_key
    constraints = source.constraints if like.strategy("CONSTRAINTS") == "INCLUDING" else ()
    if source.partitioned_by and like.strategy("PARTITIONS") == "INCLUDING":
        if partitions:
            raise CatalogError(
                f'"{source.path.name}" is partitioned already',
                code="E1412",
                span=like.span,
                hint="say EXCLUDING PARTITIONS",
            )
        partitions = source.partitioned_by
    if source.distribution is not None and like.strategy("DISTRIBUTION") == "INCLUDING":
        if distribution is not None:
            raise CatalogError(
                f'"{source.path.name}" is distributed already',
                code="E1412",
                span=like.span,
                hint="say EXCLUDING DISTRIBUTION",
            )
        distribution = source.distribution
    options = dict(table.options)
    strategy = like.strategy("OPTIONS")
    if strategy != "EXCLUDING":
        for name, value in source.options.items():
            if name in options and strategy == "INCLUDING":
                raise CatalogError(
                    f"option '{name}' is set in \"{source.path.name}\" already",
                    code="E1412",
                    span=like.span,
                    hint="say OVERWRITING OPTIONS",
                )
            options.setdefault(name, value)
    return replace(
        table,
        columns=tuple(columns) + table.columns,
        watermark=watermark,
        primary_key=key,
        partitioned_by=partitions,
        options=options,
        distribution=distribution,
        constraints=constraints,
    )
