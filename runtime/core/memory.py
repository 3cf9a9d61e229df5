"""How much memory the process may take, and what happens when that is reached.

Work that computes looks at it between its pieces, where it looks for a request to stop (`runtime/core/cancellation.py`).
Close to the limit caches go, state with a backend on disk spills, and sources are read in smaller pieces. At the limit the
work that has made the process grow fails with MemoryLimitError; the memory that it took is free again, and everything else
goes on.

What counts is the memory that the system has given to this process and to nobody else, whoever holds it in there: state,
rows, results that somebody keeps, freed memory that the allocator has not given back. The memory of the processes that
carry out tasks for this one counts, too (`count_worker`). Who owns how much of it is another question, which is answered
when it is asked (`MemoryAccount`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from runtime.core.errors import MemoryLimitError
from runtime.core.logs import Log
from runtime.core.options import Option, Options, parse_memory

__all__ = [
    "MEMORY_LIMIT",
    "MemoryAccount",
    "MemoryUse",
    "ProcessMemory",
    "admit",
    "count_worker",
    "forget_worker",
    "is_full",
    "is_scarce",
    "memory_left",
    "own_bytes",
    "release_free",
    "set_beside",
    "worker_bytes",
]

MEMORY_LIMIT: Option[int] = Option(
    "sqlengine.memory.limit",
    0,
    parse_memory,
    "the memory that the process may take; `0` is 85 % of what the machine, or its container, has",
)

_log = Log("jobs")
_SHARE_OF_MACHINE = 0.85
_SCARCE = 7 / 8
"""From this part of the limit on memory is scarce."""
_MEASURED_FOR_SECONDS = 0.005
_RELEASED_FOR_SECONDS = 0.5
"""So long nothing is released again: it may take as long as an epoch."""
_WAITS, _WAIT_SECONDS = 5, 0.02
_OWN_GROWTH = 1 / 32
"""Work that has taken less than this part of the limit is not to blame."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if sys.platform == "linux" else 0
_NAMED_OWNERS = 3
_NAMED_BYTES = 1 << 20
"""Smaller owners are not named: they explain nothing."""
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


# --- the system
# ---------------------------------------------------------------------------------------------------------------------

_found_limit = 0


def _default_limit() -> int:
    """A part of what the machine or the container has; without end where the system does not tell."""
    global _found_limit
    if not _found_limit:
        _found_limit = int(min(_machine_bytes(), *map(_container_bytes, _CONTAINER_LIMITS)) * _SHARE_OF_MACHINE)
    return _found_limit


def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def _container_bytes(path: str) -> int:
    """The limit of the control group that a file tells; "max", or no such file, is none."""
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return sys.maxsize


def own_bytes() -> int:
    """Resident pages of this process that are not of files: on Linux. Elsewhere 0, so that there is no limit."""
    return _bytes_of("self")


def _bytes_of(process: object) -> int:
    if sys.platform != "linux":
        return 0
    with open(f"/proc/{process}/statm", "rb", buffering=0) as told:
        _, resident, shared, *_ = told.read(256).split()
    return (int(resident) - int(shared)) * _PAGE_BYTES


_workers: dict[int, str] = {}
_beside = 0


def count_worker(pid: int, name: str) -> None:
    """A process carries out tasks for this one: what it takes counts here, until `forget_worker`."""
    _workers[pid] = name


def forget_worker(pid: int) -> None:
    """The process has ended. Harmless when called again."""
    _workers.pop(pid, None)


def worker_bytes() -> Mapping[tuple[int, str], int]:
    """What each of these processes takes now, by its number and name."""
    found: dict[tuple[int, str], int] = {}
    for pid, name in tuple(_workers.items()):
        try:
            found[pid, name] = _bytes_of(pid)
        except (OSError, ValueError):
            # It has just ended: there is no such file, or nothing in it.
            continue
    return found


def set_beside(taken: int) -> None:
    """In a worker: what the process that it works for takes, with all its other workers, when it was last told."""
    global _beside
    _beside = taken


def _all_bytes() -> int:
    return own_bytes() + _beside + sum(worker_bytes().values())


