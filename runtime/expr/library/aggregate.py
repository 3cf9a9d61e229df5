"""The aggregate functions: names, argument types and Flink's result types. Their state is `runtime/eval/aggregates`.

Sources: Flink's documentation of aggregate functions, and the types that Flink 2.3 itself reports: SUM keeps an
integer type (and wraps), AVG of integers is an integer, SUM of DECIMAL(p, s) is DECIMAL(38, s), AVG and the variances
of it DECIMAL(38, max(6, s)).

Result nullability: COUNT, COLLECT and JSON results are never NULL; what has a result as soon as there is a value (SUM,
MIN, LISTAGG, ...) has one where there is a row and the argument is NOT NULL; all others may be NULL. The
functions of pairs (CORR, REGR_SLOPE, ...) are SQL's, not Flink's. Names with a suffix carry a clause of the call, as in
Flink's plans: `ARRAY_AGG_IGNORE_NULLS`, `JSON_OBJECTAGG_ABSENT_ON_NULL`, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.core.types import BIGINT, BITMAP, DOUBLE, INT, DataType, TypeRoot, array, decimal, multiset, varchar
from runtime.expr.function import AggregateFunction, ArgumentType, Nulls, Signature, optional

__all__ = ["FUNCTIONS"]

_MAX_PRECISION = 38
_JSON = varchar(2000)


def _argument(name: str, accepts: Callable[[DataType], bool], target: DataType | None = None) -> ArgumentType:
    """Types that fit as they are; an untyped NULL becomes `target`."""

    def coerce(t: DataType) -> DataType | None:
        if accepts(t):
            return t
        return target if t.root is TypeRoot.NULL else None

    return ArgumentType(name, accepts, coerce)


def _to_double(t: DataType) -> DataType | None:
    if t.root is TypeRoot.DOUBLE:
        return t
    if t.is_numeric or t.root is TypeRoot.NULL:
        return DOUBLE.with_nullable(t.nullable)
    if t.root is TypeRoot.ARRAY:
        element = _to_double(t.children[0])
        return None if element is None else array(element).with_nullable(t.nullable)
    return None


def _is_double(t: DataType) -> bool:
    return t.root is TypeRoot.DOUBLE or (t.root is TypeRoot.ARRAY and t.children[0].root is TypeRoot.DOUBLE)


_NUMERIC = _argument("NUMERIC", lambda t: t.is_numeric, BIGINT)
_INTEGER = _argument("INTEGER", lambda t: t.is_integer, BIGINT)
_CHARACTER = _argument("CHARACTER", lambda t: t.is_character, varchar(2147483647))
_COMPARABLE = _argument("COMPARABLE", lambda t: not t.is_unordered)
_INT = ArgumentType(
    "INT",
    lambda t: t.root is TypeRoot.INT,
    lambda t: INT.with_nullable(t.nullable) if t.root in (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.NULL) else None,
)
_BITMAP = _argument("BITMAP", lambda t: t.root is TypeRoot.BITMAP, BITMAP)
_ANY = ArgumentType("ANY", lambda t: True, lambda t: t)
_DOUBLE = ArgumentType(
    "DOUBLE", lambda t: t.root is TypeRoot.DOUBLE, lambda t: None if t.root is TypeRoot.ARRAY else _to_double(t)
)
_SINGLE_FRACTION = ArgumentType(
    "FRACTION", lambda t: t.root is TypeRoot.DOUBLE, lambda t: None if t.root is TypeRoot.ARRAY else _to_double(t)
)
_FRACTION = ArgumentType("FRACTION", _is_double, _to_double)


def _first(types: Sequence[DataType]) -> DataType:
    return types[0].materialized()


def _sum_type(types: Sequence[DataType]) -> DataType:
    argument = types[0]
    return decimal(_MAX_PRECISION, argument.scale) if argument.root is TypeRoot.DECIMAL else argument


def _average_type(types: Sequence[DataType]) -> DataType:
    argument = types[0]
    return decimal(_MAX_PRECISION, max(6, argument.scale)) if argument.root is TypeRoot.DECIMAL else argument


def _sum_overflows(types: Sequence[DataType], result: DataType) -> bool:
    """Whether 10^19 values, more than a count can hold, may have a sum beyond the result's digits."""
    return result.root is TypeRoot.DECIMAL and types[0].precision - types[0].scale + 19 > _MAX_PRECISION - result.scale


def _average_overflows(types: Sequence[DataType], result: DataType) -> bool:
    return result.root is TypeRoot.DECIMAL and types[0].precision - types[0].scale > _MAX_PRECISION - result.scale


def _array_type(types: Sequence[DataType]) -> DataType:
    return array(types[0].materialized())


def _multiset_type(types: Sequence[DataType]) -> DataType:
    return multiset(types[0].materialized()).not_null()


def _percentile_type(types: Sequence[DataType]) -> DataType:
    return array(DOUBLE) if types[1].root is TypeRoot.ARRAY else DOUBLE


def _moment(name: str, document: str) -> AggregateFunction:
    return AggregateFunction(name=name, signatures=(Signature((_NUMERIC,), _average_type),), document=document)


