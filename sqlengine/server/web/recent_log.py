"""What was logged lately, for whoever looks."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from typing import Any

from runtime.core.logs import FACTS

__all__ = ["LEVELS", "RecentLog"]

LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40}
_MOST_RECORDS = 2000
_MOST_CHARACTERS = 4000
"""Of one record."""
_LOGGER = logging.getLogger("sqlengine")


class RecentLog(logging.NullHandler):
    """The newest records of the engine. It does not count as a log that a program has set up: what nobody hears of still
    goes to stderr."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)
        self._records: deque[dict[str, Any]] = deque(maxlen=_MOST_RECORDS)
        self._before = logging.NOTSET

    def attach(self) -> None:
        """Hear from now on, of all from INFO on."""
        self._before = _LOGGER.level
        if not _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.setLevel(logging.INFO)
        _LOGGER.addHandler(self)

    def detach(self) -> None:
        """Hear no more."""
        _LOGGER.removeHandler(self)
        _LOGGER.setLevel(self._before)

    def handle(self, record: logging.LogRecord) -> bool:
        """Keep a record; from any thread."""
        facts = {fact: value for fact in FACTS if (value := getattr(record, fact, None)) is not None}
        self._records.append(
            {
                "number": next(self._numbers),
                "at": int(record.created * 1000),
                "level": record.levelname,
                "logger": record.name,
                "message": record.getMessage()[:_MOST_CHARACTERS],
                "facts": {
                    key: value if isinstance(value, int | float | str) else str(value) for key, value in facts.items()
                },
            }
        )
        return True

    def records(self, level: int, job: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        """The newest `limit` of a level and above, of one job or of all, behind a number."""
        found = [
            record
            for record in tuple(self._records)
            if record["number"] > after
            and LEVELS.get(record["level"], logging.CRITICAL) >= level
            and job in (None, record["facts"].get("job"))
        ]
        return found[-limit:]
