"""What a statement gives back: rows, folded contents, or the changes as they come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import STRING, DataType, TypeRoot
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.sort import sort_indices
from runtime.local.job import Job
from runtime.plan.nodes import SortSpec

__all__ = ["Result", "Row", "Timestamp9", "fold"]


class Row(tuple[Any, ...]):
    """A row as a tuple of Python values, with its row kind (`+I`, `-U`, `+U`, `-D`) and the column names."""

    kind: str
    names: tuple[str, ...]

    def __new__(cls, values: Sequence[Any], kind: str = "+I", names: tuple[str, ...] = ()) -> Row:
        row = super().__new__(cls, values)
        row.kind = kind
        row.names = names
        return row

    def as_dict(self) -> dict[str, Any]:
        return dict(zip(self.names, self, strict=True))

    def __getattr__(self, name: str) -> Any:
        names = self.__dict__.get("names", ())
        if name in names:
            return self[names.index(name)]
        raise AttributeError(f"the row has no column {name!r}; it has {', '.join(names)}")

    def __repr__(self) -> str:
        cells = ", ".join(f"{n}={v!r}" for n, v in zip(self.names, self, strict=True))
        return f"{self.kind}({cells})"


class Timestamp9(dt.datetime):
    """A timestamp with nanoseconds: a datetime, and the three digits that it cannot hold."""

    nanosecond: int = 0

    @classmethod
    def of(cls, nanoseconds: int, zone: dt.tzinfo | None) -> Timestamp9:
        micros, rest = divmod(nanoseconds, 1000)
        base = dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=micros)
        value = cls(base.year, base.month, base.day, base.hour, base.minute, base.second, base.microsecond, base.tzinfo)
        value.nanosecond = rest
        return value


class Result:
    """The outcome of one statement.

    A query's changes are read once, lazily: by `collect`, `changes` or `to_arrow`. A statement without rows gives one row `OK`.
    `job` is set for statements that run as a job.
    """

    def __init__(self, schema: Schema, batches: Iterator[ChangelogBatch], *, job: Job | None = None, is_query: bool = False,
                 order: tuple[SortSpec, ...] = (), visible: int | None = None, waiter: Callable[[float | None], None] | None = None,
                 bounded: bool = True, append_only: bool = True) -> None:
        self._full_schema = schema
        self._visible = len(schema) if visible is None else visible
        self._batches = batches
        self.job = job
        self.is_query = is_query
        self.bounded = bounded
        self.is_append_only = append_only
        self.order = order
        self._waiter = waiter

    @staticmethod
    def ok() -> Result:
        return Result.table(Schema.of(("result", STRING)), [["OK"]])

    @staticmethod
    def table(schema: Schema, columns: Sequence[Sequence[Any]]) -> Result:
        """A finished result from Python columns."""
        arrays = [pa.array(list(values), f.type.arrow) for f, values in zip(schema, columns, strict=True)]
        return Result(schema, iter([ChangelogBatch.of(arrays, schema)]))

    @property
    def schema(self) -> Schema:
        """Names and types of the columns."""
        return self._full_schema.select(tuple(range(self._visible)))

    @property
    def is_sorted_at_end(self) -> bool:
        """ORDER BY over bounded input: rows come in order, once, when the input has ended."""
        return bool(self.order)

    def changes(self) -> Iterator[ChangelogBatch]:
        """The changelog, a batch per epoch that changed something."""
        if self.order:
            yield ChangelogBatch(self.folded())
            return
        for batch in self._batches:
            if len(batch):
                yield batch.select(range(self._visible)) if self._visible < len(self._full_schema) else batch

    def collect(self) -> Iterator[Row]:
        """The changes as rows; a changelog's `-U` and `-D` rows take back equal earlier ones."""
        names = self.schema.names
        types = self.schema.types
        for batch in self.changes():
            columns = [python_values(column, type_) for column, type_ in zip(batch.columns, types, strict=True)]
            for kind, *values in zip(batch.kinds_or_inserts().tolist(), *columns, strict=True):
                yield Row(values, KIND_NAMES[kind], names)

    def to_arrow(self) -> pa.Table:
        """The changes folded to the rows that are left, in ORDER BY order where there is one."""
        return pa.Table.from_batches([self.folded()])

    def folded(self) -> pa.RecordBatch:
        """`to_arrow` as one record batch."""
        rows = fold(list(self._batches), self._full_schema)
        if self.order:
            rows = rows.take(pa.array(_sorted_positions(rows, self.order)))
        return rows.select(list(range(self._visible)))

    def wait(self, timeout: float | None = None) -> Result:
        """Until the job has ended; raises what made it fail. A query's rows are read and dropped."""
        if self._waiter is not None:
            self._waiter(timeout)
        elif self.is_query:
            for _ in self._batches:
                pass
        return self

    def cancel(self) -> None:
        """Stop the job after the epoch at hand."""
        if self.job is not None:
            self.job.cancel()


