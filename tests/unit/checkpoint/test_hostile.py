"""Checkpoints that somebody else has written, with a right checksum: refused, and nothing outside is touched."""

from __future__ import annotations

import json
import os
import resource
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.checkpoint.keys import Keys, keys_of
from runtime.checkpoint.manifest import MANIFEST
from runtime.checkpoint.store import CheckpointStore, read_savepoint, write_savepoint
from runtime.core.errors import CheckpointError, OptionError
from runtime.core.options import Options
from runtime.core.strict_json import read_json
from runtime.state.snapshot import SavedOperator
from runtime.state.table import SLOT, Moved, TableChanges
from tests.unit.checkpoint.job_states import RandomJob, seen
from tests.unit.checkpoint.test_store import files_below, one_table

KEYS = Keys((b"a key of sixteen bytes", b"the key that was before"), unsigned=False)


def write_signed(path: Path, head: bytes) -> None:
    """A manifest of this text, but for its last brace, with a right checksum."""
    path.write_bytes(head + f',"checksum":"{zlib.crc32(head):08x}"}}\n'.encode())


def craft(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    body = json.loads(path.read_bytes())
    del body["checksum"]
    change(body)
    write_signed(path, json.dumps(body, separators=(",", ":")).encode()[:-1])


def saved(tmp_path: Path) -> tuple[Path, Path, RandomJob]:
    """Two checkpoints that share nothing, and a savepoint: their folders, and the job at the end of the first."""
    job = RandomJob(3, 20)
    first = RandomJob(3, 20)
    first.next()
    store = CheckpointStore(str(tmp_path / "state"), "job", 2)
    store.write(job.next())
    store.write(job.next(complete=True))
    store.close()
    write_savepoint(str(tmp_path / "savepoint"), job.again(), "job")
    return tmp_path / "state" / "job" / "chk-2", tmp_path / "savepoint", first


def put(*path: Any) -> Callable[[dict[str, Any]], object]:
    """Puts the last one into the place that the others say."""

    def change(body: Any) -> None:
        *steps, name, value = path
        for step in steps:
            body = body[step]
        body[name] = value

    return change


DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]

MEMBERS = {
    "another folder's file": put("files", 0, 0, "../../x"),
    "an absolute file": put("files", 0, 0, "/etc/hostname"),
    "a file out of a checkpoint's folder": put("files", 0, 0, "../chk-1/../../x"),
    "a file of another name": put("files", 0, 0, "state-0123abcd-0.arrows/../../../x"),
    "a NUL": put("files", 0, 0, "state-0123abcd-0.arrows\0"),
    "a name that is a number": put("files", 0, 0, 5),
    "a size below zero": put("files", 0, 1, -1),
    "a size of 10^18": put("plan", 2, 10**18),
    "a file twice": lambda body: body["files"].append(body["files"][0]),
    "no file": put("files", []),
    "a place that is none": put("plan", 0, 99),
    "a place before the first": put("plan", 0, -1),
    "an offset below zero": put("plan", 1, -8),
    "a checksum that is none": put("plan", 3, 1 << 40),
    "rows of a plan": put("plan", 4, 3),
    "10^18 rows": lambda body: _first_segment(body).__setitem__(4, 10**18),
    "other rows": lambda body: _first_segment(body).__setitem__(4, _first_segment(body)[4] - 1),
    "a segment twice": lambda body: _first_segment(body).__setitem__(slice(1, 5), _last_segment(body)[1:5]),
    "no plan": put("plan", None),
    "a list as a manifest": lambda body: [body.pop(key) for key in list(body)],
    "an unknown member": put("more", 1),
    "a kind that there is not": put("kind", "backup"),
    "a number as the kind": put("kind", 1),
    "an epoch below zero": put("epoch", -1),
    "an epoch of 2^60": put("epoch", 1 << 60),
    "a time after the year 9999": put("created", 253_402_300_800_000),
    "a time before the year 1": put("processing_time", -(1 << 62)),
    "bytes without end": put("written", (1 << 63) - 1),
    "a position that is none": put("sources", {"source": None}),
    "an epoch that is true": put("epoch", True),
    "a fraction of an epoch": put("epoch", 1.5),
    "an epoch as a text": put("epoch", "1"),
    "finished that is a number": put("finished", 1),
    "a version of nothing": put("version", None),
    "version 0": put("version", 0),
    "no operators": lambda body: body.pop("operators"),
    "an operator twice": lambda body: body["operators"].append(body["operators"][0]),
    "operators as an object": put("operators", {}),
    "tasks without end": put("operators", 0, "tasks", [{}] * 40_000),
    "a watermark out of range": put("operators", 0, "watermark", 1 << 63),
    "positions as a list": put("sources", []),
    "committables as an object": put("sinks", {"sink": {}}),
    "counts as a text": put("counts", {"rows": {"x": "12"}}),
    "counts below zero": put("counts", {"rows": {"x": [-1, 0]}}),
    "unknown counts": put("counts", {"more": {}}),
    "too deep": put("sources", {"x": DEEP}),
}

