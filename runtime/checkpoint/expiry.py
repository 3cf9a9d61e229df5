"""What is left of jobs that no longer run: their checkpoints, and savepoints, which nobody but a user deletes.

A savepoint is deleted by what its manifest names. Other files in its folder stay, and so does what is damaged.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from runtime.checkpoint.epoch_state import CheckpointInfo
from runtime.checkpoint.keys import Keys
from runtime.checkpoint.manifest import MANIFEST, MOST_BYTES, decode_manifest
from runtime.checkpoint.storage import Damage
from runtime.checkpoint.store import CheckpointStore, jobs_at, storage_at
from runtime.core.errors import CheckpointError

__all__ = ["Expired", "expire_checkpoints", "expire_savepoints"]


@dataclass(frozen=True, slots=True)
class Expired:
    """What was deleted, or would be: the job, the folder, the time of the newest checkpoint in it (milliseconds since
    1970) and the bytes of all its files."""

    job: str
    path: str
    time: int
    bytes: int


def expire_checkpoints(
    location: str, keys: Keys, before: int, *, job: str | None, running: Collection[str], dry_run: bool
) -> list[Expired]:
    """Delete all checkpoints of the jobs at a location whose newest one was written before a time.

    Args:
        job: of this job alone.
        running: folders of checkpoints that are written to now, which stay.

    Raises:
        CheckpointError: E3405 another process writes to one of them, E3406 a folder cannot be read or cleared.
    """
    found: list[Expired] = []
    for name in sorted(jobs_at(location, keys)):
        store = CheckpointStore(location, name, 1, keys)
        if store.path in running or job not in (None, name):
            continue
        kept = store.list()
        newest = max((info.time for info in kept), default=0)
        if not kept or newest >= before:
            continue
        if not dry_run:
            store.claim()
            try:
                store.clear()
            finally:
                store.close()
        found.append(Expired(name, store.path, newest, max(info.total_bytes for info in kept)))
    return found


def expire_savepoints(
    location: str, keys: Keys, before: int, *, job: str | None, retained: int, dry_run: bool
) -> list[Expired]:
    """Delete the savepoints in a folder that were written before a time, but the newest `retained` of each job.

    Raises CheckpointError E3406 when the folder cannot be read or changed.
    """
    storage = storage_at(location, "")
    try:
        files = storage.files()
        known: dict[str, list[tuple[CheckpointInfo, str, Collection[str]]]] = {}
        for path in files:
            folder, _, name = path.partition("/")
            if name != MANIFEST:
                continue
            with suppress(Damage):
                data = storage.read(path, 0, MOST_BYTES + 1).to_pybytes()
                manifest = decode_manifest(data, folder, keys)
                if manifest.kind == "savepoint":
                    info = manifest.info(storage.place, "completed", len(data))
                    known.setdefault(manifest.job, []).append((info, folder, manifest.files))
        found: list[Expired] = []
        for name, savepoints in sorted(known.items()):
            if job not in (None, name):
                continue
            savepoints.sort(key=lambda s: (s[0].time, s[1]))
            for info, folder, needed in savepoints[: len(savepoints) - retained]:
                if info.time >= before:
                    continue
                if not dry_run:
                    # Without its manifest it is no savepoint, whatever else is deleted then.
                    for path in (f"{folder}/{MANIFEST}", *(p for p in needed if p.startswith(folder + "/"))):
                        storage.delete(path)
                    if not storage.files(folder):
                        storage.delete_folder(folder)
                found.append(Expired(name, info.path, info.time, info.total_bytes))
    except OSError as error:
        raise CheckpointError(f"{storage.place} cannot be cleared: {error}", code="E3406") from error
    return found
