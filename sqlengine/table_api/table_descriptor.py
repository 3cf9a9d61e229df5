"""Tables of a connector described in Python, in place of CREATE TABLE:

TableDescriptor.for_connector("filesystem").schema(TableSchema().column("id", "INT")).option("path", "a.csv")
    .format("csv")
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlengine.values.code import name_sql, path_sql, value_sql
from sqlengine.values.data_types import TableSchema

__all__ = ["TableDescriptor"]


@dataclass(frozen=True)
class TableDescriptor:
    """The definition of a table, as in CREATE TABLE: connector, schema, options. Every method gives a new one; `build`
    is there for programs of PyFlink and gives it as it is."""

    options: tuple[tuple[str, str], ...] = ()
    table_schema: TableSchema = field(default_factory=TableSchema)
    partitions: tuple[str, ...] = ()
    text: str | None = None

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor:
        """A table of this connector."""
        return TableDescriptor((("connector", connector),))

    @staticmethod
    def for_managed() -> TableDescriptor:
        """A table without connector: its rows live in memory."""
        return TableDescriptor()

    def schema(self, schema: TableSchema) -> TableDescriptor:
        """Columns, watermark and primary key."""
        return replace(self, table_schema=schema)

    def option(self, key: str, value: object) -> TableDescriptor:
        """An option of WITH."""
        spelled = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, options=(*(o for o in self.options if o[0] != key), (key, spelled)))

    def format(self, format: str) -> TableDescriptor:
        """The format of its rows: the option 'format'."""
        return self.option("format", format)

    def partitioned_by(self, *columns: str) -> TableDescriptor:
        """PARTITIONED BY."""
        return replace(self, partitions=columns)

    def comment(self, text: str) -> TableDescriptor:
        """COMMENT of the table."""
        return replace(self, text=text)

    def build(self) -> TableDescriptor:
        return self

    def ddl(self, path: str, *, temporary: bool, if_not_exists: bool = False) -> str:
        """The CREATE TABLE statement."""
        words = f"CREATE {'TEMPORARY ' if temporary else ''}TABLE {'IF NOT EXISTS ' if if_not_exists else ''}"
        text = f"{words}{path_sql(path)} ({self.table_schema.ddl})"
        if self.text is not None:
            text += f" COMMENT {value_sql(self.text)}"
        if self.partitions:
            text += f" PARTITIONED BY ({', '.join(map(name_sql, self.partitions))})"
        if self.options:
            text += f" WITH ({', '.join(f'{value_sql(k)} = {value_sql(v)}' for k, v in self.options)})"
        return text
