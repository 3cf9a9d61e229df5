"""How far the reading of a source has come: which splits are finished, where each that is being read stands, which wait.

A folder that was watched for a month has thousands of finished files, and a checkpoint names them all. So their names
are packed, some hundred at a time, once.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from runtime.core.errors import ConnectorError
from runtime.core.strict_json import read_json
from runtime.spi.reader import BacklogReader, SourceReader, WatermarkReader
from runtime.spi.source import Split

__all__ = ["OpenSplit", "Reached", "SplitProgress", "given_to", "take_split", "taken_in"]

_PACKED = 256
"""Names in a pack."""
_PACK_BYTES = _PACKED * 16_384
_ALL_BYTES = 256 << 20
"""A pack, and all of a source, unpacked."""
_PARTS = {"finished", "active", "waiting"}


@dataclass(frozen=True, slots=True)
class Reached:
    """A moment between two epochs: so many splits were finished, these were being read (name and position), these
    waited."""

    finished: int
    active: tuple[tuple[str, Any], ...]
    waiting: tuple[Split, ...]


@runtime_checkable
class VersionedReader(Protocol):
    """A reader that knows to which version of its table its rows belong."""

    @property
    def version(self) -> int:
        """That behind what `poll` has given; -1 before it has given what was there at the start."""
        ...

    def keep(self) -> None:
        """All that was given is taken in: rows are needed as they are from `version` on."""
        ...


@dataclass(slots=True, eq=False)
class OpenSplit:
    """A split that was begun: its reader (again as `timed` when it knows the watermark of its rows), and when it last
    gave a row or could not be asked for one."""

    split: Split
    reader: SourceReader
    last_row_at: int
    timed: WatermarkReader | None
    told: BacklogReader | None
    versioned: VersionedReader | None

    @staticmethod
    def of(split: Split, reader: SourceReader, now: int) -> OpenSplit:
        """A split that is begun."""
        return OpenSplit(
            split,
            reader,
            now,
            reader if isinstance(reader, WatermarkReader) else None,
            reader if isinstance(reader, BacklogReader) else None,
            reader if isinstance(reader, VersionedReader) else None,
        )


def taken_in(splits: Sequence[OpenSplit]) -> int:
    """The version of their table up to which readers have given rows, which are taken in; -1 when nothing tells, or nothing
    was given."""
    version = -1
    for split in splits:
        if split.versioned is not None:
            split.versioned.keep()
            version = split.versioned.version
    return version


def given_to(splits: Sequence[OpenSplit]) -> int:
    """The version of their table up to which readers have given rows; -1 as for `taken_in`."""
    return max((s.versioned.version for s in splits if s.versioned is not None), default=-1)


class SplitProgress:
    """The finished splits of a source in the order in which they ended, and moments as JSON values.

    A position is `{"finished": names, "active": [[name, position], ...], "waiting": names}`, where names are
    `{"packs": [text, ...], "names": [...]}`. In place of a finished name may stand `[name, mark]` (`SupportsChangeDetection`).

    Raises:
        ValueError: `position` is none that `json` gave.
    """

    def __init__(self, position: Mapping[str, Any] | None = None) -> None:
        saved = _Saved(position)
        ended = saved.names("finished", marked=True)
        self._finished: list[str] = [name if isinstance(name, str) else name[0] for name in ended]
        self.marks: dict[str, Any] = {name[0]: name[1] for name in ended if not isinstance(name, str)}
        """Of finished splits, where there is one."""
        self._packs: list[str] = []
        self.active: Sequence[tuple[str, Any]] = saved.active()
        """What was being read at the position that this began from."""
        self.waiting: Sequence[str] = saved.names("waiting")
        """What waited there."""

    @property
    def finished(self) -> Sequence[str]:
        return self._finished

    def finish(self, name: str, mark: Any = None) -> None:
        """A split has given its last row; `mark` tells whether it changes later."""
        self._finished.append(name)
        if mark is not None:
            self.marks[name] = mark

    def _ended(self, begin: int, end: int) -> list[Any]:
        return [[name, self.marks[name]] if name in self.marks else name for name in self._finished[begin:end]]

    def json(self, reached: Reached) -> Any:
        """A moment as a JSON value. What was packed once is not packed again."""
        packs = reached.finished // _PACKED
        while len(self._packs) < packs:
            begin = len(self._packs) * _PACKED
            self._packs.append(_packed(self._ended(begin, begin + _PACKED)))
        return {
            "finished": {"packs": self._packs[:packs], "names": self._ended(packs * _PACKED, reached.finished)},
            "active": [list(pair) for pair in reached.active],
            "waiting": _names([split.id for split in reached.waiting]),
        }


def take_split(splits: dict[str, Split], name: str, source: str) -> Split:
    """Take a split out of those that are there; raises ConnectorError E3107 when it is not."""
    found = splits.pop(name, None)
    if found is None:
        raise ConnectorError(
            f"{source} has no {name} any more, which the job had still to read",
            code="E3107",
            hint="parts of a source must stay until they are read: put it back, or start the job anew",
        )
    return found


def _names(names: Sequence[str]) -> dict[str, Any]:
    packs = len(names) // _PACKED
    return {
        "packs": [_packed(names[i * _PACKED : (i + 1) * _PACKED]) for i in range(packs)],
        "names": list(names[packs * _PACKED :]),
    }


def _packed(names: Iterable[Any]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(list(names)).encode())).decode()


class _Saved:
    """A position as it comes back; all raise ValueError for what `SplitProgress.json` does not give."""

    def __init__(self, position: Any) -> None:
        if position is not None and (not isinstance(position, dict) or set(position) != _PARTS):
            raise ValueError("a position is no object of splits that are finished, active and waiting")
        self._parts: dict[str, Any] = position or {}
        self._room = _ALL_BYTES

    def active(self) -> list[tuple[str, Any]]:
        """Names of splits, each with the position of its reader."""
        found = _list(self._parts.get("active", []))
        if not all(_is_pair(entry) for entry in found):
            raise ValueError("splits that are read are no names with positions")
        return [(name, position) for name, position in found]

    def names(self, part: str, *, marked: bool = False) -> list[Any]:
        """Names of splits; `marked`: `[name, mark]` may stand for one."""
        given = self._parts.get(part, {"packs": [], "names": []})
        if not isinstance(given, dict) or set(given) != {"packs", "names"}:
            raise ValueError("names of splits are no object of packs and names")
        found = [name for pack in _list(given["packs"]) for name in self._pack(pack)] + _list(given["names"])
        if not all(isinstance(name, str) or (marked and _is_pair(name)) for name in found):
            raise ValueError("splits have names that are no texts")
        return found

    def _pack(self, text: Any) -> list[Any]:
        if not isinstance(text, str):
            raise ValueError("a pack of names is no text")
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(text), min(_PACK_BYTES, self._room))
        if not unpacking.eof:
            raise ValueError("a pack of names that does not end")
        self._room -= len(data)
        return _list(read_json(data))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("names of splits are no list")
    return value


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
