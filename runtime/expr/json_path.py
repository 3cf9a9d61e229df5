"""JSON documents and paths, as Flink reads them (Jackson and Jayway's JsonPath).

A path is `$` with `.name`, `['name']`, `[n]` (negative from the end), `[*]`, `.*`, `[1,3]`, `[1:3]` and `..name` behind
it, after an optional mode: in `strict` mode, the default, a missing part is an error, in `lax` mode nothing. A path
with wildcards, slices or `..` gives the list of what it finds. Filters `[?(..)]` and functions are refused.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from runtime.core.errors import ExpressionError

__all__ = ["JsonPath", "NotFound", "NotJson", "json_path", "json_string", "parse_json", "write_json"]


class NotJson(Exception):
    """The text is no JSON."""


class NotFound(Exception):
    """The document has not what the path names, or the path is wrong."""


def _constant(text: str) -> NoReturn:
    raise NotJson(f"unrecognized token {text}")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_constant)
_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(r"\\\\|\\u00[01][0-9a-f]")


def parse_json(text: str) -> Any:
    """The document at the start of a text: what follows it is not looked at, as in Jackson. Raises NotJson."""
    start = _SPACE.match(text)
    begin = start.end() if start else 0
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None
    if end < len(text) and text[end - 1] not in '"]}' and text[end] not in " \t\n\r":
        raise NotJson(f"unexpected character at {end}")
    return value


def json_string(text: str) -> str:
    """A text as a JSON string; control characters with capital digits, as Jackson writes them."""
    return _ESCAPE.sub(lambda found: found[0][:2] + found[0][2:].upper(), json.dumps(text, ensure_ascii=False))


def write_json(value: Any) -> str:
    """A document as text, without blanks, keys in order."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json_string(value)
        case list():
            return f"[{','.join(write_json(v) for v in value)}]"
        case dict():
            return f"{{{','.join(f'{json_string(k)}:{write_json(value[k])}' for k in sorted(value))}}}"
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class _Step:
    """One step: `names` (None: not by name), `indexes`, a `slice`, or a wildcard; `deep` looks at all levels below."""

    names: tuple[str, ...] | None = None
    indexes: tuple[int, ...] | None = None
    part: slice | None = None
    deep: bool = False

    @property
    def definite(self) -> bool:
        return not self.deep and (self.names is not None or (self.indexes is not None and len(self.indexes) == 1))


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path and its mode."""

    steps: tuple[_Step, ...]
    lax: bool

    @property
    def definite(self) -> bool:
        return all(s.definite for s in self.steps)

    def read(self, document: Any) -> Any:
        """What the path finds. Raises NotFound in strict mode where it finds nothing; in lax mode that is None, or
        []."""
        try:
            if document is None:
                raise NotFound("the document is null")
            found = list(_follow(document, self.steps, True))
            return found[0] if self.definite else found
        except NotFound:
            if not self.lax or document is None:
                raise
            return None if self.definite else []


def _follow(value: Any, steps: tuple[_Step, ...], certain: bool) -> Iterator[Any]:
    """All values at the end of the steps; while the path is `certain`, a missing part raises, behind a wildcard it is
    left out."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    certain = certain and step.definite
    found = _descend(value, step) if step.deep else _children(value, step, certain)
    for child in found:
        yield from _follow(child, rest, certain)


def _children(value: Any, step: _Step, certain: bool) -> Iterator[Any]:
    if step.names is not None and isinstance(value, dict):
        members = {n: value[n] for n in step.names if n in value}
        if len(step.names) > 1:
            yield members
            return
        if members:
            yield from members.values()
            return
    elif step.indexes is not None and isinstance(value, list):
        inside = [i for i in step.indexes if -len(value) <= i < len(value)]
        yield from (value[i] for i in inside)
        if inside or not certain:
            return
    elif step.part is not None and isinstance(value, list):
        yield from value[step.part]
        return
    elif step.names is None and step.indexes is None and step.part is None:
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return
    if certain:
        raise NotFound("the document has no such part")


def _descend(value: Any, step: _Step) -> Iterator[Any]:
    yield from _children(value, step, False)
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _descend(child, step)


_MODE = re.compile(r"\s*(strict|lax)\s+(.+)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[^.\[\s()]+")
_INDEXES = re.compile(r"\s*-?\d+\s*(?:,\s*-?\d+\s*)*")
_SLICE = re.compile(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*")
_QUOTED = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*(,?)""", re.DOTALL)


@functools.lru_cache(maxsize=512)
def json_path(text: str) -> JsonPath | None:
    """The path of a text; None for one that Flink finds wrong. ExpressionError for filters and functions."""
    moded = _MODE.fullmatch(text)
    lax = moded is not None and moded[1].lower() == "lax"
    path = (moded[2] if moded else text).strip()
    if not path:
        return None
    if path[0] not in "$@":
        path = "$." + path
    steps: list[_Step] = []
    position = 1
    while position < len(path):
        step, position = _step(path, position)
        if step is None:
            return None
        steps.append(step)
    return JsonPath(tuple(steps), lax)


def _step(path: str, position: int) -> tuple[_Step | None, int]:
    deep = path.startswith("..", position)
    position += 2 if deep else 0
    if path[position : position + 1] == "[":
        step, end = _bracket(path, position + 1)
        return (None if step is None else _Step(step.names, step.indexes, step.part, deep)), end
    if not deep:
        if path[position] != ".":
            return None, position
        position += 1
    if path[position : position + 1] == "*":
        return _Step(deep=deep), position + 1
    name = _NAME.match(path, position)
    if name is None:
        return None, position
    if path[name.end() : name.end() + 1] == "(":
        _refuse(path, "functions")
    return _Step((name[0],), deep=deep), name.end()


def _bracket(path: str, position: int) -> tuple[_Step | None, int]:
    end = path.find("]", position)
    if path[position:].lstrip().startswith("?"):
        _refuse(path, "filters")
    names: list[str] = []
    at = position
    while (quoted := _QUOTED.match(path, at)) is not None:
        names.append(re.sub(r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2]))
        at = quoted.end()
        if not quoted[3]:
            return (_Step(tuple(names)), at + 1) if path[at : at + 1] == "]" else (None, at)
    if end < 0 or names:
        return None, position
    inside = path[position:end]
    if inside.strip() == "*":
        return _Step(), end + 1
    part = _SLICE.fullmatch(inside)
    if part is not None:
        return _Step(part=slice(*(None if g is None else int(g) for g in part.groups()))), end + 1
    if _INDEXES.fullmatch(inside):
        return _Step(indexes=tuple(int(i) for i in inside.split(","))), end + 1
    return None, position


def _refuse(path: str, what: str) -> NoReturn:
    raise ExpressionError(
        f"the JSON path '{path}' has {what}, which are not supported",
        code="E2002",
        hint="names, indexes, slices, wildcards and .. are",
    )
