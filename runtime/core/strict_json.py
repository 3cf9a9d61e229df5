"""JSON that a stranger may have written: read in bounded time and memory, or refused with a reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["as_count", "counts_of", "read_json"]

_GREATEST = 2**63 - 1
_DIGITS = 20
"""What a 64-bit number has at most, its sign included."""


def read_json(data: bytes | str, *, depth: int = 64) -> Any:
    """The value of a JSON text, whose size the caller has limited. Objects name each member once, integers are those of
    64 bits or their digits, and there is no NaN or Infinity.

    Args:
        depth: how deep arrays and objects may stand in each other.

    Raises:
        ValueError: it is no such text; the message is a part of a sentence.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=_integer, object_pairs_hook=_members)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is no UTF-8") from error
    except RecursionError as error:
        raise ValueError("arrays and objects stand too deep in each other") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at character {error.pos}") from error
    _check_depth(value, depth)
    return value


def as_count(value: Any) -> int:
    """A value, such as the position of a reader, that counts something: 64 bits, not below zero. Raises ValueError."""
    if type(value) is not int or not 0 <= value <= _GREATEST:
        raise ValueError(f"{str(value)[:40]!r} is no position")
    return value


def counts_of(value: Any, *names: str) -> tuple[int, ...]:
    """Members of an object that count something, by name. Raises ValueError when one is missing or no count."""
    if not isinstance(value, dict) or not all(name in value for name in names):
        raise ValueError(f"{str(value)[:40]!r} is no position: it has {' and '.join(names)}")
    return tuple(as_count(value[name]) for name in names)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"a member stands twice: {twice[:40]!r}")
    return found


def _check_depth(value: Any, depth: int) -> None:
    level = _nested([value])
    for _ in range(depth):
        if not level:
            return
        level = [inner for outer in level for inner in _nested(outer.values() if isinstance(outer, dict) else outer)]
    if level:
        raise ValueError("arrays and objects stand too deep in each other")


def _nested(values: Iterable[Any]) -> list[dict[str, Any] | list[Any]]:
    return [value for value in values if isinstance(value, dict | list)]
