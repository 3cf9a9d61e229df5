"""Calls of the kernels of VARIANT, for the tests of all kernels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.kernels.variants import elements, members, parse, parts

__all__ = ["json_text", "of_variants"]

_TEXTS = ["", "a", "a!", "ab", "é", "😀", 'q"', "b\\", "n\n", "\x01", "a" * 30]
_ODD = ["", " ", "nul", "-", "01", "1.", ".5", "1e", "[1,]", "[,1]", "{", '{"a"}', '{"a":1,}', "[1 2]", '"\\x"', '"\n"', "1]",
        "[}", '{"a":1,"a":2}', "1e400", "[1e3]", "0." + "1" * 39, "9" * 39, '"\\ud83d"', '"\\ud83d\\ude00"', "-0.0", "[" * 600]  # fmt: skip


def json_text(rng: np.random.Generator, level: int = 0) -> str:
    """A text of JSON as somebody may write it, at times with a key twice."""
    space = "" if rng.random() < 0.7 else " \n"
    kind = rng.integers(0, 9 if level < 4 else 6)
    if kind < 3:
        return space + str(
            rng.choice(["null", "true", "false", "0", "-0", "1.50", "-17", "100", "12345678901234567890"])
        )
    if kind < 6:
        return space + json.dumps(str(rng.choice(_TEXTS)), ensure_ascii=bool(rng.integers(2)))
    inside = [json_text(rng, level + 1) for _ in range(rng.integers(0, 16 if rng.random() < 0.1 else 4))]
    if kind == 6:
        return f"{space}[{','.join(inside)}{space}]"
    return f"{space}{{{','.join(json.dumps(str(rng.choice(_TEXTS))) + space + ':' + v for v in inside)}{space}}}"


def of_variants(rng: np.random.Generator, rows: int) -> list[Any]:
    """What the kernels make of texts, right and wrong ones, of their members and of their elements."""
    few = [json_text(rng) if rng.random() < 0.8 else str(rng.choice(_ODD)) for _ in range(min(rows, 300))]
    texts = pa.array([None if rng.random() < 0.1 else t for t in few] * (rows // 300 + 1), pa.string())[:rows]
    repeats = rng.integers(0, 2, rows).astype(np.bool_)
    values, state = parse(texts, repeats, floats=bool(rng.integers(2)))
    keys = pa.array([json.dumps(t, ensure_ascii=False) for t in _TEXTS], pa.string())
    one, each = keys[:1], keys.take(pa.array(rng.integers(0, len(keys), rows)))
    found: list[Any] = [state, *_shown(values)]
    for array, became in [
        members(values, one),
        members(values, each),
        elements(values, np.array([2])),
        elements(values, rng.integers(-1, 4, rows)),
    ]:
        found += [became, *_shown(array)]
    for opening in "[{":
        inside, names, counts = parts(values[rows // 3 :], opening)
        found += [counts, *_shown(inside), *_shown(names)]
    return found


def _shown(array: pa.Array) -> list[np.ndarray]:
    whole = array.fill_null("NULL").to_numpy(zero_copy_only=False).astype("U")
    return [whole.astype("U1000")]
