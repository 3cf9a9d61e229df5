"""How long a source has nothing to give, as far as it can tell."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.spi.abilities import SupportsSplitEvents
from runtime.spi.reader import AvailabilityReader, SourceReader, TurnReader
from runtime.spi.source import SourceTable

__all__ = ["keeps_turn", "reader_wait", "shortest", "splits_wait"]

Wait = float | None
"""Seconds in which nothing happens; None: until somebody calls `ReadContext.wake`."""


def shortest(waits: Iterable[Wait]) -> Wait:
    """What several have in common: None when all wait to be woken."""
    return min((wait for wait in waits if wait is not None), default=None)


def reader_wait(reader: SourceReader) -> Wait:
    """Of one reader; 0 when it does not know."""
    return reader.available_in() if isinstance(reader, AvailabilityReader) else 0.0


def splits_wait(table: SourceTable) -> Wait:
    """Until a table may have other splits; 0 when it does not tell."""
    return None if table.bounded or isinstance(table, SupportsSplitEvents) else 0.0


def keeps_turn(reader: SourceReader) -> bool:
    """Whether later splits wait for a reader to end (`TurnReader`)."""
    return isinstance(reader, TurnReader) and reader.keeps_turn
