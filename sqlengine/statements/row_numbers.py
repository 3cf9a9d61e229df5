"""The numbers of rows that a statement has left to identity columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.bind.defaults import left_to_number
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.number_functions import numbers_of
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st

__all__ = ["numbered_columns"]


def numbered_columns(
    session: Session, statement: st.Insert, table: CatalogTable, columns: Sequence[pa.Array]
) -> Sequence[pa.Array]:
    """The columns of the rows of an INSERT, with the next numbers in the places that it has left to them.

    Raises ExpressionError E2023 where a type has no more."""
    filled = list(columns)
    names = session.memory_table(table).schema.names
    sequences = session.database.sequences
    open_changes = None if session.epoch is None else session.epoch.find(table.storage)
    if open_changes is not None:
        sequences.note(table.storage, open_changes)
    for column in left_to_number(statement, table):
        at = names.index(column.name)
        missing = np.asarray(filled[at].is_null())
        count = int(np.count_nonzero(missing))
        if not count:
            continue
        given = [v for v, name in zip(columns, names, strict=True) if name == column.name and count < len(v)]
        if given:
            # Those that stand beside them are not given again in the same breath.
            sequences.pass_by(table, column, given[0])
        numbers = sequences.take(table, column, count)
        numbers_of(session).note(table, column, numbers[-1].as_py())
        filled[at] = pc.replace_with_mask(filled[at], pa.array(missing), numbers) if given else numbers  # type: ignore[attr-defined]
    return filled