def fold(batches: Sequence[ChangelogBatch], schema: Schema) -> pa.RecordBatch:
    """What is left of a retract changelog: rows whose signs do not cancel, in order of arrival."""
    live = [b for b in batches if len(b)]
    if not live:
        return ChangelogBatch.empty(schema).rows
    whole = ChangelogBatch.concat(live)
    if whole.is_append_only:
        return whole.rows
    encoder = KeyEncoder([f.type.arrow for f in schema], [True] * len(schema))
    words = encoder.encode(whole.columns)
    index = HashIndex(words.shape[1], max(16, len(words)))
    slots, _ = index.insert(words)
    signs = whole.signs().astype(np.int64)
    net = np.zeros(index.capacity, dtype=np.int64)
    np.add.at(net, slots, signs)
    # Of the insertions of a row the last `net` survive, as if each retraction had taken back the oldest one.
    inserted = np.flatnonzero(signs > 0)
    order = inserted[np.argsort(slots[inserted], kind="stable")]
    starts = np.flatnonzero(np.r_[True, slots[order][1:] != slots[order][:-1]]) if len(order) else np.zeros(0, dtype=np.int64)
    counts = np.diff(np.r_[starts, len(order)])
    place_from_end = np.repeat(starts + counts, counts) - np.arange(len(order))
    kept = np.sort(order[place_from_end <= net[slots[order]]])
    return whole.rows.take(pa.array(kept))


def _sorted_positions(rows: pa.RecordBatch, order: tuple[SortSpec, ...]) -> np.ndarray:
    columns = [rows.column(spec.index) for spec in order]
    return sort_indices(columns, [s.descending for s in order], [s.nulls_last for s in order])


def python_values(column: pa.Array, type_: DataType) -> list[Any]:
    """A column as Python values: `datetime` (LTZ in UTC), `Decimal`, `bytes`, lists; ROW a tuple, MAP and MULTISET dicts."""
    if type_.is_timestamp and type_.precision > 6:
        zone = dt.UTC if type_.root is TypeRoot.TIMESTAMP_LTZ else None
        return [None if v is None else Timestamp9.of(v, zone) for v in column.cast(pa.int64()).to_pylist()]
    values = column.to_pylist()
    if not type_.is_nested:
        return values
    return [_nested(v, type_) for v in values]


def _nested(value: Any, type_: DataType) -> Any:
    if value is None:
        return None
    match type_.root:
        case TypeRoot.ARRAY:
            return [_nested(v, type_.children[0]) for v in value]
        case TypeRoot.MAP:
            return {_hashable(_nested(k, type_.children[0])): _nested(v, type_.children[1]) for k, v in value}
        case TypeRoot.MULTISET:
            return {_hashable(_nested(k, type_.children[0])): n for k, n in value}
        case TypeRoot.ROW:
            return tuple(_nested(value[f.name], f.type) for f in type_.fields)
        case _:
            return value


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, (list, tuple)) else value