def _pairs(name: str, document: str) -> AggregateFunction:
    signatures = (Signature((_DOUBLE, _DOUBLE), DOUBLE),)
    return AggregateFunction(name=name, signatures=signatures, document=f"{document} Pairs with a NULL are left out.")


def _bitmap(name: str, document: str, argument: ArgumentType, ignores_duplicates: bool = True) -> AggregateFunction:
    result = BIGINT if "_CARDINALITY_" in name else BITMAP
    return AggregateFunction(
        name=name,
        signatures=(Signature((argument,), result),),
        document=document,
        retractable=not ignores_duplicates,
        ignores_duplicates=ignores_duplicates,
    )


def _json_array(name: str, document: str) -> AggregateFunction:
    return AggregateFunction(
        name=name,
        signatures=(Signature((_ANY,), _JSON.not_null()),),
        document=document,
        nulls=Nulls.NEVER,
        empty="[]",
        retractable=False,
        order_sensitive=True,
    )


def _json_object(name: str, document: str) -> AggregateFunction:
    return AggregateFunction(
        name=name,
        signatures=(Signature((_CHARACTER, _ANY), _JSON.not_null()),),
        document=document,
        nulls=Nulls.NEVER,
        empty="{}",
        retractable=False,
        order_sensitive=True,
    )


