"""A source whose splits are read by tasks: which reads what is decided here, rows stay in files (`FiledBatch`)."""

from __future__ import annotations

import time as wall_clock
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import Clock
from runtime.core.errors import InternalError
from runtime.local.dataflow import SourceInput
from runtime.local.source_inputs import SourceContext, SourceInputs
from runtime.plan.nodes import SourceExec
from runtime.spi.abilities import SupportsPartitionDiscovery, SupportsRowOffsets
from runtime.spi.reader import SourceReader
from runtime.spi.source import SourceTable, Split
from runtime.tasks.filed import FiledBatch
from runtime.tasks.reading import Part, Taken

__all__ = ["InTasks", "TaskInputs"]

_LEAST_ROWS = 8192
"""Fewer rows of a split than this are not worth a second task."""


class InTasks(Protocol):
    """Reading by tasks."""

    @property
    def table(self) -> SourceTable:
        """What they read. Asked for only when something is read."""
        ...

    def __call__(self, parts: Sequence[Part]) -> Sequence[Taken]:
        """They read parts."""
        ...


class TaskInputs(SourceInputs):
    """See the module, and `SourceInputs` for all else.

    Splits of an append-only source are read side by side, one in each task; parts of one split where it can be divided.
    Splits whose rows may be taken back are read one after another.

    Args:
        read: has tasks read parts, at most `width` at a time.
        place: the folder of the files.
    """

    def __init__(
        self,
        node: SourceExec,
        context: SourceContext,
        clock: Clock,
        position: Any = None,
        *,
        rows_per_second: int = 0,
        read: InTasks,
        width: int,
        place: str,
    ) -> None:
        self._in_tasks = read
        self._width = width if node.mode.is_append_only else 1
        self._place = place
        super().__init__(node, context, clock, position, rows_per_second=rows_per_second)

    def available_in(self) -> float:
        """Nobody knows here what tasks would find."""
        return 0.0

    def _reader(self, split: Split) -> SourceReader:
        return _Elsewhere()

    def _read(self, max_rows: int, until: int) -> SourceInput:
        started = wall_clock.perf_counter()
        if not self.node.table.bounded and not self._waiting:
            self._discover()
        parts = self._parts(self._pace.room(max_rows), until)
        taken = self._in_tasks(parts) if parts else ()
        read = [t.pieces for t in taken if t.pieces]
        pieces = [branches[0] for branches in read]
        self._note(parts, taken)
        for found in taken:
            self._context.refused.add(found.refused.rows, found.refused.more)
        branches = [FiledBatch(branch, self._place) for branch in zip(*read, strict=True)]
        batch = FiledBatch(pieces, self._place, branches) if pieces else None
        self._pace.took(sum(piece.rows_read for piece in pieces))
        return SourceInput(
            batch,
            self._exhausted,
            self._idle(),
            self._own_watermark(),
            self._split_rows(tuple((piece.split, piece.rows_read) for piece in pieces)),
            self._reach(),
            wall_clock.perf_counter() - started,
            self._context.refused.take(),
        )

    def _parts(self, room: int, until: int) -> list[Part]:
        """What is read next."""
        if isinstance(self.node.table, SupportsPartitionDiscovery):
            self._begin_all()
            # Whoever was asked is behind the others next time.
            self._open = [*self._open[self._width :], *self._open[: self._width]]
        while room > 0 and len(self._open) < self._width and self._waiting:
            self._begin(self._waiting.pop(0))
        ready = [o for o in sorted(self._open, key=self._mark) if self._mark(o) <= until] if room > 0 else []
        chosen = ready[: self._width]
        self._not_asked([o for o in self._open if o not in chosen] if room > 0 else [])
        parts: list[Part] = []
        for number, opened in enumerate(chosen):
            rows = room * (number + 1) // len(chosen) - room * number // len(chosen)
            parts += self._divided(opened.split, opened.reader.position(), rows, self._width // len(chosen))
        return [part for part in parts if part.rows > 0]

    def _divided(self, split: Split, position: Any, rows: int, ways: int) -> list[Part]:
        """A part of a split, in several where its rows can be counted."""
        table = self._in_tasks.table
        ways = min(ways, rows // _LEAST_ROWS) if isinstance(table, SupportsRowOffsets) else 1
        parts: list[Part] = []
        for number in range(max(1, ways)):
            share = rows * (number + 1) // max(1, ways) - rows * number // max(1, ways)
            parts.append(Part(split, position, share, self._context.refused.whole))
            if number + 1 < ways:
                assert isinstance(table, SupportsRowOffsets)
                position = table.position_after(split, position, share)
                if position is None:
                    # The rest of the split is less than that: one reader takes what there is.
                    last = parts.pop()
                    return [*parts, replace(last, rows=rows - sum(part.rows for part in parts))]
        return parts

    def _note(self, parts: Sequence[Part], taken: Sequence[Taken]) -> None:
        """Where reading stands after what tasks have read."""
        by_split = {part.split.id: found for part, found in zip(parts, taken, strict=True)}
        gave = {part.split.id for part, found in zip(parts, taken, strict=True) if found.pieces}
        for opened in self._open:
            if opened.split.id in gave:
                opened.last_row_at = self._last_row_at = self._clock.now()
        for opened in list(self._open):
            found = by_split.get(opened.split.id)
            if found is None:
                continue
            opened.reader.seek(found.position)
            if found.finished:
                self._end(opened)
            self._flush.asked(opened.split, found.over)


class _Elsewhere:
    """Stands for the reader of a split that tasks read: knows where it stands."""

    def __init__(self) -> None:
        self._position: Any = None

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        raise InternalError("a split that tasks read was to be read by the driver")

    @property
    def finished(self) -> bool:
        return False

    def position(self) -> Any:
        return self._position

    def seek(self, position: Any) -> None:
        self._position = position

    def close(self) -> None:
        self._position = None
