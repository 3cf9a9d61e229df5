"""An object store as a store of files: what is there is never written over, and ranges end where the file does."""

from __future__ import annotations

import random

import pytest
from obstore.store import MemoryStore

from runtime.checkpoint import remote_storage
from runtime.checkpoint.remote_storage import RemoteStorage
from runtime.core.errors import CheckpointError


@pytest.fixture
def storage() -> RemoteStorage:
    return RemoteStorage(MemoryStore(), "memory://shop")


def test_what_is_written_is_read(storage: RemoteStorage) -> None:
    file = storage.create("a/b")
    file.write(b"12")
    file.write(b"345")
    assert storage.files() == {}
    file.close()
    assert storage.files() == storage.files("a") == {"a/b": 5}
    assert storage.files("b") == {}
    for start in range(8):
        for length in (0, 1, 3, 9, None):
            whole = b"12345"[start : None if length is None else start + length]
            assert storage.read("a/b", start, length).to_pybytes() == whole
    with pytest.raises(FileNotFoundError):
        storage.read("a/c")
    with pytest.raises(FileNotFoundError):
        storage.read("a/c", 0, 3)


def test_a_large_file_goes_in_parts(storage: RemoteStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_storage, "_PART_BYTES", 5 << 20)
    rng, file, written = random.Random(3), storage.create("large", large=True), b""
    while len(written) < 12 << 20:
        piece = rng.randbytes(rng.randrange(1, 3 << 20))
        file.write(piece)
        written += piece
    assert storage.files() == {}
    file.close()
    assert storage.read("large").to_pybytes() == written
    assert storage.read("large", 1 << 20, 10 << 20).to_pybytes() == written[1 << 20 : 11 << 20]
    monkeypatch.setattr(remote_storage, "_COPIED_BYTES", 1)
    storage.copy("large", "copy")
    assert storage.read("copy").to_pybytes() == written


@pytest.mark.parametrize("size", [3, 12 << 20])
def test_an_abandoned_file_is_not_there(storage: RemoteStorage, size: int) -> None:
    file = storage.create("a")
    file.write(bytes(size))
    file.abandon()
    assert storage.files() == {}


def test_a_published_file_is_never_replaced(storage: RemoteStorage) -> None:
    storage.publish("a", b"1")
    with pytest.raises(FileExistsError):
        storage.publish("a", b"2")
    # The answer to the first attempt may have been lost.
    storage.publish("a", b"1")
    assert storage.read("a").to_pybytes() == b"1"
    storage.replace("a", b"2")
    assert storage.read("a").to_pybytes() == b"2"
    storage.delete("a")
    storage.delete("a")
    assert storage.files() == {}


def test_folders_below(storage: RemoteStorage) -> None:
    jobs = storage.below("jobs").below("7")
    jobs.publish("chk-1/manifest.json", b"{}")
    jobs.copy("chk-1/manifest.json", "chk-2/manifest.json")
    assert jobs.files() == {"chk-1/manifest.json": 2, "chk-2/manifest.json": 2}
    assert jobs.files("chk-2") == {"chk-2/manifest.json": 2}
    assert jobs.names() == {"chk-1", "chk-2"} and storage.names() == {"jobs"} and storage.names("jobs") == {"7"}
    assert set(storage.files()) == {"jobs/7/chk-1/manifest.json", "jobs/7/chk-2/manifest.json"}
    assert jobs.place == "memory://shop/jobs/7"
    jobs.delete("chk-1/manifest.json")
    assert set(storage.files("jobs")) == {"jobs/7/chk-2/manifest.json"}


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3://bucket/shop?regoin=eu-central-1", "unknown option 'regoin'"),
        ("gs://bucket/shop?region=x", "unknown option 'region'"),
        ("http://bucket/shop", "no object store"),
        ("s3:///shop", "no object store"),
        ("s3://key:secret@bucket/shop", "holds credentials"),
    ],
)
def test_uris_that_are_none(uri: str, said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as error:
        RemoteStorage.at(uri)
    assert error.value.code == "E3406" and error.value.hint and "secret@" not in str(error.value)


def test_a_uri_is_shown_without_its_options() -> None:
    storage = RemoteStorage.at(
        "s3://bucket/a%20b/shop?region=eu-central-1&endpoint_override=localhost:9000&scheme=http"
    )
    assert storage.place == "s3://bucket/a%20b/shop"
