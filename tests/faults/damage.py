"""What can become of the files of a checkpoint: they break, are mixed up, or somebody writes others with a right checksum."""

from __future__ import annotations

import json
import os
import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.checkpoint.manifest import MANIFEST

__all__ = ["BREAKING", "CRAFTING", "files_of", "kind_of", "places_of", "read_manifest", "sign"]

Damage = Callable[[Path, list[Path], random.Random], str]
"""Of a file, all files of its kind and the folder to which nothing may be done: tells what was done, "" for nothing."""


def kind_of(path: Path) -> str:
    """What a file is: `manifest`, `plan`, `state`, `copy`, `staged`, or `owner` (the token of a sink)."""
    if path.name == MANIFEST:
        return "manifest"
    if path.name.startswith(".staged-"):
        return "staged"
    if path.name.startswith(".owner-"):
        return "owner"
    if path.name.endswith(".plan.json"):
        return "plan"
    return "copy" if path.parent.name.startswith("copy-") else "state"


def files_of(*folders: Path) -> list[Path]:
    """The files of checkpoints and hidden output below folders, in order."""
    found = [p for folder in folders for p in sorted(folder.rglob("*")) if p.is_file()]
    return [p for p in found if p.name.startswith(("state-", ".staged-", ".owner-")) or p.name == MANIFEST]


# --- files that break


def cut(path: Path, others: list[Path], rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(max(1, len(data)))])


def flip(path: Path, others: list[Path], rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 3))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def empty(path: Path, others: list[Path], rng: random.Random) -> None:
    path.write_bytes(b"")


def remove(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()


def append(path: Path, others: list[Path], rng: random.Random) -> None:
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.choice((1, 8, 4096))))


def replace(path: Path, others: list[Path], rng: random.Random) -> None:
    """It holds what another file of its kind holds."""
    other = rng.choice(others)
    if other != path:
        path.write_bytes(other.read_bytes())


