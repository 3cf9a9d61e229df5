"""Changes of a table in memory that are kept until their time has come: to be applied, which a sink needs, and to be shown
to readers."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from connectors.memory.column_files import ColumnFiles
from runtime.core.changelog import ChangelogBatch

__all__ = ["ChangeWatcher", "ShownChanges", "StagedChanges"]


class ChangeWatcher(Protocol):
    """Hears what is published."""

    def hear(self, changes: Sequence[ChangelogBatch]) -> None: ...


class ShownChanges:
    """Whom a table tells of the changes that readers are shown."""

    def __init__(self) -> None:
        self._unshown: list[ChangelogBatch] = []
        self._epochs: weakref.WeakSet[ChangeWatcher] = weakref.WeakSet()
        self._telling = threading.Lock()

    def show(self) -> None:
        """What was published is shown to readers from now on: open epochs hear of it."""
        changes, self._unshown = self._unshown, []
        with self._telling:
            for epoch in tuple(self._epochs):
                epoch.hear(changes)

    def tell(self, epoch: ChangeWatcher) -> None:
        """An open epoch changes the table, too: it hears of changes when readers are shown them. From any thread."""
        with self._telling:
            self._epochs.add(epoch)

    @property
    def open_epochs(self) -> int:
        """How many epochs hear of its changes."""
        return len(self._epochs)

    def tell_no_more(self, epoch: ChangeWatcher) -> None:
        """The epoch has ended. From any thread; harmless when called again."""
        with self._telling:
            self._epochs.discard(epoch)


class StagedChanges(ABC):
    """What keeps changes under a name until somebody applies or forgets them."""

    def __init__(self, files: ColumnFiles | None) -> None:
        self.files = files
        """Where many changes are kept; None: in memory."""
        self._prepared: dict[str, Sequence[ChangelogBatch]] = {}
        self._prepared_so_far = 0

    @functools.cached_property
    def token(self) -> str:
        """Tells this one, with its rows, from one of the same name in another process."""
        return os.urandom(8).hex()

    @property
    def prepared(self) -> list[ChangelogBatch]:
        """What is kept."""
        return [batch for batches in tuple(self._prepared.values()) for batch in batches]

    @abstractmethod
    def apply(self, *batches: ChangelogBatch) -> None:
        """Change the contents by batches in their order."""

    def prepare(self, writer: str, batches: Sequence[ChangelogBatch]) -> str:
        """Keep changes until `apply_prepared`; gives the name under which they are kept."""
        self._prepared_so_far += 1
        key = f"{writer} {self._prepared_so_far}"
        self._prepared[key] = batches
        return key

    def apply_prepared(self, key: str) -> None:
        """Apply what was kept; nothing happens when it is not there any more."""
        batches = self._prepared.get(key)
        if batches is not None:
            self.apply(*batches)
            del self._prepared[key]

    @property
    def prepared_rows(self) -> int:
        """How many rows are kept until then."""
        return sum(len(batch) for batches in list(self._prepared.values()) for batch in batches)

    def forget_prepared(self, writer: str) -> None:
        """Drop what a writer has prepared and nobody has applied."""
        for key in [k for k in list(self._prepared) if k.rpartition(" ")[0] == writer]:
            del self._prepared[key]
