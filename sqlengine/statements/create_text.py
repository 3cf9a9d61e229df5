"""The statements that would make what is there again: for SHOW CREATE, and for catalogs that are kept in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.core.secrets import masked_sql, shown_value
from sqlengine.catalog.catalog import Catalog, CatalogObject, Database
from sqlengine.catalog.definitions import CatalogModel, CatalogProcedure, NamedDefinition
from sqlengine.catalog.objects import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    MaterializedView,
    MetadataColumn,
    PhysicalColumn,
    TableDistribution,
    TableRefresh,
)

__all__ = [
    "catalog_text",
    "create_text",
    "database_text",
    "definition_text",
    "literal",
    "quoted",
    "table_text",
    "view_text",
]


def quoted(name: str) -> str:
    """A name in back-ticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def _path(thing: CatalogObject | NamedDefinition) -> str:
    return ".".join(quoted(p) for p in thing.path.parts)


def _comment(comment: str | None, before: str = " ") -> str:
    return f"{before}COMMENT {literal(comment)}" if comment else ""


def _with(options: Mapping[str, str], *, masked: bool) -> str:
    """The clause WITH, a line each option; nothing without options."""
    if not options:
        return ""
    lines = ",\n".join(
        f"  {literal(k)} = {literal(shown_value(k, v) if masked else v)}" for k, v in sorted(options.items())
    )
    return f"WITH (\n{lines}\n)"


def create_text(thing: CatalogObject, *, name: str | None = None, masked: bool = True) -> str:
    """The CREATE statement of a table or view. `name` stands in the place of the full path; `masked` hides secrets."""
    if isinstance(thing, CatalogTable):
        return table_text(thing, name=name, masked=masked)
    return view_text(thing, name=name, masked=masked)


def table_text(table: CatalogTable, *, name: str | None = None, masked: bool = True) -> str:
    """The CREATE TABLE statement of a table."""
    lines = []
    for c in table.columns:
        match c:
            case ComputedColumn():
                lines.append(f"  {quoted(c.name)} AS {c.text}{_comment(c.comment)}")
            case MetadataColumn():
                origin = f" FROM {literal(c.key)}" if c.key != c.name else ""
                virtual = " VIRTUAL" if c.virtual else ""
                lines.append(f"  {quoted(c.name)} {c.type} METADATA{origin}{virtual}{_comment(c.comment)}")
            case _:
                lines.append(f"  {quoted(c.name)} {c.type}{_comment(c.comment)}")
    if table.watermark is not None:
        lines.append(f"  WATERMARK FOR {'.'.join(quoted(p) for p in table.watermark.column)} AS {table.watermark.text}")
    if table.primary_key:
        constraint = f"CONSTRAINT {quoted(table.constraint_name)} " if table.constraint_name else ""
        lines.append(f"  {constraint}PRIMARY KEY ({', '.join(quoted(k) for k in table.primary_key)}) NOT ENFORCED")
    temporary = "TEMPORARY " if table.temporary else ""
    text = f"CREATE {temporary}TABLE {name or _path(table)} (\n" + ",\n".join(lines) + "\n)"
    text += _comment(table.comment, "\n")
    if table.distribution is not None:
        text += "\n" + _distribution_text(table.distribution)
    if table.partitioned_by:
        text += f"\nPARTITIONED BY ({', '.join(quoted(p) for p in table.partitioned_by)})"
    options = _with(table.options, masked=masked)
    return text + (f"\n{options}" if options else "")


def _distribution_text(distribution: TableDistribution) -> str:
    columns = ", ".join(map(quoted, distribution.columns))
    by = f" BY {distribution.kind or ''}({columns})" if columns else ""
    into = f" INTO {distribution.buckets} BUCKETS" if distribution.buckets is not None else ""
    return f"DISTRIBUTED{by}{into}"


def view_text(view: CatalogView | MaterializedView, *, name: str | None = None, masked: bool = True) -> str:
    """The CREATE VIEW or CREATE MATERIALIZED VIEW statement of a view."""
    if isinstance(view, MaterializedView):
        kind = "MATERIALIZED VIEW"
        columns = [f"{quoted(c.name)}{_comment(c.comment)}" for c in view.columns]
    else:
        kind = "TEMPORARY VIEW" if view.temporary else "VIEW"
        comments = view.column_comments or (None,) * len(view.columns)
        columns = [f"{quoted(n)}{_comment(c)}" for n, c in zip(view.columns, comments, strict=True)]
    named = f" ({', '.join(columns)})" if columns else ""
    text = masked_sql(view.text) if masked else view.text
    if isinstance(view, MaterializedView) and view.refresh is not None:
        made = f"CREATE MATERIALIZED TABLE {name or _path(view)}{named}{_comment(view.comment, chr(10))}"
        return f"{made}\n{_refresh_text(view.refresh, masked=masked)}\nAS {text}"
    options = _with(view.options, masked=masked) if isinstance(view, MaterializedView) else ""
    made = f"CREATE {kind} {name or _path(view)}{named}{_comment(view.comment, chr(10))}"
    return f"{made}\n{options}\nAS {text}" if options else f"{made}\nAS {text}"


def _refresh_text(refresh: TableRefresh, *, masked: bool) -> str:
    partitions = ", ".join(quoted(c) for c in refresh.partitioned_by)
    clauses = [
        f"PARTITIONED BY ({partitions})" if partitions else "",
        _with(refresh.options, masked=masked),
        f"FRESHNESS = {refresh.freshness}",
        f"REFRESH_MODE = {'FULL' if refresh.full else 'CONTINUOUS'}" if refresh.written else "",
        "SUSPENDED" if refresh.suspended else "",
    ]
    return "\n".join(filter(None, clauses))


def definition_text(thing: NamedDefinition, *, name: str | None = None, masked: bool = True) -> str:
    """The CREATE statement of a model, connection or procedure."""
    temporary = "TEMPORARY " if thing.temporary else ""
    text = f"CREATE {temporary}{thing.kind.upper()} {name or _path(thing)}"
    if isinstance(thing, CatalogProcedure):
        return f"{text} AS {literal(thing.identifier)} LANGUAGE PYTHON"
    if isinstance(thing, CatalogModel):
        for word, columns in (("INPUT", thing.inputs), ("OUTPUT", thing.outputs)):
            text += f"\n{word} ({_columns(columns)})" if columns else ""
    text += _comment(thing.comment, "\n")
    options = _with(thing.options, masked=masked)
    return text + (f"\n{options}" if options else "")


def _columns(columns: Sequence[PhysicalColumn]) -> str:
    return ", ".join(f"{quoted(c.name)} {c.type}{_comment(c.comment)}" for c in columns)


def catalog_text(catalog: Catalog, *, masked: bool = True) -> str:
    """The CREATE CATALOG statement of a catalog."""
    return f"CREATE CATALOG {quoted(catalog.name)}{_comment(catalog.comment)} {_with(catalog.options, masked=masked)}"


def database_text(database: Database, *, name: str, masked: bool = True) -> str:
    """The CREATE DATABASE statement of a database; `name` as it is to be written."""
    options = _with(database.options, masked=masked)
    return f"CREATE DATABASE {name}{_comment(database.comment)}{' ' + options if options else ''}"
