"""EXPLAIN RESTORE: what becomes of saved state when an INSERT goes on from it, without running anything."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.checkpoint.compatibility import Comparison, compare
from runtime.checkpoint.epoch_state import Restored
from runtime.checkpoint.readings import with_readings
from runtime.core.errors import CheckpointError, UnsupportedError
from runtime.core.secrets import masked_text
from runtime.plan.nodes import PhysicalNode, SinkExec
from sqlengine.database.recovery import state_to_restore
from sqlengine.database.session import Session

__all__ = ["restore_text"]

_HEADINGS = ("operator", "table", "rows", "verdict", "why")


def restore_text(roots: Sequence[PhysicalNode], session: Session) -> str:
    """A table with a line for each source, state table and sink, saved or planned, and whether the result would be
    exact; else which options allow it. Nothing is claimed, counted or changed.

    Raises:
        UnsupportedError: E1610 for plans that write to no table: only an INSERT goes on from saved state.
        CheckpointError: the saved state cannot be read.
    """
    if not all(isinstance(root, SinkExec) for root in roots):
        raise UnsupportedError(
            "EXPLAIN RESTORE takes an INSERT or a statement set",
            code="E1610",
            hint="only those go on from a checkpoint or savepoint",
        )
    saved = state_to_restore(session, roots)
    if saved is None:
        return "There is no checkpoint or savepoint to go on from: all begins anew."
    roots = with_readings(saved, roots, session.job_settings().time_zone)
    compared = compare(saved, roots, session.job_settings().time_zone)
    return f"from {_origin(saved)}\n\n{_table(compared)}\n\n{_outcome(compared, session)}"


def _origin(saved: Restored) -> str:
    kind = f"checkpoint {saved.id}" if saved.id else "savepoint"
    ended = ", when all input had ended" if saved.finished else ""
    return "\n".join([f"{kind}, {masked_text(saved.path)}, after epoch {saved.epoch}{ended}", *saved.problems])


def _table(compared: Comparison) -> str:
    cells = [
        (p.operator, p.table, "" if p.rows is None else str(p.rows), p.verdict.value, p.why) for p in compared.parts
    ]
    widths = [max(len(row[i]) for row in (_HEADINGS, *cells)) for i in range(len(_HEADINGS))]
    lines = [
        "  ".join(c.rjust(w) if i == 2 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in (_HEADINGS, *cells)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _outcome(compared: Comparison, session: Session) -> str:
    if compared.exact:
        return "exact: what is written in the end is the result over all input"
    options = " and ".join(f"'{key}' = 'true'" for key in compared.needed)
    try:
        compared.check(session.job_settings().options)
    except CheckpointError as refusal:
        return f"refused ({refusal.code}); allowed with {options}"
    return f"not exact; allowed by {options}"
