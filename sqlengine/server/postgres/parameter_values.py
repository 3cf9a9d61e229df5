"""Values of parameters as clients send them, in text or binary, to values of Python.

Source: PostgreSQL 15, the `recv` and `in` functions of its types. What is not a value of the type that it claims is an
error 22P02 or 22P03 that names the parameter.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import struct
import uuid
from collections.abc import Callable
from typing import Any

from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.types import ARRAYS, TYPES, PgType

__all__ = ["array_items", "from_wire", "type_by_oid"]

_BY_OID = {t.oid: t for t in TYPES.values()} | ARRAYS
_DAY = dt.date(2000, 1, 1)
_MOMENT = dt.datetime(2000, 1, 1)
_MAX_ITEMS = 10_000_000


def type_by_oid(oid: int) -> PgType | None:
    """A built-in type by its number; None for another number, and for 0 and `unknown`, which say none."""
    found = _BY_OID.get(oid)
    return None if found is None or found.name == "unknown" else found


def from_wire(number: int, data: bytes | None, binary: bool, type_: PgType | None) -> Any:
    """The value of parameter `number`.

    Args:
        type_: what the client or the statement says it is; None: a text.
    Raises:
        PgError: 22P02, 22P03 where the bytes are no value of the type.
    """
    if data is None:
        return None
    name = "text" if type_ is None else type_.name
    try:
        if binary:
            return _from_binary(data, type_ or TYPES["text"])
        text = data.decode()
        if type_ is not None and type_.element is not None:
            return _array_text(text, type_.element)
        return _TEXTS.get(name, _as_it_is)(text)
    except PgError:
        raise
    except (ValueError, ArithmeticError, struct.error, IndexError, OverflowError) as error:
        kind = "binary value" if binary else f'text "{data[:100].decode(errors="replace")}"'
        raise PgError(
            "22P03" if binary else "22P02", f"${number}: the {kind} is not valid input for type {name}"
        ) from error


def _as_it_is(text: str) -> str:
    return text


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word and any(full.startswith(word) for full in ("true", "yes", "on", "1")) and word != "o":
        return True
    if word and any(full.startswith(word) for full in ("false", "no", "off", "0")) and word != "o":
        return False
    raise ValueError(text)


def _bytes(text: str) -> bytes:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return re.sub(rb"\\(\d{3}|\\)", lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1], 8)]), text.encode())


def _date(text: str) -> dt.date:
    return dt.date.fromisoformat(text.strip())


def _timestamp(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text.strip()).replace(tzinfo=None)


def _timestamptz(text: str) -> dt.datetime:
    moment = dt.datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def _numeric(text: str) -> decimal.Decimal:
    return decimal.Decimal(text.strip())


_TEXTS: dict[str, Callable[[str], Any]] = {
    "bool": _boolean,
    "int2": int,
    "int4": int,
    "int8": int,
    "oid": int,
    "float4": float,
    "float8": float,
    "numeric": _numeric,
    "bytea": _bytes,
    "uuid": lambda text: str(uuid.UUID(text.strip())),
    "date": _date,
    "time": lambda text: dt.time.fromisoformat(text.strip()),
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
}


def _from_binary(data: bytes, type_: PgType) -> Any:
    if type_.element is not None:
        return _array_binary(data, type_.element)
    match type_.name:
        case "bool":
            return _only(data, "!?")
        case "int2":
            return _only(data, "!h")
        case "int4":
            return _only(data, "!i")
        case "int8":
            return _only(data, "!q")
        case "oid" | "regclass" | "regtype":
            return _only(data, "!I")
        case "float4":
            return _only(data, "!f")
        case "float8":
            return _only(data, "!d")
        case "numeric":
            return _numeric_binary(data)
        case "date":
            return _DAY + dt.timedelta(days=_only(data, "!i"))
        case "time":
            return (_MOMENT + dt.timedelta(microseconds=_only(data, "!q"))).time()
        case "timestamp":
            return _MOMENT + dt.timedelta(microseconds=_only(data, "!q"))
        case "timestamptz":
            return (_MOMENT + dt.timedelta(microseconds=_only(data, "!q"))).replace(tzinfo=dt.UTC)
        case "interval":
            micros, days, months = struct.unpack("!qii", data)
            if months:
                raise PgError("0A000", "an interval parameter with months is not supported; write it in the statement")
            return dt.timedelta(days=days, microseconds=micros)
        case "bytea":
            return data
        case "uuid":
            return str(uuid.UUID(bytes=data))
        case "jsonb":
            if data[:1] != b"\x01":
                raise ValueError("version")
            return data[1:].decode()
        case _:
            return data.decode()


def _only(data: bytes, form: str) -> Any:
    (value,) = struct.unpack(form, data)
    return value


def _numeric_binary(data: bytes) -> decimal.Decimal:
    count, weight, sign, scale = struct.unpack_from("!hhHh", data)
    if sign in (0xC000, 0xD000, 0xF000):
        return decimal.Decimal({0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}[sign])
    groups = struct.unpack_from(f"!{count}h", data, 8)
    if len(data) != 8 + 2 * count or sign not in (0, 0x4000) or any(not 0 <= g < 10_000 for g in groups):
        raise ValueError("numeric")
    whole = 0
    for group in groups:
        whole = whole * 10_000 + group
    with decimal.localcontext(prec=1000):
        value = decimal.Decimal(whole).scaleb((weight - count + 1) * 4)
        value = value.quantize(decimal.Decimal(1).scaleb(-scale))
    return -value if sign else value


def _array_binary(data: bytes, element: PgType) -> list[Any]:
    dimensions, _, oid = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise PgError("0A000", "arrays of more than one dimension are not supported as parameters")
    inner = type_by_oid(oid) or element
    (size,) = struct.unpack_from("!i", data, 12)
    if not 0 <= size <= min(len(data), _MAX_ITEMS):
        raise ValueError("array")
    at, values = 20, []
    for _ in range(size):
        (length,) = struct.unpack_from("!i", data, at)
        at += 4
        if length < 0:
            values.append(None)
            continue
        if at + length > len(data):
            raise ValueError("array")
        values.append(_from_binary(data[at : at + length], inner))
        at += length
    return values


_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^\s,{}"\\]|\\.)(?:[^,{}"\\]|\\.)*))\s*(,|\})', re.DOTALL)


def _array_text(text: str, element: PgType) -> list[Any]:
    read = _TEXTS.get(element.name, _as_it_is)
    return [None if item is None else read(item) for item in array_items(text)]


def array_items(text: str) -> list[str | None]:
    """The texts of an array of one dimension, as PostgreSQL writes it. Raises ValueError."""
    text = text.strip()
    if not text.startswith("{"):
        raise ValueError(text)
    if text[1:].strip() == "}":
        return []
    values: list[str | None] = []
    at = 1
    while True:
        match = _ITEM.match(text, at)
        if match is None:
            raise ValueError(text)
        quoted, plain, mark = match.groups()
        raw = quoted if quoted is not None else plain.rstrip()
        item = re.sub(r"\\(.)", r"\1", raw, flags=re.DOTALL)
        values.append(None if quoted is None and raw.upper() == "NULL" else item)
        at = match.end()
        if mark == "}":
            if at != len(text):
                raise ValueError(text)
            return values
