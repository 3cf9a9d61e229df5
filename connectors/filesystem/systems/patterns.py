"""Which files of another machine a path means, where folders are listed one by one."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

from connectors.filesystem.systems.local import fits, is_hidden
from connectors.filesystem.systems.seam import Listed

__all__ = ["find_files", "is_pattern", "visible_below"]

Level = Callable[[str], tuple[list[str], list[Listed]]]
"""Gives the names of the folders in a folder, and the files in it. Neither is in a folder that is not there."""
Below = Callable[[str], list[Listed]]
"""Gives all files below a folder."""


def is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def find_files(path: str, level: Level, below: Below) -> list[Listed] | None:
    """The files of a path (`FileSystem.find`) below a place; paths are relative to it, and have no `/` at their ends."""
    parts = [part for part in path.split("/") if part]
    named = next((i for i, part in enumerate(parts) if is_pattern(part)), len(parts))
    base = "/".join(parts[:named])
    if named == len(parts):
        return _named(base, level, below) or None
    found = _matching(base, parts[named:], level, below)
    # A name may have the signs of a pattern in it.
    return found or _named(path.strip("/"), level, below) or None if "[" in path else found or None


def _named(path: str, level: Level, below: Below) -> list[Listed]:
    """A file, or the visible ones in a folder."""
    found = visible_below(path, below)
    if found or not path:
        return found
    _, files = level(path.rpartition("/")[0])
    return [f for f in files if f.path == path]


def visible_below(folder: str, below: Below) -> list[Listed]:
    """The files below a folder that a reader sees."""
    return [f for f in below(folder) if _visible(f.path, folder)]


def _matching(base: str, wanted: Sequence[str], level: Level, below: Below) -> list[Listed]:
    first, rest = wanted[0], wanted[1:]
    if first == "**":
        start = f"{base}/" if base else ""
        return [
            f for f in below(base) if _visible(f.path, base) and fits(f.path.removeprefix(start).split("/"), wanted)
        ]
    folders, files = level(base)
    found: list[Listed] = []
    if not rest:
        found += [f for f in files if _suits(f.path.rpartition("/")[2], first)]
    for folder in folders:
        if _suits(folder, first):
            path = f"{base}/{folder}" if base else folder
            if rest:
                found += _matching(path, rest, level, below)
            else:
                found += visible_below(path, below)
    return found


def _suits(name: str, pattern: str) -> bool:
    return name == pattern or (fnmatch.fnmatchcase(name, pattern) and not is_hidden(name))


def _visible(path: str, folder: str) -> bool:
    """Whether nothing in the path is hidden, below a folder."""
    start = f"{folder}/" if folder else ""
    return path.startswith(start) and not any(is_hidden(part) for part in path[len(start) :].split("/"))
