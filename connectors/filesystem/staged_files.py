"""Hidden files that are being written, and how they get their names.

A file is written under a hidden name, closed when it is large or old enough or when the sink prepares, and renamed when
it is published. Closed and synced to the disk it survives a crash; hidden no reader sees it.

    open -> closed -> prepared (a committable names it) -> published

Hidden names carry the owner, a name for one sink of one job, so that whoever goes on with the job finds what is left of
earlier runs, and touches nothing else. Once a file is closed its name also tells size and SHA-256: a checkpoint that names
it says what is in it. Final names carry the line of runs that go on from each other's checkpoints, the
run and a number: when a job has to go back behind a checkpoint whose files are published, they are told by that. By name
files are in the order in which they were begun: whoever reads changes from them gets those of a key in their order.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from connectors.filesystem.line_owner import LineOwner
from connectors.filesystem.saved_names import check_content, staged_files, with_content, written_so_far
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import Output, WritableFiles
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError
from runtime.spi.format import Encoder

__all__ = ["RollingPolicy", "StagedFiles", "remove_file", "sync_folder"]

TAKEN_BACK = ".undone-"
"""What the names of files begin with that were published and are hidden again."""
_PERMISSION_HINT = "choose a folder that may be written"


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """When a file is closed and the next begun: at a size in bytes, so long after it was begun, so long after it was
    last written to. The times, in milliseconds, are looked at every `check_interval`; 0 is never."""

    file_bytes: int = 128 << 20
    rollover_interval: int = 0
    inactivity_interval: int = 0
    check_interval: int = 60_000


@dataclass(slots=True)
class _OpenFile:
    """A hidden file that is being written; paths are relative to the root."""

    staged: str
    final: str
    file: Output
    encoder: Encoder
    begun_at: int
    written_at: int
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)


class StagedFiles:
    """The files of one writer below a folder.

    Args:
        root: the folder of the table; made when it is not there.
        owner: names one sink of one job, the same in every run of it.
        encoder: makes the encoder of a new file.
        system: where the folder is.
    Raises:
        ConnectorError: E3110 when the folder cannot be written.
    """

    def __init__(
        self,
        root: str,
        owner: str,
        policy: RollingPolicy,
        extension: str,
        encoder: Callable[[], Encoder],
        system: WritableFiles = LOCAL,
    ) -> None:
        self._root = root
        self._system = system
        self._prefix = f".staged-{hashlib.blake2b(owner.encode(), digest_size=6).hexdigest()}-"
        self._run = uuid.uuid4().hex[:12]
        self._line = f"{int(time.time()):08x}{uuid.uuid4().hex[:6]}"
        self._runs: dict[str, int] = {}
        """How many files earlier runs of the line have begun."""
        self._policy = policy
        self._extension = extension
        self._encoder = encoder
        self._now = 0
        self._checked_at: int | None = None
        self._count = 0
        self._open: dict[str, _OpenFile] = {}
        self._closed: list[tuple[str, str]] = []
        self._prepared: dict[str, str] = {}
        self._made_folders: list[str] = []
        self._unsynced: set[str] = set()
        self._adopts = False
        self._owner: LineOwner | None = None
        self._shown_of_run = 0
        system.check_root(root)
        self._make_folder(root)

    def _make_folder(self, folder: str) -> None:
        try:
            for name in self._system.make_folder(folder):
                self._made_folders.append(name)
                self._unsynced.add(os.path.dirname(name))
        except OSError as error:
            self.abort()
            raise ConnectorError(
                f"cannot write to {folder}: {error.strerror}", code="E3110", hint=_PERMISSION_HINT
            ) from error

    def claim(self, place: str, history: Mapping[str, Any] | None, take_over: bool) -> None:
        """Becomes the owner of its line of runs: see `LineOwner.claim`. Called before anything else."""
        if history is not None:
            self._line = history["line"]
        owner = LineOwner(self._root, self._line, self._run, place, self._system)
        owner.claim(history, take_over)
        self._owner = owner

    def check_owner(self) -> None:
        """Raises FencedError E3413 when another run has taken over."""
        if self._owner is not None:
            self._owner.check()

    # --- writing

    def write(self, folder: str, batch: ChangelogBatch) -> None:
        """Append rows to the file of a folder, which is relative to the root; empty is the root itself."""
        opened = self._open.get(folder)
        if opened is None:
            opened = self._open[folder] = self._begin(folder)
        opened.written_at = self._now
        self._put(opened, opened.encoder.encode(batch))
        if opened.size >= self._policy.file_bytes:
            self._end(folder)

    def advance(self, now: int) -> None:
        """Processing time is `now`, in milliseconds: files that are old enough are closed."""
        self._now = now
        policy = self._policy
        if self._checked_at is None:
            self._checked_at = now
        if now - self._checked_at < policy.check_interval:
            return
        self._checked_at = now
        for folder, opened in list(self._open.items()):
            old = 0 < policy.rollover_interval <= now - opened.begun_at
            if old or 0 < policy.inactivity_interval <= now - opened.written_at:
                self._end(folder)

    def _begin(self, folder: str) -> _OpenFile:
        at = os.path.join(self._root, folder)
        if folder:
            self._system.refuse_links(self._root, folder)
            self._make_folder(at)
        staged = os.path.join(folder, f"{self._prefix}{self._run}-{self._count}")
        final = self._next_name(folder)
        try:
            file = self._system.create(os.path.join(self._root, staged))
        except OSError as error:
            raise ConnectorError(
                f"cannot write to {at}: {error.strerror}", code="E3110", hint=_PERMISSION_HINT
            ) from error
        self._unsynced.add(os.path.dirname(os.path.join(self._root, staged)))
        return _OpenFile(staged, final, file, self._encoder(), self._now, self._now)

    def _next_name(self, folder: str) -> str:
        """The final name of the file that is begun now."""
        name = f"part-{self._line}-{len(self._runs):04d}-{self._run}-{self._count:06d}.{self._extension}"
        self._count += 1
        return os.path.join(folder, name)

    def _put(self, opened: _OpenFile, data: bytes) -> None:
        try:
            opened.file.write(data)
        except OSError as error:
            raise self._cannot_write(opened.final, error) from error
        opened.size += len(data)
        opened.digest.update(data)

    def _end(self, folder: str) -> None:
        opened = self._open[folder]
        self._put(opened, opened.encoder.finish())
        try:
            opened.file.close()
            complete = with_content(opened.staged, opened.size, opened.digest.hexdigest())
            self._system.named(os.path.join(self._root, opened.staged), os.path.join(self._root, complete))
        except OSError as error:
            raise self._cannot_write(opened.final, error) from error
        del self._open[folder]
        self._closed.append((complete, opened.final))

    def _cannot_write(self, final: str, error: OSError) -> ConnectorError:
        return ConnectorError(f"cannot write {os.path.join(self._root, final)}: {error.strerror}", code="E3111")

    # --- files that tasks write

    @property
    def stem_of_tasks(self) -> str:
        """What the names of hidden files begin with that tasks write."""
        self._adopts = True
        return f"{self._prefix}{self._run}-task-"

    def take_closed(self, files: Iterable[tuple[str, str]], *, in_order: bool) -> None:
        """Closed files that a task has written: folder and hidden path, relative to the root.

        `in_order`: their rows come after those that were written here so far.
        """
        for folder, staged in files:
            if in_order and folder in self._open:
                self._end(folder)
            self._closed.append((staged, self._next_name(folder)))
            self._unsynced.add(os.path.dirname(os.path.join(self._root, staged)))

    def _remove_never_adopted(self) -> None:
        """What tasks have written whose work did not count."""
        self._remove_hidden(lambda name: name.startswith(self._prefix + self._run + "-task-"))

    def _remove_hidden(self, unwanted: Callable[[str], bool]) -> None:
        """Remove hidden files by their names, but for those that are prepared. What cannot be removed now stays hidden, and
        the next run removes it."""
        kept = {self._hidden(staged) for staged in self._prepared}
        with suppress(OSError):
            for path in list(self._system.below(self._root)):
                if unwanted(os.path.basename(path)) and path not in kept:
                    with suppress(OSError):
                        self._system.remove(path)

    def _hidden(self, staged: str) -> str:
        return self._system.hidden(os.path.join(self._root, staged))

    # --- publishing

    def prepare(self) -> list[list[str]]:
        """Close and sync everything; gives all files that are not published, as pairs of hidden and final path."""
        for folder in list(self._open):
            self._end(folder)
        try:
            for folder in sorted(self._unsynced):
                self._system.sync(folder)
        except OSError as error:
            raise ConnectorError(f"cannot write to {self._root}: {error.strerror}", code="E3111") from error
        self._unsynced.clear()
        self._prepared.update(self._closed)
        self._closed = []
        return [[staged, final] for staged, final in self._prepared.items()]

    def check(self, files: Sequence[Sequence[str]]) -> None:
        """What a checkpoint of an earlier run has prepared is as it was written.

        Raises:
            CheckpointError: E3402 it is not, or the names are none of a sink.
            ConnectorError: E3112 a file cannot be read.
        """
        for staged, final in staged_files(files, self._root, self._system):
            try:
                check_content(staged, final, self._root, self._system)
            except OSError as error:
                shown = os.path.join(self._root, staged)
                raise ConnectorError(f"cannot read {shown}: {error.strerror}", code="E3112") from error

    def publish(self, files: Sequence[Sequence[str]]) -> None:
        """Give files their names; those that have them already, in whichever run, stay as they are.

        Raises:
            CheckpointError: E3402 the names are none of a sink.
            ConnectorError: E3112 a file cannot be renamed, E3113 it is gone.
            FencedError: E3413 another run has taken over.
        """
        checked = staged_files(files, self._root, self._system)
        if self._owner is not None and checked:
            self.check_owner()
            self._owner.shown(max(self._shown_of_run, *(self._number_of(final) for _, final in checked)))
        folders: set[str] = set()
        shown_now: list[str] = []
        for staged, final in checked:
            if staged not in self._prepared and os.path.basename(staged).startswith(self._prefix + self._run):
                continue  # published before, and no longer ours: a reader may have taken it away
            hidden, shown = self._hidden(staged), os.path.join(self._root, final)
            try:
                self._system.rename(hidden, shown)
            except FileNotFoundError as error:
                raise ConnectorError(
                    f"cannot publish {shown}: neither it nor {hidden} is there",
                    code="E3113",
                    hint="files of a sink must stay until the checkpoint after the one that wrote them; "
                    "put the file back, or start the job anew",
                ) from error
            except OSError as error:
                raise ConnectorError(f"cannot publish {shown}: {error.strerror}", code="E3112") from error
            self._prepared.pop(staged, None)
            shown_now.append(shown)
            folders.add(os.path.dirname(shown))
        try:
            for folder in sorted(folders):
                self._system.sync(folder)
        except OSError as error:
            raise ConnectorError(f"cannot publish in {self._root}: {error.strerror}", code="E3112") from error
        self._made_folders = []
        if self._owner is not None and shown_now:
            try:
                self._owner.check()
            except FencedError:
                # Taken over meanwhile: the other run has these rows, too.
                for shown in shown_now:
                    with suppress(OSError):
                        self._system.rename(
                            shown, os.path.join(os.path.dirname(shown), TAKEN_BACK + os.path.basename(shown))
                        )
                raise

    def _number_of(self, final: str) -> int:
        """How many files of this run there are up to that one; 0 when it is of another run."""
        found = re.fullmatch(rf"part-.*-{self._run}-(\d+)\..*", os.path.basename(final))
        if found is None:
            return 0
        self._shown_of_run = max(self._shown_of_run, int(found[1]) + 1)
        return self._shown_of_run

    def remove_leftovers(self) -> None:
        """Remove the hidden files of earlier runs: after what a checkpoint knows of them has been published or adopted."""
        self._remove_hidden(lambda n: n.startswith(self._prefix) and not n.startswith(self._prefix + self._run))

    def history(self) -> dict[str, Any]:
        """Which files of the line there can be, to be saved with a checkpoint: a JSON value for `take_back`."""
        return {
            "line": self._line,
            "run": self._run,
            "runs": {**self._runs, **({self._run: self._count} if self._count else {})},
        }

    def take_back(self, history: Mapping[str, Any]) -> int:
        """The run goes on from the checkpoint that this was saved with. Files that were published after it are hidden
        again, for their rows come again: a newer checkpoint is damaged or gone. Gives how many.

        Raises:
            ConnectorError: E3112 a file cannot be renamed, or the folder cannot be listed.
        """
        self._line, self._runs = written_so_far(history, self._root)
        name_of_ours = re.compile(rf"part-{self._line}-(?:\d+-)?([0-9a-f]+)-(\d+)\..*")
        count = 0
        try:
            for path in list(self._system.below(self._root)):
                at, name = os.path.split(path)
                ours = name_of_ours.fullmatch(name)
                if ours is not None and int(ours[2]) >= self._runs.get(ours[1], 0):
                    self._system.rename(path, os.path.join(at, TAKEN_BACK + name))
                    count += 1
        except OSError as error:
            raise ConnectorError(
                f"cannot take back files in {self._root} that were published after the checkpoint: {error.strerror}",
                code="E3112",
                hint=_PERMISSION_HINT,
            ) from error
        return count

    def adopt(self, files: Sequence[Sequence[str]]) -> None:
        """Take on what an earlier run has prepared: it is part of what is prepared next."""
        self._prepared.update(staged_files(files, self._root, self._system))

    def discard(self, files: Sequence[Sequence[str]]) -> None:
        """Remove what was prepared, published or not."""
        for staged, final in staged_files(files, self._root, self._system):
            self._system.remove(self._hidden(staged))
            self._system.remove(os.path.join(self._root, final))
            self._prepared.pop(staged, None)

    def abort(self) -> None:
        """Remove what is not prepared, and the folders that were made for it."""
        for opened in self._open.values():
            with suppress(OSError):
                opened.file.abandon()
        for staged in (*(o.staged for o in self._open.values()), *(staged for staged, _ in self._closed)):
            # What cannot be removed now stays hidden, and the next run removes it.
            with suppress(OSError):
                self._system.remove(self._hidden(staged))
        self._open, self._closed = {}, []
        for folder in reversed(self._made_folders):
            with suppress(OSError):
                self._system.remove_folder(folder)
        self._made_folders = []

    def close(self) -> None:
        """After `prepare` and `abort` nothing is open; what is neither prepared nor aborted is removed."""
        if self._open or self._closed:
            self.abort()
        if self._adopts:
            self._remove_never_adopted()


def sync_folder(folder: str) -> None:
    """See `WritableFiles.sync`, of a folder of this machine."""
    LOCAL.sync(folder)


def remove_file(path: str) -> None:
    """Remove a file of this machine that may be gone already."""
    LOCAL.remove(path)
