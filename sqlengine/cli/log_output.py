"""`--log-level` and `--log-file`: where the log of a command goes."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlengine.cli.progress import ERASE_LINE

__all__ = ["log_output"]

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
_TIME = "%Y-%m-%dT%H:%M:%S"


@contextmanager
def log_output(level: str, file: str | None) -> Iterator[None]:
    """The log from this level on goes to the end of a file, or to stderr, as long as the block runs. Raises OSError when
    the file cannot be written."""
    handler = _Terminal() if file is None else logging.FileHandler(file, encoding="utf-8")
    formatter = logging.Formatter(_FORMAT, _TIME)
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logger = logging.getLogger("sqlengine")
    before = logger.level
    logger.setLevel(level.upper())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()


class _Terminal(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr, over a line of progress that may stand there."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return ERASE_LINE + text if self.stream.isatty() else text
