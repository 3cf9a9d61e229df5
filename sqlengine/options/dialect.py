"""The dialect in which the statements of a session are read."""

from __future__ import annotations

from runtime.core.options import text_option

__all__ = ["DIALECT", "DIALECT_OPTION", "FLINK", "POSTGRES"]

FLINK, POSTGRES = "flink", "postgres"
DIALECT_OPTION = "sqlengine.sql.dialect"
DIALECT = text_option(
    DIALECT_OPTION,
    FLINK,
    "how statements are read: as 'flink' reads them, or as 'postgres' does",
    (FLINK, POSTGRES),
)
