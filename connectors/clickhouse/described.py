"""What a server says of its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from connectors.clickhouse.columns import Column, parts_of, quoted, text_literal
from connectors.clickhouse.server import Server
from connectors.databases.parts import named
from runtime.core.errors import ConnectorError, did_you_mean

__all__ = ["COMMITS", "Relation", "described", "names_of"]

COMMITS = "sqlengine_commits"
_MERGING = ("Replacing", "Collapsing", "VersionedCollapsing", "Summing", "Aggregating", "Coalescing", "Graphite")
_WINDOW = re.compile(r"\b(?:non_)?replicated_deduplication_window\s*=\s*(\d+)")


@dataclass(frozen=True)
class Relation:
    """A table or view.

    Attributes:
        engine: such as `ReplicatedReplacingMergeTree`; `full`: with what stands behind it.
        sorting, partitions: the texts of the keys.
        rows: how many; None where it is not known.
        default_window: of how many inserts a table remembers, where its settings do not say it.
    """

    database: str
    name: str
    engine: str
    full: str
    sorting: str
    partitions: str
    rows: float | None
    comment: str
    columns: tuple[Column, ...]
    default_window: int

    @property
    def sql(self) -> str:
        return f"{quoted(self.database)}.{quoted(self.name)}"

    @property
    def final(self) -> str:
        """What is asked so that rows come as they are when all merges are done."""
        return " FINAL" if any(self.kind == f"{word}MergeTree" for word in _MERGING) else ""

    @property
    def kind(self) -> str:
        """The engine, whoever keeps its copies."""
        return self.engine.removeprefix("Replicated").removeprefix("Shared")

    @cached_property
    def arguments(self) -> list[str]:
        """Columns that the engine was given: those of versions, deletes, signs."""
        found = re.match(r"\w+\((.*?)\)(?: PARTITION BY| PRIMARY KEY| ORDER BY| SAMPLE BY| TTL| SETTINGS|$)", self.full)
        given = parts_of(found[1]) if found else []
        return [part.strip('`"') for part in given if not part.startswith("'")]

    @property
    def window(self) -> int:
        """Of how many parts that were inserted the table knows that they were."""
        found = _WINDOW.search(self.full)
        return int(found[1]) if found else self.default_window

    @property
    def order(self) -> list[Column]:
        """Columns by which rows are kept in order, as far as rows can be gone on with behind their values."""
        known, found = {c.name: c for c in self.columns}, list[Column]()
        for part in self.sorted_by:
            column = known.get(part)
            if column is None or not column.has_order:
                break
            found.append(column)
        return found

    @property
    def sorted_by(self) -> list[str]:
        """The sorting key, column by column, or expression by expression."""
        parts = parts_of(self.sorting)
        if len(parts) == 1 and parts[0].startswith("(") and parts[0].endswith(")"):
            parts = parts_of(parts[0][1:-1])
        return [part.strip('`"') for part in parts]

    def column(self, name: str) -> Column:
        """Raises ConnectorError E3163 when there is none of this name."""
        return named(self.columns, name, f"{self.database}.{self.name}")


def described(server: Server, database: str, name: str) -> Relation:
    """A table of a database. Raises ConnectorError E3163 when there is none."""
    what = f"{server}/{database}.{name}"
    found = server.asked(
        "SELECT engine, engine_full, sorting_key, partition_key, total_rows, comment FROM system.tables "
        f"WHERE database = {text_literal(database)} AND name = {text_literal(name)}",
        what,
    )
    if not found:
        raise _missing(server, database, name)
    columns = server.asked(
        "SELECT name, type, default_kind, comment FROM system.columns "
        f'WHERE database = {text_literal(database)} AND "table" = {text_literal(name)} ORDER BY position',
        what,
    )
    (table,) = found
    engine = table["engine"].decode()
    setting = "replicated_deduplication_window"
    if not engine.startswith(("Replicated", "Shared")):
        setting = f"non_{setting}"
    default = server.asked(f"SELECT value FROM system.merge_tree_settings WHERE name = {text_literal(setting)}", what)
    return Relation(
        database,
        name,
        engine,
        table["engine_full"].decode(),
        table["sorting_key"].decode(),
        table["partition_key"].decode(),
        None if table["total_rows"] is None else float(table["total_rows"]),
        table["comment"].decode(),
        tuple(Column(*(c[k].decode() for k in ("name", "type", "default_kind", "comment"))) for c in columns),
        int(default[0]["value"]) if default else 0,
    )


def names_of(server: Server, database: str) -> list[str]:
    """Tables and views, but for the sinks' own."""
    found = server.asked(
        f"SELECT name FROM system.tables WHERE database = {text_literal(database)} AND is_temporary = 0 "
        f"AND name <> {text_literal(COMMITS)} ORDER BY name"
    )
    return [row["name"].decode() for row in found]


def _missing(server: Server, database: str, name: str) -> ConnectorError:
    return ConnectorError(
        f'there is no table "{name}" in the database "{database}"',
        code="E3163",
        hint=did_you_mean(name, names_of(server, database)) or "check the options 'table-name' and 'url'",
    )
