"""PRINTF: Java's format language, computed once per distinct row of arguments.

Conversions `% n b c d e f g o s x` with flags, width, precision and argument numbers, in the US locale. NULL prints as
`null`. A format that is wrong, or does not fit its argument, gives NULL, as in Flink.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa

from runtime.core.types import STRING
from runtime.expr.distinct import map_distinct
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import ANY, CHARACTER, Family

__all__ = ["FAMILY"]

FAMILY = Family("string format")
_SPEC = re.compile(r"%(?:(\d+)\$|(<))?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


class _BadFormat(Exception):
    """The format is not one that Java accepts for these arguments."""


@FAMILY.scalar(
    "PRINTF",
    [CHARACTER],
    STRING,
    "The arguments in a format of java.util.Formatter.",
    also=[([CHARACTER, ANY], STRING)],
    variadic=True,
    nulls=Nulls.MAYBE,
)
def printf(context: EvalContext, pattern: Value, *args: Value) -> Value:
    return map_distinct(_format, [pattern, *args], pa.string(), context.num_rows, sees_nulls=True)


def _format(pattern: str | None, *args: Any) -> str | None:
    if pattern is None:
        return None
    parts: list[str] = []
    position, following, last = 0, 0, -1
    try:
        while (start := pattern.find("%", position)) >= 0:
            spec = _SPEC.match(pattern, start)
            if spec is None:
                return None
            parts.append(pattern[position:start])
            position = spec.end()
            index, previous, flags, width, precision, conversion = spec.groups()
            if conversion in "%n":
                parts.append(_justified("%" if conversion == "%" else "\n", flags, width))
                continue
            if index:
                last = int(index) - 1
            elif not previous:
                last, following = following, following + 1
            if not 0 <= last < len(args):
                return None
            parts.append(_one(args[last], conversion, flags, width, precision))
    except (_BadFormat, ValueError, OverflowError):
        return None
    return "".join(parts) + pattern[position:]


def _justified(text: str, flags: str, width: str | None) -> str:
    size = int(width or 0)
    if "-" in flags:
        if not width:
            raise _BadFormat
        return text.ljust(size)
    return text.rjust(size)


def _one(value: Any, conversion: str, flags: str, width: str | None, precision: str | None) -> str:
    kind = conversion.lower()
    if kind == "b":
        text = "false" if value is None else str(value).lower() if isinstance(value, bool) else "true"
    elif kind == "s":
        text = _shown(value)
    elif value is None:
        text = "null"
    elif kind == "c":
        text = value if isinstance(value, str) and len(value) == 1 else chr(_whole(value))
    elif kind in "dox":
        if precision:
            raise _BadFormat
        return _number(_integer(_whole(value), kind, flags), conversion, flags, width)
    elif kind in "efg":
        return _number(_float(value, kind, 6 if precision is None else int(precision), flags), conversion, flags, width)
    else:
        raise _BadFormat
    if kind in "bs" and precision is not None:
        text = text[: int(precision)]
    return _justified(text.upper() if conversion.isupper() else text, flags, width)


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _BadFormat
    return value


def _integer(value: int, kind: str, flags: str) -> str:
    if kind == "d":
        return f"{value:,d}" if "," in flags else str(value)
    if value < 0:
        value += 1 << (32 if value >= -(1 << 31) else 64)
    return ("0x" if kind == "x" else "0") * ("#" in flags) + format(value, kind)


def _float(value: Any, kind: str, digits: int, flags: str) -> str:
    if isinstance(value, bool) or not isinstance(value, float | Decimal):
        raise _BadFormat
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if not exact.is_finite():
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(float(value)), "NaN")
    if kind == "e":
        return f"{exact:.{digits}e}" if exact else f"{0:.{digits}e}"
    if kind == "g":
        digits = digits or 1
        magnitude = abs(exact)
        if magnitude and not Decimal("0.0001") <= magnitude < Decimal(10) ** digits:
            mantissa, exponent = f"{exact:.{digits - 1}e}".split("e")
            return f"{mantissa}e{exponent[0]}{exponent[1:].zfill(2)}"
        digits -= max(exact.adjusted(), 0) + 1 if exact else 1
    rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{rounded:,f}" if "," in flags else f"{rounded:f}"


def _number(text: str, conversion: str, flags: str, width: str | None) -> str:
    if text[0] == "-" and "(" in flags:
        text = f"({text[1:]})"
    elif text[0] != "-" and ("+" in flags or " " in flags):
        text = ("+" if "+" in flags else " ") + text
    if "e" in text and "Infinity" not in text:
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}e{exponent[0]}{exponent[1:].zfill(2)}"
    if "0" in flags:
        if not width or "-" in flags:
            raise _BadFormat
        sign = 1 if text[0] in "+- (" else 0
        text = text[:sign] + text[sign:].rjust(int(width) - sign, "0")
    return _justified(text.upper() if conversion.isupper() else text, flags, width)
