"""What the tests of joins share: random changelogs of every mode, an operator's output folded and checked, DuckDB's
answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from runtime.core.changelog import (
    APPEND,
    DELETE,
    INSERT,
    RETRACT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    UPSERT,
    ChangelogBatch,
    ChangelogMode,
)
from runtime.core.clock import MIN_WATERMARK
from runtime.core.options import Options
from runtime.core.schema import Field, Schema
from runtime.expr.library import builtin_functions
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import ValuesExec

Row = tuple


class Rejected:
    """Remembers what was rejected."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def reject(self, rejected: Any) -> None:
        assert rejected.reason
        self.rows += rows_of(rejected.rows.columns)


def context(rejected: Rejected | None = None, piece: int | None = None) -> OperatorContext:
    """`piece`: the most rows of a batch of output."""
    options = Options({} if piece is None else {"sqlengine.batch.max-rows": str(piece)})
    return OperatorContext("join", options, builtin_functions(), "UTC", rejected or Rejected())


def in_pieces(
    operator: Operator, inputs: Sequence[ChangelogBatch | None], time: EpochTime, piece: int
) -> ChangelogBatch | None:
    """The output of an epoch, none of whose batches may be larger."""
    found = list(operator.pieces(inputs, time))
    assert all(0 < len(batch) <= piece for batch in found)
    return ChangelogBatch.concat(found) if found else None


def at(epoch: int, watermark: int = MIN_WATERMARK, previous: int = MIN_WATERMARK, clock: int = 0) -> EpochTime:
    return EpochTime(epoch, watermark, previous, clock)


def leaf(schema: Schema, mode: ChangelogMode = APPEND) -> ValuesExec:
    return ValuesExec((), schema, mode)


def joined(left: Schema, right: Schema) -> Schema:
    """Left then right columns, all nullable, as after an outer join."""
    return Schema(tuple(Field(f.name, f.type.with_nullable(True)) for f in (*left, *right)))


def rows_of(columns: Sequence[pa.Array]) -> list[Row]:
    return list(zip(*(c.to_pylist() for c in columns), strict=True))


def batch_of(schema: Schema, changes: Sequence[tuple[int, Row]]) -> ChangelogBatch | None:
    """A batch of `(kind, row)`; None for no changes."""
    if not changes:
        return None
    columns = [pa.array([row[i] for _, row in changes], f.type.arrow) for i, f in enumerate(schema)]
    return ChangelogBatch.of(columns, schema, np.array([kind for kind, _ in changes], np.int8))


class Feed:
    """A table that changes at random. `kind` is append, full (rows may repeat), keyed (first column unique) or
    upsert."""

    def __init__(self, kind: str, schema: Schema, rng: np.random.Generator, values: Sequence[Sequence]) -> None:
        self.kind = kind
        self.schema = schema
        self.live: Counter[Row] = Counter()
        self._rng = rng
        self._values = values

    @property
    def mode(self) -> ChangelogMode:
        if self.kind == "upsert":
            return ChangelogMode(update_after=True, delete=True, key_only_deletes=True)
        return APPEND if self.kind == "append" else RETRACT

    @property
    def unique(self) -> tuple[int, ...] | None:
        return (0,) if self.kind in ("keyed", "upsert") else None

    def row(self) -> Row:
        return tuple(v[int(self._rng.integers(len(v)))] for v in self._values)

    def changes(self, most: int) -> list[tuple[int, Row]]:
        done: list[tuple[int, Row]] = []
        for _ in range(int(self._rng.integers(0, most + 1))):
            done += self._change()
        return done

    def _change(self) -> list[tuple[int, Row]]:
        row = self.row()
        if self.kind == "append":
            self.live[row] += 1
            return [(INSERT, row)]
        if self.kind == "full":
            if self.live and self._rng.random() < 0.45:
                row = list(self.live)[int(self._rng.integers(len(self.live)))]
                self._drop(row)
                return [(DELETE, row)]
            self.live[row] += 1
            return [(INSERT, row)]
        old = next((r for r in self.live if r[0] == row[0]), None)
        if old is None:
            self.live[row] += 1
            return [(INSERT, row)]
        self._drop(old)
        if self._rng.random() < 0.4:
            key_only = (old[0], *(None,) * (len(old) - 1))
            return [(DELETE, key_only if self.kind == "upsert" else old)]
        self.live[row] += 1
        return [(UPDATE_AFTER, row)] if self.kind == "upsert" else [(UPDATE_BEFORE, old), (UPDATE_AFTER, row)]

    def _drop(self, row: Row) -> None:
        self.live[row] -= 1
        self.live += Counter()

    def table(self) -> pa.Table:
        rows = list(self.live.elements())
        return pa.table(
            [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(self.schema)], names=self.schema.names
        )


class Folded:
    """An operator's output so far; checks that each batch is the least that leads from one answer to the next."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()

    def add(self, output: ChangelogBatch | None, minimal: bool = True) -> None:
        """`minimal`: no changes that cancel."""
        if output is None:
            return
        signs = output.signs().tolist()
        kinds = output.kinds_or_inserts().tolist()
        for kind, following in zip(kinds, [*kinds[1:], None], strict=True):
            assert following == UPDATE_AFTER or kind != UPDATE_BEFORE, "-U without +U"
        lone = [s for s, k in zip(signs, kinds, strict=True) if k in (INSERT, DELETE)]
        assert lone == sorted(lone), "inserts before deletes"
        before = Counter(self.rows)
        for sign, row in zip(signs, rows_of(output.columns), strict=True):
            self.rows[row] += sign
            assert self.rows[row] >= 0, f"taken back but not there: {row}"
        self.rows += Counter()
        if not minimal:
            return
        least = sum(abs(self.rows[r] - before[r]) for r in self.rows | before)
        assert len(signs) == least, "more changes than there are differences"


_CONNECTION = duckdb.connect()


def answer(sql: str, **tables: pa.Table) -> Counter[Row]:
    """DuckDB's rows of a query over tables."""
    for name, table in tables.items():
        _CONNECTION.register(name, table)
    return Counter(_CONNECTION.execute(sql).fetchall())


UPSERTS = UPSERT