TEXTS = {
    "100,000 brackets": lambda head: head + b',"sources":' + b"[" * 100_000 + b"]" * 100_000,
    "NaN": lambda head: head + b',"created":NaN',
    "Infinity": lambda head: head + b',"created":-Infinity',
    "a number of 100,000 digits": lambda head: head + b',"created":' + b"9" * 100_000,
    "a member twice": lambda head: head + b',"job":"other"',
    "no UTF-8": lambda head: head + b',"job":"\xff"',
    "a cut": lambda head: head[: len(head) // 2],
    "a list": lambda head: b"[1",
    "nothing": lambda head: b"",
}


def _first_segment(body: dict[str, Any]) -> list[int]:
    return next(p[0] for o in body["operators"] for t in o["tasks"] for pieces in t.values() for p in pieces if p[0])


def _last_segment(body: dict[str, Any]) -> list[int]:
    return [p[0] for o in body["operators"] for t in o["tasks"] for pieces in t.values() for p in pieces if p[0]][-1]


def check_refused(checkpoint: Path, savepoint: Path, first: RandomJob) -> None:
    """The checkpoint before is used, the savepoint is refused."""
    store = CheckpointStore(str(checkpoint.parents[1]), "job", 2)
    restored = store.latest()
    assert restored is not None and restored.id == 1 and seen(restored) == first.expected()
    assert len(restored.problems) == 1 and "checkpoint 2" in restored.problems[0]
    assert [info.status for info in store.list()] == ["completed", "damaged"]
    with pytest.raises(CheckpointError) as error:
        read_savepoint(str(savepoint))
    assert error.value.code == "E3402" and error.value.hint and str(savepoint) in str(error.value)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_is_none_that_a_store_writes(name: str, tmp_path: Path) -> None:
    checkpoint, savepoint, first = saved(tmp_path)
    (tmp_path / "x").write_text("mine")
    before = files_below(tmp_path)
    craft(checkpoint / MANIFEST, MEMBERS[name])
    craft(savepoint / MANIFEST, MEMBERS[name])
    check_refused(checkpoint, savepoint, first)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_none_that_a_store_writes(name: str, tmp_path: Path) -> None:
    checkpoint, savepoint, first = saved(tmp_path)
    for path in (checkpoint / MANIFEST, savepoint / MANIFEST):
        head = path.read_bytes().rpartition(b',"checksum"')[0]
        write_signed(path, TEXTS[name](head))
    check_refused(checkpoint, savepoint, first)


def test_a_manifest_of_another_checkpoint_or_job_is_refused(tmp_path: Path) -> None:
    checkpoint, _, first = saved(tmp_path)
    for change in (put("id", 7), put("job", "other"), put("kind", "savepoint")):
        kept = (checkpoint / MANIFEST).read_bytes()
        craft(checkpoint / MANIFEST, change)
        restored = CheckpointStore(str(tmp_path / "state"), "job", 2).latest()
        assert restored is not None and restored.id == 1 and seen(restored) == first.expected()
        (checkpoint / MANIFEST).write_bytes(kept)


@pytest.mark.parametrize("name", ["link", "loop", "fifo", "folder", "folder elsewhere", "device"])
def test_what_is_no_file_is_not_read_and_not_waited_for(name: str, tmp_path: Path) -> None:
    checkpoint, savepoint, first = saved(tmp_path)
    for folder in (checkpoint, savepoint):
        path = next(folder.glob("*.plan.json"))
        outside = tmp_path / f"outside-{folder.name}"
        if name == "folder elsewhere":
            if folder == savepoint:
                continue  # a link to a savepoint is one
            folder.rename(outside)
            folder.symlink_to(outside)
            continue
        data = path.read_bytes()
        path.unlink()
        if name == "link":
            outside.write_bytes(data)
            path.symlink_to(outside)
        elif name == "loop":
            path.symlink_to(path)
        elif name == "fifo":
            os.mkfifo(path)
        elif name == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
    if name == "folder elsewhere":
        restored = CheckpointStore(str(tmp_path / "state"), "job", 2).latest()
        assert restored is not None and restored.id == 1 and seen(restored) == first.expected()
        assert seen(read_savepoint(str(savepoint))) != first.expected()
    else:
        check_refused(checkpoint, savepoint, first)


def test_a_link_to_a_savepoint_is_one(tmp_path: Path) -> None:
    _, savepoint, _ = saved(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "newest").symlink_to(savepoint)
    assert seen(read_savepoint(str(tmp_path / "elsewhere" / "newest"))) == seen(read_savepoint(str(savepoint)))


# --- rows


def rewrite_rows(folder: Path, change: Callable[[bytes], tuple[bytes, int]]) -> None:
    """The first rows of a checkpoint are others, and its manifest knows."""
    body = json.loads((folder / MANIFEST).read_bytes())
    segment = _first_segment(body)
    path = folder / body["files"][segment[0]][0]
    data, rows = change(path.read_bytes()[segment[1] : segment[1] + segment[2]])
    at = path.stat().st_size
    with path.open("ab") as file:
        file.write(data)

    def point_there(body: dict[str, Any]) -> None:
        found = _first_segment(body)
        body["files"][found[0]][1] = at + len(data)
        found[1:] = [at, len(data), zlib.crc32(data), rows]

    craft(folder / MANIFEST, point_there)


def stream(table: pa.Table, **options: Any) -> tuple[bytes, int]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes(), table.num_rows


def bomb(data: bytes) -> tuple[bytes, int]:
    """A compressed buffer says that it will be 2^60 bytes."""
    made, rows = stream(pa.table({SLOT: np.arange(1000), "key": np.zeros(1000, np.int64)}), compression="lz4")
    size = (8000).to_bytes(8, "little")
    assert made.count(size) == 2
    return made.replace(size, (1 << 60).to_bytes(8, "little")), rows


def swollen(data: bytes) -> tuple[bytes, int]:
    """The last offset of a text is beyond its bytes."""
    made, rows = stream(pa.table({SLOT: np.arange(3), "name": pa.array(["aaaa", "bbbb", "cccc"], pa.large_string())}))
    offset = np.array([0, 4, 8, 12], np.int64).tobytes()
    assert made.count(offset) == 1
    return made.replace(offset, np.array([0, 4, 8, 1 << 40], np.int64).tobytes()), rows


ROWS = {
    "a decompression bomb": bomb,
    "an offset beyond the bytes": swollen,
    "zstd": lambda data: stream(pa.table({SLOT: np.arange(1000)}), compression="zstd"),
    "a dictionary": lambda data: stream(pa.table({SLOT: [0, 1], "key": pa.array(["a", "b"]).dictionary_encode()})),
    "a slot below zero": lambda data: stream(pa.table({SLOT: [0, -1]})),
    "a row without a slot": lambda data: stream(pa.table({SLOT: pa.array([0, None], pa.int64())})),
    "a row twice": lambda data: stream(pa.table({SLOT: [1, 1]})),
    "slots that are texts": lambda data: stream(pa.table({SLOT: ["a"]})),
    "no slots": lambda data: stream(pa.table({"key": [1]})),
    "no Arrow": lambda data: (b"\x00" * len(data), 1),
    "a cut": lambda data: (data[: len(data) // 2], 1),
    "nothing": lambda data: (b"", 0),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_no_store_writes(name: str, tmp_path: Path) -> None:
    checkpoint, savepoint, first = saved(tmp_path)
    for folder in (checkpoint, savepoint):
        rewrite_rows(folder, ROWS[name])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check_refused(checkpoint, savepoint, first)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200 << 10


def test_slots_far_apart_take_no_room(tmp_path: Path) -> None:
    """A slot is a name: a great one is no reason to make room for all below it."""
    few = pa.record_batch({SLOT: [0]})
    write_savepoint(str(tmp_path / "sp"), one_table(1, TableChanges("t", few, np.empty(0, np.int64), True)), "job")
    rows = pa.table({SLOT: [3, 1 << 60, 1 << 50], "n": [1, 2, 3]})
    rewrite_rows(tmp_path / "sp", lambda data: stream(rows))
    restored = read_savepoint(str(tmp_path / "sp"))
    assert restored.operators["op"].tasks[0]["t"].to_pylist() == rows.to_pylist()
    moved = Moved(np.array([3, 1 << 60, 1 << 50]), np.array([0, 1, 2]))
    assert moved.of(np.array([1 << 50, 4, 1 << 60, -1, 3])).tolist() == [2, -1, 1, -1, 0]


def test_every_flipped_byte_of_an_arrow_stream_is_harmless(tmp_path: Path) -> None:
    """With a right checksum: it is refused, or it is other rows; it is never read beyond its bytes."""
    table = pa.table(
        {
            SLOT: np.arange(100),
            "name": pa.array(["x" * (i % 7) for i in range(100)], pa.large_string()),
            "tags": pa.array([list(range(i % 4)) for i in range(100)], pa.list_(pa.int32())),
            "price": pa.array([None if i % 3 else i for i in range(100)], pa.int64()),
        }
    )
    data, rows = stream(table, compression="lz4")
    _, savepoint, _ = saved(tmp_path)
    kept = {path: path.read_bytes() for path in savepoint.iterdir()}
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(400):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            changed[at] = int(rng.choice([0, 0x7F, 0x80, 0xFF, changed[at] ^ 1]))
        rewrite_rows(savepoint, lambda _, changed=changed: (bytes(changed), rows))
        try:
            restored = read_savepoint(str(savepoint))
            assert restored.operators
        except CheckpointError as error:
            refused += 1
            assert error.code == "E3402"
        for path, content in kept.items():
            path.write_bytes(content)
    assert refused > 50


# --- who may read it, and who has written it


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o177])
def test_nobody_else_can_read_it(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        location = tmp_path / "new" / "state"
        (tmp_path / "new").mkdir(0o755)
        os.chmod(tmp_path / "new", 0o755)
        job = RandomJob(3, 20)
        store = CheckpointStore(str(location), "job", 2)
        for _ in range(3):
            store.write(job.next())
        write_savepoint(str(tmp_path / "new" / "savepoint"), job.again(), "job")
    finally:
        os.umask(before)
    for path in (location, *location.rglob("*"), *(tmp_path / "new").glob("savepoint/**")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755
    store.close()


def test_what_an_older_version_left_open_is_closed(tmp_path: Path) -> None:
    job = RandomJob(3, 20)
    store = CheckpointStore(str(tmp_path), "job", 2)
    store.write(job.next())
    store.close()
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chmod(path, 0o755 if path.is_dir() else 0o644)
    (tmp_path / "job" / "notes.txt").write_text("mine")
    os.chmod(tmp_path / "job" / "notes.txt", 0o644)
    CheckpointStore(str(tmp_path), "job", 2).claim()
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "job").rglob("*") if p.is_file()}
    assert modes.pop("notes.txt") == 0o644 and set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "job" / "chk-1").stat().st_mode) == 0o700
    # The folder that the user gave is the user's.
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_lock_that_leads_elsewhere_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "state" / "job").mkdir(parents=True)
    (tmp_path / "state" / "job" / ".lock").symlink_to(tmp_path / "outside")
    with pytest.raises(CheckpointError) as error:
        CheckpointStore(str(tmp_path / "state"), "job").claim()
    assert error.value.code == "E3406" and not (tmp_path / "outside").exists()


