"""Files that were changed, shortened or lost after they were written: told, and the checkpoint before is used."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint import table_chain
from runtime.checkpoint.manifest import MANIFEST, decode_manifest
from runtime.checkpoint.store import CheckpointStore, read_savepoint, write_savepoint
from runtime.core.errors import CheckpointError
from tests.unit.checkpoint.job_states import RandomJob, seen
from tests.unit.checkpoint.test_store import files_below, needed_files


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def shorten(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def lose(path: Path, chance: random.Random) -> None:
    path.unlink()


def lengthen(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + b"}")


DAMAGES = (flip, shorten, lose)


def written(folder: Path, retained: int, renewed: int = -1, epochs: int = 6) -> dict[int, Any]:
    """Writes checkpoints; gives what each must hold. At epoch `renewed` a chain of new files begins."""
    job = RandomJob(13, 20)
    store = CheckpointStore(str(folder), "job", retained)
    expected = {}
    for epoch in range(epochs):
        info = store.write(job.next(complete=epoch == renewed))
        expected[info.id] = job.expected()
    store.close()
    return expected


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_checkpoint_before_a_damaged_one_is_used(damage: Any, tmp_path: Path) -> None:
    expected = written(tmp_path / "whole", 2, renewed=5)
    folder = tmp_path / "whole" / "job" / "chk-6"
    names = sorted(p.name for p in folder.iterdir())
    assert len(names) >= 2
    chance = random.Random(1)
    for name in names:
        for attempt in range(25 if damage is not lose else 1):
            copy = tmp_path / f"{name}-{attempt}"
            shutil.copytree(tmp_path / "whole", copy)
            damage(copy / "job" / "chk-6" / name, chance)
            store = CheckpointStore(str(copy), "job", 2)
            restored = store.latest()
            assert restored is not None
            assert seen(restored) == expected[5]
            if name == MANIFEST and damage is lose:
                # Without a manifest it never was one.
                assert restored.problems == []
            else:
                assert len(restored.problems) == 1 and "checkpoint 6" in restored.problems[0]
                assert name in restored.problems[0]
                assert [info.status for info in store.list()] == ["completed", "damaged"]
            shutil.rmtree(copy)


def test_bytes_after_the_end_of_a_manifest_are_damage(tmp_path: Path) -> None:
    expected = written(tmp_path, 2, renewed=5)
    lengthen(tmp_path / "job" / "chk-6" / MANIFEST, random.Random(1))
    restored = CheckpointStore(str(tmp_path), "job").latest()
    assert restored is not None and seen(restored) == expected[5] and len(restored.problems) == 1


@pytest.mark.parametrize("seed", range(40))
def test_never_a_wrong_state(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any damage anywhere: each checkpoint comes back as it was written, or not at all."""
    monkeypatch.setattr(table_chain, "FAN", 3)
    monkeypatch.setattr(table_chain, "_SMALLEST_CLASS", 4)
    chance = random.Random(seed)
    expected = written(tmp_path, 3, renewed=chance.randrange(-1, 9), epochs=9)
    files = sorted(files_below(tmp_path / "job"))
    for path in chance.sample(files, chance.randrange(1, 3)):
        chance.choice(DAMAGES)(tmp_path / "job" / path, chance)
    store = CheckpointStore(str(tmp_path), "job", 3)
    try:
        restored = store.latest()
        assert restored is not None
        assert seen(restored) == expected[restored.id]
        told = [problem for problem in restored.problems for n in (7, 8, 9) if f"checkpoint {n} " in problem]
        without = [n for n in (7, 8, 9) if not (tmp_path / "job" / f"chk-{n}" / MANIFEST).exists()]
        assert len(told) + restored.id + len([n for n in without if n > restored.id]) == 9
    except CheckpointError as error:
        assert error.code == "E3402"
    # The next checkpoint is sound, whatever was there.
    job = RandomJob(99)
    store.write(job.next())
    restored = CheckpointStore(str(tmp_path), "job").latest()
    assert restored is not None and seen(restored) == job.expected() and restored.problems == []


@pytest.mark.parametrize("retained", [2, 3])
def test_no_file_and_no_folder_is_needed_by_all(retained: int, tmp_path: Path) -> None:
    """Whichever one file or folder goes, a checkpoint is left: the newest or the one before it."""
    epochs = 7
    expected = written(tmp_path / "whole", retained, epochs=epochs)
    job = tmp_path / "whole" / "job"
    places = sorted({*files_below(job), *(path.name for path in job.glob("c*-*"))})
    assert any(place.startswith("copy-") for place in places) and any(place.startswith("chk-1/") for place in places)
    for number, place in enumerate(places):
        copy = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", copy)
        path = copy / "job" / place
        shutil.rmtree(path) if path.is_dir() else flip(path, random.Random(number))
        restored = CheckpointStore(str(copy), "job", retained).latest()
        assert restored is not None, place
        assert restored.id in (epochs - 1, epochs) and seen(restored) == expected[restored.id]
        shutil.rmtree(copy)


def test_all_are_damaged(tmp_path: Path) -> None:
    written(tmp_path, 3)
    for path in (tmp_path / "job").rglob("*.arrows"):
        flip(path, random.Random(1))
    with pytest.raises(CheckpointError) as error:
        CheckpointStore(str(tmp_path), "job").latest()
    assert error.value.code == "E3402"
    assert all(f"checkpoint {n}" in str(error.value) for n in (4, 5, 6))


def test_damaged_checkpoints_make_room_for_sound_ones(tmp_path: Path) -> None:
    """One that is damaged is not counted among those to keep, and goes when a newer one is complete."""
    written(tmp_path, 2, renewed=5)
    flip(next((tmp_path / "job" / "chk-6").glob("*.arrows")), random.Random(1))
    store = CheckpointStore(str(tmp_path), "job", 2)
    restored = store.latest()
    assert restored is not None and restored.id == 5
    job = RandomJob(3)
    store.write(job.next())
    assert [(info.id, info.status) for info in store.list()] == [(5, "completed"), (7, "completed")]
    assert files_below(tmp_path / "job") == needed_files(tmp_path / "job")
    assert seen(read_savepoint(str(tmp_path / "job" / "chk-5"))) == seen(restored)


def test_damage_found_while_merging_fails_the_checkpoint_and_the_next_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_chain, "FAN", 3)
    job = RandomJob(13, 20)
    store = CheckpointStore(str(tmp_path), "job")
    store.write(job.next())
    for path in (tmp_path / "job").rglob("*.arrows"):
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(CheckpointError, match="checksum") as error:
        for _ in range(20):
            store.write(job.next())
    assert error.value.code == "E3401"
    store.write(job.again())
    restored = store.latest()
    assert restored is not None and seen(restored) == job.expected()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_savepoint_is_refused(damage: Any, tmp_path: Path) -> None:
    job = RandomJob(2, 20)
    job.next()
    path = tmp_path / "sp"
    write_savepoint(str(path), job.again(), "job")
    manifest = decode_manifest((path / MANIFEST).read_bytes(), "sp")
    assert {p.rpartition("/")[2] for p in manifest.files} == {p.name for p in path.iterdir()} - {MANIFEST}
    for file in list(path.iterdir()):
        kept = file.read_bytes()
        damage(file, random.Random(4))
        with pytest.raises(CheckpointError) as error:
            read_savepoint(str(path))
        assert error.value.code == ("E3404" if damage is lose and file.name == MANIFEST else "E3402")
        file.write_bytes(kept)
    assert seen(read_savepoint(str(path))) == job.expected()
