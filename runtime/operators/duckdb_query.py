"""A part of a batch plan that DuckDB answers once all input is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import NotInDuckDB
from runtime.core.memory import memory_left
from runtime.eval.duckdb_plans.answer import DuckDBFailed, Inputs, answers
from runtime.eval.duckdb_plans.relations import QueryWriter
from runtime.eval.duckdb_plans.types import duckdb_type
from runtime.operators.operator import EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.plan.nodes import DuckDBExec
from runtime.state.table import StateTable

__all__ = ["DuckDBOperator"]

_SHARE = 0.6
"""Of the memory that is left, DuckDB takes so much before it goes to disk; the rest is for rows on their way."""
_HELD_BYTES = 64 << 20
"""So much of the answer waits for the rest, so that another way can be tried when that fails."""
_WAITING_SHARE = 8
"""More than this part of DuckDB's share does not wait as Arrow."""


class DuckDBOperator(PiecewiseOperator):
    """`DuckDBExec`. State: the rows of its inputs, until they end.

    Raises NotInDuckDB E2001.
    """

    def __init__(self, node: DuckDBExec, context: OperatorContext) -> None:
        self._node = node
        self._functions = context.functions
        types = {
            f"part{number}": [duckdb_type(f.type) for f in source.schema] for number, source in enumerate(node.parts, 1)
        }
        memory = int(memory_left(context.options) * _SHARE)
        self._inputs = Inputs(types, memory, memory // _WAITING_SHARE)
        self._counts = dict.fromkeys(types, 0)
        self._tables = tuple(self._table(number) for number in range(1, len(node.parts) + 1))

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def state_size(self) -> StateSize:
        return StateSize(sum(self._counts.values()), self._inputs.bytes)

    def _table(self, number: int) -> StateTable:
        name, spec = f"part{number}", self._node.state()[number - 1]
        schema = self._node.parts[number - 1].schema

        def read(slots: np.ndarray) -> list[pa.Array]:
            batches = self._inputs.contents(name)
            if not batches:
                return [pa.array([], f.type.arrow) for f in schema]
            rows = pa.Table.from_batches([_plain(b, schema.arrow) for b in batches]).take(pa.array(slots))
            return [_whole(column) for column in rows.columns]

        def load(columns: list[pa.Array]) -> np.ndarray:
            begin = self._counts[name]
            narrow = [pc.cast(c, f.type.arrow) for c, f in zip(columns, schema, strict=True)]
            self._keep(number, pa.RecordBatch.from_arrays(narrow, schema=schema.arrow))
            return np.arange(begin, self._counts[name])

        columns = [(f"c{i}", f.type.arrow) for i, f in enumerate(schema)]
        return StateTable(spec.name, columns, live=lambda: np.arange(self._counts[name]), read=read, load=load)

    def _keep(self, number: int, rows: pa.RecordBatch) -> None:
        name = f"part{number}"
        self._inputs.add(name, rows)
        self._counts[name] += rows.num_rows

    def takes_parts(self, position: int) -> bool:
        return True

    def part_pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        self._take_in(inputs)
        return iter(())

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        self._take_in(inputs)
        if time.ends:
            yield from self._answer()
            self._free()

    def _take_in(self, inputs: Sequence[ChangelogBatch | None]) -> None:
        for number, batch in enumerate(inputs, 1):
            if batch is None or not len(batch):
                continue
            begin = self._counts[f"part{number}"]
            self._keep(number, batch.rows)
            self._tables[number - 1].wrote(np.arange(begin, self._counts[f"part{number}"]))

    def _answer(self) -> Iterator[ChangelogBatch]:
        """Computed with more digits where a machine word was not enough. Nothing is given before all of it is known not to
        fail, or so much that it cannot wait."""
        for wide in (False, True):
            query = QueryWriter(self._functions, wide=wide).query(self._node.body)
            held: list[ChangelogBatch] | None = []
            size = 0
            try:
                for rows in answers(self._inputs, query.text, query.tables):
                    batch = ChangelogBatch(_plain(rows, self._node.schema.arrow))
                    size += batch.nbytes
                    if held is not None:
                        held.append(batch)
                    if size > _HELD_BYTES:
                        yield from held if held is not None else (batch,)
                        held = None
            except DuckDBFailed as error:
                if wide or held is None:
                    hint = "SET 'sqlengine.batch.duckdb' = 'false' for Flink's meaning of it, more slowly"
                    raise NotInDuckDB(f"an expression fails: {error}", hint=hint) from error
                continue
            yield from held or ()
            return

    def _free(self) -> None:
        """Nothing is kept once the answer was given."""
        for table, name in zip(self._tables, self._counts, strict=True):
            table.freed(np.arange(self._counts[name]))
            self._counts[name] = 0
        self._inputs.close()

    def close(self) -> None:
        self._inputs.close()


def _plain(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with exactly the types, and names, of a schema."""
    columns = [c if c.type == t else pc.cast(c, t) for c, t in zip(rows.columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([f.with_nullable(True) for f in schema]))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole: Callable[[], pa.Array] = column.combine_chunks
    found = whole()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
