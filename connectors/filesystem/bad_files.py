"""A file that cannot be read, or not to its end, where the other files of a table are to be read all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connectors.filesystem.files import FileEntry
from connectors.filesystem.opening import shown_path
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FormatError, UnavailableError
from runtime.core.logs import connector_log
from runtime.spi.reader import (
    AvailabilityReader,
    DictionaryReader,
    EndOffsetReader,
    ReadContext,
    SkippedInput,
    SourceReader,
)

__all__ = ["lenient_reader"]

_log = connector_log(__name__)

_REASON = "a file that cannot be read, or not from there on"


def lenient_reader(entry: FileEntry, context: ReadContext, open_reader: Callable[[], SourceReader]) -> SourceReader:
    """The rows of a file up to where it cannot be read. Then one record is rejected that says why and where, and the file
    has ended. A position in another content is an error all the same (E3105)."""
    try:
        reader = open_reader()
    except UnavailableError:
        raise  # it may be read later
    except (ConnectorError, FormatError) as error:
        return _LenientReader(entry, context, None, error)
    return (_LenientReaderOfCodes if isinstance(reader, DictionaryReader) else _LenientReader)(entry, context, reader)


class _LenientReader:
    def __init__(
        self,
        entry: FileEntry,
        context: ReadContext,
        reader: SourceReader | None,
        failure: ConnectorError | FormatError | None = None,
    ) -> None:
        self._entry = entry
        self._context = context
        self._reader = reader
        self._failure = failure
        self._told = False

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0 or self._told:
            return None
        if self._failure is None and self._reader is not None:
            try:
                return self._reader.poll(max_rows)
            except UnavailableError:
                raise
            except (ConnectorError, FormatError) as error:
                self._failure = error
        assert self._failure is not None
        text, path = self._failure.message, shown_path(self._entry.path)
        shown = text if path in text else f"{path}: {text}"
        self._context.reject([SkippedInput(f"{_REASON} ({self._failure.code})", shown)])
        self._told = True
        _log.warning("%s", shown, path=path, split=path, code=self._failure.code)
        return None

    def available_in(self) -> float | None:
        """See `AvailabilityReader`."""
        waits = self._failure is None and not self._told
        return self._reader.available_in() if waits and isinstance(self._reader, AvailabilityReader) else 0.0

    def fetch_end_offset(self) -> None:
        """See `EndOffsetReader`."""
        if isinstance(self._reader, EndOffsetReader):
            self._reader.fetch_end_offset()

    @property
    def finished(self) -> bool:
        return self._told or (self._failure is None and self._reader is not None and self._reader.finished)

    def position(self) -> Any:
        if self._failure is None and self._reader is not None:
            return self._reader.position()
        return {"size": self._entry.size, "modified": self._entry.modified * 1_000_000, "unread": True}

    def seek(self, position: Any) -> None:
        if self._reader is not None and "unread" not in position:
            self._reader.seek(position)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


class _LenientReaderOfCodes(_LenientReader):
    def use_dictionaries(self) -> None:
        """See `DictionaryReader`."""
        assert isinstance(self._reader, DictionaryReader)
        try:
            self._reader.use_dictionaries()
        except (ConnectorError, FormatError) as error:
            self._failure = error
