"""Table aggregate functions that tell what has changed: `emit_update_with_retract(accumulator, out)`, as in Flink.

The rows that such a function has given and not taken back are a part of its accumulator, so they are saved with it.
"""

from __future__ import annotations

from typing import Any

from sqlengine.user_functions.table import cells_of

__all__ = ["Collector", "WithRows"]


class Collector:
    """What `emit_update_with_retract` gives rows to."""

    def __init__(self, rows: list[tuple[Any, ...]], names: list[str]) -> None:
        self._rows = rows
        self._names = names

    def collect(self, row: Any) -> None:
        """A row of the group from now on."""
        self._rows.append(self._cells(row))

    def retract(self, row: Any) -> None:
        """A row that was collected is none any more. Raises ValueError for one that was not."""
        cells = self._cells(row)
        if cells not in self._rows:
            raise ValueError(f"{cells!r} is taken back and was not given")
        self._rows.remove(cells)

    def _cells(self, row: Any) -> tuple[Any, ...]:
        return tuple(cells_of(row, self._names))


class WithRows:
    """Such a function as one whose accumulator has its rows beside it, and whose `emit_value` gives all of them."""

    def __init__(self, function: Any, names: list[str]) -> None:
        self._function = function
        self._names = names
        if hasattr(function, "merge"):
            self.merge = self._merged
        if hasattr(function, "retract"):
            self.retract = self._retracted

    def create_accumulator(self) -> list[Any]:
        """The function's, and no rows."""
        return [self._function.create_accumulator(), []]

    def accumulate(self, accumulator: list[Any], *values: Any) -> None:
        """Take in a row."""
        self._keep(accumulator, self._function.accumulate(accumulator[0], *values))

    def _retracted(self, accumulator: list[Any], *values: Any) -> None:
        self._keep(accumulator, self._function.retract(accumulator[0], *values))

    def _merged(self, accumulator: list[Any], accumulators: list[list[Any]]) -> None:
        """What has been told of the parts is not told of the whole: it tells all."""
        self._keep(accumulator, self._function.merge(accumulator[0], [other[0] for other in accumulators]))

    def emit_value(self, accumulator: list[Any]) -> list[tuple[Any, ...]]:
        """All rows of the group, after what has changed."""
        self._function.emit_update_with_retract(accumulator[0], Collector(accumulator[1], self._names))
        return list(accumulator[1])

    @staticmethod
    def _keep(accumulator: list[Any], changed: Any) -> None:
        if changed is not None:
            accumulator[0] = changed
