"""Lookup join: rows enriched from a table outside that is asked by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.rooms import Room
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import expand_ranges
from runtime.kernels.key_encoding import KeyEncoder
from runtime.operators.enriching import EnrichingOperator
from runtime.operators.join_condition import JoinCondition
from runtime.operators.lookup_answers import Answers, AskedTable, CacheFigures
from runtime.operators.lookup_cache import PartialCache
from runtime.operators.lookup_whole import WholeCache
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.plan.nodes import LookupJoinExec
from runtime.plan.parts import ASYNC_CAPACITY, ASYNC_TIMEOUT, CachedTable, LookupRequests, WholeTable
from runtime.spi.lookup import AsyncLookupTable, LookupTable

if TYPE_CHECKING:
    import runtime.operators.lookup_async as _async
    import runtime.operators.lookup_retries as _retries
else:
    _async = Room("runtime.operators.lookup_async")
    _retries = Room("runtime.operators.lookup_retries")

__all__ = ["LookupJoinOperator", "lookup_join_operator"]


def lookup_join_operator(node: LookupJoinExec, context: OperatorContext) -> LookupJoinOperator:
    """The operator of a lookup join."""
    return LookupJoinOperator(node, context) if node.retry is None else _retries.RetryingLookupJoin(node, context)


class LookupJoinOperator(EnrichingOperator):
    """`LookupJoinExec`. Each distinct key of an epoch is looked up once; a key with a NULL matches nothing."""

    def __init__(self, node: LookupJoinExec, context: OperatorContext) -> None:
        super().__init__(node, node.table.schema, context)
        names = node.table.schema.names
        self._schema_found = node.table.schema
        self._names = [names[position] for _, position in node.keys]
        self._types = [node.table.schema[position].type.arrow for _, position in node.keys]
        self._answers = _answers(node, self._types, context)
        self._evaluator = Evaluator(tuple(e for e, _ in node.keys), context.functions)
        self._time_zone = context.time_zone
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.input.schema), context)

    @property
    def cache_figures(self) -> CacheFigures | None:
        return self._answers.figures

    def takes_parts(self, position: int) -> bool:
        return True

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        yield from self.enriched(inputs[0], time)

    def found(self, rows: pa.RecordBatch, time: EpochTime) -> tuple[np.ndarray, list[pa.Array]]:
        """The matches of each row: `(row, columns of the looked-up table)`, by row."""
        count = rows.num_rows
        values = self._evaluator.evaluate(rows, BatchContext.at(time, count, self._time_zone))
        keys = [_column(value, type_, count) for value, type_ in zip(values, self._types, strict=True)]
        usable = np.ones(count, np.bool_)
        for key in keys:
            nulls = null_mask(key)
            if nulls is not None:
                usable &= ~nulls
        asking = np.flatnonzero(usable)
        if not len(asking):
            return np.empty(0, np.int64), [pa.nulls(0, f.type.arrow) for f in self._schema_found]
        if len(asking) < count:
            keys = [key.take(pa.array(asking)) for key in keys]
        first, group = group_ids(KeyEncoder(self._types).encode(keys))
        distinct = pa.RecordBatch.from_arrays([key.take(pa.array(first)) for key in keys], names=self._names)
        positions, columns = self._answers.answer(distinct, len(asking), time.processing_time)
        index, match = _answers_of(group, positions, len(first))
        index = asking[index]
        if self._condition is not None and len(index):
            holds = self._condition.holds(
                lambda p, at: rows.column(p).take(pa.array(at)),
                index,
                lambda p, at: columns[p].take(pa.array(at)),
                match,
                time,
            )
            index, match = index[holds], match[holds]
        return index, [column.take(pa.array(match)) for column in columns]


def _answers(node: LookupJoinExec, key_types: list[pa.DataType], context: OperatorContext) -> Answers:
    """Where rows are found, with what the table's options say."""
    table, retries, cache = node.table, 0, None
    if isinstance(table, WholeTable):
        return WholeCache(table, context.time_zone)
    if isinstance(table, CachedTable):
        table, retries, cache = table.table, table.retries, table.cache
    asked = _asked(table, retries, node.requests, context)
    if cache is None:
        return asked
    if node.retry is not None:
        # What is to be asked for again cannot be remembered as missing.
        cache = replace(cache, missing=False)
    return PartialCache(cache, asked, key_types, table.schema)


def _asked(table: LookupTable, retries: int, hint: LookupRequests | None, context: OperatorContext) -> Answers:
    if not isinstance(table, AsyncLookupTable) or (hint is not None and hint.asynchronous is False):
        return AskedTable(table, retries)
    capacity = None if hint is None else hint.capacity
    timeout = None if hint is None else hint.timeout
    if capacity is None:
        capacity = max(1, context.options.get(ASYNC_CAPACITY))
    if timeout is None:
        timeout = context.options.get(ASYNC_TIMEOUT)
    return _async.ConcurrentlyAskedTable(table, retries, capacity, timeout / 1000)


def _answers_of(group: np.ndarray, owner: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of row, ascending, and answer: the group of each row, of so many, and the group of each answer."""
    counts = np.bincount(owner, minlength=groups)
    by_group = np.argsort(owner, kind="stable")
    begin = np.cumsum(counts) - counts
    if not (counts == 1).all():
        index, place = expand_ranges(begin[group], counts[group])
        return index, by_group[place]
    return np.arange(len(group), dtype=np.int64), by_group[begin[group]]


def _column(value: pa.Array | pa.Scalar, type_: pa.DataType, count: int) -> pa.Array:
    column = pa.repeat(value, count) if isinstance(value, pa.Scalar) else value
    return column if column.type == type_ else column.cast(type_)
