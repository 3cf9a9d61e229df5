"""Functions that users write in Python, for SQL and the Table API.

declare.py       the decorators udf, udtf, udaf, udtaf; bases.py the base classes of functions with methods
declarations.py  what a decorated function is to SQL
scalar.py        a row in, a value out; or whole columns in and out
table.py         a row in, any number of rows out: an array of rows that UNNEST takes apart
aggregate.py     the rows of a group in, a value (or rows) out
opened.py        functions that are opened before they are used; context.py what they are told then
limits.py        how long a call may take; asynchronous.py calls of async functions
views.py         lists and maps in accumulators
types.py         SQL types from Python annotations
"""

from __future__ import annotations

from sqlengine.user_functions.bases import (
    AggregateFunction,
    AsyncScalarFunction,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
)
from sqlengine.user_functions.declare import (
    UserFunction,
    udaf,
    udf,
    udtaf,
    udtf,
)

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "UserFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]
