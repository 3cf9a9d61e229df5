"""Materialized views in the checkpoints of a database: the state of what keeps them, where their sources stand, and their
answers, all after one epoch.

State lies in files as that of jobs does (`runtime/checkpoint/table_chain.py`), an answer as the rows of a table. The plan
is text. So a view goes on from there, as long as it is planned as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from runtime.checkpoint.epoch_state import EpochState, Restored
from runtime.checkpoint.image import TableChains, add_changes, read_operators
from runtime.checkpoint.manifest import OperatorPieces, check_counts, operators_json, operators_of
from runtime.checkpoint.members import Members, as_integer, as_list, as_mapping
from runtime.checkpoint.segments import Segment, SegmentReader, SegmentWriter
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import ChangelogBatch
from sqlengine.database.folder.changes import Storage, storage_of
from sqlengine.database.folder.pieces import (
    RowChanges,
    RowPiece,
    pieces_json,
    pieces_of,
    read_rows,
    row_pieces,
    segment_json,
    segment_of,
)
from sqlengine.database.view_basis import ViewBasis

__all__ = ["SavedView", "ViewChanges", "ViewState", "saved_view", "view_json", "view_of"]

_MOST = 1 << 50
_TIMES = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, in milliseconds."""
_PLAN = pa.schema([pa.field("plan", pa.string())])
_MEMBERS = (
    "functions", "reads", "epoch", "processing_time", "finished", "sources", "counts", "plan", "operators", "contents",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ViewState:
    """What a checkpoint says of a view. `epoch` and the rest up to `counts` as in `EpochState`."""

    basis: ViewBasis
    epoch: int
    processing_time: int
    finished: bool
    sources: Mapping[str, Any]
    counts: Mapping[str, Any]
    plan: Segment
    operators: tuple[OperatorPieces, ...]
    contents: list[RowPiece]

    @property
    def segments(self) -> Iterator[Segment]:
        """All that it needs."""
        yield self.plan
        for operator in self.operators:
            for task in operator.tasks:
                for pieces in task.values():
                    for piece in pieces:
                        yield from piece.segments
        for rows in self.contents:
            yield rows.segment

    @property
    def files(self) -> set[str]:
        return {segment.file for segment in self.segments}


@dataclass(slots=True)
class ViewChanges:
    """What a checkpoint writes of a view.

    Args:
        state: how it has changed since the checkpoint before, or all of it.
        chains: what checkpoints before wrote, where `state` is changes; the next one goes on from `written`.
        before: what the checkpoint before says.
        unchanged: no operator has other state than in `before`, and `state` has none.
    """

    basis: ViewBasis
    state: EpochState
    contents: RowChanges
    chains: TableChains
    before: ViewState | None = None
    unchanged: bool = False
    written: TableChains = field(default_factory=dict)

    def write(self, writer: SegmentWriter, reader: SegmentReader) -> ViewState:
        """Raises OSError, and Damage for older files that were to be merged."""
        state = self.state
        if self.before is not None and self.unchanged:
            plan, operators, self.written = self.before.plan, self.before.operators, self.chains
        else:
            plan = _plan_segment(state.plan, writer) if self.before is None else self.before.plan
            operators = add_changes(state.operators, self.chains, self.written, writer, reader)
        contents = row_pieces(self.contents, writer, reader)
        return ViewState(
            self.basis,
            state.epoch,
            state.processing_time,
            state.finished,
            state.sources,
            state.counts,
            plan,
            operators,
            contents,
        )


@dataclass(frozen=True, slots=True)
class SavedView:
    """A view as a checkpoint has it, read. `state`: where it came from; `chains`: what the next checkpoint goes on from."""

    restored: Restored
    contents: Sequence[ChangelogBatch]
    basis: ViewBasis
    state: ViewState
    chains: TableChains


def _plan_segment(plan: str, writer: SegmentWriter) -> Segment:
    rows = pa.RecordBatch.from_pydict({"plan": [plan]}, schema=_PLAN)
    return writer.rows(_PLAN, [rows], rows.nbytes)


def saved_view(reader: SegmentReader, state: ViewState, where: str) -> SavedView:
    """Read a view.

    Raises:
        Damage: its files are not those that were written.
        OSError: they cannot be read.
    """
    plans = [batch for batch in reader.batches(state.plan) if len(batch)]
    if len(plans) != 1 or len(plans[0]) != 1 or plans[0].schema != _PLAN or plans[0].column(0).null_count:
        raise Damage(f"{state.plan.file} has no plan")
    chains: TableChains = {}
    restored = Restored(
        0,
        state.epoch,
        state.processing_time,
        plans[0].column(0)[0].as_py(),
        read_operators(state.operators, reader, chains),
        state.sources,
        {},
        state.finished,
        where,
        counts=state.counts,
    )
    return SavedView(restored, list(read_rows(reader, state.contents)), state.basis, state, chains)


def view_json(state: ViewState) -> dict[str, object]:
    """A view as JSON."""
    return {
        "functions": dict(state.basis.functions),
        "reads": [[list(storage), rows] for storage, rows in state.basis.reads.items()],
        "epoch": state.epoch,
        "processing_time": state.processing_time,
        "finished": state.finished,
        "sources": state.sources,
        "counts": state.counts,
        "plan": segment_json(state.plan),
        "operators": operators_json(
            state.operators, lambda segment: None if segment is None else segment_json(segment)
        ),
        "contents": pieces_json(state.contents),
    }


def view_of(value: object, where: str) -> ViewState:
    """The reverse of `view_json`. Raises Damage."""
    members = Members(value, where, _MEMBERS)
    functions = members.mapping("functions")
    if not all(isinstance(mark, str) for mark in functions.values()):
        raise Damage(f"{where} has a view of functions that are none")
    reads: dict[Storage, int] = {}
    for entry in members.list("reads"):
        pair = as_list(entry, "a table", where)
        if len(pair) != 2:
            raise Damage(f"{where} has a view that reads a table of {len(pair)} parts")
        reads[storage_of(pair[0], where)] = as_integer(pair[1], "rows", where, 0, _MOST)
    return ViewState(
        ViewBasis(functions, reads),
        members.integer("epoch", 0, _MOST),
        members.integer("processing_time", *_TIMES),
        members.flag("finished"),
        {name: as_mapping(given, f"sources.{name}", where) for name, given in members.mapping("sources").items()},
        check_counts(members.mapping("counts"), where),
        segment_of(members.value("plan"), where),
        operators_of(members.list("operators"), where, _optional(where)),
        pieces_of(members.value("contents"), where),
    )


def _optional(where: str) -> Callable[[Any], Segment | None]:
    return lambda value: None if value is None else segment_of(value, where)
