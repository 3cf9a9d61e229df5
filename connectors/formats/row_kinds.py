"""Which row kinds a format writes."""

from __future__ import annotations

from runtime.core.changelog import APPEND, RETRACT, ChangelogBatch, ChangelogMode
from runtime.core.errors import PlanningError
from runtime.spi.format import Format

__all__ = ["require_append", "written_mode"]


def written_mode(format_: Format, requested: ChangelogMode) -> ChangelogMode:
    """What a sink that writes the format takes when it is offered `requested`: full changes where the format carries
    them and there are some, else rows only."""
    if format_.changelog_mode.is_append_only or requested.is_append_only:
        return APPEND
    return RETRACT


def require_append(batch: ChangelogBatch, format_name: str) -> None:
    """Raise PlanningError E1720 for updates and deletes, which the format has no place for."""
    if not batch.is_append_only:
        raise PlanningError(
            f"format '{format_name}' cannot carry updates and deletes",
            code="E1720",
            hint="use the format 'debezium-json', or a connector that takes updates",
        )
