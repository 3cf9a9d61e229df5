"""What a database says of its tables: their columns, keys and comments."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.databases.parts import named
from connectors.mysql.columns import INTEGERS, Column
from connectors.mysql.connection import Connection, literal, quoted
from runtime.core.errors import ConnectorError, did_you_mean

__all__ = ["EPOCHS", "Relation", "described", "table_names"]

EPOCHS = "_sqlengine_epochs"


@dataclass(frozen=True)
class Relation:
    """A table or view.

    Attributes:
        rows: about how many.
        engine: that keeps it; none of a view.
        key: columns of the primary key.
        unique: the columns of each unique index, with the primary key.
    """

    database: str
    name: str
    engine: str
    rows: float | None
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...]
    comment: str | None

    @property
    def sql(self) -> str:
        return f"{quoted(self.database)}.{quoted(self.name)}"

    @property
    def transactional(self) -> bool:
        """Whether what is written can be taken back."""
        return self.engine.lower() in ("innodb", "rocksdb", "tokudb", "ndbcluster")

    def column(self, name: str) -> Column:
        """Raises ConnectorError E3163 when there is none of this name."""
        return named(self.columns, name, f"{self.database}.{self.name}")

    @property
    def counts_by(self) -> str | None:
        """The first column of the primary key, if it is a whole number."""
        return self.key[0] if self.key and self.column(self.key[0]).type.root in INTEGERS else None


def described(connection: Connection, database: str, name: str) -> Relation:
    """A table of a database. Raises ConnectorError E3163 when there is none."""
    here = f"TABLE_SCHEMA = {literal(database)} AND TABLE_NAME = {literal(name)}"
    found = connection.asked(
        f"SELECT ENGINE, TABLE_ROWS, TABLE_COMMENT, TABLE_TYPE FROM information_schema.TABLES WHERE {here}"
    )
    if not found:
        raise _missing(connection, database, name)
    engine, rows, comment, kind = found[0]
    columns = connection.asked(
        "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_COMMENT "
        f"FROM information_schema.COLUMNS WHERE {here} ORDER BY ORDINAL_POSITION"
    )
    indexes: dict[str, list[str]] = {}
    for index, column in connection.asked(
        f"SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE {here} AND NON_UNIQUE = 0 "
        "ORDER BY INDEX_NAME, SEQ_IN_INDEX"
    ):
        indexes.setdefault(index, []).append(column)
    is_view = kind == "VIEW"
    return Relation(
        database,
        name,
        engine or "",
        None if rows is None or is_view else float(rows),
        tuple(Column(c, t, null == "YES", s or "", o or "", text or None) for c, t, null, s, o, text in columns),
        tuple(indexes.get("PRIMARY", ())),
        tuple(tuple(i) for i in indexes.values()),
        None if is_view else comment or None,
    )


def table_names(connection: Connection, database: str) -> list[str]:
    """Tables and views."""
    found = connection.asked(
        f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {literal(database)} "
        f"AND TABLE_TYPE IN ('BASE TABLE', 'VIEW', 'SYSTEM VERSIONED') AND TABLE_NAME <> '{EPOCHS}' ORDER BY 1"
    )
    return [name for (name,) in found]


def _missing(connection: Connection, database: str, name: str) -> ConnectorError:
    return ConnectorError(
        f'there is no table "{name}" in the database "{database}"',
        code="E3163",
        hint=did_you_mean(name, table_names(connection, database)) or "check the option 'table-name'",
    )
