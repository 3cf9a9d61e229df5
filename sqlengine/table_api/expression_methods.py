"""Functions as methods of expressions, by family, with the names of PyFlink.

Each is one SQL function or operator; its meaning is that of the SQL. Functions without a method here are in
`sqlengine.functions`, or `call("NAME", ...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlengine.table_api.expression_forms import ExpressionForms

if TYPE_CHECKING:
    from sqlengine.table_api.expression import Expression

__all__ = ["ExpressionMethods"]


class ExpressionMethods(ExpressionForms):
    """One SQL function a method; without parentheses where it takes nothing but the value."""

    def _call(self, name: str, *args: Any, method: str) -> Expression:
        raise NotImplementedError

    def _property(self, name: str, method: str) -> Expression:
        raise NotImplementedError

    def _suffix(self, words: str, method: str) -> Expression:
        raise NotImplementedError

    # Truth

    @property
    def is_null(self) -> Expression:
        """Whether the value is NULL."""
        return self._suffix("IS NULL", "is_null")

    @property
    def is_not_null(self) -> Expression:
        """Whether the value is not NULL."""
        return self._suffix("IS NOT NULL", "is_not_null")

    @property
    def is_true(self) -> Expression:
        """Whether the condition is TRUE; FALSE for NULL."""
        return self._suffix("IS TRUE", "is_true")

    @property
    def is_not_true(self) -> Expression:
        """Whether the condition is FALSE or NULL."""
        return self._suffix("IS NOT TRUE", "is_not_true")

    @property
    def is_false(self) -> Expression:
        """Whether the condition is FALSE; FALSE for NULL."""
        return self._suffix("IS FALSE", "is_false")

    @property
    def is_not_false(self) -> Expression:
        """Whether the condition is TRUE or NULL."""
        return self._suffix("IS NOT FALSE", "is_not_false")

    # Aggregates

    @property
    def sum(self) -> Expression:
        """SUM: the sum of the values; NULL for none."""
        return self._property("SUM", "sum")

    @property
    def sum0(self) -> Expression:
        """SUM0: the sum of the values; 0 for none."""
        return self._property("SUM0", "sum0")

    @property
    def avg(self) -> Expression:
        """AVG: the mean of the values."""
        return self._property("AVG", "avg")

    @property
    def min(self) -> Expression:
        """MIN: the least value."""
        return self._property("MIN", "min")

    @property
    def max(self) -> Expression:
        """MAX: the greatest value."""
        return self._property("MAX", "max")

    @property
    def count(self) -> Expression:
        """COUNT: the number of values that are not NULL."""
        return self._property("COUNT", "count")

    @property
    def stddev_pop(self) -> Expression:
        """STDDEV_POP: the standard deviation of all values."""
        return self._property("STDDEV_POP", "stddev_pop")

    @property
    def stddev_samp(self) -> Expression:
        """STDDEV_SAMP: the standard deviation, for a sample."""
        return self._property("STDDEV_SAMP", "stddev_samp")

    @property
    def var_pop(self) -> Expression:
        """VAR_POP: the variance of all values."""
        return self._property("VAR_POP", "var_pop")

    @property
    def var_samp(self) -> Expression:
        """VAR_SAMP: the variance, for a sample."""
        return self._property("VAR_SAMP", "var_samp")

    @property
    def first_value(self) -> Expression:
        """FIRST_VALUE: the first value in order of arrival."""
        return self._property("FIRST_VALUE", "first_value")

    @property
    def last_value(self) -> Expression:
        """LAST_VALUE: the last value in order of arrival."""
        return self._property("LAST_VALUE", "last_value")

    @property
    def collect(self) -> Expression:
        """COLLECT: the values as a multiset."""
        return self._property("COLLECT", "collect")

    @property
    def array_agg(self) -> Expression:
        """ARRAY_AGG: the values as an array."""
        return self._property("ARRAY_AGG", "array_agg")

    def list_agg(self, separator: Any = ",") -> Expression:
        """LISTAGG: the values as one text, with a separator between them."""
        return self._call("LISTAGG", self, separator, method="list_agg")

    # Numbers

    @property
    def abs(self) -> Expression:
        """ABS: the value without its sign."""
        return self._property("ABS", "abs")

    @property
    def exp(self) -> Expression:
        """EXP: e to the power of the value."""
        return self._property("EXP", "exp")

    @property
    def ln(self) -> Expression:
        """LN: the natural logarithm."""
        return self._property("LN", "ln")

    @property
    def log2(self) -> Expression:
        """LOG2: the logarithm to base 2."""
        return self._property("LOG2", "log2")

    @property
    def log10(self) -> Expression:
        """LOG10: the logarithm to base 10."""
        return self._property("LOG10", "log10")

    @property
    def sqrt(self) -> Expression:
        """SQRT: the square root."""
        return self._property("SQRT", "sqrt")

    @property
    def sign(self) -> Expression:
        """SIGN: -1, 0 or 1."""
        return self._property("SIGN", "sign")

    @property
    def sin(self) -> Expression:
        """SIN: the sine of an angle in radians."""
        return self._property("SIN", "sin")

    @property
    def cos(self) -> Expression:
        """COS: the cosine of an angle in radians."""
        return self._property("COS", "cos")

    @property
    def tan(self) -> Expression:
        """TAN: the tangent of an angle in radians."""
        return self._property("TAN", "tan")

    @property
    def asin(self) -> Expression:
        """ASIN: the arc sine."""
        return self._property("ASIN", "asin")

    @property
    def acos(self) -> Expression:
        """ACOS: the arc cosine."""
        return self._property("ACOS", "acos")

    @property
    def atan(self) -> Expression:
        """ATAN: the arc tangent."""
        return self._property("ATAN", "atan")

    @property
    def degrees(self) -> Expression:
        """DEGREES: radians as degrees."""
        return self._property("DEGREES", "degrees")

    @property
    def radians(self) -> Expression:
        """RADIANS: degrees as radians."""
        return self._property("RADIANS", "radians")

    @property
    def hex(self) -> Expression:
        """HEX: the value in hexadecimal."""
        return self._property("HEX", "hex")

    @property
    def bin(self) -> Expression:
        """BIN: an integer in binary."""
        return self._property("BIN", "bin")

    def mod(self, divisor: Any) -> Expression:
        """MOD: the remainder of a division."""
        return self._call("MOD", self, divisor, method="mod")

    def power(self, exponent: Any) -> Expression:
        """POWER: the value to a power."""
        return self._call("POWER", self, exponent, method="power")

    def round(self, places: Any = 0) -> Expression:
        """ROUND: the value rounded to so many places."""
        return self._call("ROUND", self, places, method="round")

    def truncate(self, places: Any = 0) -> Expression:
        """TRUNCATE: the value cut to so many places."""
        return self._call("TRUNCATE", self, places, method="truncate")

    # Texts

    @property
    def char_length(self) -> Expression:
        """CHAR_LENGTH: the number of characters."""
        return self._property("CHAR_LENGTH", "char_length")

    @property
    def upper_case(self) -> Expression:
        """UPPER: the text in upper case."""
        return self._property("UPPER", "upper_case")

    @property
    def lower_case(self) -> Expression:
        """LOWER: the text in lower case."""
        return self._property("LOWER", "lower_case")

    @property
    def init_cap(self) -> Expression:
        """INITCAP: every word with a capital first letter."""
        return self._property("INITCAP", "init_cap")

    @property
    def trim(self) -> Expression:
        """TRIM: the text without blanks at both ends."""
        return self._property("TRIM", "trim")

    @property
    def ltrim(self) -> Expression:
        """LTRIM: the text without blanks at its start."""
        return self._property("LTRIM", "ltrim")

    @property
    def rtrim(self) -> Expression:
        """RTRIM: the text without blanks at its end."""
        return self._property("RTRIM", "rtrim")

    @property
    def reverse(self) -> Expression:
        """REVERSE: the text backwards."""
        return self._property("REVERSE", "reverse")

    @property
    def ascii(self) -> Expression:
        """ASCII: the code of the first character."""
        return self._property("ASCII", "ascii")

    @property
    def chr(self) -> Expression:
        """CHR: the character of a code."""
        return self._property("CHR", "chr")

    @property
    def md5(self) -> Expression:
        """MD5: the MD5 hash in hexadecimal."""
        return self._property("MD5", "md5")

    @property
    def sha1(self) -> Expression:
        """SHA1: the SHA-1 hash in hexadecimal."""
        return self._property("SHA1", "sha1")

    @property
    def sha256(self) -> Expression:
        """SHA256: the SHA-256 hash in hexadecimal."""
        return self._property("SHA256", "sha256")

    @property
    def from_base64(self) -> Expression:
        """FROM_BASE64: a text decoded from base 64."""
        return self._property("FROM_BASE64", "from_base64")

    @property
    def to_base64(self) -> Expression:
        """TO_BASE64: a text encoded in base 64."""
        return self._property("TO_BASE64", "to_base64")

    def repeat(self, times: Any) -> Expression:
        """REPEAT: the text so many times."""
        return self._call("REPEAT", self, times, method="repeat")

    def replace(self, search: Any, replacement: Any) -> Expression:
        """REPLACE: the text with all occurrences of `search` replaced."""
        return self._call("REPLACE", self, search, replacement, method="replace")

    def lpad(self, length: Any, pad: Any = " ") -> Expression:
        """LPAD: the text filled at its left to a length."""
        return self._call("LPAD", self, length, pad, method="lpad")

    def rpad(self, length: Any, pad: Any = " ") -> Expression:
        """RPAD: the text filled at its right to a length."""
        return self._call("RPAD", self, length, pad, method="rpad")

    def left(self, length: Any) -> Expression:
        """LEFT: the first characters."""
        return self._call("LEFT", self, length, method="left")

    def right(self, length: Any) -> Expression:
        """RIGHT: the last characters."""
        return self._call("RIGHT", self, length, method="right")

    def split_index(self, separator: Any, index: Any) -> Expression:
        """SPLIT_INDEX: the part of that number, from 0, between separators."""
        return self._call("SPLIT_INDEX", self, separator, index, method="split_index")

    def regexp(self, pattern: Any) -> Expression:
        """REGEXP: whether some part of the text fits a regular expression."""
        return self._call("REGEXP", self, pattern, method="regexp")

    def regexp_replace(self, pattern: Any, replacement: Any) -> Expression:
        """REGEXP_REPLACE: the text with what fits a regular expression replaced."""
        return self._call("REGEXP_REPLACE", self, pattern, replacement, method="regexp_replace")

    def regexp_extract(self, pattern: Any, group: Any = 0) -> Expression:
        """REGEXP_EXTRACT: the first part that fits a regular expression, or a group of it."""
        return self._call("REGEXP_EXTRACT", self, pattern, group, method="regexp_extract")

    def parse_url(self, part: Any) -> Expression:
        """PARSE_URL: a part of a URL: 'HOST', 'PATH', 'QUERY', ..."""
        return self._call("PARSE_URL", self, part, method="parse_url")

    # Times

    @property
    def to_date(self) -> Expression:
        """TO_DATE: a text as a DATE."""
        return self._property("TO_DATE", "to_date")

    @property
    def to_timestamp(self) -> Expression:
        """TO_TIMESTAMP: a text as a TIMESTAMP."""
        return self._property("TO_TIMESTAMP", "to_timestamp")

    # Collections

    @property
    def cardinality(self) -> Expression:
        """CARDINALITY: the number of elements."""
        return self._property("CARDINALITY", "cardinality")

    @property
    def element(self) -> Expression:
        """ELEMENT: the only element of an array."""
        return self._property("ELEMENT", "element")

    def array_contains(self, value: Any) -> Expression:
        """ARRAY_CONTAINS: whether an array holds a value."""
        return self._call("ARRAY_CONTAINS", self, value, method="array_contains")

    @property
    def array_distinct(self) -> Expression:
        """ARRAY_DISTINCT: an array without repetitions."""
        return self._property("ARRAY_DISTINCT", "array_distinct")

    def array_concat(self, other: Any) -> Expression:
        """ARRAY_CONCAT: two arrays one after another."""
        return self._call("ARRAY_CONCAT", self, other, method="array_concat")

    @property
    def map_keys(self) -> Expression:
        """MAP_KEYS: the keys of a map as an array."""
        return self._property("MAP_KEYS", "map_keys")

    @property
    def map_values(self) -> Expression:
        """MAP_VALUES: the values of a map as an array."""
        return self._property("MAP_VALUES", "map_values")

    def json_value(self, path: Any) -> Expression:
        """JSON_VALUE: a scalar inside a JSON text."""
        return self._call("JSON_VALUE", self, path, method="json_value")

    def json_query(self, path: Any) -> Expression:
        """JSON_QUERY: an array or object inside a JSON text."""
        return self._call("JSON_QUERY", self, path, method="json_query")

    def json_exists(self, path: Any) -> Expression:
        """JSON_EXISTS: whether a JSON text has something at a path."""
        return self._call("JSON_EXISTS", self, path, method="json_exists")
