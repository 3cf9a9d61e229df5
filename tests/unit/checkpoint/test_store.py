"""What is written comes back, costs what changed, and is kept as long as it should be."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs

from runtime.checkpoint import table_chain
from runtime.checkpoint.epoch_state import EpochState
from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.manifest import MANIFEST, decode_manifest, encode_manifest
from runtime.checkpoint.segments import SegmentReader, SegmentWriter
from runtime.checkpoint.store import CheckpointStore, read_savepoint, write_savepoint
from runtime.core.errors import CheckpointError, InternalError, OptionError
from runtime.state.snapshot import SavedOperator
from runtime.state.table import SLOT, TableChanges
from tests.unit.checkpoint.job_states import RandomJob, changes, seen
from tests.unit.checkpoint.object_store import MemoryObjects


def files_below(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def needed_files(folder: Path) -> set[str]:
    """All that the manifests in a folder of checkpoints name, and these."""
    found: set[str] = set()
    for manifest in folder.glob(f"chk-*/{MANIFEST}"):
        decoded = decode_manifest(manifest.read_bytes(), manifest.parent.name)
        found |= {*decoded.files, decoded.path}
        assert all((folder / path).stat().st_size == size for path, size in decoded.files.items())
    return found


def one_table(epoch: int, given: TableChanges) -> EpochState:
    return EpochState(epoch, 0, "{}", [SavedOperator("op", 0, 0, ((given,),))], {}, {}, False)


@pytest.mark.parametrize("fan", [2, 3, 16])
@pytest.mark.parametrize("seed", [1, 2])
def test_chains_of_increments_add_up(seed: int, fan: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_chain, "FAN", fan)
    monkeypatch.setattr(table_chain, "_SMALLEST_CLASS", 4 if fan < 16 else 256)
    system = fs.PyFileSystem(MemoryObjects())
    job = RandomJob(seed, 40 if fan < 16 else 5)
    store = CheckpointStore(system, "job", 2)
    for epoch in range(70):
        renewed = epoch % 23 == 22
        if renewed:
            # The job starts again: what it saves first is complete.
            store = CheckpointStore(system, "job", 2)
        info = store.write(job.next(complete=renewed))
        assert info.id == epoch + 1
        restored = CheckpointStore(system, "job").latest()
        assert restored is not None and restored.id == info.id and restored.problems == []
        assert seen(restored) == job.expected()


def test_local_folders_and_other_file_systems_hold_the_same_files(tmp_path: Path) -> None:
    stores = [
        (CheckpointStore(str(tmp_path / "a"), "job", 3), tmp_path / "a/job"),
        (CheckpointStore((tmp_path / "b").as_uri(), "job", 3), tmp_path / "b/job"),
        (
            CheckpointStore(fs.SubTreeFileSystem(str(tmp_path / "c"), fs.LocalFileSystem()), "job", 3),
            tmp_path / "c/job",
        ),
    ]
    for store, folder in stores:
        job = RandomJob(5)
        for _ in range(8):
            store.write(job.next())
        restored = store.latest()
        assert restored is not None and seen(restored) == job.expected()
        assert files_below(folder) == needed_files(folder)
        assert len(list(folder.glob(f"*/{MANIFEST}"))) == 3
        assert {folder / f"chk-{n}" for n in (6, 7, 8)} <= set(folder.iterdir())
    assert store.path == "subtree:job"


def test_bytes_follow_what_changed_and_reading_follows_what_is_live(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows, share, epochs = 1_000_000, 10_000, 40
    schema = pa.schema([(SLOT, pa.int64()), ("key", pa.int64()), ("total", pa.int64())])

    def some(slots: np.ndarray, complete: bool = False) -> TableChanges:
        values = [pa.array(slots), pa.array(slots * 7), pa.array(rng.integers(0, 1 << 40, len(slots)))]
        return TableChanges("t", pa.RecordBatch.from_arrays(values, schema=schema), np.empty(0, np.int64), complete)

    store = CheckpointStore(str(tmp_path), "job")
    whole = store.write(one_table(0, some(np.arange(rows), True)))
    written = [
        store.write(one_table(e, some(np.sort(rng.choice(rows, share, replace=False))))).bytes for e in range(1, epochs)
    ]
    assert whole.bytes > 5_000_000
    assert all(count < 0.015 * whole.bytes for count in written[: table_chain.FAN - 2])
    # With the merging of small pieces, over many checkpoints.
    assert sum(written) < 0.03 * whole.bytes * len(written)
    assert store.write(one_table(epochs, some(np.empty(0, np.int64)))).bytes < 5_000
    last = store.list()[-1]
    assert last.total_bytes < 2 * whole.bytes
    restored = store.latest()
    assert restored is not None and restored.operators["op"].tasks[0]["t"].num_rows == rows


def test_reading_is_bounded_by_what_is_live(tmp_path: Path) -> None:
    """Whatever is done to a table, the pieces have few more rows than twice the live ones, and are few."""
    rng = np.random.default_rng(8)
    storage = CheckpointStore(fs.PyFileSystem(MemoryObjects()), "job")
    live: dict[int, int] = {}
    for epoch in range(400):
        many = {100: 3000, 250: 5000}.get(epoch, int(rng.integers(0, 30)))
        drop = [s for s in live if epoch in (180, 300) or rng.random() < 0.002]
        for slot in drop:
            del live[slot]
        new = {int(s): epoch for s in rng.integers(0, 6000, many) if s not in drop}
        live.update(new)
        given = changes("figure", {s: (v,) for s, v in new.items()}, drop, complete=epoch == 0)
        storage.write(one_table(epoch, given))
        manifest = storage._complete[-1]
        pieces = manifest.operators[0].tasks[0]["figure"]
        assert sum(p.weight for p in pieces) <= 2 * len(live) + 64
        assert len(pieces) <= table_chain.FAN * 3
    restored = storage.latest()
    assert restored is not None
    found = restored.operators["op"].tasks[0]["figure"].to_pylist()
    assert {row[SLOT]: row["value"] for row in found} == live


def test_rows_that_only_come_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the largest class pieces are left alone, and all of them are read."""
    monkeypatch.setattr(table_chain, "_SMALLEST_CLASS", 4)
    monkeypatch.setattr(table_chain, "_LARGEST_CLASS", 4)
    monkeypatch.setattr(table_chain, "FAN", 2)
    store = CheckpointStore(str(tmp_path), "job", 1)
    saves = 40
    for save in range(saves):
        slots = np.arange(save * 500, (save + 1) * 500)
        rows = pa.RecordBatch.from_arrays([pa.array(slots), pa.array([f"text {s}" for s in slots])], [SLOT, "text"])
        store.write(one_table(save, TableChanges("t", rows, np.empty(0, np.int64), save == 0)))
    (operator,) = decode_manifest(*_newest_manifest(tmp_path / "job")).operators
    assert len(operator.tasks[0]["t"]) == saves
    restored = CheckpointStore(str(tmp_path), "job", 1).latest()
    assert restored is not None
    found = restored.operators["op"].tasks[0]["t"]
    assert sorted(found.column("text").to_pylist()) == sorted(f"text {s}" for s in range(saves * 500))


