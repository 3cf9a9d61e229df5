"""The lease of an object store: one owner, told by its beats, its process or its last word."""

from __future__ import annotations

import gc
import json
import threading

import pytest
from obstore.store import MemoryStore

from runtime.checkpoint import object_lease
from runtime.checkpoint.object_lease import BEAT_SECONDS, PATIENCE_SECONDS, ObjectLease, Taken
from runtime.checkpoint.remote_storage import RemoteStorage


class Machine:
    """Another machine, whose processes cannot be seen from here; its clock goes on only while somebody waits. `meanwhile`
    is done at each wait."""

    def __init__(self, storage: RemoteStorage) -> None:
        self.storage = storage
        self.now = 0.0
        self.meanwhile = lambda: None

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def take(self) -> ObjectLease:
        return ObjectLease.take(self.storage, wait=self.wait, now=lambda: self.now, beats=False)


@pytest.fixture
def storage() -> RemoteStorage:
    return RemoteStorage(MemoryStore(), "memory://shop")


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process can be told from another one."""
    monkeypatch.setattr(object_lease, "_process", lambda pid: "")


@pytest.mark.usefixtures("strangers")
def test_an_owner_that_says_nothing_is_followed_after_a_while(storage: RemoteStorage) -> None:
    first = Machine(storage).take()
    machine = Machine(storage)
    second = machine.take()
    assert PATIENCE_SECONDS <= machine.now < PATIENCE_SECONDS + BEAT_SECONDS
    assert (first.token, second.token) == (1, 2) and not second.trusts(1) and second.trusts(2)
    assert not first.known_lost
    assert first.is_lost() and first.known_lost and not second.is_lost()
    first.beat()
    first.release()
    assert not second.is_lost()


@pytest.mark.usefixtures("strangers")
def test_an_owner_that_beats_keeps_it(storage: RemoteStorage) -> None:
    first, machine = Machine(storage).take(), Machine(storage)

    def beat() -> None:
        if machine.now >= 5:
            first.beat()

    machine.meanwhile = beat
    with pytest.raises(Taken, match="process .* on .*, since 2"):
        machine.take()
    assert 5 <= machine.now < 5 + BEAT_SECONDS and not first.is_lost()


@pytest.mark.usefixtures("strangers")
def test_an_owner_that_has_ended_is_followed_at_once_and_trusted(storage: RemoteStorage) -> None:
    tokens: list[ObjectLease] = []
    for _ in range(3):
        machine = Machine(storage)
        tokens.append(machine.take())
        tokens[-1].release()
        assert machine.now == 0
    lost, machine = Machine(storage).take(), Machine(storage)
    assert all(lost.trusts(lease.token) for lease in tokens)
    after = machine.take()
    assert not any(after.trusts(lease.token) for lease in [*tokens, lost])
    after.release()
    last = Machine(storage).take()
    assert last.trusts(after.token) and not last.trusts(lost.token)
    assert storage.files("owner").keys() == {f"owner/{last.token:020}.json"}


@pytest.mark.usefixtures("strangers")
def test_one_of_many_that_follow_becomes_the_owner(storage: RemoteStorage) -> None:
    Machine(storage).take()
    owners: list[ObjectLease] = []
    refused: list[Taken] = []
    gate = threading.Barrier(12)

    def follow() -> None:
        machine = Machine(storage)
        gate.wait()
        try:
            owners.append(machine.take())
        except Taken as error:
            refused.append(error)

    def beat() -> None:
        for lease in list(owners):
            lease.beat()

    threads = [threading.Thread(target=follow) for _ in range(12)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        beat()
    assert len([lease for lease in owners if not lease.is_lost()]) == 1
    assert len(owners) + len(refused) == 12


def test_a_process_of_this_machine_is_looked_for(storage: RemoteStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(storage)
    first = machine.take()
    with pytest.raises(Taken):
        machine.take()
    # It has the number of a process that began at another time, or of none.
    (path,) = storage.files("owner")
    said = json.loads(storage.read(path).to_pybytes())
    for other in (f"{said['process']}0", said["process"].rpartition(":")[0].rpartition(":")[0] + ":999999999:1"):
        storage.replace(path, json.dumps({**said, "process": other}).encode())
        second = machine.take()
        assert machine.now == 0 and first.is_lost()
        path, said = next(iter(storage.files("owner"))), {**said, "token": second.token}
        second.abandon()


def test_what_nobody_uses_any_more_owns_nothing(storage: RemoteStorage) -> None:
    machine = Machine(storage)
    first = ObjectLease.take(storage)
    with pytest.raises(Taken):
        machine.take()
    del first
    gc.collect()
    assert machine.take().token == 2 and machine.now == 0


@pytest.mark.parametrize("said", [b"", b"{}", b"\xff", b"[1]", b'{"token": 1e99}', b"x" * 100_000])
def test_a_file_that_says_nothing_is_waited_for(storage: RemoteStorage, said: bytes) -> None:
    storage.publish("owner/00000000000000000007.json", said)
    machine = Machine(storage)
    lease = machine.take()
    assert lease.token == 8 and machine.now >= PATIENCE_SECONDS and not lease.trusts(7)


def test_a_number_that_was_given_and_taken_back_is_no_lease(
    storage: RemoteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is deleted by the owner after the next, so the name is free when a slow process asks for it."""
    publish, machine = storage.publish, Machine(storage)

    def slowly(path: str, data: bytes) -> None:
        monkeypatch.setattr(storage, "publish", publish)
        for _ in range(3):
            machine.take().release()
        publish(path, data)

    monkeypatch.setattr(storage, "publish", slowly)
    with pytest.raises(Taken):
        machine.take()


def test_a_token_is_higher_than_what_was_written(storage: RemoteStorage) -> None:
    lease = Machine(storage).take()
    lease.exceed(0)
    assert lease.token == 1
    lease.exceed(41)
    assert lease.token == 42 and not lease.is_lost() and not lease.trusts(41)
