"""The manifest of a checkpoint: what it holds, and in which files. A checkpoint exists when its manifest does.

`manifest.json` is one JSON object. Its last member is the CRC-32 of all bytes before that member, so that every flipped
byte is seen. Files are named relative to the manifest's folder, so that a folder of checkpoints, or of a savepoint, may
be moved. A segment is `[file, offset, length, crc, rows]` with the file's place in `files`; a piece of a table is its
segments of rows and of freed slots, null where there is none.

With a key (`keys.py`) `digests` holds the SHA-256 of each segment, in the order of `segments_of`, and `mac` the MAC of all
bytes before it.

Whoever can write to the folder can write any manifest with a right checksum. So each member is checked for its type and
range, and a file is only ever one that a store makes: in the manifest's folder, or in that of a neighbouring checkpoint.
"""

from __future__ import annotations

import json
import posixpath
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.checkpoint.epoch_state import CheckpointInfo
from runtime.checkpoint.keys import NO_KEYS, Keys
from runtime.checkpoint.members import Members, as_integer, as_list, as_mapping
from runtime.checkpoint.segments import Segment
from runtime.checkpoint.storage import Damage
from runtime.checkpoint.table_chain import Piece
from runtime.core.errors import CheckpointError
from runtime.core.strict_json import read_json

__all__ = [
    "MANIFEST",
    "MOST_BYTES",
    "Manifest",
    "OperatorPieces",
    "check_counts",
    "decode_manifest",
    "encode_manifest",
    "operators_json",
    "operators_of",
    "segments_of",
]

MANIFEST = "manifest.json"
FORMAT = "sqlengine-checkpoint"
VERSION = 1
MOST_BYTES = 256 << 20
"""A manifest that is larger is neither written nor read."""
_TAIL = re.compile(rb'((?:,"mac":"([0-9a-f]{64})")?),"checksum":"([0-9a-f]{8})"\}\n\Z')
_TAIL_BYTES = 128
_FILE = re.compile(r"(?:\.\./(?:chk|copy)-\d{1,18}/)?state-[0-9a-f]{8}-\d{1,9}\.(?:arrows?|plan\.json)")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEAD = ("format", "version", "kind", "id", "job", "epoch", "processing_time", "finished", "created", "duration")
_MEMBERS = (*_HEAD, "written", "sources", "sinks", "counts", "files", "plan", "operators", "digests", "mac", "checksum")
_MOST_TASKS = 1 << 15
_MOST = 1 << 50
"""Of epochs, milliseconds and bytes: what a job adds to them, and their sums, are 64-bit numbers."""
_TIMES = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, in milliseconds."""
_RATIO = 256
"""So many times as large as its compressed bytes may be what lz4 makes of them."""


@dataclass(frozen=True, slots=True)
class OperatorPieces:
    """Where the state of an operator is: by task and table, in the order in which they were saved."""

    name: str
    watermark: int
    input_watermark: int
    tasks: tuple[Mapping[str, Sequence[Piece]], ...]

    @property
    def turned(self) -> OperatorPieces:
        """The same, of the copies of its files."""
        tasks = tuple({name: tuple(p.turned for p in pieces) for name, pieces in t.items()} for t in self.tasks)
        return replace(self, tasks=tasks)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint (`id` from 1) or savepoint (`id` 0).

    `folder`: where in the storage; `created`: milliseconds since 1970; `duration`: milliseconds that writing took;
    `written`: bytes of the files made for it, without the manifest; `files`: sizes of all files that it needs, by path
    in the storage. The rest as in `EpochState`.
    """

    kind: str
    id: int
    folder: str
    job: str
    epoch: int
    processing_time: int
    finished: bool
    created: int
    duration: int
    written: int
    plan: Segment
    operators: tuple[OperatorPieces, ...]
    sources: Mapping[str, Any]
    sinks: Mapping[str, Any]
    files: Mapping[str, int]
    counts: Mapping[str, Any]

    @property
    def path(self) -> str:
        return f"{self.folder}/{MANIFEST}"

    def info(self, place: str, status: str, nbytes: int) -> CheckpointInfo:
        """What a person sees of it; `nbytes` is the size of the manifest."""
        return CheckpointInfo(
            self.id,
            self.kind,
            self.epoch,
            self.created,
            self.written + nbytes,
            sum(self.files.values()) + nbytes,
            self.duration,
            status,
            f"{place}/{self.folder}",
        )


def segments_of(plan: Segment, operators: Sequence[OperatorPieces]) -> Iterator[Segment]:
    """All segments that a checkpoint needs."""
    yield plan
    for operator in operators:
        for task in operator.tasks:
            for pieces in task.values():
                for piece in pieces:
                    yield from piece.segments


