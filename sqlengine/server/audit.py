"""Who has connected, who was refused, and what each has asked: a line of JSON for each, in a file that is only written to.

A line has `time`, `event`, `port`, `client` (its address) and `user`. Events:

connected, refused, disconnected   of a connection, or of a session over HTTP; `reason` says why somebody was refused
statement                          `statement` with secrets masked and without values of parameters, `outcome` (`ok`, `error`,
                                   `canceled`), `code` of an error, `rows`, and `milliseconds` up to the last row
request                            over REST: `request` (method and path), and its `status`
read                               rows or state by key: `state`, and how many `keys`
"""

from __future__ import annotations

import json
import logging
import os
import sys
from logging.handlers import WatchedFileHandler
from typing import Any

from runtime.core.clock import Clock, SystemClock
from runtime.core.errors import OptionError, code_and_text
from runtime.core.logs import Log
from runtime.core.secrets import masked_sql
from sqlengine.statements.role_texts import shown_time

__all__ = ["Audit", "Trail"]

_log = Log("server")
_MOST_CHARACTERS = 20_000
"""Of a statement: what is longer is cut, and `cut` says so."""


class Audit:
    """Writes the lines; any thread may. A file that was moved away is made anew, as programs that rotate logs expect.

    Args:
        path: of the file, which only its owner may read; it goes on where there is one already.
    Raises OptionError E1500 where it cannot be written.
    """

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        try:
            self._file = _Lines(path)
        except OSError as error:
            raise OptionError(
                f"--audit {path} cannot be written: {error.strerror}",
                code="E1500",
                hint="name a file in a folder of yours",
            ) from None

    def of(self, port: str, client: str, user: str) -> Trail:
        """What one client does."""
        return Trail(self, port, client, user)

    def tell(self, event: str, port: str, client: str, user: str, **more: Any) -> None:
        """Write a line. Values that are None are left out."""
        line = {"time": shown_time(self._clock.now()), "event": event, "port": port, "client": client, "user": user}
        line |= {name: value for name, value in more.items() if value is not None}
        self._file.emit(logging.makeLogRecord({"msg": json.dumps(line, ensure_ascii=False)}))

    def close(self) -> None:
        """No more lines come."""
        self._file.close()


class Trail:
    """What one client does. See `Audit.of`."""

    def __init__(self, audit: Audit, port: str, client: str, user: str) -> None:
        self._audit = audit
        self._of = port, client, user

    def tell(self, event: str, **more: Any) -> None:
        """Write a line of this client."""
        self._audit.tell(event, *self._of, **more)

    def statement(
        self,
        text: str,
        seconds: float,
        *,
        rows: int | None = None,
        error: BaseException | None = None,
        canceled: bool = False,
    ) -> None:
        """A statement has ended. `error`: what it has failed with."""
        shown = masked_sql(text)
        self.tell(
            "statement",
            statement=shown[:_MOST_CHARACTERS],
            cut=True if len(shown) > _MOST_CHARACTERS else None,
            outcome="canceled" if canceled else "ok" if error is None else "error",
            code=None if error is None else getattr(error, "state", None) or code_and_text(error)[0],
            reason=None if error is None else code_and_text(error)[1][:_MOST_CHARACTERS],
            rows=rows,
            milliseconds=round(seconds * 1000, 3),
        )


class _Lines(WatchedFileHandler):
    """A file that only its owner may read. What keeps a line from being written is told in the server's log."""

    def _open(self) -> Any:
        return os.fdopen(
            os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600),
            "a",
            encoding="utf-8",
        )

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:
        """See the class."""
        error = sys.exc_info()[1]
        assert error is not None
        _log.failure(f"a line of the audit, which cannot be written to {self.baseFilename}", error)
