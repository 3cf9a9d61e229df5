"""`--log-level`, `--log-file` and `--log-format`: where the log of a command goes, and what it looks like."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.core.logs import FACTS
from sqlengine.terminal.progress import ERASE_LINE

__all__ = ["JsonLines", "log_output"]

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
_TIME = "%Y-%m-%dT%H:%M:%S"


@contextmanager
def log_output(level: str, file: str | None, form: str = "text") -> Iterator[None]:
    """The log from this level on goes to the end of a file, or to stderr, as long as the block runs, as text or as JSON.
    Raises OSError when the file cannot be written."""
    as_text = form == "text"
    handler = _Terminal(erases=as_text) if file is None else logging.FileHandler(file, encoding="utf-8")
    formatter = logging.Formatter(_FORMAT, _TIME) if as_text else JsonLines(datefmt=_TIME)
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


class JsonLines(logging.Formatter):
    """A record as an object in one line: `time` (UTC), `level`, `logger`, `message`, the facts that it has (`FACTS`), and
    `exception`, where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        moment = f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z"
        told = {"time": moment, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        facts = {fact: value for fact in FACTS if (value := getattr(record, fact, None)) is not None}
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps({**told, **facts}, ensure_ascii=False, default=str)


class _Terminal(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr. `erases`: over a line of progress that may stand there."""

    def __init__(self, *, erases: bool) -> None:
        super().__init__(sys.stderr)
        self._erases = erases

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return ERASE_LINE + text if self._erases and self.stream.isatty() else text
