"""Tables of the library `deltalake`, and its errors in our words."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from connectors.delta.options import Place
from runtime.core.errors import ConnectorError, SqlEngineError, UnavailableError, UnsupportedError

__all__ = ["files_at", "is_there", "loaded", "told"]

_FEATURES = frozenset(
    {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "appendOnly", "invariants"}
)
"""What a reader must know of a table, that we know."""


@contextmanager
def told(place: Place) -> Generator[None]:
    """Errors of the library as ConnectorError E3191, as UnavailableError E3191 where it may work later."""
    try:
        yield
    except SqlEngineError:
        raise
    except TableNotFoundError as error:
        raise ConnectorError(
            f"there is no Delta table at {place.path}", code="E3191", hint="check the option 'table-path'"
        ) from error
    except DeltaProtocolError as error:
        raise UnsupportedError(f"the Delta table {place.path} fails: {_first_line(error)}", code="E3194") from error
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        text = _first_line(error)
        passing = (
            isinstance(error, (ConnectionError, TimeoutError, CommitFailedError)) or "error sending request" in text
        )
        kind = UnavailableError if passing else ConnectorError
        raise kind(
            f"the Delta table {place.path} fails: {text}",
            code="E3191",
            hint="is it there, and may it be read and written?",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def is_there(place: Place) -> bool:
    """Whether there is a table."""
    # The library's own question holds the interpreter while it waits for the network.
    with told(place):
        try:
            DeltaTable(place.path, storage_options=place.plain or None)
        except TableNotFoundError:
            return False
        return True


def loaded(place: Place, version: int | None = None) -> DeltaTable:
    """A table as it is now, or as a version. Raises ConnectorError E3191, UnsupportedError E3194 where reading it needs what
    is not there."""
    with told(place):
        table = DeltaTable(place.path, version=version, storage_options=place.plain or None)
        protocol = table.protocol()
        missing = {*(protocol.reader_features or ())} - _FEATURES
        if protocol.min_reader_version == 2 or missing:
            raise UnsupportedError(
                f"the Delta table {place.path} needs {', '.join(sorted(missing)) or 'columnMapping'}, which is not read here",
                code="E3194",
                hint="write it anew without that, or read it with Spark",
            )
        return table


def files_at(place: Place) -> Any:
    """The files of a table, as a file system of Arrow whose root is its folder."""
    return PyFileSystem(_Files(place.path, place.plain or None))


class _Files(DeltaStorageHandler):
    """The library's files take bytes alone, and Arrow gives buffers."""

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> Any:
        inner = self._handler
        return pa.PythonFile(_Output(inner.open_output_stream(path, metadata)), mode="w")


class _Output:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def write(self, rows: Any) -> int:
        return self._inner.write(bytes(rows))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
