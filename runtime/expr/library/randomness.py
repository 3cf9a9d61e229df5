"""RAND, RAND_INTEGER and UUID: other values in every row, batch, task and call; with a seed, the same sequence in every
batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.types import DOUBLE, INT, STRING
from runtime.expr.columns import combine_valid, from_numpy, numbers
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import INT_, Family, optional

__all__ = ["FAMILY"]

FAMILY = Family("random")


def _generator(context: EvalContext, *seed: Value) -> np.random.Generator:
    if seed and isinstance(seed[0], pa.Scalar) and seed[0].is_valid:
        return np.random.Generator(np.random.PCG64(seed[0].as_py() & 0xFFFF_FFFF))
    return np.random.Generator(np.random.PCG64(context.seed))


def _valid(context: EvalContext, *values: Value) -> Any:
    return combine_valid(*(numbers(v, context.num_rows)[1] for v in values))


@FAMILY.scalar(
    "RAND",
    [optional(INT_)],
    DOUBLE,
    "A random number in [0, 1); with a seed, of a sequence that repeats.",
    deterministic=False,
)
def rand(context: EvalContext, *seed: Value) -> Value:
    drawn = _generator(context, *seed).random(context.num_rows)
    return from_numpy(drawn, _valid(context, *seed), pa.float64())


@FAMILY.scalar(
    "RAND_INTEGER",
    [INT_],
    INT,
    "A random integer in [0, bound), or with two arguments RAND_INTEGER(seed, bound).",
    also=[([INT_, INT_], INT)],
    deterministic=False,
)
def rand_integer(context: EvalContext, *args: Value) -> Value:
    bound, _ = numbers(args[-1], context.num_rows)
    drawn = _generator(context, *args[:-1]).random(context.num_rows)
    return from_numpy(np.floor(drawn * np.maximum(bound, 1)).astype(np.int32), _valid(context, *args), pa.int32())


@FAMILY.scalar(
    "UUID", [], STRING, "A random identifier of 36 characters (version 4).", deterministic=False, nulls=Nulls.NEVER
)
def uuid(context: EvalContext) -> Value:
    raw = _generator(context).integers(0, 256, (context.num_rows, 16), dtype=np.uint8)
    raw[:, 6] = raw[:, 6] & 0x0F | 0x40
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.full((context.num_rows, 36), ord("-"), np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    text[:, places[0::2]] = digits[raw >> 4]
    text[:, places[1::2]] = digits[raw & 15]
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), context.num_rows, [None, pa.py_buffer(text.tobytes())])
    return pc.cast(pc.cast(fixed, pa.binary()), pa.string())