def test_only_who_has_the_key_can_write_a_checkpoint(tmp_path: Path) -> None:
    job = RandomJob(3, 20)
    first = RandomJob(3, 20)
    first.next()
    store = CheckpointStore(str(tmp_path), "job", 2, KEYS)
    store.write(job.next())
    store.write(job.next(complete=True))
    write_savepoint(str(tmp_path / "sp"), job.again(), "job", KEYS)
    newest = tmp_path / "job" / "chk-2"
    restored = CheckpointStore(str(tmp_path), "job", 2, KEYS).latest()
    assert restored is not None and seen(restored) == job.expected()
    assert seen(read_savepoint(str(tmp_path / "sp"), KEYS)) == job.expected()
    # A right checksum is not enough, for the manifest and for rows.
    for folder in (newest, tmp_path / "sp"):
        rewrite_rows(folder, lambda data: (data, _first_segment(json.loads((newest / MANIFEST).read_bytes()))[4]))
    restored = CheckpointStore(str(tmp_path), "job", 2, KEYS).latest()
    assert restored is not None and restored.id == 1 and seen(restored) == first.expected()
    with pytest.raises(CheckpointError, match="key") as error:
        read_savepoint(str(tmp_path / "sp"), KEYS)
    assert error.value.code == "E3402"


