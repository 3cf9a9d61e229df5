"""Options of a table about how its rows are read, whatever its connector: in WITH (..) or in an OPTIONS hint."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.core.errors import OptionError
from runtime.core.options import Options, int_option
from sqlengine.catalog.objects import CatalogTable

__all__ = ["SOURCE_OPTIONS", "read_rate_limit"]

_RATE = int_option("scan.rate-limit", 0, "the most rows that a job reads of the table in a second; 0 is without limit")
SOURCE_OPTIONS = (_RATE,)


def read_rate_limit(table: CatalogTable, hints: Mapping[str, str]) -> int:
    """Rows a second, 0 for no limit; of a hint before the table's own. Raises OptionError E1500 for a wrong value."""
    rows = Options({**table.options, **hints}).get(_RATE)
    if rows < 0:
        raise OptionError(
            f"option '{_RATE.key}' cannot be '{rows}'", hint="give the rows of a second, or 0 for no limit"
        )
    return rows