def encode_manifest(manifest: Manifest, keys: Keys = NO_KEYS) -> bytes:
    """The bytes of the file. Raises TypeError or ValueError when a position or committable is no JSON, or all of it is
    larger than `MOST_BYTES`."""
    files = {path: number for number, path in enumerate(manifest.files)}

    def segment(given: Segment | None) -> list[int] | None:
        return None if given is None else [files[given.file], given.offset, given.length, given.crc, given.rows]

    body: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "kind": manifest.kind,
        "id": manifest.id,
        "job": manifest.job,
        "epoch": manifest.epoch,
        "processing_time": manifest.processing_time,
        "finished": manifest.finished,
        "created": manifest.created,
        "duration": manifest.duration,
        "written": manifest.written,
        "sources": manifest.sources,
        "sinks": manifest.sinks,
        "counts": manifest.counts,
        "files": [[posixpath.relpath(path, manifest.folder), size] for path, size in manifest.files.items()],
        "plan": segment(manifest.plan),
        "operators": operators_json(manifest.operators, segment),
    }
    if keys:
        body["digests"] = [s.digest for s in segments_of(manifest.plan, manifest.operators)]
    head = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()[:-1]
    if len(head) > MOST_BYTES - _TAIL_BYTES:
        raise ValueError(f"the manifest is larger than {MOST_BYTES} bytes")
    if keys:
        head += f',"mac":"{keys.sign(head)}"'.encode()
    return head + f',"checksum":"{zlib.crc32(head):08x}"}}\n'.encode()


def operators_json(
    operators: Sequence[OperatorPieces], segment: Callable[[Segment | None], object]
) -> list[dict[str, Any]]:
    """State as JSON; `segment` says how a segment stands there, None where there is none."""
    return [
        {
            "name": operator.name,
            "watermark": operator.watermark,
            "input_watermark": operator.input_watermark,
            "tasks": [
                {name: [[segment(p.rows), segment(p.removed)] for p in pieces] for name, pieces in task.items()}
                for task in operator.tasks
            ],
        }
        for operator in operators
    ]


def decode_manifest(data: bytes, folder: str, keys: Keys = NO_KEYS) -> Manifest:
    """The manifest of the bytes of a file in this folder of the storage.

    Raises:
        Damage: the bytes are not those that were written, or nobody can have written them who has a key.
        CheckpointError: a newer version wrote them.
    """
    where = f"{folder}/{MANIFEST}"
    if len(data) > MOST_BYTES:
        raise Damage(f"{where} is larger than {MOST_BYTES} bytes")
    tail = _TAIL.search(data, max(0, len(data) - _TAIL_BYTES))
    if tail is None or int(tail[3], 16) != zlib.crc32(data[: tail.end(1)]):
        raise Damage(f"{where} holds other bytes than were written: its checksum differs")
    mac = tail[2].decode() if tail[2] else None
    if refusal := keys.refusal(data[: tail.start()], mac):
        raise Damage(f"{where} {refusal}")
    try:
        value = read_json(data)
    except ValueError as error:
        raise Damage(f"{where} cannot be read: {error}") from error
    body = Members(value, where, _MEMBERS, known=False)
    if body.text("format") != FORMAT:
        raise Damage(f"{where} is no manifest of a checkpoint")
    kind = body.choice("kind", ("checkpoint", "savepoint"))
    version = body.integer("version", least=1)
    if version > VERSION:
        raise CheckpointError(
            f"{kind} {folder} has version {version} of the format, and this version of sqlengine reads"
            f" up to version {VERSION}",
            code="E3403",
            hint="use the version of sqlengine that wrote it, or a newer one",
        )
    body.check_names()
    digests = body.list("digests") if mac is not None and keys else None
    segments = _Segments(where, folder, kind, body.list("files"), digests)
    plan = segments.one(body.value("plan"), rows=False)
    if plan is None:
        raise Damage(f"{where} names no plan")
    operators = operators_of(body.list("operators"), where, segments.one)
    segments.check_apart()
    return Manifest(
        kind,
        body.integer("id", least=0),
        folder,
        body.text("job"),
        body.integer("epoch", 0, _MOST),
        body.integer("processing_time", *_TIMES),
        body.flag("finished"),
        body.integer("created", 0, _TIMES[1]),
        body.integer("duration", 0, _MOST),
        body.integer("written", 0, _MOST),
        plan,
        operators,
        {name: as_mapping(given, f"sources.{name}", where) for name, given in body.mapping("sources").items()},
        {name: as_list(given, f"sinks.{name}", where) for name, given in body.mapping("sinks").items()},
        segments.files,
        check_counts(body.mapping("counts", {}), where),
    )