def test_rows_under_a_right_mac_are_compared_by_their_digest(tmp_path: Path) -> None:
    """A CRC-32 can be forged: four bytes make any content have it."""
    job = RandomJob(3, 20)
    job.next()
    write_savepoint(str(tmp_path / "sp"), job.again(), "job", KEYS)
    body = json.loads((tmp_path / "sp" / MANIFEST).read_bytes())
    plan = tmp_path / "sp" / body["files"][body["plan"][0]][0]
    data = plan.read_bytes()
    forged = b"x" * (len(data) - 4)
    plan.write_bytes(forged + _closing(zlib.crc32(forged), body["plan"][3]))
    assert zlib.crc32(plan.read_bytes()) == body["plan"][3]
    with pytest.raises(CheckpointError, match="SHA-256") as error:
        read_savepoint(str(tmp_path / "sp"), KEYS)
    assert error.value.code == "E3402"


def _closing(crc: int, wanted: int) -> bytes:
    """Four bytes that make a CRC-32 another."""
    table = [zlib.crc32(bytes([0xFF ^ i])) ^ 0xFF000000 for i in range(256)]
    by_top = {entry >> 24: i for i, entry in enumerate(table)}
    register, indexes = wanted ^ 0xFFFFFFFF, []
    for _ in range(4):
        index = by_top[register >> 24]
        indexes.append(index)
        register = ((register ^ table[index]) << 8 | index) & 0xFFFFFFFF
    register, found = crc ^ 0xFFFFFFFF, bytearray()
    for index in reversed(indexes):
        found.append(index ^ (register & 0xFF))
        register = table[index] ^ (register >> 8)
    return bytes(found)


