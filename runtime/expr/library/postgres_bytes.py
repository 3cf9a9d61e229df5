"""Bytes of PostgreSQL: as texts in base 64, in hexadecimal digits or with escapes, their digests, single bytes and bits.

Each distinct value is looked at once. Texts are taken as their bytes in UTF-8.
Source: PostgreSQL 15, "Binary String Functions and Operators".
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import BIGINT, BYTES, INT, STRING, DataType, char
from runtime.expr.columns import as_array
from runtime.expr.distinct import map_distinct
from runtime.expr.function import EvalContext, Value
from runtime.expr.library.declare import BINARY_, CHARACTER, INTEGER, STRING_OR_BYTES, Family

__all__ = ["FAMILY"]

FAMILY = Family("postgres_bytes")
_ENCODINGS = ("base64", "hex", "escape")
_LINE = 76
_ESCAPED = re.compile(rb"\\(\\|[0-3][0-7]{2})|\\")
_NO_DIGITS = re.compile(r"[^0-9a-fA-F\s]")


def _declared(name: str, arguments: list[Any], result: DataType, document: str, function: Callable[..., Any]) -> None:
    """Declares a function of Python values."""

    @FAMILY.scalar(name, arguments, result, document, can_fail=True)
    def evaluate(context: EvalContext, *values: Value) -> Value:
        given = [v if isinstance(v, pa.Scalar) else as_array(v, context.num_rows) for v in values]
        return map_distinct(function, given, context.result_type.arrow, context.num_rows)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _unknown(encoding: str) -> ExpressionError:
    return ExpressionError(f"there is no encoding '{encoding[:40]}'", code="E2029", hint=f"{', '.join(_ENCODINGS)}")


def _encode(data: str | bytes, encoding: str) -> str:
    given = _bytes(data)
    match encoding.lower():
        case "hex":
            return given.hex()
        case "base64":
            text = base64.b64encode(given).decode()
            return "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
        case "escape":
            return "".join(
                "\\\\" if byte == 92 else f"\\{byte:03o}" if byte == 0 or byte >= 128 else chr(byte) for byte in given
            )
        case _:
            raise _unknown(encoding)


def _decode(text: str, encoding: str) -> bytes:
    match encoding.lower():
        case "hex":
            wrong = _NO_DIGITS.search(text)
            digits = "".join(text.split())
            if wrong is not None or len(digits) % 2:
                what = f"'{wrong[0]}' is no hexadecimal digit" if wrong else "an odd number of hexadecimal digits"
                raise ExpressionError(what, code="E2029", hint="a byte has two digits, 0 to 9 and a to f")
            return bytes.fromhex(digits)
        case "base64":
            digits = "".join(text.split())
            try:
                return base64.b64decode(digits, validate=True)
            except ValueError:
                raise ExpressionError(
                    f"'{text[:40]}' is not in base 64",
                    code="E2029",
                    hint="decode(text, 'hex') is for hexadecimal digits",
                ) from None
        case "escape":
            return _ESCAPED.sub(_unescaped, text.encode())
        case _:
            raise _unknown(encoding)


def _unescaped(found: re.Match[bytes]) -> bytes:
    what = found[1]
    if what is None:
        raise ExpressionError("a backslash escapes nothing", code="E2101", hint="\\\\ is a backslash, \\001 a byte")
    return what if what == b"\\" else bytes([int(what, 8)])


def _at(place: int, size: int) -> int:
    if not 0 <= place < size:
        raise ExpressionError(f"there is no place {place} in {size}", code="E2029", hint="from 0 on")
    return place


def _get_byte(data: bytes, place: int) -> int:
    return data[_at(place, len(data))]


def _set_byte(data: bytes, place: int, value: int) -> bytes:
    changed = bytearray(data)
    changed[_at(place, len(data))] = value & 255
    return bytes(changed)


def _get_bit(data: bytes, place: int) -> int:
    _at(place, 8 * len(data))
    return data[place // 8] >> place % 8 & 1


def _set_bit(data: bytes, place: int, value: int) -> bytes:
    _at(place, 8 * len(data))
    if value not in (0, 1):
        raise ExpressionError(f"a bit is 0 or 1, not {value}", code="E2029", hint="set_byte changes a whole byte")
    changed = bytearray(data)
    changed[place // 8] = changed[place // 8] & ~(1 << place % 8) | value << place % 8
    return bytes(changed)


def _read(data: bytes, charset: str) -> str:
    try:
        text = data.decode(charset)
    except LookupError:
        raise ExpressionError(f"there is no encoding '{charset[:40]}'", code="E2029", hint="'UTF8', 'LATIN1'") from None
    except UnicodeError:
        raise ExpressionError(
            "the bytes are no text in this encoding", code="E2029", hint="encode(data, 'escape')"
        ) from None
    if "\x00" in text:
        raise ExpressionError("a text has no character 0", code="E2029", hint="encode(data, 'escape')")
    return text


def _write(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset)
    except LookupError:
        raise ExpressionError(f"there is no encoding '{charset[:40]}'", code="E2029", hint="'UTF8', 'LATIN1'") from None
    except UnicodeError:
        raise ExpressionError("the text has characters that the encoding lacks", code="E2029", hint="'UTF8'") from None


_declared("PG_ENCODE", [STRING_OR_BYTES, CHARACTER], STRING, "Bytes as a text: 'base64', 'hex' or 'escape'.", _encode)
_declared("PG_DECODE", [CHARACTER, CHARACTER], BYTES, "The bytes of such a text.", _decode)
_declared("PG_GET_BYTE", [BINARY_, INTEGER], INT, "A byte, from 0.", _get_byte)
_declared("PG_SET_BYTE", [BINARY_, INTEGER, INTEGER], BYTES, "The bytes with another one in a place.", _set_byte)
_declared("PG_GET_BIT", [BINARY_, INTEGER], INT, "A bit, from 0, the last one of the first byte.", _get_bit)
_declared("PG_SET_BIT", [BINARY_, INTEGER, INTEGER], BYTES, "The bytes with another bit in a place.", _set_bit)
_declared("PG_CONVERT_FROM", [BINARY_, CHARACTER], STRING, "The text whose bytes these are in an encoding.", _read)
_declared("PG_CONVERT_TO", [CHARACTER, CHARACTER], BYTES, "The bytes of a text in an encoding.", _write)
_declared(
    "PG_BIT_COUNT", [BINARY_], BIGINT, "The number of bits that are 1.", lambda data: int.from_bytes(data).bit_count()
)
_declared(
    "PG_MD5",
    [STRING_OR_BYTES],
    char(32),
    "The MD5 digest of a text, or of bytes.",
    lambda data: hashlib.md5(_bytes(data), usedforsecurity=False).hexdigest(),
)
for _size in (224, 256, 384, 512):
    _declared(
        f"PG_SHA{_size}",
        [STRING_OR_BYTES],
        BYTES,
        f"The SHA-{_size} digest, as bytes.",
        lambda data, name=f"sha{_size}": hashlib.new(name, _bytes(data)).digest(),
    )


@FAMILY.scalar("PG_OCTET_LENGTH", [STRING_OR_BYTES], INT, "The number of bytes.")
def octet_length(context: EvalContext, value: Value) -> Value:
    return pc.binary_length(value).cast(pa.int32())
