"""Where the SQL of a command comes from: `-e` texts, files, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runtime.core.errors import ConnectorError, SqlEngineError

__all__ = ["named", "scripts"]


def scripts(texts: Sequence[str], files: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """(name of the file, or None for `-e`; its text without a byte order mark), in order.

    Raises ConnectorError E3300 for a file that cannot be read.
    """
    for text in texts:
        yield None, text
    for name in files:
        try:
            raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
            yield ("<stdin>" if name == "-" else name), raw.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"byte {error.start} is not UTF-8 text"
            raise ConnectorError(
                f"cannot read {name}: {reason}",
                code="E3300",
                hint="give a file of SQL statements, - for standard input, or -e 'SQL'",
            ) from error


@contextmanager
def named(source: str | None) -> Iterator[None]:
    """Errors from within a block know the file that they are about."""
    try:
        yield
    except SqlEngineError as error:
        error.source = source
        raise
