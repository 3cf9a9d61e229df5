"""Options of tables that live in memory, because they name no connector.

A table WITH ('conector' = 'kafka') must not become one of them: what such a table does not know is refused when it is
declared, and in hints.
"""

from __future__ import annotations

from collections.abc import Mapping

from connectors.memory.column_files import ColumnFiles
from runtime.core.errors import OptionError, Span, did_you_mean
from runtime.core.options import Options
from runtime.state.backend import LOCAL_DIR, STATE_BACKEND
from sqlengine.catalog.objects import CatalogTable
from sqlengine.options.watermarks import is_watermark_option

__all__ = ["check_hinted", "check_memory_table", "column_files", "is_append_only"]

_MODE = "changelog-mode"
_MODES = ("append", "retract")


def check_memory_table(table: CatalogTable) -> None:
    """Raises OptionError for a table without connector: E1503 for an option that it does not have, E1500 for a wrong
    value."""
    if table.connector is not None:
        return
    for key in table.options:
        if key != _MODE and not is_watermark_option(key):
            raise _unknown(key)
    is_append_only(table)


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
    near = did_you_mean(key, [_MODE, "connector"])
    return OptionError(
        f"a table in memory has no option '{key}'",
        code="E1503",
        hint=f"{near}; 'connector' = '..' says where a table lives",
    )
