"""The manifest of a checkpoint: what it holds, and in which files. A checkpoint exists when its manifest does.

`manifest.json` is one JSON object. Its last member is the CRC-32 of all bytes before that member, so that every flipped
byte is seen. Files are named relative to the manifest's folder, so that a folder of checkpoints, or of a savepoint, may
be moved. A segment is `[file, offset, length, crc, rows]` with the file's place in `files`; a piece of a table is its
segments of rows and of freed slots, null where there is none.
"""

from __future__ import annotations

import json
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.checkpoint.epoch_state import CheckpointInfo
from runtime.checkpoint.segments import Damage, Segment
from runtime.checkpoint.table_chain import Piece
from runtime.core.errors import CheckpointError

__all__ = ["MANIFEST", "Manifest", "OperatorPieces", "decode_manifest", "encode_manifest"]

MANIFEST = "manifest.json"
FORMAT = "sqlengine-checkpoint"
VERSION = 1
_TAIL = re.compile(rb',"checksum":"([0-9a-f]{8})"\}\n\Z')


@dataclass(frozen=True, slots=True)
class OperatorPieces:
    """Where the state of an operator is: by task and table, in the order in which they were saved."""

    name: str
    watermark: int
    input_watermark: int
    tasks: tuple[Mapping[str, Sequence[Piece]], ...]


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


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of the file. Raises TypeError or ValueError when a position or committable is no JSON."""
    files = {path: number for number, path in enumerate(manifest.files)}

    def segment(given: Segment | None) -> list[int] | None:
        return None if given is None else [files[given.file], given.offset, given.length, given.crc, given.rows]

    body = {
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
        "operators": [
            {
                "name": operator.name,
                "watermark": operator.watermark,
                "input_watermark": operator.input_watermark,
                "tasks": [
                    {name: [[segment(p.rows), segment(p.removed)] for p in pieces] for name, pieces in task.items()}
                    for task in operator.tasks
                ],
            }
            for operator in manifest.operators
        ],
    }
    head = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    return head + f',"checksum":"{zlib.crc32(head):08x}"}}\n'.encode()


def decode_manifest(data: bytes, folder: str) -> Manifest:
    """The manifest of the bytes of a file in this folder of the storage.

    Raises:
        Damage: the bytes are not those that were written.
        CheckpointError: a newer version wrote them.
    """
    tail = _TAIL.search(data)
    if tail is None or int(tail[1], 16) != zlib.crc32(data[: tail.start()]):
        raise Damage(f"{folder}/{MANIFEST} holds other bytes than were written: its checksum differs")
    body = json.loads(data)
    if body.get("format") != FORMAT:
        raise Damage(f"{folder}/{MANIFEST} is no manifest of a checkpoint")
    if body["version"] > VERSION:
        raise CheckpointError(
            f"{body['kind']} {folder} has version {body['version']} of the format, and this version of sqlengine reads"
            f" up to version {VERSION}",
            code="E3403",
            hint="use the version of sqlengine that wrote it, or a newer one",
        )
    files = {posixpath.normpath(posixpath.join(folder, path)): size for path, size in body["files"]}
    paths = list(files)

    def segment(given: list[int] | None) -> Segment | None:
        return None if given is None else Segment(paths[given[0]], *given[1:])

    operators = tuple(
        OperatorPieces(
            operator["name"],
            operator["watermark"],
            operator["input_watermark"],
            tuple(
                {name: tuple(Piece(segment(r), segment(d)) for r, d in pieces) for name, pieces in task.items()}
                for task in operator["tasks"]
            ),
        )
        for operator in body["operators"]
    )
    plan = segment(body["plan"])
    assert plan is not None
    return Manifest(
        body["kind"],
        body["id"],
        folder,
        body["job"],
        body["epoch"],
        body["processing_time"],
        body["finished"],
        body["created"],
        body["duration"],
        body["written"],
        plan,
        operators,
        body["sources"],
        body["sinks"],
        files,
        body.get("counts", {}),
    )
