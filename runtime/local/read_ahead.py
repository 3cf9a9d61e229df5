"""The thread of a job that reads the next epoch's input while operators compute."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from runtime.local.source_inputs import SourceInputs

__all__ = ["ReadAhead"]


class ReadAhead:
    """Begun when a source wants it first. `name`: the job's."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._worker: ThreadPoolExecutor | None = None

    @property
    def running(self) -> bool:
        """Whether there is a thread."""
        return self._worker is not None

    def begin(self, sources: Sequence[SourceInputs], allowed: Sequence[int]) -> None:
        """Read the next epoch's input, of each source so many rows."""
        if self._worker is None:
            if not any(s.wants_read_ahead for s in sources):
                return
            self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"{self._name} reads")
        for source, rows in zip(sources, allowed, strict=True):
            source.read_ahead(rows, self._worker)

    def close(self) -> None:
        """Once it has read what it is at."""
        if self._worker is not None:
            self._worker.shutdown(cancel_futures=True)
            self._worker = None
