"""A long-lived task of a crew: see `serve`.

It joins the crew of its driver, keeps the operators of its partitions in memory from epoch to epoch (`runtime/tasks/task.py`),
and carries out all stages of a phase on one order. What its partitions send to those of other members goes to these
directly: one message to each of them for each stage, of all that is for them, so that who has heard of all others has all
rows. Nobody is given the next order before all have answered the one before: more than the rows of one phase are never on
their way.
"""

from __future__ import annotations

import os
import pickle
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from runtime.core.memory import release_free
from runtime.local.checkpoints import give_way
from runtime.tasks.links import BESIDE_BYTES, Door, Frame, Hub, Link, dial
from runtime.tasks.shipping import loads
from runtime.tasks.task import forget_all, forget_ended
from runtime.tasks.worker import sendable

__all__ = ["ASIDE", "Answered", "Ended", "Forget", "Hello", "Joining", "Order", "Peers", "owners_of", "packed", "serve"]

CONTROL = 0
"""The tag of messages between driver and member. Rows between members have that of their order and stage."""
ASIDE = 1
"""The tag of orders that a member carries out beside the others, in a thread of their own, and of their answers."""
JOIN_SECONDS = 60.0
"""So long others may take to come."""
_STAGES = 1 << 10

Fields = tuple[Any, ...]
"""Those of a record."""


class Joining(NamedTuple):
    """What a process must know to join a crew. Never shown: who knows it is trusted."""

    address: tuple[str, int]
    """Where the driver listens."""
    secret: bytes

    def __repr__(self) -> str:
        return f"Joining({self.address!r})"


class Hello(NamedTuple):
    """A member is there: where others reach it, and which process it is."""

    address: tuple[str, int]
    pid: int


class Peers(NamedTuple):
    """All are there: the addresses of members 1, 2, ..."""

    addresses: tuple[tuple[str, int], ...]


class Order(NamedTuple):
    """A phase of an epoch: pickled stages, how many partitions there are, and the records of each of the member's own."""

    number: int
    stages: bytes
    partitions: int
    given: dict[int, list[Fields]]


class Forget(NamedTuple):
    """A job has ended."""


class Ended(NamedTuple):
    """The crew has ended."""


class Answered(NamedTuple):
    """What has come of an order: records, or an error that the driver raises; `lost`: another member does not answer."""

    number: int
    found: list[Fields]
    error: BaseException | None = None
    lost: str = ""


class PeerLost(Exception):
    """Another member has gone, or cannot be reached."""


class _Given(Exception):
    """The driver wants something else, or has gone."""


