"""Where the SQL of a command comes from: `-e` texts, files, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.core.errors import ConnectorError

__all__ = ["scripts"]


def scripts(texts: Sequence[str], files: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """(name of the file, or None for `-e`; its text), in order. Raises ConnectorError E3110 for a file that cannot be read."""
    for text in texts:
        yield None, text
    for name in files:
        if name == "-":
            yield "<stdin>", sys.stdin.read()
            continue
        try:
            yield name, Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConnectorError(f"cannot read {name}: {reason}", code="E3110", hint="check the path of the SQL file") from error
