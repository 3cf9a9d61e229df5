"""Truth, aggregates and numbers as methods of expressions, with the names of PyFlink.

Each is one SQL function or operator; its meaning is that of the SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlengine.expression.method_parts import MethodParts, given

if TYPE_CHECKING:
    from sqlengine.expression.expression import Expression

__all__ = ["NumberMethods"]


class NumberMethods(MethodParts):
    """Methods about truth, groups and numbers; without parentheses where they take nothing but the value."""

    __slots__ = ()

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

    def list_agg(self, separator: Any = None) -> Expression:
        """LISTAGG: the values as one text, with a separator (a comma) between them."""
        return self._call("LISTAGG", self, "," if separator is None else separator, method="list_agg")

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

    def truncate(self, n: Any = 0) -> Expression:
        """TRUNCATE: the value cut to so many places."""
        return self._call("TRUNCATE", self, n, method="truncate")

    def percentile(self, percentage: Any, frequency: Any = None) -> Expression:
        """PERCENTILE: the value below which a part of all values lies; `frequency` says how often each one counts."""
        return self._call("PERCENTILE", self, percentage, *given(frequency), method="percentile")

    def log(self, base: Any = None) -> Expression:
        """LOG: the logarithm to a base, or the natural one."""
        if base is None:
            return self._call("LOG", self, method="log")
        power = self._of(base)
        return self._form("log", ["LOG(", power, ", ", self, ")"], power)

    @property
    def sinh(self) -> Expression:
        """SINH: the hyperbolic sine."""
        return self._property("SINH", "sinh")

    @property
    def cosh(self) -> Expression:
        """COSH: the hyperbolic cosine."""
        return self._property("COSH", "cosh")

    @property
    def tanh(self) -> Expression:
        """TANH: the hyperbolic tangent."""
        return self._property("TANH", "tanh")

    @property
    def cot(self) -> Expression:
        """COT: the cotangent of an angle in radians."""
        return self._property("COT", "cot")

    def elt(self, expr: Any, *exprs: Any) -> Expression:
        """ELT: the text of this number, counted from 1, among the others."""
        return self._call("ELT", self, expr, *exprs, method="elt")

    def inet_ntoa(self) -> Expression:
        """INET_NTOA: a number as an IPv4 address."""
        return self._call("INET_NTOA", self, method="inet_ntoa")
