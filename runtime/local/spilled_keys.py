"""Keys of state that may be larger than memory, read where they are: between two epochs, because nothing of it is kept
twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.grow import expand_ranges
from runtime.local.job import Job
from runtime.local.spilling import SpillingOperator
from runtime.local.vertex import Vertex
from runtime.state.keyed import KeyIndex
from runtime.state.mirror import MirroredTable

__all__ = ["is_spilled", "read_keys"]


def is_spilled(vertex: Vertex, table: str) -> bool:
    """Whether a table of an operator may leave memory, so that it cannot be followed."""
    return bool(_spilling(vertex)) and any(
        t.name == table and t.outside is not None for t in _spilling(vertex)[0].tables
    )


def read_keys(
    job: Job, operator: str, table: MirroredTable, keys: Sequence[pa.Array], most: int
) -> tuple[int, np.ndarray, pa.RecordBatch]:
    """The epoch, the position of the key of each row, ascending, and the rows, as `StateMirror.find` gives them. Between
    epochs, by whoever may look into the job's state then.

    Raises OverflowError for more rows than `most`.
    """
    (vertex,) = (v for v in job.dataflow.vertices if v.name == operator)
    count = len(keys[0])
    numbers, is_new = KeyIndex([key.type for key in keys]).insert(keys, count)
    first = np.flatnonzero(is_new)
    each = np.empty(len(first), np.int64)
    each[numbers[first]] = np.arange(len(first))
    different = [key.take(pa.array(first)) for key in keys]
    found = [task.look(table.name, different) for task in _spilling(vertex)]
    index = np.concatenate([of_keys for of_keys, _ in found])
    columns = [pa.concat_arrays(parts) for parts in zip(*(columns for _, columns in found), strict=True)]
    order = np.argsort(index, kind="stable")
    index, columns = index[order], [column.take(pa.array(order)) for column in columns]
    sizes = np.bincount(index, minlength=len(first))
    starts = np.cumsum(sizes) - sizes
    wanted = each[numbers]
    if int(sizes[wanted].sum()) > most:
        raise OverflowError(most)
    asked, places = expand_ranges(starts[wanted], sizes[wanted])
    rows = [column.take(pa.array(places)) for column in columns]
    if table.owner is not None:
        rows = [*(key.take(pa.array(asked)) for key in keys), *rows]
    typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(rows, table.columns, strict=True)]
    return job.dataflow.epoch, asked, pa.RecordBatch.from_arrays(typed, schema=table.columns)


def _spilling(vertex: Vertex) -> list[SpillingOperator]:
    tasks = () if vertex.operator is None else vertex.operator.tasks
    found = [getattr(task, "inner", task) if not isinstance(task, SpillingOperator) else task for task in tasks]
    return [task for task in found if isinstance(task, SpillingOperator)]
