"""Values of VARIANT: JSON texts of one form, so that equal values have equal texts.

No blanks; keys of objects in order of their UTF-8 bytes, each once; texts as UTF-8 with `\\"`, `\\\\`, `\\b`, `\\f`, `\\n`,
`\\r`, `\\t` and `\\u001F` as the only escapes. Integers and fractions have no zeros that say nothing (`1.50` is `1.5`, `1.0`
is `1`, `-0` is `0`). Numbers that were written with an exponent, or have more than 38 digits, are DOUBLE, in Java's
form: `1000.0`, `1.0E10`; one that is beyond DOUBLE is no value. What follows the value in a text is not looked at, as in Jackson.
Source: Flink 2.3, `PARSE_JSON` and `BinaryVariant.toJson`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa

from runtime.kernels.arrow_buffers import binary_array, byte_spans, large_binary, null_mask
from runtime.kernels.native import kernel

__all__ = ["LEFT", "MADE", "REPEATED", "SKIPPED", "WRONG", "double_text", "elements", "members", "parse", "parts"]

MADE, WRONG, REPEATED, LEFT, SKIPPED = 0, 1, 2, 3, -1
"""What became of a row: see each function. The kernels have the same numbers."""

_MOST_LEVELS = 500
_MOST_DIGITS = 38
_SPACE = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(
    r'[ \t\n\r]*(?:(?P<mark>[\[\]{},:])|(?P<text>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(?P<word>null|true|false)|(?P<number>-?(?:0|[1-9]\d*)(?P<part>\.\d+)?(?P<power>[eE][+-]?\d+)?))",
    re.ASCII,
)
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\[\]{},:"]+')
_ESCAPE = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\/|\\.", re.DOTALL
)
_SHORT = {8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 92: "\\\\"}

_parse_variants = kernel("parse_variants", "xixnXIT")
_variant_members = kernel("variant_members", "xixiXIT")
_variant_elements = kernel("variant_elements", "xiiXIT")
_variant_parts = kernel("variant_parts", "xinIXIXI")


def parse(texts: pa.Array, repeats: np.ndarray, *, floats: bool = False) -> tuple[pa.Array, np.ndarray]:
    """The values of JSON texts, and what became of each row, int8 (n,).

    MADE; WRONG where a text is no JSON or is nested more than 500 levels deep; REPEATED where an object has a key
    twice and `repeats` (bool (n,)) is false, else its last value counts; SKIPPED where the text is NULL.

    With `floats` numbers such as `1.0` are DOUBLE, as they are in Python: then values of VARIANT are read as what they are.

    Rows with a number that is a DOUBLE are read one by one: C has no way to read and write them that is the same
    everywhere.
    """
    data, offsets, state = _opened(texts)
    if _parse_variants is None:
        state[state == MADE] = LEFT
        values = pa.nulls(len(texts), pa.string())
    else:
        out, ends = np.empty(len(data), np.uint8), np.empty(len(texts), np.int64)
        _parse_variants(data, offsets, repeats, int(floats), out, ends, state)
        values = _closed(out, ends, state)
    left = np.flatnonzero(state == LEFT)
    if not len(left):
        return values, state
    made: list[str | None] = []
    for row, text in zip(left.tolist(), texts.take(pa.array(left)).to_pylist(), strict=True):
        found = _canonical(text, bool(repeats[row]), floats)
        made.append(found if isinstance(found, str) else None)
        state[row] = MADE if isinstance(found, str) else found
    places = np.arange(len(texts))
    places[left] = len(texts) + np.arange(len(left))
    return pa.concat_arrays([values, pa.array(made, pa.string())]).take(pa.array(places)), state


def members(values: pa.Array, keys: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The values of the member whose key stands in `keys` (with its quotes; one key for all rows, or one for each), and
    what became of each row: MADE, WRONG where the object has no such member, LEFT where the value is no object, SKIPPED
    where it is NULL."""
    data, offsets, state = _opened(values)
    if _variant_members is not None:
        out, ends = np.empty(len(data), np.uint8), np.empty(len(values), np.int64)
        key_data, key_offsets, _ = _opened(keys)
        _variant_members(data, offsets, key_data, key_offsets, out, ends, state)
        return _closed(out, ends, state), state
    made: list[str | None] = []
    wanted = keys.to_pylist()
    for row, value in enumerate(values.to_pylist()):
        found = None
        if value is not None:
            state[row] = WRONG if value[0] == "{" else LEFT
            found = dict(_pairs(value)).get(wanted[row if len(wanted) > 1 else 0]) if value[0] == "{" else None
            state[row] = MADE if found is not None else state[row]
        made.append(found)
    return pa.array(made, pa.string()), state


