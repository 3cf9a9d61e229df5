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
from typing import Any

from runtime.core.errors import ConnectorError
from runtime.core.strict_json import read_json
from runtime.spi.table import Split

__all__ = ["Reached", "SplitProgress", "take_split"]

_PACKED = 256
"""Names in a pack."""
_PACK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Reached:
    """A moment between two epochs: so many splits were finished, these were being read (name and position), these
    waited."""

    finished: int
    active: tuple[tuple[str, Any], ...]
    waiting: tuple[Split, ...]


class SplitProgress:
    """The finished splits of a source in the order in which they ended, and moments as JSON values.

    A position is `{"finished": names, "active": [[name, position], ...], "waiting": names}`, where names are
    `{"packs": [text, ...], "names": [...]}`. In place of a finished name may stand `[name, mark]` (`TellsChanges`).
    """

    def __init__(self, position: Mapping[str, Any] | None = None) -> None:
        ended = [] if position is None else _unpacked(position["finished"])
        self._finished: list[str] = [name if isinstance(name, str) else name[0] for name in ended]
        self.marks: dict[str, Any] = {name[0]: name[1] for name in ended if not isinstance(name, str)}
        """Of finished splits, where there is one."""
        self._packs: list[str] = []
        self.active: Sequence[tuple[str, Any]] = [] if position is None else [(n, p) for n, p in position["active"]]
        """What was being read at the position that this began from."""
        self.waiting: Sequence[str] = [] if position is None else _unpacked(position["waiting"])
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


def _unpacked(names: Mapping[str, Any]) -> list[Any]:
    """Raises ValueError when they are no names, or a pack is larger than one can be."""
    found = [name for pack in names["packs"] for name in _pack(pack)]
    found += names["names"]
    if not all(isinstance(name, str | list) for name in found):
        raise ValueError("splits have names that are no texts")
    return found


def _pack(text: str) -> list[Any]:
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(text), _PACK_BYTES)
    if not unpacking.eof:
        raise ValueError("a pack of names that does not end")
    return list(read_json(data))
