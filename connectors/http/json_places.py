"""Where in a text of JSON a value stands, which a path names: the text of it is taken as it is, and nothing else is decoded."""

from __future__ import annotations

import json
import re

__all__ = ["elements_of", "place_of", "read_path", "scalar_at"]

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_NAME = re.compile(r"[^.\[\]$\s]+")


def read_path(text: str) -> tuple[str, ...] | None:
    """Names of members, of a path such as `$.data.items` or `data.items`; none for the whole. None for what is no path."""
    rest = text.strip().removeprefix("$").removeprefix(".")
    names = tuple(rest.split(".")) if rest else ()
    return names if all(_NAME.fullmatch(name) for name in names) else None


def place_of(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """From where to where the value stands; None where there is none of that name. Raises ValueError for what is no JSON
    up to there."""
    at = _blank(text, 0)
    for name in path:
        found = _member(text, at, name)
        if found is None:
            return None
        at = found
    return at, _end(text, at)


def elements_of(text: str) -> list[str]:
    """The texts of what an array holds; of any other value that value, of null none. Raises ValueError for what is neither."""
    at = _blank(text, 0)
    if text[at : at + 1] != "[":
        found = text[at : _end(text, at)]
        return [] if found == "null" else [found]
    elements: list[str] = []
    at = _blank(text, at + 1)
    while text[at : at + 1] != "]":
        end = _end(text, at)
        elements.append(text[at:end])
        at = _blank(text, end)
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
        elif text[at : at + 1] != "]":
            raise ValueError(f"an array has no end at character {at}")
    return elements


def scalar_at(text: str, path: tuple[str, ...]) -> str:
    """A text or number; "" where there is none, or null. Raises ValueError for an object, an array, or what is no JSON."""
    place = place_of(text, path)
    value = None if place is None else json.loads(text[place[0] : place[1]], parse_float=str, parse_int=str)
    if value is None or value is False:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{'.'.join(path)} is no text or number")
    return value


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def _member(text: str, at: int, wanted: str) -> int | None:
    """Where the value of a member of the object at a place begins."""
    if text[at : at + 1] != "{":
        return None
    at = _blank(text, at + 1)
    while text[at : at + 1] == '"':
        name, at = _DECODER.raw_decode(text, at)
        at = _blank(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"a colon is missing at character {at}")
        at = _blank(text, at + 1)
        if name == wanted:
            return at
        at = _blank(text, _end(text, at))
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
    return None


def _end(text: str, at: int) -> int:
    try:
        return _DECODER.raw_decode(text, at)[1]
    except RecursionError as error:
        raise ValueError("values are nested too deeply") from error