def elements(values: pa.Array, places: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """The elements at `places` (int64, from 1; one for all rows, or one for each), and what became of each row: MADE,
    WRONG where the array has no such element, LEFT where the value is no array, SKIPPED where it is NULL."""
    data, offsets, state = _opened(values)
    if _variant_elements is not None:
        out, ends = np.empty(len(data), np.uint8), np.empty(len(values), np.int64)
        _variant_elements(data, offsets, places, out, ends, state)
        return _closed(out, ends, state), state
    made: list[str | None] = []
    for row, value in enumerate(values.to_pylist()):
        found = None
        if value is not None:
            state[row] = WRONG if value[0] == "[" else LEFT
            items = list(_items(value)) if value[0] == "[" else []
            place = int(places[row if len(places) > 1 else 0])
            if 1 <= place <= len(items):
                found, state[row] = items[place - 1], MADE
        made.append(found)
    return pa.array(made, pa.string()), state


def parts(values: pa.Array, opening: str) -> tuple[pa.Array, pa.Array, np.ndarray]:
    """The values within arrays (`opening` is `[`) or objects (`{`) beside each other, row by row; the keys of the latter
    with their quotes, else none; and how many each row has, int64 (n,): -1 where it is NULL or of another kind."""
    data, offsets, _ = _opened(values)
    counts = np.empty(len(values), np.int64)
    if _variant_parts is not None:
        none, nowhere = np.empty(0, np.uint8), np.empty(0, np.int64)
        total = _variant_parts(data, offsets, ord(opening), counts, none, nowhere, none, nowhere)
        named = total if opening == "{" else 0
        out, ends = np.empty(len(data), np.uint8), np.empty(total, np.int64)
        keys, key_ends = np.empty(len(data) if named else 0, np.uint8), np.empty(named, np.int64)
        if total:
            _variant_parts(data, offsets, ord(opening), counts, out, ends, keys, key_ends)
        return _strings(out, ends), _strings(keys, key_ends), counts
    found: list[str] = []
    names: list[str] = []
    for row, value in enumerate(values.to_pylist()):
        before = len(found)
        if value is not None and value[0] == opening == "{":
            for name, item in _pairs(value):
                names.append(name)
                found.append(item)
        elif value is not None and value[0] == opening:
            found.extend(_items(value))
        counts[row] = len(found) - before if value is not None and value[0] == opening else -1
    return pa.array(found, pa.string()), pa.array(names, pa.string()), counts


def double_text(value: float) -> str:
    """A finite DOUBLE in the form of Java's `Double.toString`."""
    sign = "-" if math.copysign(1, value) < 0 else ""
    value = abs(value)
    if value == 0 or 1e-3 <= value < 1e7:
        return f"{sign}{format(Decimal(repr(value)), 'f')}"
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{sign}{digits[0]}.{rest}E{int(exponent) + len(digits) - 1}"


def _opened(texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bytes of texts, where each begins (n + 1; NULL has no bytes), and the state SKIPPED for NULL, else MADE."""
    nulls = null_mask(texts)
    wide = large_binary(texts)
    data, starts, lengths = byte_spans(wide)
    total = int(lengths.sum())
    if total != len(data):
        data, starts, lengths = byte_spans(large_binary(texts.fill_null("")))
        total = len(data)
    state = np.full(len(texts), MADE, np.int8)
    if nulls is not None:
        state[nulls] = SKIPPED
    return data, np.append(starts, total), state


def _closed(data: np.ndarray, ends: np.ndarray, state: np.ndarray) -> pa.Array:
    """The texts that were made, NULL in all other rows."""
    missing = state != MADE
    return _strings(data, ends, missing if missing.any() else None)


def _strings(data: np.ndarray, ends: np.ndarray, nulls: np.ndarray | None = None) -> pa.Array:
    offsets = np.zeros(len(ends) + 1, np.int64)
    offsets[1:] = ends
    return binary_array(offsets, data, pa.large_string(), nulls).cast(pa.string())


def _canonical(text: str, repeats: bool, floats: bool) -> str | int:
    """The canonical form of a text, or why it has none."""
    # Of each open container its bracket, and what it has: texts of an array; keys and texts of an object.
    opened: list[tuple[str, list[str]]] = []
    at, wanted = 0, "value"
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            return WRONG
        at = token.end()
        mark, made = token["mark"], None
        if wanted == ":":
            if mark != ":":
                return WRONG
            wanted = "value"
            continue
        if wanted == "next" and mark == ",":
            wanted = "key" if opened[-1][0] == "{" else "value"
            continue
        if mark and mark in "}]":
            first = wanted in ("key or end", "value or end")
            if not opened or (not first and wanted != "next") or opened[-1][0] != {"}": "{", "]": "["}[mark]:
                return WRONG
            bracket, items = opened.pop()
            made = f"[{','.join(items)}]" if bracket == "[" else _object(items, repeats)
            if made is None:
                return REPEATED
        elif wanted in ("key", "key or end"):
            if token["text"] is None:
                return WRONG
            opened[-1][1].append(_text(token["text"]))
            wanted = ":"
            continue
        elif wanted == "next" or mark in (",", ":"):
            return WRONG
        elif mark:
            opened.append((mark, []))
            if len(opened) > _MOST_LEVELS:
                return WRONG
            wanted = "key or end" if mark == "{" else "value or end"
            continue
        elif token["text"]:
            made = _text(token["text"])
        else:
            made = token["word"] or _number(token["number"], token["part"], bool(token["power"]), floats)
            if made is None:
                return WRONG
        if not opened:
            closed = made[-1] in '"]}' or at == len(text) or text[at] in " \t\n\r"
            return made if closed else WRONG
        opened[-1][1].append(made)
        wanted = "next"


def _object(items: list[str], repeats: bool) -> str | None:
    found = dict(zip(items[::2], items[1::2], strict=True))
    if len(found) < len(items) // 2 and not repeats:
        return None
    return f"{{{','.join(f'{k}:{found[k]}' for k in sorted(found, key=lambda k: k[:-1]))}}}"


def _number(text: str, part: str | None, power: bool, floats: bool) -> str | None:
    """The form of a number; None where it is beyond DOUBLE."""
    digits = "" if power else text.lstrip("-").replace(".", "").lstrip("0")
    long = len(digits) > _MOST_DIGITS or (part is not None and len(part) - 1 > _MOST_DIGITS)
    if power or long or (floats and part is not None and not part.strip(".0")):
        value = float(text)
        return double_text(value) if math.isfinite(value) else None
    if part:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "0") else text


def _text(quoted: str) -> str:
    return _ESCAPE.sub(_escaped, quoted) if "\\" in quoted else quoted


def _escaped(found: re.Match[str]) -> str:
    high, low, unit = found.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if unit is None:
        return "/" if found[0] == "\\/" else found[0]
    code = int(unit, 16)
    if code in _SHORT:
        return _SHORT[code]
    if 0xD800 <= code < 0xE000:
        return "?"
    return f"\\u{code:04X}" if code < 0x20 else chr(code)


def _items(value: str) -> Iterator[str]:
    """The texts of the elements of an array, or of keys and values of an object in turn."""
    level, begin = 0, 1
    for token in _PART.finditer(value):
        mark = token[0]
        if level == 1 and mark in ",:":
            yield value[begin : token.start()]
            begin = token.end()
        level += (mark in "[{") - (mark in "]}")
    if len(value) > 2:
        yield value[begin:-1]


def _pairs(value: str) -> Iterator[tuple[str, str]]:
    found = list(_items(value))
    return zip(found[::2], found[1::2], strict=True)
