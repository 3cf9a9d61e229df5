"""Tasks that have joined a crew: who is let in, what passes between them, and what is noticed when one goes."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from runtime.core.errors import UserError
from runtime.tasks import crew as crews
from runtime.tasks import links
from runtime.tasks.crew import Crew, CrewLost
from runtime.tasks.links import Door, Frame, Hub, Link, dial
from runtime.tasks.member import Joining, packed
from runtime.tasks.task import Record

HERE = "127.0.0.1"
SECRET = b"s" * 32
JOIN = """import pickle, sys
from runtime.tasks.member import serve
number, joining = pickle.loads(bytes.fromhex(sys.stdin.readline()))
serve(joining, number, "127.0.0.1")
"""


class Started:
    """Members of a crew as processes of this machine."""

    before = ""
    """What they do first."""

    def __init__(self, joining: Joining, size: int) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
        for number in range(1, size + 1):
            command = [sys.executable, "-c", self.before + JOIN]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
            assert process.stdin is not None
            process.stdin.write(pickle.dumps((number, joining)).hex().encode() + b"\n")
            process.stdin.flush()
            self.processes.append(process)

    def failure(self) -> str | None:
        return None

    def end(self) -> None:
        """They have been told to end."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


class Impatient(Started):
    """Members that take one that is silent for a second for lost."""

    before = "from runtime.tasks import links; links.SILENT_SECONDS, links._ALIVE_SECONDS = 1.0, 0.1\n"


class Network:
    """What lies between members: it carries bytes until it `drops` them, without closing anything."""

    def __init__(self) -> None:
        self.drops = False
        self._sockets: list[socket.socket] = []

    def way_to(self, address: tuple[str, int]) -> tuple[str, int]:
        """Where to connect for an address."""
        door = socket.create_server((HERE, 0))
        self._sockets.append(door)
        threading.Thread(target=self._accept, args=(door, address), daemon=True).start()
        host, port = door.getsockname()
        return host, port

    def close(self) -> None:
        for end in self._sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self, door: socket.socket, address: tuple[str, int]) -> None:
        with suppress(OSError):
            while True:
                ends = door.accept()[0], socket.create_connection(address)
                self._sockets += ends
                for source, target in (ends, ends[::-1]):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.drops:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)


class Spread:
    """A stage: each partition sends what it has to every other one, with its own number."""

    def __init__(self, count: int, wrong: str = "") -> None:
        self.count = count
        self.wrong = wrong

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[tuple[int, Any]]:
        if self.wrong == "raise" and partition == 1:
            raise UserError("a row is wrong", code="E2001")
        if self.wrong == "end" and partition == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        for entry in given:
            for fields in entry if isinstance(entry, list) else [entry[1]]:
                kind, number, _, payload = fields
                for target in range(self.count):
                    yield target, (kind, number + 1, partition, payload)


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    found = Crew(Started, 2, HERE)
    yield found
    found.end()


def given(count: int, size: int) -> list[list[Record]]:
    return [[Record("edge", 0, p, bytes([p]) * size)] for p in range(count)]


@pytest.mark.parametrize("size", [3, 5_000, 3_000_000])
@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_stages_with_exchanges(crew: Crew, partitions: int, size: int) -> None:
    stages: Sequence[Any] = [Spread(partitions), Spread(1)]
    found = crew.carry_out(stages, given(partitions, size))
    # Each partition's bytes have come to the driver by way of each other partition.
    wanted = sorted((2, via, bytes([p]) * size) for p in range(partitions) for via in range(partitions))
    assert sorted((r.number, r.partition, bytes(r.payload)) for r in found) == wanted


def test_an_error_is_raised_and_the_crew_goes_on(crew: Crew) -> None:
    with pytest.raises(UserError, match="a row is wrong"):
        crew.carry_out([Spread(2), Spread(2, "raise"), Spread(2)], given(2, 10))  # type: ignore[list-item]
    assert crew.idle
    assert len(crew.carry_out([Spread(2), Spread(2)], given(2, 10))) == 8  # type: ignore[list-item]


class Waiting:
    """A stage that is over when a file is there; `Beside` makes it."""

    def __init__(self, path: str, makes: bool) -> None:
        self.path = path
        self.makes = makes

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[tuple[int, Any]]:
        there = Path(f"{self.path}-{partition}")
        if self.makes:
            there.touch()
        while not there.exists():
            os.sched_yield()
        yield partition, ("saved", int(self.makes), partition, b"")


def test_an_order_beside_a_phase_waits_for_none(crew: Crew, tmp_path: Path) -> None:
    """The phase ends only when what is beside it has been done."""
    found: Queue[list[Record]] = Queue()
    waiting: Sequence[Any] = [Waiting(str(tmp_path / "done"), False)]
    phase = threading.Thread(target=lambda: found.put(crew.carry_out(waiting, given(4, 10))))
    phase.start()
    beside: Sequence[Any] = [Waiting(str(tmp_path / "done"), True)]
    # A partition without a record has nothing to do.
    assert len(crew.aside(beside, [*given(2, 10), [], []])) == 2
    assert len(crew.aside(beside, given(4, 10))) == 4
    assert len(found.get(timeout=60)) == 4
    phase.join()
    with pytest.raises(UserError, match="a row is wrong"):
        crew.aside([Spread(2, "raise")], given(2, 10))  # type: ignore[list-item]
    assert len(crew.aside([Spread(1)], given(1, 10))) == 1  # type: ignore[list-item]


