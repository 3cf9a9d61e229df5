"""When a partition that is written is said to be complete, and how: `sink.partition-commit.*` of Flink 2.3.

Once a file of a partition is published, the partition waits until its time has come, and is then committed: a file such
as `_SUCCESS` appears in its folder. Flink's page *FileSystem SQL connector, Partition Commit* has the rules:

    process-time      processing time > time of the partition's first file + delay (or no delay at all)
    partition-time    watermark > time that the partition's values name + delay
    the input ends    whatever the trigger says

It happens with a checkpoint, or at the end of the job, after the files of the same checkpoint are published. A partition
that gets rows after its commit is committed again.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from connectors.filesystem.partition_names import partition_values
from connectors.filesystem.saved_names import folders_of, waiting_partitions
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import WritableFiles
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ConnectorError
from runtime.expr.date_parsing import parse_smart
from runtime.expr.zones import local_to_instant

__all__ = ["PartitionCommit", "PartitionTime", "WaitingPartitions"]

_EPOCH = dt.datetime(1970, 1, 1)
_DEFAULT_TIME = re.compile(
    r"(\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """The time that the values of a partition name.

    Attributes:
        columns: the partition columns.
        pattern: the text of the time, with `$column` for values; empty is the first column's value.
        formatter: a pattern of Java's DateTimeFormatter; empty reads `2024-05-01` and `2024-05-01 10:00:00`.
        zone: the time zone of these times.
    """

    columns: tuple[str, ...]
    pattern: str
    formatter: str
    zone: str

    def of(self, folder: str) -> int:
        """Milliseconds since the epoch of a folder such as `day=2024-05-01/hour=10`.

        Raises ConnectorError E3114 when its values name no time.
        """
        values = partition_values(folder)
        text = self.pattern or f"${self.columns[0]}"
        # Longer names first: $dayname is not $day and "name".
        for column in sorted(self.columns, key=len, reverse=True):
            text = text.replace(f"${column}", unquote(values[column]))
        local = self._formatted(text) if self.formatter else self._default(text)
        if local is None:
            raise ConnectorError(
                f"partition {folder} names no time: '{text}' is not like '{self.formatter or '2024-05-01 10:00:00'}'",
                code="E3114",
                hint="set 'partition.time-extractor.timestamp-pattern' and '.timestamp-formatter' for its values",
            )
        return int(local_to_instant(np.array([local], dtype=np.int64), self.zone, "ms")[0])

    def _formatted(self, text: str) -> int | None:
        parsed = parse_smart(pa.array([text]), self.formatter, 6)
        return int(parsed.values[0]) // 1000 if parsed.good[0] else None

    def _default(self, text: str) -> int | None:
        found = _DEFAULT_TIME.fullmatch(text)
        if found is None:
            return None
        fields = [int(part or 0) for part in found.groups()[:6]]
        try:
            moment = dt.datetime(*fields)  # type: ignore[arg-type]
        except ValueError:
            return None
        millis = int((found[7] or "").ljust(9, "0")) // 1_000_000
        return (moment - _EPOCH) // dt.timedelta(milliseconds=1) + millis


@dataclass(frozen=True, slots=True)
class PartitionCommit:
    """The policy of a table: `time` is that of the trigger `partition-time`, None for `process-time`; `delay` in
    milliseconds; `success_file` is what appears in the folder."""

    time: PartitionTime | None
    delay: int
    success_file: str


class WaitingPartitions:
    """The partitions that are written and not committed. Folders are relative to the root of the table.

    What `due` gives stays noted until `commit`, so that a checkpoint that does not get there loses none.
    """

    def __init__(self, policy: PartitionCommit, root: str, system: WritableFiles = LOCAL) -> None:
        self._policy = policy
        self._system = system
        self._root = root
        self._since: dict[str, int] = {}
        self._due: dict[str, None] = {}
        self._now = 0
        self._watermark = MIN_WATERMARK

    def advance(self, now: int, watermark: int) -> None:
        """Processing time and watermark, milliseconds since the epoch."""
        self._now, self._watermark = now, watermark

    def wrote(self, folders: Iterable[str]) -> None:
        """Rows were written to partitions."""
        for folder in folders:
            if folder not in self._since:
                time = self._policy.time
                self._since[folder] = self._now if time is None or not folder else time.of(folder)

    def due(self) -> dict[str, Any]:
        """What a committable says of partitions: `commit`, the folders whose time has come, and `waiting`, the others
        with the time they wait from. Empty when there are none."""
        for folder in [f for f, since in self._since.items() if self._is_due(f, since)]:
            del self._since[folder]
            self._due[folder] = None
        if not self._due and not self._since:
            return {}
        return {"commit": list(self._due), "waiting": dict(self._since)}

    def _is_due(self, folder: str, since: int) -> bool:
        if self._watermark == MAX_WATERMARK:
            return True
        if not folder:
            return False  # a table without partitions is complete when its input has ended
        if self._policy.time is None:
            return self._policy.delay == 0 or self._now > since + self._policy.delay
        return self._watermark > since + self._policy.delay

    def commit(self, folders: Sequence[str]) -> None:
        """Let the success files appear; those that are there stay. A partition whose folder is gone has nothing to
        commit. Raises ConnectorError E3112, CheckpointError E3402 when they are no partitions."""
        for folder in folders_of(folders, self._root, self._system):
            at = os.path.join(self._root, folder)
            if self._system.is_folder(at):
                self._system.refuse_links(self._root, folder)
                self._mark(at)
            self._due.pop(folder, None)

    def _mark(self, at: str) -> None:
        path = os.path.join(at, self._policy.success_file)
        try:
            self._system.mark(path)
        except OSError as error:
            raise ConnectorError(f"cannot publish {path}: {error.strerror}", code="E3112") from error

    def restore(self, waiting: Mapping[str, int]) -> None:
        """Go on from what a checkpoint says. Raises CheckpointError E3402 when that are no partitions."""
        self._since = waiting_partitions(waiting, self._root, self._system)
