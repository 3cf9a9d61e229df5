"""Functions that read the clock or the watermark: the same value for all rows of an epoch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.types import DATE, TIME, DataType, TypeRoot, timestamp, timestamp_ltz
from runtime.expr.analysis import PASSING_TIME
from runtime.expr.columns import from_numpy
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import Family
from runtime.expr.zones import instant_to_local

__all__ = ["FAMILY"]

FAMILY = Family("current time")
_DAY_MICROS = 86_400_000_000


def _local_micros(context: EvalContext) -> int:
    instant = np.array([context.processing_time * 1000], np.int64)
    return int(instant_to_local(instant, context.time_zone, "us")[0])


def _constant(value: int, type_: DataType) -> Value:
    return from_numpy(np.array([value]), None, type_.arrow)[0]


def _declare(name: str, type_: DataType, document: str, *aliases: str, parentheses: bool = True) -> None:
    @FAMILY.scalar(
        name,
        [],
        type_,
        document,
        aliases=aliases,
        nulls=Nulls.NEVER,
        dynamic=True,
        syntax=None if parentheses else name,
    )
    def evaluate(context: EvalContext) -> Value:
        local = _local_micros(context)
        match type_.root:
            case TypeRoot.DATE:
                value = local // _DAY_MICROS
            case TypeRoot.TIME:
                value = local % _DAY_MICROS // 1_000_000 * 1000
            case TypeRoot.TIMESTAMP:
                value = local
            case _:
                value = context.processing_time * 1000
        return _constant(value, type_)


_declare("LOCALTIME", TIME, "The time of day in the session's time zone.", parentheses=False)
_declare("CURRENT_TIME", TIME, "The time of day in the session's time zone.", parentheses=False)
_declare("LOCALTIMESTAMP", timestamp(3), "The time in the session's time zone.", parentheses=False)
_declare("CURRENT_DATE", DATE, "The date in the session's time zone.", parentheses=False)
_declare("CURRENT_TIMESTAMP", timestamp_ltz(3), "The time now.", "NOW", "CURRENT_ROW_TIMESTAMP")
_declare(
    PASSING_TIME,
    timestamp_ltz(3),
    "The time that passes, in conditions of views: rows come and go with it. Not for values.",
)
_declare("PROCTIME", timestamp_ltz(3), "The time at which a row is processed; as a column, a time attribute.")


def _watermark_rule(types: CallTypes) -> tuple[tuple[DataType, ...], DataType] | None:
    if len(types) != 1 or types[0].root not in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return None
    return tuple(types), types[0].materialized().with_(precision=3, nullable=True)


@FAMILY.special(
    "CURRENT_WATERMARK",
    _watermark_rule,
    "The watermark before this epoch, of a rowtime column; NULL when there is none yet.",
    form=("ROWTIME",),
    nulls=Nulls.RULE,
    dynamic=True,
)
def current_watermark(context: EvalContext, rowtime: Value) -> Value:
    del rowtime
    if context.watermark is None:
        return pa.scalar(None, context.result_type.arrow)
    return _constant(context.watermark * 1000, context.result_type)


@FAMILY.scalar(
    "SOURCE_WATERMARK",
    [],
    timestamp_ltz(3),
    "In WATERMARK FOR only: the source gives the watermark.",
    nulls=Nulls.MAYBE,
    dynamic=True,
)
def source_watermark(context: EvalContext) -> Value:
    return pa.scalar(None, context.result_type.arrow)
