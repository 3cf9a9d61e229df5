"""The engine's log: Python's `logging`, below the logger `sqlengine`. Quiet until a program sets up handlers.

    _log = Log("checkpoint")                                        # the logger sqlengine.checkpoint
    _log.info("%s: checkpoint %d is complete", job, number, job=job, checkpoint=number)

What is named becomes attributes of the record (`extra`), for formatters that write JSON. Levels: DEBUG for each epoch and
commit, INFO for the life of jobs, checkpoints and views, WARNING for what a person should look at, ERROR for failures.
Texts and facts pass `masked_text`, so no record holds a secret.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Final

from runtime.core.errors import SqlEngineError, code_and_text
from runtime.core.secrets import masked_text

__all__ = ["FACTS", "LOGGERS", "Log", "connector_log", "tell"]

LOGGERS: Final = {
    "jobs": "jobs of statements and views: made, running, finished, failed, starting again, cancelled; epochs",
    "checkpoint": "checkpoints and savepoints: begun, complete, failed, refused, gone on from",
    "views": "materialized views: made, replaced, dropped, failed",
    "connectors": "`sqlengine.connectors.<connector>`: splits begun and ended, files that cannot be read, commits of sinks",
    "rejected": "rows that could not be used: how many, where and why, never the rows",
    "catalog": "files of catalogs that were written",
    "database": "databases in folders: made, opened, checkpoints, objects that could not be made again",
    "spark": "jobs on Spark that failed",
    "server": "connections of clients: begun, ended, refused, failed",
    "tasks": "tasks of divided jobs that were lost and open their state from files",
}
"""The loggers below `sqlengine`, with what they tell."""

FACTS: Final = {
    "job": "the name of the job, as in `system.jobs`",
    "epoch": "the number of complete epochs",
    "checkpoint": "the number of a checkpoint",
    "view": "the full name of a materialized view",
    "source": "the table that is read",
    "sink": "the table that is written",
    "operator": "the operator, as in `system.operators`",
    "split": "a part of a source: a file, a partition of a topic",
    "reason": "why rows were rejected",
    "rows": "a number of rows",
    "bytes": "a number of bytes",
    "seconds": "how long it took",
    "code": "the code of an error",
    "path": "a file or folder",
    "status": "what a job has become, as in `system.jobs`",
}
"""The attributes that records may have."""

_ROOT = logging.getLogger("sqlengine")
_ROOT.addHandler(logging.NullHandler())


class Log:
    """The logger `sqlengine.<name>`. Each method takes a text with arguments as `logging` does, and facts by name (see
    `FACTS`). What nobody listens to costs a look at the level."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"sqlengine.{name}")

    def hears(self, level: int) -> bool:
        """Whether somebody listens, for texts that cost something to make."""
        return self._logger.isEnabledFor(level)

    def debug(self, text: str, *args: object, **facts: object) -> None:
        self.write(logging.DEBUG, text, *args, **facts)

    def info(self, text: str, *args: object, **facts: object) -> None:
        self.write(logging.INFO, text, *args, **facts)

    def warning(self, text: str, *args: object, **facts: object) -> None:
        self.write(logging.WARNING, text, *args, **facts)

    def error(self, text: str, *args: object, **facts: object) -> None:
        self.write(logging.ERROR, text, *args, **facts)

    def write(self, level: int, text: str, *args: object, **facts: object) -> None:
        """A record of this level."""
        if not self._logger.isEnabledFor(level):
            return
        shown = {key: masked_text(fact) if isinstance(fact, str) else fact for key, fact in facts.items()}
        # The record names the caller of `info` and its kind.
        self._logger.log(level, masked_text(text % args if args else text), extra=shown, stacklevel=3)

    def failure(self, what: str, error: BaseException, level: int = logging.ERROR, **facts: object) -> None:
        """An error that ends something: its code and text; of an error that is none of ours also where it comes from, for
        those who listen to DEBUG."""
        code, text = code_and_text(error)
        self.write(level, "%s: %s %s", what, code, text, code=code, **facts)
        if not isinstance(error, SqlEngineError) and self.hears(logging.DEBUG):
            self.write(logging.DEBUG, "%s", "".join(traceback.format_exception(error)), code=code, **facts)


def connector_log(module: str) -> Log:
    """The logger of a connector, by the module of its table: `sqlengine.connectors.<its folder>`, of others the package
    that it is from."""
    parts = module.split(".")
    return Log(f"connectors.{parts[parts.index('connectors') + 1] if 'connectors' in parts[:-1] else parts[0]}")


def tell(text: str) -> None:
    """Tell of what no caller hears of. The log has it already; where the program has set up none it goes to stderr."""
    logger: logging.Logger | None = logging.getLogger("sqlengine.jobs")
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return
        logger = logger.parent if logger.propagate else None
    print(masked_text(text), file=sys.stderr, flush=True)
