"""A file of another machine is read in the background: `poll` waits for no network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from connectors.filesystem.opening import shown_path
from connectors.kit.prefetch import Fetched, PrefetchingReader
from runtime.core.retries import Retries
from runtime.spi.reader import DictionaryReader, ReadContext, RejectedRow, SourceReader

__all__ = ["RemoteReader"]

_ROWS = 1 << 16
_RETRIES = Retries(8, 0.1, 10.0, jitter=0.5)


class RemoteReader(PrefetchingReader):
    """The rows of a reader that waits, in its order. A position is `{"at": a position of that reader, "rows": ..}`.

    Args:
        open_reader: opens the file; called in the background, again after errors.
    """

    def __init__(self, path: str, open_reader: Callable[[ReadContext], SourceReader], context: ReadContext) -> None:
        self._coded = False
        super().__init__(shown_path(path), self._fetched, context, bounded=True, keeps_turn=True, retries=_RETRIES)
        self._open_reader = open_reader

    def use_dictionaries(self) -> None:
        """See `DictionaryReader`."""
        self._coded = True

    def _fetched(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        told = _Told(self._context)
        reader = self._open_reader(told)
        try:
            if self._coded and isinstance(reader, DictionaryReader):
                reader.use_dictionaries()
            if position is not None:
                reader.seek(position)
            while not reader.finished and not stop.is_set():
                rows = reader.poll(_ROWS)
                yield Fetched(rows, reader.position(), told.take())
            yield Fetched(None, reader.position(), told.take())
        finally:
            reader.close()


class _Told:
    """Rejected rows wait for those that were read with them."""

    def __init__(self, context: ReadContext) -> None:
        self.time_zone = context.time_zone
        self._rejected: list[RejectedRow] = []

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        self._rejected += rows

    def wake(self) -> None:
        """Nobody waits for it."""

    def take(self) -> Sequence[RejectedRow]:
        taken, self._rejected = self._rejected, []
        return taken