def release_free() -> None:
    """What nobody refers to, and what allocators keep for later."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        # Another C library than glibc.
        return


# --- what it means for work
# ---------------------------------------------------------------------------------------------------------------------


class ProcessMemory:
    """What this process takes, in bytes; measured at most every few milliseconds.

    Args:
        measure: gives the bytes now; 0 where the system does not tell.
        release: gives back what is free.
        clock: seconds.
        sleep: waits for so many.
    """

    def __init__(
        self,
        measure: Callable[[], int],
        release: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._measure = measure
        self._release = release
        self._clock = clock
        self._sleep = sleep
        self._bytes = 0
        self._measured_at = float("-inf")
        self._released_at = float("-inf")

    def used(self) -> int:
        now = self._clock()
        if now - self._measured_at >= _MEASURED_FOR_SECONDS:
            self._measured_at = now
            self._bytes = self._measure()
        return self._bytes

    def after_release(self) -> int:
        """The same after caches and free memory were given back."""
        if self._clock() - self._released_at >= _RELEASED_FOR_SECONDS:
            self._release()
            self._released_at = self._clock()
            self._measured_at = float("-inf")
        return self.used()

    def stays_above(self, limit: int) -> bool:
        """Whether it takes more although what is free was given back, and some time has passed: allocators do that with a
        delay."""
        for _ in range(_WAITS):
            if self.used() <= limit or self.after_release() <= limit:
                return False
            self._sleep(_WAIT_SECONDS)
            self.expect_release()
        return self.after_release() > limit

    def expect_release(self) -> None:
        """What somebody holds will be free: the next `after_release` looks for it."""
        self._released_at = float("-inf")


_process = ProcessMemory(_all_bytes, release_free)


class MemoryAccount(NamedTuple):
    """What somebody has in memory for one purpose.

    Args:
        owner_kind: TABLE, VIEW, JOB, QUERY, SESSION, WORKER or PROCESS.
        owner: its name.
        part: what the memory is for.
        process: `driver`: this process, or `workers`: those that carry out tasks.
        rows: how many rows, or keys, they are; None where nobody knows.
        bytes: of memory.
        disk_bytes: of files on the local disk.
    """

    owner_kind: str
    owner: str
    part: str
    process: str
    rows: int | None
    bytes: int
    disk_bytes: int = 0


class HeldBeside(NamedTuple):
    """What somebody has in memory of what belongs to another: an index over a table, copies of a job's state.

    Args:
        of: the table or the job.
        part: what the memory is for.
        rows: how many rows they are.
        bytes: of memory, beside that of `batches`.
        batches: rows whose memory may be that of others, too.
    """

    of: object
    part: str
    rows: int
    bytes: int
    batches: Sequence[pa.RecordBatch] = ()


Accounts = Callable[[], Iterable[MemoryAccount]]


class MemoryUse:
    """What a piece of work, such as a job, has made the process grow by. It looks from several threads.

    Args:
        options: hold the limit.
        accounts: tells who owns the memory, for the error.
    """

    def __init__(self, options: Options, process: ProcessMemory | None = None, *, accounts: Accounts = tuple) -> None:
        self._process = process or _process
        self._accounts = accounts
        self._limit = _limit(options)
        self._least = self._process.used()
        """The least that the process took since the work began."""

    def look(self) -> None:
        """Raises MemoryLimitError when the limit is reached and this work has its part in it."""
        used = self._process.used()
        self._least = min(self._least, used)
        if used <= self._limit:
            return
        used = self._process.after_release()
        self._least = min(self._least, used)
        grown = used - self._least >= self._limit * _OWN_GROWTH
        if used > self._limit and grown and self._process.stays_above(self._limit):
            used = self._process.used()
            self._process.expect_release()
            raise _reached(self._limit, f"this statement has taken {_shown(used - self._least)} of it", self._accounts)


def is_full(options: Options, process: ProcessMemory | None = None) -> bool:
    """Whether the limit is reached."""
    process, limit = process or _process, _limit(options)
    return process.used() > limit and process.after_release() > limit


def admit(options: Options, process: ProcessMemory | None = None, *, accounts: Accounts = tuple) -> None:
    """Before rows are added that stay: raises MemoryLimitError when the limit is reached."""
    if (process or _process).stays_above(_limit(options)):
        raise _reached(_limit(options), "no rows are taken in until some of it is free", accounts)


def memory_left(options: Options, process: ProcessMemory | None = None) -> int:
    """The bytes below the limit."""
    return max(0, _limit(options) - (process or _process).used())


def is_scarce(options: Options, process: ProcessMemory | None = None) -> bool:
    """Whether the limit is close, so that whoever can does with less."""
    return (process or _process).used() > _limit(options) * _SCARCE


def _reached(limit: int, what: str, accounts: Accounts) -> MemoryLimitError:
    return MemoryLimitError(
        f"the memory limit of {_shown(limit)} is reached; {what}{_largest(accounts)}",
        hint="set 'sqlengine.memory.limit' higher, 'state.backend.type' to 'rocksdb' for state on disk, or DROP and DELETE "
        "what is not needed; SELECT * FROM system.memory ORDER BY bytes DESC shows what takes memory",
    )


def _largest(accounts: Accounts) -> str:
    """The largest owners, for the error; the limit is told whatever becomes of that."""
    owners: dict[str, int] = {}
    try:
        for account in accounts():
            if account.owner_kind not in ("PROCESS", "WORKER"):
                owner = f"{account.owner_kind.lower()} {account.owner}"
                owners[owner] = owners.get(owner, 0) + account.bytes
    except Exception as error:
        # Others change what is counted, and somebody may stand in the middle of a step. The limit is what has to be told.
        _log.warning("it is not known who owns the memory: %s: %s", type(error).__name__, error)
        return ""
    named = sorted((o for o in owners.items() if o[1] >= _NAMED_BYTES), key=lambda o: -o[1])[:_NAMED_OWNERS]
    return (
        f"; the largest owners are {', '.join(f'{owner} ({_shown(size)})' for owner, size in named)}" if named else ""
    )


def _shown(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"


def _limit(options: Options) -> int:
    return options.get(MEMORY_LIMIT) or _default_limit()
