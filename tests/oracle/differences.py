"""Where SQL means one thing here (as in Flink) and another in DuckDB: each difference is one function that gives the
pair of texts.

| what | here, as in Flink | DuckDB | how the oracle is asked |
|---|---|---|---|
| `a / b` of integers | an integer, truncated towards zero | DOUBLE | `a // b` |
| `AVG` of integers | an integer, truncated | DOUBLE | `SUM // COUNT` |
| `AVG` and `/` of DECIMAL | DECIMAL with at least 6 digits of scale | DOUBLE | compared with a tolerance |
| `SUM(INT)`, `SUM(BIGINT)` | the type of the argument | HUGEINT | compared by value |
| aggregate of no rows without GROUP BY, no scalar subquery | no row: a group ends with its last one | one row | `HAVING
COUNT(*) > 0` |
| the same in batch mode | one row | one row | no difference |
| the same as a scalar subquery | one row | one row | no difference |
| a DECIMAL of more than 38 digits (`+ - * /`, ROUND, CAST, SUM, AVG) | NULL | an error | `large_decimals` |
| `DECIMAL(38, s)` `*` and `/`, and `+` of large s | rounded half up to the scale that is left | an error, or DOUBLE | the same |
| `COLLECT`, `JSON_ARRAYAGG` of no values | empty | NULL | `coalesce(.., [])` |
| order of the values of `LISTAGG`, `ARRAY_AGG`, `JSON_ARRAYAGG` | of arrival | any | compared as bags, or sorted |
| `CHAR(n)` | padded with blanks | VARCHAR | `rpad` |
| `EXTRACT(DOW ..)` | 1 is Sunday | 0 is Sunday | `+ 1` |
| `SELECT *` over joins with USING | the common columns of the last join first | those of the first join first | columns listed |
| rows of time that the watermark of the epoch before has closed | late, rejected | there | `WHERE` on that watermark |
| the grouping set `()` over no rows | no row | one row | `HAVING COUNT(*) > 0` |
| NULLs in ORDER BY | the smallest values: first in ASC, last in DESC | always last | written out for DuckDB |
| `GREATEST`, `LEAST` with a NULL | NULL | the NULL is left out | a CASE around it |
| DATE + INTERVAL '1' DAY | DATE | TIMESTAMP | a CAST around it |
| `STDDEV*`, `VAR*` of integers | an integer | DOUBLE | only asked for DOUBLE |
| `-0.0` and `0.0` | one value (Flink: two), shown as `0.0` by a group | one value | tests of their own |
| NaN | `NaN = NaN` is false, but one value in groups, joins by key and sets | NaN = NaN is true | tests of their own |
| a value of CHAR(n), such as a literal | VARCHAR where several lengths meet | VARCHAR | no difference |
"""

from __future__ import annotations

from sqlengine.verify.reference import WRONG_OPTIMIZERS
from tests.oracle.generate_text import Text, text

__all__ = [
    "REFUSALS",
    "WRONG_OPTIMIZERS",
    "average_of_integers",
    "date_plus_days",
    "group_of_all",
    "in_batch_mode",
    "integer_division",
    "order_item",
    "poisoned",
]

REFUSALS: tuple[str, ...] = (
    # A subquery over the side of an outer join that keeps all its rows decides nothing that a join below could compute.
    "a subquery in the ON clause of an outer join may only refer to the side that is filled with NULLs",
    # Said also of a name in the select list that stands for a constant NULL.
    "ORDER BY NULL says nothing",
)
"""Parts of error messages with which the engine may refuse a generated query, each with the reason why that is
right."""


def integer_division(a: Text, b: Text) -> Text:
    """`a / b` of integers; `b` is a literal that is not 0."""
    return Text(f"({a.ours} / {b.ours})", f"({a.duck} // {b.duck})")


def average_of_integers(distinct: str, x: Text, rest: Text) -> Text:
    """AVG of integers; `rest` is FILTER or OVER behind the call."""
    total, count = f"SUM({distinct}{x.duck}){rest.duck}", f"COUNT({distinct}{x.duck}){rest.duck}"
    return Text(f"AVG({distinct}{x.ours}){rest.ours}", f"({total} // {count})")


_HAS_ROWS = "COUNT(*) > 0 /* not in batch mode */"


def group_of_all(condition: Text | None, *, sets: bool = False) -> Text:
    """The HAVING clause of an aggregate that may have a group of all rows; that group exists while it has rows.

    `sets`: it is one of several grouping sets, which is so in batch mode, too.
    """
    exists = "COUNT(*) > 0" if sets else _HAS_ROWS
    if condition is None:
        return Text("", f" HAVING {exists}")
    return Text(f" HAVING {condition.ours}", f" HAVING ({condition.duck}) AND {exists}")


def in_batch_mode(duck: str) -> str:
    """A query of DuckDB's that means what it means here in batch mode."""
    return duck.replace(_HAS_ROWS, "TRUE")


def order_item(key: Text, descending: bool, nulls: str | None) -> Text:
    """An item of ORDER BY; `nulls` is FIRST, LAST or None for the default."""
    way = " DESC" if descending else ""
    ours = f" NULLS {nulls}" if nulls is not None else ""
    duck = f" NULLS {nulls or ('LAST' if descending else 'FIRST')}"
    return Text(key.ours + way + ours, key.duck + (way or " ASC") + duck)


def poisoned(function: str, a: Text, b: Text) -> Text:
    """GREATEST or LEAST, NULL when an argument is."""
    duck = f"CASE WHEN {a.duck} IS NULL OR {b.duck} IS NULL THEN NULL ELSE {function}({a.duck}, {b.duck}) END"
    return Text(f"{function}({a.ours}, {b.ours})", duck)


def date_plus_days(value: Text, days: int) -> Text:
    """A DATE some days later."""
    plain = text("{} + INTERVAL '{}' DAY", value, str(days))
    return Text(f"({plain.ours})", f"CAST({plain.duck} AS DATE)")