def _newest_manifest(folder: Path) -> tuple[bytes, str]:
    newest = max(folder.glob(f"chk-*/{MANIFEST}"), key=lambda path: int(path.parent.name.removeprefix("chk-")))
    return newest.read_bytes(), newest.parent.name


@pytest.mark.parametrize("sizes", [(5000, 10, 100_000, 3), (0, 4096, 4095), (70_000,), (0,)])
def test_segments_of_large_and_small_batches_come_back(sizes: tuple[int, ...], tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.struct([("a", pa.int8())])))])
    batches: list[pa.RecordBatch] = []
    for size in sizes:
        texts = pa.array([None if i % 3 == 0 else f"{i * size}" for i in range(size)], pa.string())
        lists = pa.array([[{"a": i % 100}] * (i % 3) for i in range(size)], schema.field(2).type)
        batches.append(pa.RecordBatch.from_arrays([pa.array(np.arange(size)), texts, lists], schema=schema))
    storage = LocalStorage(str(tmp_path))
    writer = SegmentWriter(storage, "there", "token")
    small = writer.rows(schema, batches[-1:], 1)
    found = writer.rows(schema, batches, 1 << 20)
    after = writer.rows(schema, batches[:1], 1)
    writer.close()
    reader = SegmentReader(storage)
    for segment, expected in ((small, batches[-1:]), (found, batches), (after, batches[:1])):
        read = pa.Table.from_batches(reader.batches(segment), schema)
        assert segment.rows == read.num_rows
        assert read.equals(pa.Table.from_batches(expected, schema))