def owners_of(partitions: int, members: int) -> tuple[int, ...]:
    """The member of each partition: neighbours together."""
    size = min(members, partitions)
    return tuple(1 + partition * size // partitions for partition in range(partitions))


def packed(fields: Fields) -> Fields:
    """The fields of a record as a link sends them: a large payload beside the rest."""
    *facts, payload = fields
    if len(payload) >= BESIDE_BYTES:
        return (*facts, pickle.PickleBuffer(payload))
    return (*facts, payload if isinstance(payload, bytes) else bytes(payload))


def serve(joining: Joining, number: int, host: str) -> None:
    """Be member `number` (from 1 on) of a crew, until its driver has ended it or has gone.

    Args:
        host: the name by which other members know this machine.

    Raises:
        OSError: the driver cannot be reached.
    """
    member = _Member(joining, number, host)
    try:
        member.work()
    finally:
        member.close()
        forget_all()
        release_free()


class _Member:
    def __init__(self, joining: Joining, number: int, host: str) -> None:
        self._joining = joining
        self._number = number
        self._size = 0
        self._news = threading.Condition()
        self._orders: list[Frame] = []
        self._beside: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        threading.Thread(target=self._work_beside, name="sqlengine-beside", daemon=True).start()
        self._driver_gone = False
        self._rows: dict[int, dict[int, Frame]] = defaultdict(dict)
        """By tag and member what has come."""
        self._peers: dict[int, Link] = {}
        self._lost: set[int] = set()
        self._hub = Hub(self._take)
        self._door = Door(host, 0, joining.secret, self._admit)
        try:
            self._driver = dial(joining.address, number, 0, joining.secret)
        except BaseException:
            self._hub.close()
            self._door.close()
            raise
        self._hub.add(self._driver)
        self._driver.send(Hello(self._door.address, os.getpid()))

    def close(self) -> None:
        self._beside.put(None)
        self._door.close()
        self._hub.close()

    # --- in the threads of links

    def _admit(self, link: Link) -> None:
        with self._news:
            self._peers[link.number] = link
            self._news.notify_all()
        self._hub.add(link)

    def _take(self, link: Link, frame: Frame | None) -> None:
        with self._news:
            if link is self._driver:
                if frame is None:
                    self._driver_gone = True
                elif frame.tag == ASIDE:
                    self._beside.put(frame)
                else:
                    self._orders.append(frame)
            elif frame is None:
                self._lost.add(link.number)
            else:
                self._rows[frame.tag][link.number] = frame
            self._news.notify_all()

    # --- in the task's own thread

    def _wait(self, there: Callable[[], bool], seconds: float | None = None) -> bool:
        """Until something is there; whether it is. Raises _Given when the driver has other wishes, or has gone."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._news:
            while not there():
                if self._driver_gone or self._orders:
                    raise _Given
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._news.wait(left)
            return True

    def work(self) -> None:
        """All that the driver says."""
        while True:
            with suppress(_Given):
                self._wait(lambda: False)
            if self._driver_gone:
                return
            with self._news:
                frame = self._orders.pop(0)
            try:
                if not self._done(frame.load()):
                    return
            except _Given:
                # An order of which nobody waits for the answer any more.
                continue
            except OSError:
                return

    def _work_beside(self) -> None:
        """Orders that need no other member, one after another, in a thread of their own."""
        give_way()
        while (frame := self._beside.get()) is not None:
            with suppress(OSError):
                self._driver.send(self._answer_beside(frame.load()), ASIDE)

    def _answer_beside(self, order: Order) -> Answered:
        try:
            (stage,) = loads(order.stages)
            found = [
                packed(fields)
                for partition, records in order.given.items()
                for _, fields in stage(partition, iter([records]))
            ]
            return Answered(order.number, found)
        except Exception as error:
            return Answered(order.number, [], sendable(error))

    def _done(self, told: Any) -> bool:
        """Whether the crew goes on."""
        match told:
            case Peers(addresses):
                self._size = len(addresses)
                self._join(addresses)
            case Order():
                self._driver.send(self._answer(told))
            case Forget():
                forget_ended()
                release_free()
            case _:
                return False
        return True

    def _join(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Each of two members is connected by the one with the higher number."""
        for peer, address in enumerate(addresses[: self._number - 1], 1):
            try:
                link = dial(address, self._number, peer, self._joining.secret)
            except OSError as error:
                where = f"{address[0]}:{address[1]}"
                self._driver.send(Answered(0, [], lost=f"task {peer} at {where} cannot be reached: {error}"))
                return
            with self._news:
                self._peers[peer] = link
            self._hub.add(link)

    def _answer(self, order: Order) -> Answered:
        with self._news:
            for tag in [tag for tag in self._rows if tag // _STAGES < order.number]:
                del self._rows[tag]
        try:
            return Answered(order.number, self._carried_out(order))
        except _Given:
            raise
        except PeerLost as lost:
            return Answered(order.number, [], lost=str(lost))
        except Exception as error:
            return Answered(order.number, [], sendable(error))

    def _carried_out(self, order: Order) -> list[Fields]:
        stages: Sequence[Callable[..., Any]] = loads(order.stages)
        owners = owners_of(order.partitions, self._size)
        mine = [partition for partition, owner in enumerate(owners) if owner == self._number]
        # The first stage gets a list from the driver, the others get what each record is for as well.
        given: dict[int, list[Any]] = {partition: [order.given.get(partition, [])] for partition in mine}
        for step, stage in enumerate(stages):
            sent: dict[int, list[tuple[int, Fields]]] = defaultdict(list)
            for partition in mine:
                for target, fields in stage(partition, iter(given[partition])):
                    sent[owners[target]].append((target, fields))
            if step == len(stages) - 1:
                return [packed(fields) for found in sent.values() for _, fields in found]
            given = {partition: [] for partition in mine}
            for target, fields in self._exchanged(order.number * _STAGES + step, set(owners), sent):
                given[target].append((target, fields))
        return []

    def _exchanged(
        self, tag: int, members: set[int], sent: dict[int, list[tuple[int, Fields]]]
    ) -> list[tuple[int, Fields]]:
        """What goes to others for what comes from them."""
        others = sorted(members - {self._number})
        # Not all of them begin with the same one.
        for peer in [p for p in others if p > self._number] + [p for p in others if p < self._number]:
            self._send(peer, tag, [(target, packed(fields)) for target, fields in sent[peer]])
        with self._news:
            came = self._rows[tag]
        self._wait(lambda: len(came) == len(others) or not self._lost.isdisjoint(others))
        if len(came) < len(others):
            raise PeerLost(f"task {min(self._lost & set(others))} has gone")
        with self._news:
            del self._rows[tag]
        found = sent[self._number]
        for peer in others:
            found += came[peer].load()
        return found

    def _send(self, peer: int, tag: int, things: list[tuple[int, Fields]]) -> None:
        if not self._wait(lambda: peer in self._peers, JOIN_SECONDS):
            raise PeerLost(f"task {peer} has not connected to task {self._number}")
        try:
            self._peers[peer].send(things, tag)
        except OSError as error:
            raise PeerLost(f"task {peer} takes nothing from task {self._number}: {error}") from error
