"""Options of a query that checks itself."""

from __future__ import annotations

from planner.optimizer import DISABLED_RULES
from runtime.core.options import Options, bool_option, int_option

__all__ = ["EVERY", "VERIFY", "rule_options"]

VERIFY = bool_option(
    "sqlengine.verify",
    False,
    "queries compare their answers with DuckDB's over the input so far, and fail where they differ",
)
EVERY = int_option("sqlengine.verify.every", 1, "after how many epochs a query that verifies itself compares")
_NARROWING = ("prune_columns", "push_filter_into_scan", "push_limit_into_scan")
"""Rules that have sources leave rows and columns out: DuckDB is asked about whole tables."""


def rule_options(options: Options) -> Options:
    """The options with which plans are made."""
    if not options.get(VERIFY):
        return options
    disabled = [name for name in options.get(DISABLED_RULES).split(",") if name.strip()]
    return options.child({DISABLED_RULES.key: ",".join((*disabled, *_NARROWING))})
