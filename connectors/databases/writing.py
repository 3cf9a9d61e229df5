"""Rows at the end of each epoch, in a transaction of its own: at least once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from connectors.kit.direct import DirectWriter
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import UnavailableError
from runtime.core.logs import connector_log
from runtime.core.retries import Retries, retried

__all__ = ["EpochWriter", "TransactionWriter"]

_RETRIES = Retries(8, 0.1, 10.0, jitter=0.5)


class TransactionWriter(Protocol):
    """What a system writes in one transaction."""

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        """All or nothing, in order. UnavailableError where it may work later."""
        ...

    def close(self) -> None: ...


class EpochWriter(DirectWriter):
    """Keeps the rows of an epoch, and writes them at its end. When nobody knows whether they were taken they are written
    again."""

    def __init__(
        self,
        name: str,
        rows: TransactionWriter,
        pause: Callable[[float], object] = time.sleep,
        retries: Retries = _RETRIES,
    ) -> None:
        self._name = name
        self._rows = rows
        self._pause = pause
        self._retries = retries
        self._waiting: list[ChangelogBatch] = []
        self._log = connector_log(type(rows).__module__)
        self.tries = 0
        """How often it was tried again."""

    def write(self, batch: ChangelogBatch) -> None:
        if len(batch):
            self._waiting.append(batch.decoded())

    def flush(self, epoch: int) -> None:
        self.settle()

    def settle(self) -> None:
        if self._waiting:
            retried(lambda: self._rows.write(self._waiting), self._retries, UnavailableError, self._pause, self._tried)
            self._waiting = []

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return tuple(self._waiting)

    def abort(self) -> None:
        self._waiting = []

    def close(self) -> None:
        self._waiting = []
        self._rows.close()

    def _tried(self, error: Exception, seconds: float) -> None:
        self.tries += 1
        self._log.failure(f"{self._name} is written again in {seconds:.1f} s", error, logging.WARNING)