def operators_of(
    given: Sequence[Any], where: str, segment: Callable[[Any], Segment | None]
) -> tuple[OperatorPieces, ...]:
    """The reverse of `operators_json`. Raises Damage."""
    operators = tuple(_operator(each, where, segment) for each in given)
    if len({operator.name for operator in operators}) != len(operators):
        raise Damage(f"{where} names an operator twice")
    return operators


def _operator(given: Any, where: str, segment: Callable[[Any], Segment | None]) -> OperatorPieces:
    members = Members(given, where, ("name", "watermark", "input_watermark", "tasks"))
    name = members.text("name")
    tasks = members.list("tasks")
    if len(tasks) > _MOST_TASKS:
        raise Damage(f"{where} has {len(tasks)} tasks of {name}")
    return OperatorPieces(
        name,
        members.integer("watermark"),
        members.integer("input_watermark"),
        tuple(
            {
                table: tuple(_piece(piece, where, segment) for piece in as_list(pieces, table, where))
                for table, pieces in Members(task, where, (), known=False).mapping().items()
            }
            for task in tasks
        ),
    )


def _piece(given: Any, where: str, segment: Callable[[Any], Segment | None]) -> Piece:
    pair = as_list(given, "a piece", where)
    if len(pair) != 2:
        raise Damage(f"{where}: a piece is no two segments")
    return Piece(segment(pair[0]), segment(pair[1]))


def check_counts(given: dict[str, Any], where: str) -> dict[str, Any]:
    """Figures that go on counting (see `EpochState`), as they are. Raises Damage."""
    counts = Members(given, f"{where}: counts", ("rows", "rejected", "written"))
    for name, pair in counts.mapping("rows", {}).items():
        if len(as_list(pair, name, where)) != 2:
            raise Damage(f"{where}: counts.rows of {name} are no two numbers")
        for count in pair:
            as_integer(count, f"counts.rows of {name}", where, 0)
    for entry in counts.list("rejected", []):
        if not isinstance(entry, list) or [type(part) for part in entry] != [str, str, int] or entry[2] < 0:
            raise Damage(f"{where}: counts.rejected are no names and numbers")
    counts.mapping("written", {})
    return given


class _Segments:
    """Segments by the place of their file. They do not overlap, so that reading all of them reads no byte twice."""

    def __init__(self, where: str, folder: str, kind: str, files: list[Any], digests: list[Any] | None) -> None:
        self._where = where
        self._digests = None if digests is None else iter(digests)
        self._taken: list[tuple[str, int, int]] = []
        self.files: dict[str, int] = {}
        for entry in files:
            if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
                raise Damage(f"{where}: files are no names with sizes")
            name = entry[0]
            if _FILE.fullmatch(name) is None or (kind == "savepoint" and "/" in name):
                raise Damage(f"{where} names a file that is none of a {kind}: {name[:80]!r}")
            path = posixpath.normpath(posixpath.join(folder, name))
            if path in self.files:
                raise Damage(f"{where} names {path} twice")
            self.files[path] = as_integer(entry[1], f"the size of {path}", where, 0, _MOST)
        self._paths = list(self.files)

    def one(self, given: Any, *, rows: bool = True) -> Segment | None:
        if given is None:
            return None
        where = self._where
        numbers = [as_integer(n, "a segment", where, 0) for n in as_list(given, "a segment", where)]
        if len(numbers) != 5 or numbers[0] >= len(self._paths):
            raise Damage(f"{where}: a segment is no file, offset, length, checksum and number of rows")
        path = self._paths[numbers[0]]
        _, offset, length, crc, count = numbers
        if offset + length > self.files[path] or crc > 0xFFFFFFFF or 8 * count > _RATIO * length:
            raise Damage(f"{where}: a segment of {path} is not within it")
        if not rows and count:
            raise Damage(f"{where}: {path} has rows that are none")
        digest = ""
        if self._digests is not None:
            digest = next(self._digests, None)
            if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
                raise Damage(f"{where} has no SHA-256 of a segment of {path}")
        self._taken.append((path, offset, length))
        return Segment(path, offset, length, crc, count, digest)

    def check_apart(self) -> None:
        """Raises Damage when two segments have bytes in common."""
        before, end = "", 0
        for path, offset, length in sorted(self._taken):
            if path == before and offset < end:
                raise Damage(f"{self._where}: segments of {path} overlap")
            before, end = path, offset + length
