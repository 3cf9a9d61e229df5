"""Texts and numbers in other forms: Base64, character codes, charsets, IPv4 addresses."""

from __future__ import annotations

import base64
import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.core.types import BIGINT, BYTES, INT, STRING
from runtime.expr.columns import from_numpy, numbers, validity
from runtime.expr.constants import texts
from runtime.expr.distinct import map_distinct
from runtime.expr.function import EvalContext, Nulls, Value
from runtime.expr.library.declare import BIGINT_, BINARY_, CHARACTER, Family
from runtime.expr.texts import on_rows, text_bytes

__all__ = ["FAMILY"]

FAMILY = Family("string encoding")

FAMILY.sql_scalar("TO_BASE64", [CHARACTER], STRING, "to_base64(encode({0}))", "The text's bytes in Base64.")


@FAMILY.scalar("FROM_BASE64", [CHARACTER], STRING, "The text whose bytes are given in Base64.", can_fail=True)
def from_base64(context: EvalContext, text: Value) -> Value:
    def decode(given: str) -> str:
        try:
            padded = given if given.endswith("=") else given + "=" * (-len(given) % 4)
            return base64.b64decode(padded, validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            raise ExpressionError(f"'{given}' is not Base64", code="E2002") from None

    return map_distinct(decode, [text], pa.string(), context.num_rows)


@FAMILY.scalar("ASCII", [CHARACTER], INT, "The number of the first character of a text in Unicode; 0 for ''.")
def ascii_(context: EvalContext, text: Value) -> Value:
    def first(texts: pa.Array) -> pa.Array:
        data, offsets = text_bytes(texts)
        parts = np.concatenate([data, np.zeros(4, np.uint8)]).astype(np.int32)[offsets[:-1, None] + np.arange(4)]
        lead, rest = parts[:, 0], parts[:, 1:] & 0x3F
        two = (lead & 0x1F) << 6 | rest[:, 0]
        three = (lead & 0x0F) << 12 | rest[:, 0] << 6 | rest[:, 1]
        four = (lead & 0x07) << 18 | rest[:, 0] << 12 | rest[:, 1] << 6 | rest[:, 2]
        codes = np.select([lead < 0x80, lead < 0xE0, lead < 0xF0], [lead, two, three], four)
        return from_numpy(np.where(offsets[1:] > offsets[:-1], codes, 0), validity(texts), pa.int32())

    return on_rows(first, text, context.num_rows)


_CHARACTERS = texts([*(chr(i) for i in range(256)), ""])


@FAMILY.scalar(
    "CHR", [BIGINT_], STRING, "The character of a number modulo 256; '' for a negative number.", nulls=Nulls.MAYBE
)
def chr_(context: EvalContext, code: Value) -> Value:
    codes, valid = numbers(code, context.num_rows)
    places = np.where(codes < 0, 256, codes & 0xFF)
    return _CHARACTERS.take(from_numpy(places, valid, pa.int64(), context.num_rows))


_CHARSETS = {
    "UTF-8": "utf-8",
    "UTF8": "utf-8",
    "US-ASCII": "ascii",
    "ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "LATIN1": "latin-1",
    "ISO8859_1": "latin-1",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16",
    "UTF_16": "utf-16",
    "UTF16": "utf-16",
}


def _charset(name: str) -> str:
    found = _CHARSETS.get(name.upper())
    if found is None:
        raise ExpressionError(
            f"unknown charset '{name}'", code="E2002", hint="US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE or UTF-16"
        )
    return found


@FAMILY.scalar("DECODE", [BINARY_, CHARACTER], STRING, "The text whose bytes are given in a charset.", can_fail=True)
def decode(context: EvalContext, data: Value, charset: Value) -> Value:
    def read(given: bytes, name: str) -> str:
        codec = _charset(name)
        if codec == "utf-16" and given[:2] not in (b"\xfe\xff", b"\xff\xfe"):
            codec = "utf-16-be"
        return given.decode(codec, "replace")

    return map_distinct(read, [data, charset], pa.string(), context.num_rows)


@FAMILY.scalar("ENCODE", [CHARACTER, CHARACTER], BYTES, "The text's bytes in a charset.", can_fail=True)
def encode(context: EvalContext, text: Value, charset: Value) -> Value:
    def write(given: str, name: str) -> bytes:
        codec = _charset(name)
        # Java marks UTF-16 as big-endian.
        return (
            b"\xfe\xff" + given.encode("utf-16-be") if codec == "utf-16" and given else given.encode(codec, "replace")
        )

    return map_distinct(write, [text, charset], pa.binary(), context.num_rows)


@FAMILY.scalar(
    "INET_ATON",
    [CHARACTER],
    BIGINT,
    "An IPv4 address as a number; the short forms of MySQL too; NULL when it is none.",
    nulls=Nulls.MAYBE,
)
def inet_aton(context: EvalContext, text: Value) -> Value:
    return map_distinct(_address, [text], pa.int64(), context.num_rows)


def _address(text: str) -> int | None:
    parts = text.split(".")
    if len(parts) > 4 or not all(p.isascii() and p.isdigit() for p in parts):
        return None
    values = [int(p) for p in parts]
    if len(values) == 1:
        return values[0] if values[0] <= 0xFFFFFFFF else None
    if max(values) > 255:
        return None
    *high, low = values
    return sum(v << 8 * (3 - i) for i, v in enumerate(high)) | low


_OCTETS = texts([str(i) for i in range(256)])


@FAMILY.scalar(
    "INET_NTOA", [BIGINT_], STRING, "A number as an IPv4 address; NULL outside 0 to 2^32 - 1.", nulls=Nulls.MAYBE
)
def inet_ntoa(context: EvalContext, number: Value) -> Value:
    values, valid = numbers(number, context.num_rows)
    values = np.broadcast_to(values, (context.num_rows,))
    inside = (values >= 0) & (values <= 0xFFFFFFFF)
    if valid is not None:
        inside &= valid
    octets = [_OCTETS.take(from_numpy((values >> shift) & 0xFF, inside, pa.int64())) for shift in (24, 16, 8, 0)]
    return pc.binary_join_element_wise(*octets, ".")
