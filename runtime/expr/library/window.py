"""The functions that only make sense with OVER. Their evaluation is `runtime/operators/over_aggregate.py`."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.types import BIGINT, DOUBLE, DataType, TypeRoot
from runtime.expr.function import ArgumentType, Nulls, Signature, WindowFunction, optional
from runtime.expr.nullability import cast_type

__all__ = ["FUNCTIONS"]

_ANY = ArgumentType("ANY", lambda t: True, lambda t: t)
_INTEGER = ArgumentType(
    "INTEGER", lambda t: t.is_integer, lambda t: t if t.is_integer else BIGINT if t.root is TypeRoot.NULL else None
)


def _shifted(types: Sequence[DataType]) -> DataType:
    """The argument's type; NULL outside the partition unless a default says otherwise."""
    nullable = types[0].nullable or len(types) < 3 or cast_type(types[2], types[0]).nullable
    return types[0].materialized().with_nullable(nullable)


def _of_frame(types: Sequence[DataType]) -> DataType:
    """The argument's type; NULL where the frame has no such row."""
    return types[0].materialized().with_nullable(True)


_SHIFT = Signature((_ANY, optional(_INTEGER), optional(_ANY)), _shifted)

FUNCTIONS: tuple[WindowFunction, ...] = (
    WindowFunction(
        name="ROW_NUMBER",
        signatures=(Signature((), BIGINT),),
        document="The position of the row in its partition, from 1.",
    ),
    WindowFunction(
        name="RANK",
        signatures=(Signature((), BIGINT),),
        document="1 + the number of rows that come before all equal ones.",
    ),
    WindowFunction(
        name="DENSE_RANK", signatures=(Signature((), BIGINT),), document="1 + the number of different values before."
    ),
    WindowFunction(
        name="PERCENT_RANK", signatures=(Signature((), DOUBLE),), document="(RANK - 1) / (rows of the partition - 1)."
    ),
    WindowFunction(
        name="CUME_DIST",
        signatures=(Signature((), DOUBLE),),
        document="The share of rows that come not after this one.",
    ),
    WindowFunction(
        name="NTILE",
        signatures=(Signature((_INTEGER,), BIGINT),),
        document="The number of the row's part of n equal parts.",
    ),
    WindowFunction(
        name="LAG",
        signatures=(_SHIFT,),
        nulls=Nulls.RULE,
        document="The value n rows before (1 when not given), else the default.",
    ),
    WindowFunction(
        name="LEAD",
        signatures=(_SHIFT,),
        nulls=Nulls.RULE,
        document="The value n rows after (1 when not given), else the default.",
    ),
    WindowFunction(
        name="NTH_VALUE",
        signatures=(Signature((_ANY, _INTEGER), _of_frame),),
        nulls=Nulls.RULE,
        needs_order=False,
        framed=True,
        document="The value of the n-th row of the frame, NULL too; NULL when it has fewer rows.",
    ),
    WindowFunction(
        name="FIRST_VALUE_RESPECT_NULLS",
        signatures=(Signature((_ANY,), _of_frame),),
        nulls=Nulls.RULE,
        needs_order=False,
        framed=True,
        document="FIRST_VALUE(x) RESPECT NULLS: the value of the first row of the frame, NULL too.",
    ),
    WindowFunction(
        name="LAST_VALUE_RESPECT_NULLS",
        signatures=(Signature((_ANY,), _of_frame),),
        nulls=Nulls.RULE,
        needs_order=False,
        framed=True,
        document="LAST_VALUE(x) RESPECT NULLS: the value of the last row of the frame, NULL too.",
    ),
)
