"""Options of the shell, named as those of Flink's SQL client. They change what is shown and never what is computed."""

from __future__ import annotations

from runtime.core.options import bool_option, int_option, text_option

__all__ = ["CLIENT_OPTIONS", "MAX_COLUMN_WIDTH", "MAX_TABLE_ROWS", "PRINT_TIME", "RESULT_MODE", "VERBOSE"]

RESULT_MODE = text_option(
    "sql-client.execution.result-mode",
    "table",
    "how the shell shows queries: 'table' the rows as they are now, 'changelog' each change, 'tableau' changes as lines",
    ("table", "changelog", "tableau"),
)
MAX_TABLE_ROWS = int_option(
    "sql-client.execution.max-table-result.rows", 1_000_000, "the most rows of a live table; the oldest go first"
)
MAX_COLUMN_WIDTH = int_option(
    "sql-client.display.max-column-width", 60, "how wide the shell draws a column of texts before it cuts values"
)
PRINT_TIME = bool_option("sql-client.display.print-time-cost", True, "whether the shell says how long a statement took")
VERBOSE = bool_option("sql-client.verbose", False, "whether the shell shows Python stack traces of errors")

CLIENT_OPTIONS = (RESULT_MODE, MAX_TABLE_ROWS, MAX_COLUMN_WIDTH, PRINT_TIME, VERBOSE)
