"""Methods of expressions that SQL writes with words of its own: IN, BETWEEN, LIKE, CASE, EXTRACT, intervals, windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.core.errors import TypeMismatchError
from sqlengine.expression.frame_bounds import FrameBound, row_interval
from sqlengine.expression.method_parts import MethodParts
from sqlengine.values.code import interval_sql, months_sql

if TYPE_CHECKING:
    from sqlengine.expression.expression import Expression

__all__ = ["ExpressionForms"]

_MILLISECONDS = {
    "milli": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


class ExpressionForms(MethodParts):
    """Operators of SQL that are words, as methods."""

    __slots__ = ()

    # Conditions

    def in_(self, *values: Any) -> Expression:
        """IN: whether the value is one of others, or (one table with one column) among its rows."""
        if len(values) == 1 and hasattr(values[0], "query"):
            rows = self._of_query(values[0])
            return self._form("in_", [self, " IN (", rows, ")"], rows, level=4)
        if len(values) == 1 and isinstance(values[0], (list, tuple, set, frozenset)):
            values = tuple(values[0])
        found = [self._of(v) for v in values]
        parts: list[Any] = [self, " IN ("]
        for index, value in enumerate(found):
            parts += [", ", value] if index else [value]
        return self._form("in_", [*parts, ")"], *found, level=4)

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """BETWEEN: whether the value is one of the bounds or between them."""
        a, b = self._of(lower_bound), self._of(upper_bound)
        return self._form("between", [self, " BETWEEN ", a, " AND ", b], a, b, level=4)

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """NOT BETWEEN: whether the value is below the one or above the other."""
        a, b = self._of(lower_bound), self._of(upper_bound)
        return self._form("not_between", [self, " NOT BETWEEN ", a, " AND ", b], a, b, level=4)

    def like(self, pattern: Any, escape: Any = None) -> Expression:
        """LIKE: whether the text fits a pattern of `%` (any text) and `_` (any character), which `escape` makes plain."""
        wanted = self._of(pattern)
        if escape is None:
            return self._form("like", [self, " LIKE ", wanted], wanted, level=4)
        character = self._of(escape)
        return self._form("like", [self, " LIKE ", wanted, " ESCAPE ", character], wanted, character, level=4)

    def similar(self, pattern: Any) -> Expression:
        """SIMILAR TO: whether the text fits a SQL regular expression."""
        wanted = self._of(pattern)
        return self._form("similar", [self, " SIMILAR TO ", wanted], wanted, level=4)

    def is_distinct_from(self, other: Any) -> Expression:
        """IS DISTINCT FROM: whether two values differ, where NULL equals NULL."""
        value = self._of(other)
        return self._form("is_distinct_from", [self, " IS DISTINCT FROM ", value], value, level=4)

    def is_not_distinct_from(self, other: Any) -> Expression:
        """IS NOT DISTINCT FROM: whether two values are equal, where NULL equals NULL."""
        value = self._of(other)
        return self._form("is_not_distinct_from", [self, " IS NOT DISTINCT FROM ", value], value, level=4)

    def then(self, if_true: Any, if_false: Any) -> Expression:
        """CASE WHEN: `if_true` where the condition holds, else `if_false`."""
        a, b = self._of(if_true), self._of(if_false)
        return self._form("then", ["CASE WHEN ", self, " THEN ", a, " ELSE ", b, " END"], a, b)

    def if_null(self, null_replacement: Any) -> Expression:
        """COALESCE: the value, or another one in the place of NULL."""
        value = self._of(null_replacement)
        return self._form("if_null", ["COALESCE(", self, ", ", value, ")"], value)

    # Parts

    def get(self, name_or_index: str) -> Expression:
        """A field of a row, by name."""
        return self._form("get", ["(", self, f").`{name_or_index.replace('`', '``')}`"], name_or_index)

    def at(self, index: Any) -> Expression:
        """An element of an array, counted from 1, or the value of a key of a map."""
        value = self._of(index)
        return self._form("at", ["(", self, ")[", value, "]"], value)

    def substring(self, begin_index: Any, length: Any = None) -> Expression:
        """SUBSTRING: the text from a position, counted from 1, of a length or to its end."""
        return self._part("substring", begin_index, length)

    def substr(self, begin_index: Any, length: Any = None) -> Expression:
        """The same as `substring`."""
        return self._part("substr", begin_index, length)

    def _part(self, method: str, begin_index: Any, length: Any) -> Expression:
        begin = self._of(begin_index)
        if length is None:
            return self._form(method, ["SUBSTRING(", self, " FROM ", begin, ")"], begin)
        size = self._of(length)
        return self._form(method, ["SUBSTRING(", self, " FROM ", begin, " FOR ", size, ")"], begin, size)

    def position(self, haystack: Any) -> Expression:
        """POSITION: where this text is first in another, counted from 1; 0 when it is not."""
        value = self._of(haystack)
        return self._form("position", ["POSITION(", self, " IN ", value, ")"], value)

    def overlay(self, new_string: Any, starting: Any, length: Any = None) -> Expression:
        """OVERLAY: the text with another one put over it from a position on."""
        value, begin = self._of(new_string), self._of(starting)
        parts = ["OVERLAY(", self, " PLACING ", value, " FROM ", begin]
        if length is None:
            return self._form("overlay", [*parts, ")"], value, begin)
        size = self._of(length)
        return self._form("overlay", [*parts, " FOR ", size, ")"], value, begin, size)

    def concat(self, *others: Any) -> Expression:
        """CONCAT: texts one after another."""
        found = [self._of(o) for o in others]
        parts: list[Any] = ["CONCAT(", self]
        for value in found:
            parts += [", ", value]
        return self._form("concat", [*parts, ")"], *found)

    # Times

    def extract(self, time_interval_unit: str) -> Expression:
        """EXTRACT: a part of a point in time, such as 'YEAR', 'DAY' or 'HOUR'."""
        return self._form(
            "extract", [f"EXTRACT({time_interval_unit.upper()} FROM ", self, ")"], str(time_interval_unit)
        )

    def floor(self, time_interval_unit: str | None = None) -> Expression:
        """FLOOR: the greatest whole number below, or a point in time cut to a unit."""
        words = "" if time_interval_unit is None else f" TO {time_interval_unit.upper()}"
        return self._form(
            "floor", ["FLOOR(", self, f"{words})"], *([str(time_interval_unit)] if time_interval_unit else [])
        )

    def ceil(self, time_interval_unit: str | None = None) -> Expression:
        """CEIL: the least whole number above, or the next point in time that is a whole unit."""
        words = "" if time_interval_unit is None else f" TO {time_interval_unit.upper()}"
        return self._form(
            "ceil", ["CEIL(", self, f"{words})"], *([str(time_interval_unit)] if time_interval_unit else [])
        )

    def date_format(self, pattern: str) -> Expression:
        """DATE_FORMAT: a point in time as a text, by a pattern of Java such as 'yyyy-MM-dd HH:mm'."""
        value = self._of(pattern)
        return self._form("date_format", ["DATE_FORMAT(", self, ", ", value, ")"], value)

    # Windows: what `group_by` of a window gives

    @property
    def start(self) -> Expression:
        """The start of the window that this name stands for (inclusive)."""
        return self._known("window_start", ".start")

    @property
    def end(self) -> Expression:
        """The end of the window that this name stands for (exclusive)."""
        return self._known("window_end", ".end")

    @property
    def rowtime(self) -> Expression:
        """The last millisecond of the window, as event time: windows and joins of time can follow it."""
        return self._known("window_time", ".rowtime")

    @property
    def proctime(self) -> Expression:
        """The processing time of the window, for windows of processing time that follow it."""
        return self._known("window_time", ".proctime")

    # Intervals: lit(10).minutes

    def _interval(self, unit: str, shown: str) -> Expression:
        text = self._sql_text()
        if not text.lstrip("-").isdigit():
            raise TypeMismatchError(
                f"{self!r}.{shown} is no interval: only a whole literal number becomes one",
                code="E1323",
                hint=f'write lit(10).{shown}; a computed number is multiplied: lit(1).{shown} * col("n")',
            )
        number = int(text)
        sql = months_sql(number * _MONTHS[unit]) if unit in _MONTHS else interval_sql(number * _MILLISECONDS[unit])
        return self._known(sql, f".{shown}")

    @property
    def rows(self) -> FrameBound:
        """So many rows: the size of a window that counts them, or an end of a frame. Raises TypeMismatchError E1323 for
        anything but a whole literal number."""
        text = self._sql_text()
        if not text.isdigit():
            raise TypeMismatchError(
                f"{self!r}.rows is no number of rows: only a whole literal number is one",
                code="E1323",
                hint="write lit(10).rows",
            )
        return row_interval(int(text))

    @property
    def milli(self) -> Expression:
        """An interval of so many milliseconds."""
        return self._interval("milli", "milli")

    @property
    def millis(self) -> Expression:
        """An interval of so many milliseconds."""
        return self._interval("milli", "millis")

    @property
    def second(self) -> Expression:
        """An interval of so many seconds."""
        return self._interval("second", "second")

    @property
    def seconds(self) -> Expression:
        """An interval of so many seconds."""
        return self._interval("second", "seconds")

    @property
    def minute(self) -> Expression:
        """An interval of so many minutes."""
        return self._interval("minute", "minute")

    @property
    def minutes(self) -> Expression:
        """An interval of so many minutes."""
        return self._interval("minute", "minutes")

    @property
    def hour(self) -> Expression:
        """An interval of so many hours."""
        return self._interval("hour", "hour")

    @property
    def hours(self) -> Expression:
        """An interval of so many hours."""
        return self._interval("hour", "hours")

    @property
    def day(self) -> Expression:
        """An interval of so many days."""
        return self._interval("day", "day")

    @property
    def days(self) -> Expression:
        """An interval of so many days."""
        return self._interval("day", "days")

    @property
    def week(self) -> Expression:
        """An interval of so many weeks."""
        return self._interval("week", "week")

    @property
    def weeks(self) -> Expression:
        """An interval of so many weeks."""
        return self._interval("week", "weeks")

    @property
    def month(self) -> Expression:
        """An interval of so many months."""
        return self._interval("month", "month")

    @property
    def months(self) -> Expression:
        """An interval of so many months."""
        return self._interval("month", "months")

    @property
    def quarter(self) -> Expression:
        """An interval of so many quarters."""
        return self._interval("quarter", "quarter")

    @property
    def quarters(self) -> Expression:
        """An interval of so many quarters."""
        return self._interval("quarter", "quarters")

    @property
    def year(self) -> Expression:
        """An interval of so many years."""
        return self._interval("year", "year")

    @property
    def years(self) -> Expression:
        """An interval of so many years."""
        return self._interval("year", "years")
