"""The memory limit: who is stopped by it, and who goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from runtime.core import memory
from runtime.core.errors import MemoryLimitError
from runtime.core.memory import MemoryAccount, MemoryUse, ProcessMemory, admit, is_full, is_scarce
from runtime.core.options import Options

MIB = 1 << 20
LIMIT = Options({"sqlengine.memory.limit": "1000mb"})


@dataclass
class Machine:
    """A process of which the test says what it takes; `free` is what it can give back."""

    taken: int = 100
    free: int = 0
    now: float = 0.0
    released: int = 0
    later: int = 0
    """What the allocator gives back some time after it was freed."""
    memory: ProcessMemory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = ProcessMemory(lambda: (self.taken + self.free) * MIB, self.release, lambda: self.now, self.wait)

    def release(self) -> None:
        self.released += 1
        self.free = 0

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.taken -= self.later
        self.later = 0

    def becomes(self, taken: int, free: int = 0) -> None:
        self.taken, self.free = taken, free
        self.now += 1


def test_work_that_reaches_the_limit_is_stopped() -> None:
    machine = Machine()
    use = MemoryUse(LIMIT, machine.memory)
    machine.becomes(1000)
    use.look()
    machine.becomes(1001)
    with pytest.raises(MemoryLimitError, match=r"limit of 1000 MiB is reached; this statement has taken 901 MiB of it"):
        use.look()


def test_work_that_came_later_goes_on() -> None:
    machine = Machine()
    large = MemoryUse(LIMIT, machine.memory)
    machine.becomes(990)
    small = MemoryUse(LIMIT, machine.memory)
    machine.becomes(1010)
    small.look()
    with pytest.raises(MemoryLimitError):
        large.look()


def test_growth_counts_from_the_least_that_was_taken_meanwhile() -> None:
    machine = Machine(900)
    use = MemoryUse(LIMIT, machine.memory)
    machine.becomes(200)
    use.look()
    machine.becomes(1100)
    with pytest.raises(MemoryLimitError, match="taken 900 MiB"):
        use.look()


def test_what_is_free_is_given_back_first() -> None:
    machine = Machine()
    use = MemoryUse(LIMIT, machine.memory)
    machine.becomes(800, free=300)
    use.look()
    assert machine.released == 1
    machine.becomes(800)
    use.look()
    assert machine.released == 1


def test_nothing_is_released_twice_within_half_a_second() -> None:
    machine = Machine(1100)
    for _ in range(3):
        machine.now += 0.1
        assert is_full(LIMIT, machine.memory)
    assert machine.released == 1
    machine.now += 0.5
    assert is_full(LIMIT, machine.memory)
    assert machine.released == 2


def test_what_stopped_work_has_held_is_looked_for_at_once() -> None:
    machine = Machine()
    use = MemoryUse(LIMIT, machine.memory)
    machine.becomes(1100)
    with pytest.raises(MemoryLimitError):
        use.look()
    machine.now += 0.01
    machine.taken, machine.free = 100, 1000
    before = machine.released
    admit(LIMIT, machine.memory)
    assert machine.released == before + 1


def test_work_is_stopped_only_when_the_allocator_has_had_time_to_give_back() -> None:
    machine = Machine()
    use = MemoryUse(LIMIT, machine.memory)
    machine.becomes(1100)
    machine.later = 200
    use.look()
    assert machine.taken == 900
    machine.becomes(1100)
    with pytest.raises(MemoryLimitError):
        use.look()


def test_rows_are_refused_only_when_the_allocator_has_had_time_to_give_back() -> None:
    machine = Machine(1100, later=200)
    admit(LIMIT, machine.memory)
    machine.becomes(1100)
    with pytest.raises(MemoryLimitError):
        admit(LIMIT, machine.memory)


def test_the_system_is_asked_every_few_milliseconds_only() -> None:
    machine = Machine()
    assert machine.memory.used() == 100 * MIB
    machine.taken = 200
    machine.now = 0.004
    assert machine.memory.used() == 100 * MIB
    machine.now = 0.006
    assert machine.memory.used() == 200 * MIB


def test_close_to_the_limit_memory_is_scarce_and_beyond_it_no_rows_are_taken_in() -> None:
    machine = Machine(870)
    assert not is_scarce(LIMIT, machine.memory)
    machine.becomes(880)
    assert is_scarce(LIMIT, machine.memory)
    admit(LIMIT, machine.memory)
    machine.becomes(1001)
    with pytest.raises(MemoryLimitError, match="no rows are taken in") as refused:
        admit(LIMIT, machine.memory)
    assert refused.value.code == "E3800"


def test_without_a_limit_it_is_that_of_the_machine() -> None:
    machine = Machine(100)
    assert not is_full(Options({}), machine.memory)
    machine.becomes(1 << 40)
    assert is_full(Options({}), machine.memory)


def account(kind: str, owner: str, part: str, mib: int) -> MemoryAccount:
    return MemoryAccount(kind, owner, part, "driver", None, mib * MIB)


def test_the_error_names_the_three_largest_owners_of_all_their_parts() -> None:
    machine = Machine(1100)
    known = [
        account("TABLE", "t", "rows", 300),
        account("JOB", "job-1", "state of a", 200),
        account("TABLE", "t", "index", 100),
        account("QUERY", "query", "state of a", 150),
        account("JOB", "job-1", "state of b", 250),
        account("VIEW", "v", "rows", 20),
        account("PROCESS", "driver", "other", 80),
    ]
    with pytest.raises(MemoryLimitError) as refused:
        admit(LIMIT, machine.memory, accounts=lambda: known)
    said = "the largest owners are job job-1 (450 MiB), table t (400 MiB), query query (150 MiB)"
    assert refused.value.message.endswith(said)


def test_an_account_that_cannot_be_made_hides_no_error() -> None:
    def fails() -> list[MemoryAccount]:
        raise RuntimeError("dictionary changed size during iteration")

    machine = Machine()
    use = MemoryUse(LIMIT, machine.memory, accounts=fails)
    machine.becomes(1100)
    with pytest.raises(MemoryLimitError, match=r"this statement has taken 1000 MiB of it; set "):
        use.look()


def test_worker_processes_count_until_they_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {"self": 100, 7: 200, 8: 300}

    def bytes_of(process: object) -> int:
        if process not in taken:
            raise FileNotFoundError
        return taken[process]  # type: ignore[index]

    monkeypatch.setattr(memory, "_bytes_of", bytes_of)
    monkeypatch.setattr(memory, "_workers", {})
    memory.count_worker(7, "partition 0")
    memory.count_worker(8, "partition 1")
    assert memory._all_bytes() == 600
    assert memory.worker_bytes() == {(7, "partition 0"): 200, (8, "partition 1"): 300}
    del taken[8]
    assert memory._all_bytes() == 300
    memory.forget_worker(7)
    memory.forget_worker(7)
    assert memory._all_bytes() == 100


def test_a_worker_is_told_what_the_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_bytes_of", lambda process: 100)
    monkeypatch.setattr(memory, "_workers", {})
    monkeypatch.setattr(memory, "_beside", 0)
    memory.set_beside(900)
    assert memory._all_bytes() == 1000