def test_empty_tables_cost_nothing(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path), "job")
    store.write(one_table(0, changes("groups", {}, (), True)))
    assert not [p for p in files_below(tmp_path / "job") if p.endswith((".arrow", ".arrows"))]
    store.write(one_table(1, changes("groups", {4: (1, "x", [2])})))
    store.write(one_table(2, changes("groups", {}, [4])))
    assert not [p for p in files_below(tmp_path / "job") if p.endswith((".arrow", ".arrows"))]
    restored = store.latest()
    assert restored is not None and restored.operators["op"].tasks == ({},)


def test_many_tables_share_a_file_and_large_ones_have_their_own(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path), "job")
    large = changes("figure", {i: (i * i,) for i in range(100_000)}, (), True)
    small = [TableChanges(f"t{i}", large.rows.slice(0, 20), large.removed, True) for i in range(30)]
    store.write(EpochState(0, 0, "{}", [SavedOperator("op", 0, 0, ((large, *small),))], {}, {}, False))
    names = sorted(p.rpartition(".")[2] for p in files_below(tmp_path / "job"))
    assert names == ["arrow", "arrows", "json", "json"]
    restored = store.latest()
    assert restored is not None and len(restored.operators["op"].tasks[0]) == 31


def test_old_checkpoints_go_and_what_is_needed_stays(tmp_path: Path) -> None:
    job = RandomJob(9)
    store = CheckpointStore(str(tmp_path), "job", 3)
    folder = tmp_path / "job"
    wanted = {}
    for _ in range(40):
        info = store.write(job.next())
        wanted[info.id] = job.expected()
        assert files_below(folder) == needed_files(folder)
        for info in store.list():
            assert (info.status, info.kind) == ("completed", "checkpoint")
            assert seen(read_savepoint(info.path)) == wanted[info.id]
            sizes = (folder / f"chk-{info.id}" / MANIFEST).stat().st_size
            assert info.total_bytes >= info.bytes > sizes
    assert [info.id for info in store.list()] == [38, 39, 40]


def test_names_of_files_are_never_used_again(tmp_path: Path) -> None:
    job = RandomJob(4)
    made: set[str] = set()
    for _ in range(3):
        store = CheckpointStore(str(tmp_path), "job")
        for number in range(3):
            store.write(job.next(complete=number == 0))
            new = {
                p
                for p in files_below(tmp_path / "job")
                if "state-" in p and int(p.split("/")[0][4:]) == store._next - 1
            }
            assert not new & made
            made |= new
        store.clear()
        assert files_below(tmp_path / "job") == set()
        assert store.latest() is None and store.list() == []


def test_a_store_goes_on_after_clear(tmp_path: Path) -> None:
    job = RandomJob(4)
    store = CheckpointStore(str(tmp_path), "job")
    store.write(job.next())
    store.clear()
    with pytest.raises(InternalError):
        store.write(job.next())
    store.write(job.again())
    restored = store.latest()
    assert restored is not None and seen(restored) == job.expected()
    assert files_below(tmp_path / "job") == needed_files(tmp_path / "job")


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    job = RandomJob(4)
    store = CheckpointStore(str(tmp_path), "job")
    store.write(job.next())
    for name in ("notes.txt", "chk-1/notes.txt", "other/state-1.arrow"):
        (tmp_path / "job" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "job" / name).write_text("mine")
    store = CheckpointStore(str(tmp_path), "job")
    store.write(job.next(complete=True))
    store.clear()
    assert files_below(tmp_path / "job") == {"notes.txt", "chk-1/notes.txt", "other/state-1.arrow"}


def test_a_savepoint_is_whole_and_can_be_moved(tmp_path: Path) -> None:
    job = RandomJob(6)
    job.next()
    info = write_savepoint(str(tmp_path / "sp" / "one"), job.again(), "job")
    assert (info.kind, info.id, info.status, info.bytes) == ("savepoint", 0, "completed", info.total_bytes)
    assert info.path == str(tmp_path / "sp" / "one")
    (tmp_path / "sp" / "one").rename(tmp_path / "moved")
    restored = read_savepoint(f"{tmp_path}/moved/")
    assert seen(restored) == job.expected()
    assert seen(read_savepoint((tmp_path / "moved").as_uri())) == job.expected()
    with pytest.raises(CheckpointError) as error:
        write_savepoint(str(tmp_path / "moved"), job.again(), "job")
    assert error.value.code == "E3407"
    with pytest.raises(InternalError):
        write_savepoint(str(tmp_path / "other"), job.next(), "job")


