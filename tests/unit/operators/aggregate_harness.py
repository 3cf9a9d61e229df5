"""Small tools for the tests of aggregating operators: nodes over plain columns, a context, a fold of changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import APPEND, RETRACT, ChangelogBatch, ChangelogMode
from runtime.core.clock import MIN_WATERMARK
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.expr.function import FunctionRegistry
from runtime.expr.library.aggregate import FUNCTIONS
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.plan.nodes import AggregateSpec, ValuesExec

DECLARED = {f.name: f for f in FUNCTIONS}


class Rejected:
    """Keeps what is rejected."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, list[dict[str, Any]]]] = []

    def reject(self, rejected: Any) -> None:
        self.rows.append((rejected.reason, rejected.rows.to_pylist()))


def context(rejected: Rejected | None = None, zone: str = "UTC") -> OperatorContext:
    return OperatorContext("op", Options(), FunctionRegistry(), zone, rejected or Rejected())


def source(schema: Schema, retract: bool = False) -> ValuesExec:
    return ValuesExec((), schema, RETRACT if retract else APPEND)


def call(schema: Schema, function: str, *args: int, retract: bool = False, **options: Any) -> AggregateSpec:
    """A call with the result type that its declaration gives."""
    types = tuple(schema[i].type for i in args)
    declared = DECLARED[function]
    for signature in declared.signatures:
        least = sum(not a.is_optional for a in signature.args)
        if least <= len(args) and (len(args) <= len(signature.args) or signature.variadic):
            result = signature.returns if isinstance(signature.returns, DataType) else signature.returns(types)
    return AggregateSpec(function, args, types, result, retract=retract, **options)


def time(epoch: int, watermark: int = MIN_WATERMARK, previous: int = MIN_WATERMARK, now: int = 0) -> EpochTime:
    return EpochTime(epoch, watermark, previous, now)


def batch(schema: Schema, rows: Sequence[Sequence[Any]], signs: Sequence[int] | None = None) -> ChangelogBatch:
    columns = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)]
    kinds = None if signs is None else np.array([0 if s > 0 else 3 for s in signs], np.int8)
    return ChangelogBatch.of(columns, schema, kinds)


def fold(live: Counter[str], output: ChangelogBatch | None) -> None:
    """Adds the changes to the live rows; a row taken back must be there."""
    if output is None:
        return
    for kind, row in zip(output.kinds_or_inserts().tolist(), output.rows.to_pylist(), strict=True):
        key = repr(tuple(row.values()))
        if kind in (0, 2):
            live[key] += 1
        else:
            assert live[key] > 0, f"taken back but not there: {key}"
            live[key] -= 1
            if not live[key]:
                del live[key]


UPSERT_MODE = ChangelogMode(update_after=True, delete=True)
