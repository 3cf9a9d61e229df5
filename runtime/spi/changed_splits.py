"""What a source may say of splits that change after they were read."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from runtime.spi.table import Split

__all__ = ["TellsChanges"]


@runtime_checkable
class TellsChanges(Protocol):
    """A source without end that notices when a split changes after its last row was read, which is not read again."""

    def mark(self, position: Any) -> Any:
        """What tells a change later: a JSON value, of a reader's position at its end."""
        ...

    def change(self, split: Split, mark: Any) -> tuple[str, Any] | None:
        """What has become of a split since then, and its mark now; None when it is as it was."""
        ...