def test_a_path_that_is_no_savepoint(tmp_path: Path) -> None:
    CheckpointStore(str(tmp_path), "job").write(RandomJob(1).next())
    with pytest.raises(CheckpointError) as error:
        read_savepoint(str(tmp_path / "job"))
    assert error.value.code == "E3404" and str(tmp_path / "job" / "chk-1") in str(error.value)
    with pytest.raises(CheckpointError) as error:
        read_savepoint(str(tmp_path / "nothing"))
    assert error.value.code == "E3404"


def test_a_newer_format_is_refused_and_nothing_deleted(tmp_path: Path) -> None:
    job = RandomJob(1)
    store = CheckpointStore(str(tmp_path), "job", 2)
    store.write(job.next())
    store.write(job.next())
    path = tmp_path / "job" / "chk-2" / MANIFEST
    manifest = decode_manifest(path.read_bytes(), "chk-2")
    data = json.loads(encode_manifest(manifest))
    data["version"] = 2
    del data["checksum"]
    head = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    path.write_bytes(head + f',"checksum":"{zlib.crc32(head):08x}"}}\n'.encode())
    before = files_below(tmp_path)
    for attempt in (
        lambda: CheckpointStore(str(tmp_path), "job").latest(),
        lambda: CheckpointStore(str(tmp_path), "job").write(job.again()),
        lambda: read_savepoint(str(path.parent)),
    ):
        with pytest.raises(CheckpointError, match="version 2") as error:
            attempt()
        assert error.value.code == "E3403"
    assert files_below(tmp_path) == before


def test_manifests_survive_being_written_and_read() -> None:
    store = CheckpointStore(fs.PyFileSystem(MemoryObjects()), "job")
    job = RandomJob(2)
    for _ in range(20):
        store.write(job.next())
        manifest = store._complete[-1]
        assert dataclasses.asdict(decode_manifest(encode_manifest(manifest), manifest.folder)) == dataclasses.asdict(
            manifest
        )


@pytest.mark.parametrize(
    ("job", "folder"),
    [
        ("my-job.1", "my-job.1"),
        ("a b", "a_b-"),
        ("../x", "x-"),
        ("", "-"),
        ("größe", "gr_e-"),
        ("x" * 300, "x" * 100 + "-"),
    ],
)
def test_names_of_jobs_become_names_of_folders(job: str, folder: str, tmp_path: Path) -> None:
    name = Path(CheckpointStore(str(tmp_path), job).path).name
    assert name.startswith(folder) and len(name) <= len(folder) + 8


def test_different_jobs_have_different_folders(tmp_path: Path) -> None:
    paths = {CheckpointStore(str(tmp_path), job).path for job in ("a b", "a_b", "a/b", "a-b")}
    assert len(paths) == 4


def test_what_is_no_json_is_our_mistake_and_leaves_nothing(tmp_path: Path) -> None:
    job = RandomJob(2)
    store = CheckpointStore(str(tmp_path), "job")
    store.write(job.next())
    before = files_below(tmp_path)
    with pytest.raises(InternalError):
        store.write(dataclasses.replace(job.next(), sources={"a": object()}))
    assert files_below(tmp_path) == before
    store.write(job.again())


def test_options_and_places_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        CheckpointStore(str(tmp_path), "job", 0)
    with pytest.raises(CheckpointError) as error:
        CheckpointStore("nowhere://x", "job")
    assert error.value.code == "E3406"
    (tmp_path / "file").write_text("")
    store = CheckpointStore(str(tmp_path / "file"), "job")
    for attempt in (store.claim, lambda: store.write(RandomJob(1).next()), store.clear):
        with pytest.raises(CheckpointError):
            attempt()


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path), "job")
    store.write(RandomJob(1).next())
    code = (
        "import sys; from runtime.checkpoint.store import CheckpointStore\n"
        "from runtime.core.errors import CheckpointError\n"
        "store = CheckpointStore(sys.argv[1], 'job')\n"
        "assert len(store.list()) == 1 and store.latest().epoch == 1\n"
        "try:\n    store.claim()\n    store.clear()\nexcept CheckpointError as error:\n    print(error.code)\nelse:\n    print('cleared')"
    )

    def other() -> str:
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    second = CheckpointStore(str(tmp_path), "job")
    second.write(RandomJob(1).next())
    assert other() == "E3405"
    second.close()
    assert other() == "E3405"
    store.close()
    assert other() == "cleared"
