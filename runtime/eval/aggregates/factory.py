"""From an aggregate call of the plan to its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.core.errors import UnsupportedError
from runtime.core.rooms import Room
from runtime.core.types import DataType
from runtime.eval.aggregates.accumulator import Accumulator
from runtime.eval.aggregates.chosen import DiscretePercentile, Mode
from runtime.eval.aggregates.collecting import ArrayAgg, Collect, JsonArray, JsonObject, ListAgg, Percentile
from runtime.eval.aggregates.covariance import Covariance
from runtime.eval.aggregates.ends import EndValue, RetractableEnd, SingleValue
from runtime.eval.aggregates.extremes import extreme_accumulator
from runtime.eval.aggregates.moments import Variance
from runtime.eval.aggregates.sums import Counter, sum_accumulator
from runtime.expr.function import AggregateFunction, FunctionRegistry, made_by_program
from runtime.plan.nodes import AggregateSpec
from runtime.plan.over_state import MOMENTS, PAIRS

if TYPE_CHECKING:
    import runtime.eval.aggregates.bitmaps as _bitmaps
else:
    _bitmaps = Room("runtime.eval.aggregates.bitmaps")

__all__ = ["make_accumulator"]


def make_accumulator(
    spec: AggregateSpec, order_types: Sequence[DataType] = (), functions: FunctionRegistry | None = None
) -> Accumulator:
    """The state of one call, DISTINCT and FILTER left aside (`AggregateSet` deals with them).

    Args:
        spec: the call.
        order_types: the types of its ORDER BY columns, whose values follow the arguments in `update`.
        functions: those of the job; None: a function of the program is that of no job.

    Raises:
        UnsupportedError: no such aggregate function.
    """
    name, types, retract = spec.function.upper(), spec.arg_types, spec.retract
    match name:
        case "COUNT" | "APPROX_COUNT_DISTINCT":
            return Counter()
        case "SUM" | "SUM0" | "$SUM0" | "AVG":
            return sum_accumulator(
                name, types[0], spec.type, types[0].nullable or retract or spec.filter is not None, retract
            )
        case "MIN" | "MAX":
            return extreme_accumulator(name, types[0], retract)
        case "FIRST_VALUE" | "LAST_VALUE":
            last = name == "LAST_VALUE"
            return RetractableEnd(types[0].arrow, last) if retract else EndValue(types[0].arrow, last)
        case "SINGLE_VALUE":
            return SingleValue(types[0].arrow, retract)
        case "LISTAGG":
            return ListAgg(types, spec.type, retract, spec.order_by, order_types)
        case "ARRAY_AGG" | "ARRAY_AGG_IGNORE_NULLS":
            return ArrayAgg(types, spec.type, retract, name != "ARRAY_AGG", spec.order_by, order_types)
        case "COLLECT":
            return Collect(types, spec.type, retract)
        case "JSON_ARRAYAGG" | "JSON_ARRAYAGG_ABSENT_ON_NULL" | "JSON_ARRAYAGG_NULL_ON_NULL":
            return JsonArray(types, spec.type, retract, name.endswith("NULL_ON_NULL") and "ABSENT" not in name)
        case "JSON_OBJECTAGG" | "JSON_OBJECTAGG_NULL_ON_NULL" | "JSON_OBJECTAGG_ABSENT_ON_NULL":
            return JsonObject(types, spec.type, retract, "ABSENT" not in name)
        case "PERCENTILE":
            return Percentile(types, spec.type, retract)
        case "PERCENTILE_DISC":
            return DiscretePercentile(types, spec.type, retract, spec.order_by)
        case "MODE":
            return Mode(types, spec.type, retract, spec.order_by)
        case _ if name.startswith("BITMAP_"):
            return _bitmaps.bitmap_accumulator(name, retract)
        case _ if name in MOMENTS:
            return Variance(name, types[0], spec.type)
        case _ if name in PAIRS:
            return Covariance(name)
        case _:
            made = made_by_program(name) if functions is None else functions.find(name)
            if isinstance(made, AggregateFunction) and made.accumulator is not None:
                return made.accumulator(spec)
            raise UnsupportedError(
                f"aggregate function {name} cannot be evaluated", hint="SHOW FUNCTIONS lists those that can"
            )
