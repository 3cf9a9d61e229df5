"""Python functions of golden files and tests, as a user writes them in a module."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine import (
    AggregateFunction,
    DataTypes,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    udaf,
    udf,
    udtaf,
    udtf,
)


@udf(on_error="reject")
def share(n: int) -> int:
    """A hundred divided by a number, which 0 cannot."""
    return 100 // n


@udf
def parts(n: int) -> int:
    """The same; what happens to 0 is an option."""
    return 100 // n


@udf(on_error="fail")
def strict_parts(n: int) -> int:
    return 100 // n


@udf(result_type="BIGINT", func_type="numpy", on_error="reject")
def numpy_share(n: np.ndarray) -> np.ndarray:
    if (n == 0).any():
        raise ZeroDivisionError("a zero among the numbers")
    return 100 // n


@udf(result_type="BIGINT", func_type="arrow", on_error="reject")
def arrow_share(n: pa.Array) -> pa.Array:
    return pc.divide(pa.scalar(100), n)


@udf(on_error="reject", result_type="INT")
def number(text: str) -> Any:
    """A text as it is, which is no INT: the result is wrong, not the call."""
    return int(text) if text.isdigit() else text


@udf(on_error="reject")
def last_digit(text: str | None) -> int:
    """Of a text such as `x 3`; there is none of NULL."""
    assert text is not None
    return int(text[-1])


@udtf(result_types=["BIGINT"], on_error="reject")
def shares(n: int) -> Iterator[int]:
    yield n
    yield 100 // n


@udf(on_error="reject")
async def slowly(n: int) -> int:
    return 100 // n


class Scaled(ScalarFunction):
    """Opened, closed, with parameters of the job and figures."""

    def open(self, context: FunctionContext) -> None:
        self.factor = int(context.get_job_parameter("factor", "1"))
        self.seen = context.get_metric_group().add_group("scaled").counter("rows")
        self.sizes = context.get_metric_group().distribution("sizes")

    def eval(self, n: int, plus: int = 0, times: int = 1) -> int:
        self.seen.inc()
        self.sizes.update(n)
        return n * self.factor * times + plus

    def close(self) -> None:
        del self.seen


@udf
class Doubled(ScalarFunction):
    """Numbers and texts."""

    @typing.overload
    def eval(self, value: int) -> int: ...
    @typing.overload
    def eval(self, value: str, mark: str = ...) -> str: ...
    def eval(self, value: Any, mark: str = "") -> Any:
        return value * 2 + mark if isinstance(value, str) else value * 2


class Best(TableAggregateFunction):
    """The two greatest numbers, told by what has changed."""

    def create_accumulator(self) -> dict[str, list[int]]:
        return {"all": [], "told": []}

    def accumulate(self, accumulator: dict[str, list[int]], n: int) -> None:
        accumulator["all"].append(n)

    def retract(self, accumulator: dict[str, list[int]], n: int) -> None:
        accumulator["all"].remove(n)

    def emit_update_with_retract(self, accumulator: dict[str, list[int]], out: Any) -> None:
        best = sorted(accumulator["all"], reverse=True)[:2]
        for n in accumulator["told"]:
            out.retract(n)
        for n in best:
            out.collect(n)
        accumulator["told"] = best

    def get_result_type(self) -> Any:
        return DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])


class Spread(AggregateFunction):
    """Of whole columns, by methods, and with `open`."""

    def open(self, context: FunctionContext) -> None:
        self.least = int(context.get_job_parameter("least", "0"))

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], n: Any) -> None:
        accumulator.append(int(n.max() - n.min()))

    def get_value(self, accumulator: list[int]) -> int:
        return max(accumulator[0], self.least)


scaled = udf(Scaled())
best = udtaf(Best())
spread = udaf(Spread(), result_type="BIGINT", func_type="pandas")
