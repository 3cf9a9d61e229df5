"""Options of tables that live in memory, because they name no connector.

A table WITH ('conector' = 'kafka') must not become one of them: what such a table does not know is refused when it is
declared, and in hints.
"""

from __future__ import annotations

from collections.abc import Mapping

from connectors.memory.column_files import ColumnFiles
from runtime.core.errors import OptionError, Span, did_you_mean
from runtime.core.options import Options, parse_duration
from runtime.state.backend import LOCAL_DIR, STATE_BACKEND
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.table_options.watermarks import is_watermark_option

__all__ = [
    "HISTORY",
    "check_hinted",
    "check_memory_table",
    "check_view_option",
    "column_files",
    "history_retention",
    "is_append_only",
]

HISTORY = "history.retention"
_MODE = "changelog-mode"
_MODES = ("append", "retract")


def check_memory_table(table: CatalogTable) -> None:
    """Raises OptionError for a table without connector: E1503 for an option that it does not have, E1500 for a wrong
    value."""
    if table.connector is not None:
        return
    for key in table.options:
        if key not in (_MODE, HISTORY) and not is_watermark_option(key):
            raise _unknown(key)
    is_append_only(table)
    history_retention(table)


def check_view_option(key: str, value: str, what: str) -> None:
    """Raises OptionError for an option of a materialized view (`what`) other than HISTORY (E1503), or a wrong value of it
    (E1500)."""
    if key != HISTORY:
        near = did_you_mean(key, [HISTORY])
        hint = f"{near}; it takes '{HISTORY}'" if near else f"it takes '{HISTORY}'"
        raise OptionError(f"a {what} has no option '{key}'", code="E1503", hint=hint)
    _retention(value)


def history_retention(table: CatalogTable | MaterializedView) -> int | None:
    """How long the history of a table in memory, or of a view, is kept, milliseconds; None: not at all.

    Raises OptionError E1500 for a value that is no time above 0.
    """
    return _retention(table.options[HISTORY]) if HISTORY in table.options else None


def _retention(value: str) -> int:
    found = parse_duration(value)
    if found <= 0:
        raise OptionError(
            f"option '{HISTORY}' cannot be '{value}'", hint="it is a time above 0, such as '1 d' or '12 h'"
        )
    return found


def check_hinted(name: str, what: str, options: Mapping[str, str], span: Span | None) -> None:
    """Raises OptionError E1503 for an option that a hint gives to a view or a table in memory; those of watermarks are
    read elsewhere.

    `what`: how messages call it.
    """
    for key in options:
        if what == "a view" or not is_watermark_option(key):
            raise OptionError(
                f"{what} takes no option '{key}': \"{name}\"",
                code="E1503",
                span=span,
                hint="OPTIONS is for tables with a connector",
            )


def is_append_only(table: CatalogTable) -> bool:
    """Whether a table in memory takes inserts only."""
    mode = table.options.get(_MODE)
    if mode is not None and mode not in _MODES:
        raise OptionError(f"option '{_MODE}' cannot be '{mode}'", hint="it is 'append' or 'retract'")
    # Event-time operators need an append stream, so a table with a watermark and no key is one unless told otherwise.
    return mode == "append" or (mode is None and table.watermark is not None and not table.primary_key)


def column_files(options: Options) -> ColumnFiles | None:
    """Where the rows of a table are kept that is made now: in files when state may leave memory."""
    return ColumnFiles(options.get(LOCAL_DIR) or None) if options.get(STATE_BACKEND).lower() == "rocksdb" else None


def _unknown(key: str) -> OptionError:
    near = did_you_mean(key, [_MODE, HISTORY, "connector"])
    return OptionError(
        f"a table in memory has no option '{key}'",
        code="E1503",
        hint=f"{near}; 'connector' = '..' says where a table lives",
    )
