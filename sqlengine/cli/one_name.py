"""The engine under one name: `planner`, `runtime` and `connectors` below `sqlengine`.

In a checkout the four packages stand side by side. Installed, they would take four names, of which three are likely to
be a user's own (`connectors/` beside a script). So the wheel and the package for Spark hold `sqlengine.runtime` and so
on. Whatever names a module of the three says so there: imports, and strings that are the name of such a module.

Only the standard library is used: the build loads this file by its path.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["BELOW", "NAME", "renamed"]

NAME = "sqlengine"
BELOW = ("planner", "runtime", "connectors")
"""The packages that stand below `sqlengine` in a wheel, and beside it in a checkout."""

_FROM = re.compile(rb"from\s+")
_MODULE = re.compile(rf"(?:{'|'.join(BELOW)})(?:\.[A-Za-z_]\w*)+(?::\w+)?")


def renamed(source: str, root: Path) -> str:
    """A module's text in which modules of the three packages have their names below `sqlengine`.

    Args:
        source: the text of a Python file.
        root: the folder that holds the packages; it tells which strings name a module.

    Raises:
        SyntaxError: the text is not Python, or says `import runtime.x` without `as`, which binds a name that is another
            in a wheel.
    """
    lines = source.encode().splitlines(keepends=True)
    for row, column in sorted(_names(ast.parse(source), lines, root), reverse=True):
        line = lines[row]
        lines[row] = line[:column] + f"{NAME}.".encode() + line[column:]
    return b"".join(lines).decode()


def _names(tree: ast.Module, lines: list[bytes], root: Path) -> Iterator[tuple[int, int]]:
    """Where the name of a module of the three packages begins: line and byte, from 0."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _first(node.module or "") in BELOW:
            found = _FROM.match(lines[node.lineno - 1], node.col_offset)
            assert found is not None
            yield node.lineno - 1, found.end()
        elif isinstance(node, ast.Import):
            for name in node.names:
                if _first(name.name) in BELOW:
                    if name.asname is None:
                        raise SyntaxError(f"line {node.lineno}: `import {name.name}` needs `as`, or `from ... import`")
                    yield name.lineno - 1, name.col_offset
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_module(node.value, root):
            line, quote = lines[node.lineno - 1], node.col_offset
            if line[quote : quote + 1] in (b'"', b"'") and line.startswith(node.value.encode(), quote + 1):
                yield node.lineno - 1, quote + 1


def _first(module: str) -> str:
    return module.partition(".")[0]


def _is_module(text: str, root: Path) -> bool:
    """Whether a text is `package.module`, with or without an attribute, of a module that there is."""
    if not _MODULE.fullmatch(text):
        return False
    package, module = text.partition(":")[0].split(".")[:2]
    return (root / package / module).is_dir() or (root / package / f"{module}.py").is_file()