def become_folder(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()
    path.mkdir()
    if rng.random() < 0.5:
        (path / ".within").write_text("x")


def become_fifo(path: Path, others: list[Path], rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def become_link(path: Path, others: list[Path], rng: random.Random) -> None:
    """A link to what holds the same, outside; or to itself, or to nothing."""
    outside = path.parents[len(path.parents) - 1]
    for above in path.parents:
        if (above / "canary").is_dir():
            outside = above / "canary"
            break
    data = path.read_bytes()
    path.unlink()
    way = rng.choice(("same", "loop", "nothing", "folder"))
    target = {"same": outside / "same", "loop": path, "nothing": outside / "nothing", "folder": outside}[way]
    if way == "same":
        target.write_bytes(data)
    path.symlink_to(target)


def link_folder(path: Path, others: list[Path], rng: random.Random) -> None:
    """Its folder lies elsewhere."""
    for above in path.parents:
        if (above / "canary").is_dir():
            elsewhere = above / "canary" / "elsewhere"
            break
    if path.parent.name.startswith(("chk-", "copy-")):
        shutil.move(path.parent, elsewhere)
        path.parent.symlink_to(elsewhere)


BREAKING = (cut, flip, empty, remove, append, replace, become_folder, become_fifo, become_link, link_folder)

# --- what somebody writes, with a right checksum

_HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 10**10, 10**13, 2**63 - 1, -(2**63), 10**18, 1.5, 1e300,
    "", "x", "..", "../../x", "/etc/hostname", "a\0b", "../chk-1/../../../x", "\ud800",
    [], {}, [[]], [None], {"x": None}, "x" * 10_000, [0] * 1000, "E9100", "..=x/../../y",
)  # fmt: skip


def craft_manifest(path: Path, others: list[Path], rng: random.Random) -> None:
    """A member has another value."""
    if path.name != MANIFEST:
        found = [p for p in path.parents[1].rglob(MANIFEST) if "whole" not in p.parts]
        path = rng.choice(found or [path])
    body = read_manifest(path)
    for _ in range(rng.choice((1, 1, 1, 3))):
        _mutate(body, rng)
    sign(path, body)


def craft_manifest_text(path: Path, others: list[Path], rng: random.Random) -> None:
    """A text that is hardly JSON."""
    text = json.dumps(read_manifest(path), separators=(",", ":"))[:-1] if path.name == MANIFEST else "{"
    way = rng.choice(("deep", "nan", "huge", "twice", "bytes", "list", "version", "long"))
    more = {
        "deep": ',"sources":' + "[" * 100_000 + "]" * 100_000,
        "nan": ',"created":NaN',
        "huge": ',"epoch":' + "9" * 5000,
        "twice": ',"epoch":1,"epoch":2',
        "bytes": "",
        "list": "",
        "version": ',"version":99',
        "long": ',"x":"' + "y" * 1_000_000 + '"',
    }[way]
    head = (text + more).encode()
    if way == "bytes":
        head += b',"job":"\xff\xfe"'
    if way == "list":
        head = b"[" + b"1," * 10 + b"1"
    _write_signed(path, head)


def craft_plan(path: Path, others: list[Path], rng: random.Random) -> None:
    """Another plan, of which the manifest knows."""
    manifest = _manifest_of(path, rng)
    body = read_manifest(manifest)
    number, offset, length, _, _ = body["plan"]
    file = manifest.parent / body["files"][number][0]
    plan = json.loads(file.read_bytes()[offset : offset + length])
    for _ in range(rng.choice((1, 1, 4))):
        _mutate(plan, rng)
    data = json.dumps(plan).encode() if rng.random() < 0.9 else b"[" * 50_000 + b"]" * 50_000
    file.write_bytes(data)
    body["files"][number][1] = len(data)
    body["plan"] = [number, 0, len(data), zlib.crc32(data), 0]
    sign(manifest, body)


def craft_state(path: Path, others: list[Path], rng: random.Random) -> None:
    """Other rows, of which the manifest knows."""
    _craft_segment(path, rng, _other_rows)


def craft_bytes(path: Path, others: list[Path], rng: random.Random) -> None:
    """Bytes of an Arrow stream are others."""

    def flipped(data: bytes, rng: random.Random) -> tuple[bytes, int | None]:
        changed = bytearray(data)
        for _ in range(rng.choice((1, 2, 8))):
            at = rng.randrange(len(changed))
            changed[at] = rng.choice((0, 0xFF, 0x7F, changed[at] ^ (1 << rng.randrange(8))))
        return bytes(changed), None

    _craft_segment(path, rng, flipped)


CRAFTING = (craft_manifest, craft_manifest, craft_manifest_text, craft_plan, craft_state, craft_state, craft_bytes)


def _craft_segment(
    path: Path, rng: random.Random, craft: Callable[[bytes, random.Random], tuple[bytes, int | None]]
) -> None:
    manifest = _manifest_of(path, rng)
    body = read_manifest(manifest)
    segments = [
        (pair, place)
        for operator in body["operators"]
        for task in operator["tasks"]
        for pieces in task.values()
        for pair in pieces
        for place in (0, 1)
        if pair[place] is not None
    ]
    if not segments:
        return
    pair, place = rng.choice(segments)
    number, offset, length, _, rows = pair[place]
    file = manifest.parent / body["files"][number][0]
    data, count = craft(file.read_bytes()[offset : offset + length], rng)
    at = file.stat().st_size
    with file.open("ab") as opened:
        opened.write(data)
    body["files"][number][1] = at + len(data)
    pair[place] = [number, at, len(data), zlib.crc32(data), rows if count is None else count]
    sign(manifest, body)


def _other_rows(data: bytes, rng: random.Random) -> tuple[bytes, int | None]:
    table = pa.ipc.open_stream(data).read_all().combine_chunks()
    columns = dict(zip(table.column_names, table.columns, strict=True))
    name = rng.choice(list(columns))
    way = rng.choice(("value", "value", "value", "value", "null", "drop", "type", "twice", "none"))
    if way == "drop" and len(columns) > 1:
        del columns[name]
    elif way == "type":
        columns[name] = pa.chunked_array([pa.array(["x"] * table.num_rows)])
    elif way == "null":
        columns[name] = pa.chunked_array([pa.nulls(table.num_rows, columns[name].type)])
    elif way == "value":
        values = columns[name].to_pylist()
        if values:
            # How often a row is there is nothing that bytes could back: a job would write it so often.
            often = name == "$count"
            values[rng.randrange(len(values))] = (
                rng.choice((None, -1, 0, 7)) if often else _other_value(columns[name].type, rng)
            )
        columns[name] = pa.chunked_array([pa.array(values, columns[name].type)])
    made = pa.table(columns)
    if way == "twice":
        made = pa.concat_tables([made, made])
    if way == "none":
        made = made.slice(0, 0)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made)
    return sink.getvalue().to_pybytes(), made.num_rows


