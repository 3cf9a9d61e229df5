"""Calls of the kernel that reads plain objects of JSON, for the tests of all kernels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.kernels.json_read import Member, Value, object_plan, read_objects

__all__ = ["object_text", "of_objects"]

_MEMBERS = [
    Member("a", Value.INTEGER, pa.int64()),
    Member("bb", Value.INTEGER, pa.int8()),
    Member("", Value.REAL, pa.float64()),
    Member("f", Value.REAL, pa.float32()),
    Member("é", Value.BOOLEAN, pa.bool_()),
    Member("text", Value.TEXT, pa.string()),
    Member("d", Value.DECIMAL, pa.decimal128(7, 2)),
]
_NUMBERS = [
    "0", "-0", "1", "-1", "127", "128", "-128", "-129", "01", "1.", ".5", "1.5", "-0.0", "0.001", "1e3", "1E-3", "1e+22", "1e23",
    "12345.67", "123456.7", "99999.99", "100000.00", "0.005", "9007199254740993", "999999999999999999", "1000000000000000000",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e400", "1e1000", "0.1", "16777217", "1.17549435e-38",
    "3.4e38", "+1", "1-", "0x1", "1.0", "00", "1e", "1e+", "0.0000000000000000000001",
]  # fmt: skip
_OTHERS = [
    '"x"', '""', '"é😀"', '"a\\nb"', '"\\u0041"', '"a', '"\x01"', '"' + "y" * 40 + '"', "true", "false", "null", "nul", "tru",
    "[1]", "[]", "{}",
    '{"a":1}', "[1,]", "[" * 70 + "]" * 70, "[1 2]", '{"x":[1,{"y":"z"}]}', "NaN", '"1"', "",
]  # fmt: skip
_KEYS = ["a", "bb", "", "f", "é", "text", "d", "other", "A", 'q"', "a "]
_BLANKS = ["", "", "", "", " ", "\t", "\r", "\n"]


def object_text(rng: np.random.Generator, keys: list[str] = _KEYS) -> str:
    """What somebody may write as an object, plain as often as not."""
    blank = lambda: str(rng.choice(_BLANKS)) if rng.random() < 0.1 else ""  # noqa: E731
    chosen = [str(k) for k in rng.permutation(keys)[: rng.integers(0, 7)]]
    if chosen and rng.random() < 0.05:
        chosen.append(chosen[0])
    members: list[str] = []
    for key in chosen:
        value = str(rng.choice(_NUMBERS if rng.random() < 0.6 else _OTHERS))
        if rng.random() < 0.6:
            plain = {"a": "17", "bb": "-5", "": "2.5", "f": "0.25", "é": "true", "text": '"plain"', "d": "12.30"}
            value = plain.get(key, '"z"')
        members.append(f"{blank()}{json.dumps(key, ensure_ascii=False)}{blank()}:{blank()}{value}{blank()}")
    text = f"{blank()}{{{','.join(members)}{blank()}}}{blank()}"
    if rng.random() < 0.05:
        text = text[: rng.integers(0, len(text) + 1)] + str(rng.choice(["", "x", "}", ",", "{}"]))
    return text


def of_objects(rng: np.random.Generator, rows: int) -> list[Any]:
    """What the kernel makes of objects."""
    texts = [object_text(rng).encode("utf-8", "surrogatepass") for _ in range(min(rows, 400))]
    texts = [t + b"\xff" if rng.random() < 0.02 else t for t in texts]
    ends = np.cumsum([len(t) for t in texts], dtype=np.int64)
    starts = ends - np.array([len(t) for t in texts], np.int64)
    chosen = [m for m in _MEMBERS if rng.random() < 0.8] or _MEMBERS
    data = np.frombuffer(b"".join(texts), np.uint8)
    columns, left = read_objects(object_plan(chosen), data, starts, ends)
    for column in columns:
        column.validate(full=True)
        assert len(column) == len(texts) - int(left.sum())
    return [left, *(np.array([repr(v) for v in c.to_pylist()] or [""]) for c in columns)]