def test_keys_change(tmp_path: Path) -> None:
    job = RandomJob(3, 20)
    job.next()
    state = job.again()
    write_savepoint(str(tmp_path / "old"), state, "job", Keys(KEYS.keys[1:], unsigned=False))
    write_savepoint(str(tmp_path / "new"), state, "job", KEYS)
    write_savepoint(str(tmp_path / "none"), state, "job")
    assert seen(read_savepoint(str(tmp_path / "old"), KEYS)) == job.expected()
    assert seen(read_savepoint(str(tmp_path / "new"))) == job.expected()
    for name, keys, why in (
        ("new", Keys(KEYS.keys[1:], unsigned=False), "not written with a key"),
        ("none", KEYS, "written without a key"),
    ):
        with pytest.raises(CheckpointError, match=why) as error:
            read_savepoint(str(tmp_path / name), keys)
        assert error.value.code == "E3402"
    assert seen(read_savepoint(str(tmp_path / "none"), Keys(KEYS.keys, unsigned=True))) == job.expected()


def test_the_file_of_keys(tmp_path: Path) -> None:
    def keys(content: str) -> Keys:
        (tmp_path / "keys").write_text(content)
        return keys_of(Options({"execution.checkpointing.key-file": str(tmp_path / "keys")}))

    assert not keys_of(Options({}))
    assert keys("0123456789abcdef\n") == Keys((b"0123456789abcdef",), unsigned=False)
    assert keys("0123456789abcdef\nnone\n\nfedcba9876543210") == Keys((b"0123456789abcdef", b"fedcba9876543210"), True)
    for wrong in ("", "none", "short", "0123456789abcdef\nshort"):
        with pytest.raises(OptionError, match="16 bytes") as error:
            keys(wrong)
        assert "short" not in str(error.value)
    with pytest.raises(OptionError, match="No such file"):
        keys_of(Options({"execution.checkpointing.key-file": str(tmp_path / "nothing")}))


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\xff", b"NaN", b"[-Infinity]", b"9" * 30, b'{"a":1,"a":2}', b"[" * 5000 + b"]" * 5000, b"[[[[1]]]]"],
)
def test_json_of_a_stranger(text: bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text, depth=3)
    assert read_json(b'{"a":[1,{"b":null}]}', depth=3) == {"a": [1, {"b": None}]}


def test_an_operator_without_tables_is_saved(tmp_path: Path) -> None:
    state = one_table(1, TableChanges("t", pa.record_batch({SLOT: [0]}), np.empty(0, np.int64), True))
    assert isinstance(state.operators[0], SavedOperator)
    write_savepoint(str(tmp_path / "sp"), state, "job", KEYS)
    assert read_savepoint(str(tmp_path / "sp"), KEYS).operators["op"].tasks[0]["t"].num_rows == 1
