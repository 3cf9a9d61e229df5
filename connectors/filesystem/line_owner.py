"""Who may write into a folder for a line of runs: the fencing token of its files.

    .owner-<line>-<number>    {"run": ..., "place": ..., "files": ...}

A run that goes on with the line makes the token of the next number; of two that try at once one gets it. Whoever finds a
token of a higher number than his own is no longer the owner, and shows nothing any more. `files` says how many files of
the run were shown, so that a copy of the checkpoints can be told from the checkpoints: what it goes on from is older.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import NoFileError, WritableFiles
from runtime.core.errors import CheckpointError, ConnectorError, FencedError
from runtime.core.strict_json import read_json

__all__ = ["LineOwner", "owners"]

_ROOM = 4096
"""A token is written over in place by one call, so it has room."""
_TOKEN = re.compile(r"\.owner-([0-9a-f]{1,40})-(\d{1,18})")


@dataclass(frozen=True, slots=True)
class _Token:
    number: int
    run: str
    place: str
    files: int


class LineOwner:
    """The token of one run.

    Args:
        root: the folder of the table.
        line: the line of runs.
        run: this run.
        place: the checkpoints of this run, which are not those of a copy.

    Raises:
        CheckpointError: E3402 `line` is no name of a line; it is part of a path.
    """

    def __init__(self, root: str, line: str, run: str, place: str, system: WritableFiles = LOCAL) -> None:
        if not re.fullmatch("[0-9a-f]{1,40}", line):
            raise CheckpointError(f"the checkpoint is of a line of runs that cannot be: {line!r}", code="E3402")
        self._root = root
        self._system = system
        self._line = line
        self._run = run
        self._place = place
        self._number = 0

    def claim(self, history: Mapping[str, Any] | None, take_over: bool) -> None:
        """Becomes the owner; the run goes on from a checkpoint that was saved with this history (None: from nothing).

        Raises:
            FencedError: E3413 somebody else has written since that checkpoint, and `take_over` does not allow that.
            ConnectorError: E3110 the token cannot be written.
        """
        while True:
            newest = self._newest()
            if newest is not None and not take_over and not self._follows(newest, history):
                raise FencedError(
                    f"{self._root} was written by another run since this checkpoint: the newest one goes on from the "
                    f"checkpoints in {_folder(newest.place)}, this one from those in {_folder(self._place)}",
                    hint="go on there; or write to another folder; or SET 'sqlengine.restore.take-over' = 'true', which"
                    " hides what was written since the checkpoint, and ends the other run when it shows more",
                )
            self._number = 1 if newest is None else newest.number + 1
            try:
                made = self._system.make_once(self._path, self._content(0))
            except OSError as error:
                raise ConnectorError(f"cannot write to {self._root}: {error.strerror}", code="E3110") from error
            if made:
                break
        older = [name for number, name in self._tokens() if number < self._number]
        for name in [*older, *self._begun()]:
            with suppress(OSError):
                self._system.remove(os.path.join(self._root, name))

    def check(self) -> None:
        """Raises FencedError E3413 when another run has become the owner."""
        if self._system.exists(self._path) and not self._system.exists(self._path_of(self._number + 1)):
            return
        newest = self._newest()
        if newest is not None and newest.number > self._number:
            raise FencedError(
                f"{self._root} belongs to another run now, which goes on from the checkpoints in {_folder(newest.place)}:"
                " this one shows nothing any more",
                hint="end one of the two; each needs a folder of its own",
            )

    def shown(self, files: int) -> None:
        """So many files of the run have been shown, or are about to be. Raises ConnectorError E3110 when the token cannot
        be written."""
        try:
            self._system.write_over(self._path, self._content(files))
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConnectorError(f"cannot write {self._path}: {error.strerror}", code="E3110") from error

    @property
    def _path(self) -> str:
        return self._path_of(self._number)

    def _path_of(self, number: int) -> str:
        return os.path.join(self._root, f".owner-{self._line}-{number:06d}")

    def _follows(self, newest: _Token, history: Mapping[str, Any] | None) -> bool:
        """Whether a run that goes on from there goes on from all that was shown, or can know what else was."""
        if history is None or newest.place == self._place:
            return True
        return history.get("run") == newest.run and newest.files <= history["runs"].get(newest.run, 0)

    def _content(self, files: int) -> bytes:
        text = json.dumps({"run": self._run, "place": self._place, "files": files})
        return text.encode().ljust(_ROOM)

    def _tokens(self) -> list[tuple[int, str]]:
        pattern = re.compile(rf"\.owner-{re.escape(self._line)}-(\d{{1,18}})")
        return sorted((int(m[1]), name) for name in self._names() if (m := pattern.fullmatch(name)))

    def _begun(self) -> list[str]:
        """What runs have left that ended while they made a token."""
        return [n for n in self._names() if n.startswith(f".owner-{self._line}-") and n.endswith(".new")]

    def _names(self) -> list[str]:
        return self._system.in_folder(self._root)

    def _newest(self) -> _Token | None:
        try:
            for number, name in reversed(self._tokens()):
                with suppress(FileNotFoundError):
                    return _read(number, _content_of(os.path.join(self._root, name), self._system))
        except OSError as error:
            raise ConnectorError(f"{self._root} cannot be read: {error.strerror}", code="E3110") from error
        return None


def owners(root: str) -> set[str]:
    """The lines of runs of which one may still go on: there are checkpoints where its token says, or nobody can tell.
    Raises OSError."""
    newest: dict[str, tuple[int, str]] = {}
    with os.scandir(root) as entries:
        for entry in entries:
            if found := _TOKEN.fullmatch(entry.name):
                newest[found[1]] = max(newest.get(found[1], (0, "")), (int(found[2]), entry.name))
    busy: set[str] = set()
    for line, (number, name) in newest.items():
        place = _read(number, _content_of(os.path.join(root, name), LOCAL)).place
        folder, mark, _ = place.rpartition("#")
        if not mark or "://" in folder or glob.glob(os.path.join(glob.escape(folder), "*", "manifest.json")):
            busy.add(line)
    return busy


def _content_of(path: str, system: WritableFiles) -> bytes:
    """What stands in a token; nothing when it is no file. Raises OSError."""
    try:
        return next(system.content(path), b"")[:_ROOM]
    except NoFileError:
        return b""


def _read(number: int, data: bytes) -> _Token:
    """A token that is damaged is nobody's, so that only who takes over goes on."""
    with suppress(ValueError):
        said = read_json(data)
        members = [said.get(name) for name in ("run", "place", "files")] if isinstance(said, dict) else []
        match members:
            case [str(run), str(place), int(files)] if not isinstance(files, bool):
                return _Token(number, run, place, files)
            case _:
                pass
    return _Token(number, "", "a place that cannot be read", 0)


def _folder(place: str) -> str:
    return place.partition("#")[0]