FUNCTIONS: tuple[AggregateFunction, ...] = (
    AggregateFunction(
        name="COUNT",
        signatures=(Signature((), BIGINT), Signature((_ANY,), BIGINT, variadic=True)),
        nulls=Nulls.NEVER,
        empty=0,
        document="The number of rows, or of rows in which no argument is NULL.",
    ),
    AggregateFunction(
        name="SUM",
        signatures=(Signature((_NUMERIC,), _sum_type),),
        nulls=Nulls.STRICT,
        overflows=_sum_overflows,
        document="The sum of the values that are not NULL; NULL when there is none. Integers wrap around in their own type.",
    ),
    AggregateFunction(
        name="SUM0",
        signatures=(Signature((_NUMERIC,), _sum_type),),
        nulls=Nulls.NEVER,
        overflows=_sum_overflows,
        empty=0,
        document="The sum of the values that are not NULL; 0 when there is none.",
    ),
    AggregateFunction(
        name="$SUM0",
        signatures=(Signature((_NUMERIC,), _sum_type),),
        nulls=Nulls.NEVER,
        overflows=_sum_overflows,
        empty=0,
        document="The same as SUM0, under the name that plans use.",
    ),
    AggregateFunction(
        name="AVG",
        signatures=(Signature((_NUMERIC,), _average_type),),
        nulls=Nulls.STRICT,
        overflows=_average_overflows,
        document="The average of the values that are not NULL, in their own type: of integers an integer, cut toward zero.",
    ),
    AggregateFunction(
        name="MIN",
        signatures=(Signature((_COMPARABLE,), _first),),
        nulls=Nulls.STRICT,
        retractable=False,
        ignores_duplicates=True,
        document="The least value that is not NULL.",
    ),
    AggregateFunction(
        name="MAX",
        signatures=(Signature((_COMPARABLE,), _first),),
        nulls=Nulls.STRICT,
        retractable=False,
        ignores_duplicates=True,
        document="The greatest value that is not NULL; NaN is greater than all numbers.",
    ),
    _moment("STDDEV_POP", "The population standard deviation."),
    _moment("STDDEV_SAMP", "The sample standard deviation; NULL for fewer than two values."),
    _moment("STDDEV", "The same as STDDEV_SAMP."),
    _moment("VAR_POP", "The population variance."),
    _moment("VAR_SAMP", "The sample variance; NULL for fewer than two values."),
    _moment("VARIANCE", "The same as VAR_SAMP."),
    _pairs("CORR", "The correlation of y and x, from -1 to 1; NULL when one of them does not vary."),
    _pairs("COVAR_POP", "The population covariance of y and x."),
    _pairs("COVAR_SAMP", "The sample covariance of y and x; NULL for fewer than two pairs."),
    _pairs(
        "REGR_SLOPE", "The slope of the line y = a + b * x with the least squared error; NULL when x does not vary."
    ),
    _pairs("REGR_INTERCEPT", "The intercept of that line; NULL when x does not vary."),
    _pairs("REGR_R2", "How much of the variation of y the line explains, from 0 to 1; NULL when x does not vary."),
    _pairs("REGR_AVGX", "The average of x."),
    _pairs("REGR_AVGY", "The average of y."),
    _pairs("REGR_SXX", "The sum of the squared distances of x from its average."),
    _pairs("REGR_SYY", "The sum of the squared distances of y from its average."),
    _pairs("REGR_SXY", "The sum of the products of the distances of x and y from their averages."),
    AggregateFunction(
        name="REGR_COUNT",
        signatures=(Signature((_DOUBLE, _DOUBLE), BIGINT),),
        nulls=Nulls.NEVER,
        empty=0,
        document="The number of pairs without a NULL.",
    ),
    AggregateFunction(
        name="FIRST_VALUE",
        signatures=(Signature((_ANY,), _first),),
        nulls=Nulls.STRICT,
        retractable=False,
        order_sensitive=True,
        document="The first value, in order of arrival, that is not NULL.",
    ),
    AggregateFunction(
        name="LAST_VALUE",
        signatures=(Signature((_ANY,), _first),),
        nulls=Nulls.STRICT,
        retractable=False,
        order_sensitive=True,
        document="The last value, in order of arrival, that is not NULL.",
    ),
    AggregateFunction(
        name="LISTAGG",
        signatures=(Signature((_CHARACTER, optional(_CHARACTER)), _first),),
        nulls=Nulls.STRICT,
        retractable=False,
        order_sensitive=True,
        document="The values that are not NULL in order of arrival, joined by a separator (a comma when not given).",
    ),
    AggregateFunction(
        name="ARRAY_AGG",
        signatures=(Signature((_ANY,), _array_type),),
        nulls=Nulls.STRICT,
        retractable=False,
        order_sensitive=True,
        document="The values in order of arrival, NULLs too, as an array.",
    ),
    AggregateFunction(
        name="ARRAY_AGG_IGNORE_NULLS",
        signatures=(Signature((_ANY,), _array_type),),
        nulls=Nulls.STRICT,
        retractable=False,
        order_sensitive=True,
        document="The values that are not NULL in order of arrival, as an array (ARRAY_AGG(x IGNORE NULLS)).",
    ),
    AggregateFunction(
        name="COLLECT",
        signatures=(Signature((_ANY,), _multiset_type),),
        nulls=Nulls.NEVER,
        empty=(),
        retractable=False,
        document="The values that are not NULL, as a multiset.",
    ),
    AggregateFunction(
        name="SINGLE_VALUE",
        signatures=(Signature((_ANY,), _first),),
        document="The value of the only row; more than one row is an error. What a scalar subquery becomes.",
    ),
    AggregateFunction(
        name="APPROX_COUNT_DISTINCT",
        signatures=(Signature((_ANY,), BIGINT),),
        nulls=Nulls.NEVER,
        empty=0,
        retractable=False,
        ignores_duplicates=True,
        document="The number of different values that are not NULL; this engine counts them exactly.",
    ),
    AggregateFunction(
        name="PERCENTILE",
        signatures=(Signature((_NUMERIC, _FRACTION, optional(_INTEGER)), _percentile_type),),
        retractable=False,
        document="The value below which a fraction of the values lies, interpolated; the third argument counts a value several times.",
    ),
    AggregateFunction(
        name="PERCENTILE_DISC",
        signatures=(Signature((_COMPARABLE, _SINGLE_FRACTION), _first),),
        retractable=False,
        document="The first value, in order, at or before which a fraction of the values lies: "
        "PERCENTILE_DISC(fraction) WITHIN GROUP (ORDER BY x).",
    ),
    AggregateFunction(
        name="MODE",
        signatures=(Signature((_COMPARABLE,), _first),),
        nulls=Nulls.STRICT,
        retractable=False,
        document="The most frequent value that is not NULL; of several the first in order. "
        "Also MODE() WITHIN GROUP (ORDER BY x).",
    ),
    _bitmap("BITMAP_BUILD_AGG", "The set of the integers.", _INT),
    _bitmap("BITMAP_BUILD_CARDINALITY_AGG", "How many different integers there are; NULL for no value.", _INT),
    _bitmap("BITMAP_AND_AGG", "The integers that all sets have.", _BITMAP),
    _bitmap("BITMAP_AND_CARDINALITY_AGG", "How many integers all sets have; NULL for no value.", _BITMAP),
    _bitmap("BITMAP_OR_AGG", "The integers that at least one set has.", _BITMAP),
    _bitmap("BITMAP_OR_CARDINALITY_AGG", "How many integers at least one set has; NULL for no value.", _BITMAP),
    _bitmap("BITMAP_XOR_AGG", "The integers that an odd number of sets has.", _BITMAP, False),
    _bitmap(
        "BITMAP_XOR_CARDINALITY_AGG",
        "How many integers an odd number of sets has; NULL for no value.",
        _BITMAP,
        False,
    ),
    _json_object(
        "JSON_OBJECTAGG", "A JSON object of the keys and values; NULL values become null; a key twice is an error."
    ),
    _json_object("JSON_OBJECTAGG_NULL_ON_NULL", "JSON_OBJECTAGG(... NULL ON NULL)."),
    _json_object("JSON_OBJECTAGG_ABSENT_ON_NULL", "JSON_OBJECTAGG(... ABSENT ON NULL): leaves out NULL values."),
    _json_array("JSON_ARRAYAGG", "A JSON array of the values in order of arrival; NULLs are left out."),
    _json_array("JSON_ARRAYAGG_NULL_ON_NULL", "JSON_ARRAYAGG(... NULL ON NULL): NULLs become null."),
    _json_array("JSON_ARRAYAGG_ABSENT_ON_NULL", "JSON_ARRAYAGG(... ABSENT ON NULL)."),
)
