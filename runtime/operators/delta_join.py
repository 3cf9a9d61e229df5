"""Joins of tables of the database that keep nothing: they read all from the indices that all share who join them so.

An epoch takes the result from a version of each table to a later one. Each row of it that has changed between them is
made once (`delta_relations.py`), and gives the difference of its multiplicities after and before, as of the regular join
(`hash_join.py`): changed rows of the left side with all of the right one, and then changed rows of the right side with
rows of the left one that have not changed; a side may be a join itself. How often a row was there at a version its index
knows. So what the inputs bring is not looked at: only how far they have come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.operators.delta_relations import JoinedRelation, Relation, TableRelation
from runtime.operators.join_output import TupleOutput
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator
from runtime.plan.snapshot_nodes import DeltaJoinExec

__all__ = ["DeltaJoinOperator"]


class DeltaJoinOperator(PiecewiseOperator):
    """`DeltaJoinExec`. Cost follows the changes and the rows that they are part of; where one side of an outer, SEMI or
    ANTI join changes, also the rows of that side that have the same keys."""

    def __init__(self, node: DeltaJoinExec, context: OperatorContext) -> None:
        asked = node.lookups()
        keys = [[columns for number, columns in asked if number == i] for i in range(len(node.parts))]
        self._tables = [TableRelation(part, own, context) for part, own in zip(node.parts, keys, strict=True)]
        relations: list[Relation] = [*self._tables]
        for step, condition, filter_ in zip(node.steps, node.conditions, node.filters, strict=True):
            sides = relations[step.left], relations[step.right]
            relations.append(JoinedRelation(step, *sides, condition, filter_, context))
        self._relations, self._result = relations, relations[-1]
        rows = context.options.get(PIECE_MAX_ROWS)
        self._output = _Output(node, self._result, rows)
        self._inserts = node.mode.is_append_only

    def close(self) -> None:
        for table in self._tables:
            for arrangement in table.arrangements:
                arrangement.release()

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        spans = time.spans
        if all(start == end for start, end in spans):
            return
        with ExitStack() as reading:
            for table in self._tables:
                reading.enter_context(table.arrangements[0].reading())
            for relation in self._relations:
                relation.time = time
            for table, span in zip(self._tables, spans, strict=True):
                table.begin(span)
            yield from self._join()

    def _join(self) -> Iterator[ChangelogBatch]:
        output = self._output
        if self._inserts or self._result.fresh:  # Nothing is taken back.
            for numbers, weights in self._changes():
                output.add_tuples(numbers, weights)
                if output.full:
                    yield from output.pieces()
            yield from output.pieces()
            return
        divided = False
        for numbers, weights in self._changes():
            output.add_tuples(numbers, np.minimum(weights, 0) if divided else weights)
            if output.full:
                divided = True
                output.drop_inserts()
                if output.full:
                    yield from output.pieces()
        if not divided:
            shown = self._result.tables
            yield from output.whole([], [t.replaced() for t in shown], not all(t.keyed for t in self._tables))
            return
        yield from output.pieces()
        for numbers, weights in self._changes():
            output.add_tuples(numbers, np.maximum(weights, 0))
            if output.full:
                yield from output.pieces()
        yield from output.pieces()

    def _changes(self) -> Iterator[tuple[tuple[np.ndarray, ...], np.ndarray]]:
        """The rows that have changed, and by how much each is there more often."""
        for rows in self._result.changed():
            yield rows.numbers, rows.now - rows.old


class _Shown:
    """The columns of one table that the result shows."""

    def __init__(self, table: TableRelation, columns: Sequence[int]) -> None:
        self._table = table
        self._columns = columns

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        return self._table.values(self._columns, slots)


class _Output(TupleOutput):
    """Rows of the result from the rows of its tables."""

    def __init__(self, node: DeltaJoinExec, result: Relation, max_rows: int) -> None:
        places = [result.place(column) for column in range(len(node.schema))]
        columns = [[own for table, own in places if table == number] for number in range(len(result.tables))]
        sources = [_Shown(table, own) for table, own in zip(result.tables, columns, strict=True)]
        order = sorted(range(len(places)), key=lambda column: places[column][0])
        super().__init__(node.schema, node.mode, sources, max_rows, order=np.argsort(order).tolist())
