"""Turns of jobs and views: processor time is what the test says, and nothing sleeps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.cancellation import Cancellation, governed, look
from runtime.core.processor_time import ProcessorTime
from runtime.core.wakeup import Wakeup
from sqlengine.database.scheduler import PATIENCE_SECONDS, QUANTUM_SECONDS, Scheduler, Share, Worker

LONG = 60


class Spent:
    """Processor time that the test spends."""

    def __init__(self) -> None:
        self.spent = 0.0

    def counting(self) -> AbstractContextManager[None]:
        return nullcontext()

    def seconds(self) -> float:
        return self.spent


def share(weight: int = 100, worker: Worker | None = None) -> Share:
    return Share(weight, worker or Worker(Cancellation()), Spent())


def spend(of: Share, seconds: float) -> None:
    assert isinstance(of.work, Spent)
    of.work.spent += seconds


def has_turn(of: Share) -> bool:
    return of.worker.turn is of


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def scheduler(now: list[float]) -> Scheduler:
    return Scheduler(clock=lambda: now[0])


def test_two_that_are_busy_get_turns_by_their_weights(scheduler: Scheduler) -> None:
    one, three = share(100), share(300)
    scheduler.ask(one)
    scheduler.ask(three)
    turns = ""
    for _ in range(400):
        current = one if has_turn(one) else three
        assert has_turn(current)
        assert not (has_turn(one) and has_turn(three))
        turns += "1" if current is one else "3"
        spend(current, 2 * QUANTUM_SECONDS)
        scheduler.offer(current)
    assert turns.count("1") == 100
    # In every stretch of them, not only in the end.
    assert all(9 <= turns[i : i + 40].count("1") <= 11 for i in range(360))


def test_who_is_alone_goes_on_and_owes_nothing(scheduler: Scheduler) -> None:
    old, new = share(), share()
    scheduler.ask(old)
    for _ in range(1000):
        spend(old, 1.0)
        scheduler.offer(old)
        assert has_turn(old)
    scheduler.ask(new)
    assert not has_turn(new)
    spend(old, 1.0)
    scheduler.offer(old)
    spend(new, 1.1)
    scheduler.offer(new)
    assert has_turn(old)


def test_sleep_saves_no_turns(scheduler: Scheduler) -> None:
    sleeper, busy, other = share(), share(), share()
    scheduler.ask(sleeper)
    scheduler.end(sleeper)
    for of in (busy, other):
        scheduler.ask(of)
    for _ in range(1000):
        current = busy if has_turn(busy) else other
        spend(current, 1.0)
        scheduler.offer(current)
    scheduler.ask(sleeper)
    taken = 0
    for _ in range(30):
        current = next(of for of in (sleeper, busy, other) if has_turn(of))
        taken += current is sleeper
        spend(current, 1.0)
        scheduler.offer(current)
    assert 10 <= taken <= 11


def test_a_turn_is_not_given_up_for_less_than_a_quantum(scheduler: Scheduler) -> None:
    first, second = share(), share()
    scheduler.ask(first)
    scheduler.ask(second)
    for _ in range(4):
        spend(first, QUANTUM_SECONDS / 5)
        scheduler.offer(first)
        assert has_turn(first)
    spend(first, QUANTUM_SECONDS / 4)
    scheduler.offer(first)
    assert has_turn(second)


def test_as_many_turns_at_once_as_were_asked_for(scheduler: Scheduler) -> None:
    shares = [share() for _ in range(4)]
    for of in shares:
        scheduler.ask(of)
    assert [has_turn(of) for of in shares] == [True, False, False, False]
    scheduler.give_at_once(3)
    assert [has_turn(of) for of in shares] == [True, True, True, False]
    scheduler.give_at_once(1)
    spend(shares[0], 1.0)
    scheduler.offer(shares[0])
    assert [has_turn(of) for of in shares] == [False, True, True, False]


def test_shares_of_one_thread_have_no_two_turns(scheduler: Scheduler) -> None:
    scheduler.give_at_once(2)
    worker = Worker(Cancellation())
    first, second, other = share(300, worker), share(100, worker), share()
    for of in (first, second, other):
        scheduler.ask(of)
    taken = []
    for _ in range(40):
        assert has_turn(other)
        assert worker.turn in (first, second)
        taken.append(worker.turn)
        spend(worker.turn, 1.0)
        scheduler.offer(worker.turn)
    assert taken.count(first) == 30


def test_a_turn_in_which_nothing_is_computed_is_lent(scheduler: Scheduler, now: list[float]) -> None:
    blocked, other = share(), share()
    scheduler.ask(blocked)
    scheduler.ask(other)
    now[0] += PATIENCE_SECONDS / 2
    scheduler.look()
    assert not has_turn(other)
    now[0] += PATIENCE_SECONDS
    spend(blocked, PATIENCE_SECONDS)
    scheduler.look()
    assert not has_turn(other)
    now[0] += PATIENCE_SECONDS
    scheduler.look()
    assert has_turn(other)
    # Once it computes again it waits for its next turn.
    scheduler.offer(blocked)
    assert not has_turn(blocked)
    scheduler.end(other)
    assert has_turn(blocked)
    scheduler.end(blocked)
    assert not scheduler.contended


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 1000), min_size=2, max_size=6),
    st.lists(
        st.tuples(st.floats(0.001, 0.05), st.sampled_from(["goes on"] * 6 + ["sleeps"]), st.integers(0, 5)),
        min_size=1,
        max_size=300,
    ),
)
def test_shares_are_in_proportion_whenever_all_are_busy(
    weights: list[int], steps: list[tuple[float, str, int]]
) -> None:
    """Of two that are busy all the time between two moments, neither has had more than its share by more than a turn of
    each; and whoever waits has its turn after a bounded time."""
    scheduler = Scheduler(clock=lambda: 0.0)
    shares = [share(weight) for weight in weights]
    for of in shares:
        scheduler.ask(of)
    longest = QUANTUM_SECONDS + 0.05
    count = len(shares)
    # Of each pair: what each has taken since both are busy, as a difference for each unit of weight; its extremes.
    gap = {(i, j): [0.0, 0.0, 0.0] for i in range(count) for j in range(i)}
    waited = [0.0] * count
    asleep: set[int] = set()
    for seconds, then, wakes in steps:
        if len(asleep) == count:
            asleep.discard(wakes % count)
            scheduler.ask(shares[wakes % count])
        (current,) = (i for i, of in enumerate(shares) if has_turn(of))
        spend(shares[current], seconds)
        for i in range(count):
            waited[i] = 0.0 if i == current or i in asleep else waited[i] + seconds
        for (i, j), found in gap.items():
            if current in (i, j) and i not in asleep and j not in asleep:
                found[0] += seconds / weights[current] * (1 if current == i else -1)
                found[1], found[2] = min(found[0], found[1]), max(found[0], found[2])
                assert found[2] - found[1] <= 2 * longest * (1 / weights[i] + 1 / weights[j]) + 1e-9
        if then == "sleeps":
            asleep.add(current)
            scheduler.end(shares[current])
        else:
            scheduler.offer(shares[current])
        woken = wakes % count
        if woken in asleep and woken != current:
            asleep.discard(woken)
            scheduler.ask(shares[woken])
        for pair, found in gap.items():
            if asleep & set(pair):
                found[:] = [0.0, 0.0, 0.0]
    for i, seconds in enumerate(waited):
        assert seconds <= sum(2 * longest * (1 + weights[j] / weights[i]) for j in range(count) if j != i) + longest


# --- threads


@pytest.fixture
def threads() -> Iterator[list[threading.Thread]]:
    found: list[threading.Thread] = []
    yield found
    for thread in found:
        thread.join(LONG)
        assert not thread.is_alive()


def start(threads: list[threading.Thread], work: object) -> None:
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    threads.append(thread)
    thread.start()


def until_waiting(scheduler: Scheduler, of: Share) -> None:
    while of not in scheduler._waiting:
        pass


def test_who_is_cancelled_waits_no_longer(threads: list[threading.Thread], scheduler: Scheduler) -> None:
    holder, waiter = share(), share()
    scheduler.ask(holder)
    ended = threading.Event()

    def run() -> None:
        with scheduler.turn(waiter):
            assert not has_turn(waiter)
        ended.set()

    start(threads, run)
    until_waiting(scheduler, waiter)
    waiter.worker.cancellation.request()
    assert ended.wait(LONG)
    assert has_turn(holder)
    scheduler.end(holder)
    assert not scheduler.contended


def test_an_interrupt_while_somebody_waits_takes_no_turn(scheduler: Scheduler) -> None:
    class Interrupted(Wakeup):
        def wait(self, seconds: float | None) -> bool:
            raise KeyboardInterrupt

    holder, waiter, third = share(), share(), share()
    waiter.worker.wakeup = Interrupted()
    scheduler.ask(holder)
    with pytest.raises(KeyboardInterrupt), scheduler.turn(waiter):
        pass
    scheduler.ask(third)
    scheduler.end(holder)
    assert has_turn(third)


def test_others_go_first_in_the_middle_of_an_epoch(threads: list[threading.Thread], scheduler: Scheduler) -> None:
    long, short = share(), share()
    steps: list[str] = []

    def run() -> None:
        with scheduler.turn(short):
            steps.append("short")

    with scheduler.turn(long):
        start(threads, run)
        until_waiting(scheduler, short)
        long.worker.cancellation.between = lambda: scheduler.let_others(long)
        with long.worker.cancellation.governing():
            look()
            assert not steps
            spend(long, 2 * QUANTUM_SECONDS)
            look()
        steps.append("long")
    assert steps == ["short", "long"]


def test_threads_that_work_for_another_one_are_counted_with_it() -> None:
    cancellation = Cancellation()
    cancellation.processor = work = ProcessorTime()
    seen: list[float] = []

    def compute() -> None:
        sum(range(200_000))
        seen.append(work.seconds())

    with cancellation.governing():
        thread = threading.Thread(target=governed(compute))
    thread.start()
    thread.join()
    assert 0 < seen[0] <= work.seconds()
    with work.counting(), work.counting():
        sum(range(200_000))
        during = work.seconds()
        assert during > seen[0]
    assert work.seconds() >= during