def test_who_waits_beside_a_crew_hears_that_it_has_gone() -> None:
    crew = Crew(Started, 2, HERE)
    try:
        with pytest.raises(CrewLost, match="task 2 has gone"):
            crew.aside([Spread(2, "end")], given(2, 10))  # type: ignore[list-item]
    finally:
        crew.end()
    with pytest.raises(CrewLost):
        crew.aside([Spread(2)], given(2, 10))  # type: ignore[list-item]


def test_a_member_that_ends_is_noticed() -> None:
    crew = Crew(Started, 3, HERE)
    try:
        with pytest.raises(CrewLost, match="task 2 has gone"):
            crew.carry_out([Spread(3), Spread(3, "end"), Spread(3)], given(3, 10))  # type: ignore[list-item]
    finally:
        crew.end()


def test_a_network_that_drops_all_between_two_members_is_noticed(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both see the driver, and no connection is closed. Others do the same phase then."""
    network = Network()
    peers = crews.Peers
    monkeypatch.setattr(crews, "Peers", lambda found: peers(tuple(network.way_to(a) for a in found)))
    stages: Sequence[Any] = [Spread(2), Spread(1)]
    apart = Crew(Impatient, 2, HERE)
    try:
        with pytest.raises(CrewLost, match=r"task \d"):
            while True:
                assert len(apart.carry_out(stages, given(2, 50_000))) == 4
                network.drops = True
    finally:
        apart.end()
        network.close()
    assert len(crew.carry_out(stages, given(2, 50_000))) == 4


def test_members_that_do_not_come_are_not_waited_for_longer() -> None:
    class Nobody:
        def failure(self) -> str | None:
            return None

        def end(self) -> None:
            pass

    with pytest.raises(CrewLost, match="2 of 2 tasks did not come"):
        Crew(lambda joining, size: Nobody(), 2, HERE, seconds=0.0)


def test_members_end_with_their_driver() -> None:
    code = f"import sys; sys.path[:0] = {sys.path!r}; from tests.tasks.test_crew import lonely; lonely()"
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert driver.stdout is not None
    members = [os.pidfd_open(int(pid)) for pid in driver.stdout.readline().split()]
    driver.kill()
    driver.wait()
    for member in members:
        poll = __import__("select").poll()
        poll.register(member, 1)
        assert poll.poll(60_000)
        os.close(member)


def lonely() -> None:
    """A driver that is killed."""
    crew = Crew(Started, 2, HERE)
    print(*crew.pids.values(), flush=True)
    threading.Event().wait()


# --- connections


@pytest.fixture
def door() -> Iterator[tuple[Door, Queue[Link]]]:
    admitted: Queue[Link] = Queue()
    found = Door(HERE, 0, SECRET, admitted.put)
    yield found, admitted
    found.close()


def test_who_does_not_know_the_secret_is_not_let_in(door: tuple[Door, Queue[Link]]) -> None:
    at, admitted = door
    with pytest.raises(OSError, match="does not belong to the job"):
        dial(at.address, 1, 0, b"t" * 32)
    # One who answers a challenge with what it has itself been told.
    with socket.create_connection(at.address) as stranger:
        stranger.sendall(links._HELLO.pack(links._MAGIC, 1, bytes(32)))
        told = stranger.recv(64, socket.MSG_WAITALL)
        stranger.sendall(told[32:])
        assert stranger.recv(1) == b""
    for greeting in (b"GET / HTTP/1.1\r\n\r\n" * 3, b"\0" * 64):
        with socket.create_connection(at.address) as stranger:
            stranger.sendall(greeting)
            try:
                assert stranger.recv(1) == b""
            except ConnectionResetError:
                continue
    dial(at.address, 7, 0, SECRET).close()
    assert admitted.get(timeout=60).number == 7
    assert admitted.empty()


def test_the_secret_stands_in_no_text() -> None:
    joining = Joining((HERE, 1), SECRET)
    assert "sss" not in f"{joining} {joining!r} {[joining]}"


def connected(door: tuple[Door, Queue[Link]], take: Callable[[Link, Frame | None], None]) -> tuple[Link, Link, Hub]:
    there = dial(door[0].address, 1, 0, SECRET)
    hub = Hub(take)
    here = door[1].get(timeout=60)
    hub.add(here)
    return there, here, hub


def test_messages_of_any_size_arrive_whole_and_aligned(door: tuple[Door, Queue[Link]]) -> None:
    came: Queue[Frame | None] = Queue()
    there, _, hub = connected(door, lambda link, frame: came.put(frame))
    payloads = [bytes([n % 251]) * size for n, size in enumerate((0, 1, 4095, 4096, 70_001, 5_000_003, 17))]
    for _ in range(2):
        there.send([packed((n, payload)) for n, payload in enumerate(payloads)], tag=5)
    for _ in range(2):
        frame = came.get(timeout=60)
        assert frame is not None and frame.tag == 5
        found = frame.load()
        assert [(n, bytes(payload)) for n, payload in found] == list(enumerate(payloads))
    there.close()
    assert came.get(timeout=60) is None
    hub.close()


def test_who_is_silent_for_long_is_lost(door: tuple[Door, Queue[Link]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(links, "_ALIVE_SECONDS", 0.01)
    came: Queue[Frame | None] = Queue()
    there, _, hub = connected(door, lambda link, frame: came.put(frame))
    assert came.get(timeout=60) is None
    hub.close()
    there.close()
