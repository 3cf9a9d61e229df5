"""One JSON value as a value of a SQL type, by Flink's rules: for the few records that the columnar path cannot take.

Numbers may stand in quotes, texts may be given as numbers, booleans or whole documents. Unlike Flink, a number with a
fraction is no integer (Flink cuts it off), and a DECIMAL that does not fit is malformed (Flink makes it NULL): nothing
is lost in silence.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any
from zoneinfo import ZoneInfo

from connectors.formats.text_values import ISO, SQL, TextRules
from runtime.core.types import DataType, TypeRoot

__all__ = ["NotAValue", "json_value", "parse_line"]

_INTEGER_BITS = {
    TypeRoot.TINYINT: 8,
    TypeRoot.SMALLINT: 16,
    TypeRoot.INT: 32,
    TypeRoot.BIGINT: 64,
    TypeRoot.INTERVAL_MONTH: 32,
    TypeRoot.INTERVAL_SECOND: 64,
}
_TIMESTAMP = re.compile(r"(\d{4,})-(\d\d)-(\d\d)([ T])(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)? ?(Z|[+-]\d\d(?::?\d\d)?)?")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?Z?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EXACT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_FLOATING = re.compile(_EXACT.pattern + r"|NaN|[+-]?Infinity")
_MOST_DIGITS = 20
_MOST_OF_AN_INT = 4000
_BOOLEANS = {"true": True, "false": False}
_EPOCH = dt.datetime(1970, 1, 1)


class NotAValue(ValueError):
    """A JSON value that is no value of the type; the text says of which column and type."""


class _Number(Decimal):
    """A number with a fraction or an exponent, and how it is written: a STRING column shows 1.10 and 1e2 as they are."""

    written: str

    def __new__(cls, written: str) -> _Number:
        number = super().__new__(cls, written)
        number.written = written
        return number


def parse_line(line: str) -> Any:
    """A document with exact numbers; raises ValueError or ArithmeticError when it is not JSON, RecursionError when it is
    nested too deeply."""
    return json.loads(line.removeprefix("\ufeff"), parse_float=_Number, parse_int=_whole)


def _whole(written: str) -> int | _Number:
    """Python makes no int of thousands of digits."""
    return int(written) if len(written) <= _MOST_OF_AN_INT else _Number(written)


def json_value(value: Any, type_: DataType, rules: TextRules, path: str) -> Any:
    """A parsed value (numbers as int or Decimal) as what `pyarrow.array(..., type_.arrow)` takes.

    Raises NotAValue.
    """
    if value is None:
        return None
    try:
        return _convert(value, type_, rules, path)
    except NotAValue:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, InvalidOperation, binascii.Error) as error:
        raise NotAValue(f"column {path} is not {type_.not_null()}".replace(" NOT NULL", "")) from error


def _convert(value: Any, type_: DataType, rules: TextRules, path: str) -> Any:
    root = type_.root
    if root in _INTEGER_BITS:
        return _integer(value, _INTEGER_BITS[root])
    match root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return _string(value)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return base64.b64decode(_text(value) + "=" * (-len(value) % 4), validate=True)
        case TypeRoot.BOOLEAN:
            return value if isinstance(value, bool) else _BOOLEANS[_text(value).strip().lower()]
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return float(_number(value, _FLOATING))
        case TypeRoot.DECIMAL:
            return _decimal(value, type_)
        case TypeRoot.DATE:
            return dt.date.fromisoformat(_matching(_text(value).strip(), _DATE))
        case TypeRoot.TIME:
            return _time(_text(value).strip(), type_)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp(_text(value).strip(), type_, rules)
        case TypeRoot.ARRAY:
            if not isinstance(value, list):
                raise ValueError
            return [json_value(v, type_.children[0], rules, f"{path}[]") for v in value]
        case TypeRoot.MAP | TypeRoot.MULTISET:
            return _map(value, type_, rules, path)
        case TypeRoot.ROW:
            if not isinstance(value, Mapping):
                raise ValueError
            return {f.name: json_value(value.get(f.name), f.type, rules, f"{path}.{f.name}") for f in type_.fields}
        case _:
            raise ValueError


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError


def _string(value: Any) -> str:
    """Text as it is; a number, a boolean or a document as JSON. Half of a surrogate pair alone is no text."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, _Number):
        text = value.written
    else:
        text = _document(value)
    if not text.isascii():
        text.encode()
    return text


def _document(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_plain)


def _matching(text: str, pattern: re.Pattern[str]) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError
    return text


def _number(value: Any, pattern: re.Pattern[str]) -> Any:
    """A number, or text that is one: Python alone would also take underscores and other spellings."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError
    return _matching(value.strip(), pattern) if isinstance(value, str) else value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _integer(value: Any, bits: int) -> int:
    number = Decimal(_number(value, _EXACT))
    if number and number.adjusted() >= _MOST_DIGITS:
        raise ValueError  # It would be written out with all its zeros.
    whole = int(number)
    if whole != number or not -(1 << bits - 1) <= whole < 1 << bits - 1:
        raise ValueError
    return whole


def _decimal(value: Any, type_: DataType) -> Decimal:
    with localcontext() as context:
        context.prec = 100
        number = Decimal(_number(value, _EXACT)).quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP)
    if not number.is_finite() or number.adjusted() >= type_.precision - type_.scale:
        if number != 0:
            raise ValueError
    return number


def _time(text: str, type_: DataType) -> dt.time:
    matched = _TIME.fullmatch(text)
    if matched is None:
        raise ValueError
    hour, minute, second, fraction = matched.groups()
    digits = (fraction or "")[: min(type_.precision, 3)]
    return dt.time(int(hour), int(minute), int(second or 0), int(digits.ljust(6, "0")) if digits else 0)


def _timestamp(text: str, type_: DataType, rules: TextRules) -> int | dt.datetime:
    """Ticks since the epoch in the unit of the type's Arrow type."""
    matched = _TIMESTAMP.fullmatch(text)
    separator = {SQL: " ", ISO: "T"}.get(rules.timestamps)
    if matched is None or (separator is not None and matched[4] != separator):
        raise ValueError
    year, month, day, _, hour, minute, second, fraction, zone = matched.groups()
    if (zone is not None) and type_.root is TypeRoot.TIMESTAMP:
        raise ValueError
    moment = dt.datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))
    if type_.root is TypeRoot.TIMESTAMP_LTZ:
        if zone is None:
            moment = moment.replace(tzinfo=ZoneInfo(rules.time_zone)).astimezone(dt.UTC).replace(tzinfo=None)
        elif zone != "Z":
            digits = zone[1:].replace(":", "").ljust(4, "0")
            moment -= dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    unit = 6 if type_.precision <= 6 else 9
    seconds = (moment - _EPOCH) // dt.timedelta(seconds=1)
    return seconds * 10**unit + int((fraction or "")[: type_.precision].ljust(unit, "0")[:unit] or 0)


def _map(value: Any, type_: DataType, rules: TextRules, path: str) -> list[tuple[Any, Any]]:
    if not isinstance(value, Mapping):
        raise ValueError
    key_type = type_.children[0]
    count_or_value = type_.children[1] if type_.root is TypeRoot.MAP else DataType(TypeRoot.INT)
    return [
        (json_value(k, key_type, rules, f"{path} key"), json_value(v, count_or_value, rules, f"{path} value"))
        for k, v in value.items()
    ]
