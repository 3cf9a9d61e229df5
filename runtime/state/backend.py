"""Where the state of a job's operators is kept: the options, and the budget that the operators share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.core.memory import is_scarce
from runtime.core.options import Option, Options, int_option, parse_memory, text_option
from runtime.core.rooms import Room

if TYPE_CHECKING:
    import runtime.state.rocksdb as _rocksdb
    from runtime.state.rocksdb import RocksStore
else:
    _rocksdb = Room("runtime.state.rocksdb")

__all__ = [
    "BACKEND_OPTIONS",
    "BLOCK_CACHE",
    "LOCAL_DIR",
    "STATE_BACKEND",
    "STATE_KEYS",
    "STATE_MEMORY",
    "WRITE_BUFFER",
    "HotShare",
    "StateBackend",
]


def _memory_option(key: str, default: int, description: str) -> Option[int]:
    return Option(key, default, parse_memory, description)


STATE_BACKEND = text_option(
    "state.backend.type",
    "memory",
    "where state is kept: in memory, or with what is not in use in RocksDB on the local disk",
    choices=("memory", "hashmap", "rocksdb"),
)
LOCAL_DIR = text_option(
    "state.backend.rocksdb.localdir", "", "the folder for the files of RocksDB; empty is the system's temporary folder"
)
STATE_MEMORY = _memory_option(
    "sqlengine.state.memory",
    512 << 20,
    "how much memory the state of a job may take before keys that are not in use go to RocksDB",
)
STATE_KEYS = int_option(
    "sqlengine.state.keys-in-memory", 0, "the most keys that a task of an operator keeps in memory; 0 is no such limit"
)
BLOCK_CACHE = _memory_option("state.backend.rocksdb.block.cache-size", 32 << 20, "RocksDB's block cache, per task")
WRITE_BUFFER = _memory_option("state.backend.rocksdb.writebuffer.size", 32 << 20, "RocksDB's write buffer, per table")
BACKEND_OPTIONS = (STATE_BACKEND, LOCAL_DIR, STATE_MEMORY, STATE_KEYS, BLOCK_CACHE, WRITE_BUFFER)


class StateBackend:
    """The backend of a job.

    Raises:
        UnsupportedError: the library that it needs is not installed.
    """

    def __init__(self, options: Options) -> None:
        self.spills = options.get(STATE_BACKEND).lower() == "rocksdb"
        """Whether keys may leave memory."""
        self._settings = _rocksdb.RocksSettings(
            options.get(LOCAL_DIR) or None, options.get(BLOCK_CACHE), options.get(WRITE_BUFFER)
        )
        self._options = options
        self._keys = options.get(STATE_KEYS)
        self._shares: list[HotShare] = []
        if self.spills:
            _rocksdb.require_rocksdb()

    def store(self) -> RocksStore:
        """A store for one task of an operator."""
        return _rocksdb.RocksStore(self._settings)

    def share(self) -> HotShare:
        """A part of the budget for one task of an operator."""
        share = HotShare(self)
        self._shares.append(share)
        return share

    def give_back(self, share: HotShare) -> None:
        """The task is gone."""
        if share in self._shares:
            self._shares.remove(share)

    def room(self, share: HotShare) -> int:
        """The bytes that a task may take: what the others leave, but at least an equal part. Less where memory is
        scarce."""
        memory = self._options.get(STATE_MEMORY)
        if is_scarce(self._options):
            memory //= 4
        others = sum(other.bytes for other in self._shares if other is not share)
        return max(memory - others, memory // max(1, len(self._shares)))

    @property
    def max_keys(self) -> int:
        return self._keys


@dataclass(eq=False, slots=True)
class HotShare:
    """What one task takes of the budget.

    Structures do not shrink when keys leave, so bytes a key are those at the time of most keys.
    """

    backend: StateBackend
    bytes: int = 0
    _most_keys: int = field(default=1)

    def allowed(self, keys: int, taken: int) -> int:
        """How many keys may stay, of which there are `keys` now, in structures of so many bytes."""
        self.bytes = taken
        self._most_keys = max(self._most_keys, keys)
        room = self.backend.room(self) * self._most_keys // max(taken, 1)
        return min(room, self.backend.max_keys) if self.backend.max_keys else room