def _other_value(type_: pa.DataType, rng: random.Random) -> Any:
    if pa.types.is_integer(type_):
        info = np.iinfo(type_.to_pandas_dtype())
        numbers = (0, -1, 1, info.min, info.max, info.max // 2, 10**7, 10**9, 10**11, 10**13)
        return rng.choice((None, *(int(number) for number in numbers if info.min <= number <= info.max)))
    if pa.types.is_boolean(type_):
        return rng.choice((None, True, False))
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return rng.choice((None, "", "x" * 5000))
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return rng.choice((None, b"", b"\xff" * 100, b"cos\nsystem\n(S'true'\ntR."))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return rng.choice((None, [], [None], [_other_value(type_.value_type, rng)] * 3))
    return None


def _mutate(value: Any, rng: random.Random) -> None:
    """Somewhere below a value something is another."""
    places = [(holder, key) for _, holder, key in places_of(value)]
    holder, key = rng.choice(places)
    way = rng.random()
    if way < 0.15:
        del holder[key]
    elif way < 0.25 and isinstance(holder, dict):
        holder["unknown"] = holder[key]
    elif way < 0.35 and isinstance(holder, list):
        holder.append(holder[key])
    elif way < 0.6:
        other, at = rng.choice(places)
        holder[key] = json.loads(json.dumps(other[at]))
    else:
        holder[key] = rng.choice(_HOSTILE)


def places_of(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """All places in a value: the way to each, and the list or object that has it, with its index or key."""
    for key in list(value.keys() if isinstance(value, dict) else range(len(value))):
        yield (*way, key), value, key
        if isinstance(value[key], dict | list):
            yield from places_of(value[key], (*way, key))


def _manifest_of(path: Path, rng: random.Random) -> Path:
    """That of the newest checkpoint, or of a file."""
    found = sorted(path.parents[1].glob(f"chk-*/{MANIFEST}"), key=lambda p: int(p.parent.name[4:]))
    return path.parent / MANIFEST if not found else found[-1]


def read_manifest(path: Path) -> dict[str, Any]:
    """The body of a manifest, without its checksum."""
    body: dict[str, Any] = json.loads(path.read_bytes())
    body.pop("checksum")
    return body


def sign(path: Path, body: dict[str, Any]) -> None:
    """Writes a manifest with a right checksum."""
    text = json.dumps(body, separators=(",", ":"))
    # The MAC, if there is one, stays where it was.
    mac = f',"mac":{json.dumps(body["mac"])}' if "mac" in body else ""
    if mac and isinstance(body["mac"], str):
        text = json.dumps({k: v for k, v in body.items() if k != "mac"}, separators=(",", ":"))[:-1] + mac + "}"
    _write_signed(path, text[:-1].encode())


def _write_signed(path: Path, head: bytes) -> None:
    path.write_bytes(head + f',"checksum":"{zlib.crc32(head):08x}"}}\n'.encode())
