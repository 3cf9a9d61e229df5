"""The driver's side of a crew: long-lived tasks that have joined, and carry out phases of epochs.

Where they run and who starts them is not known here: `gather` is given a function that starts so many processes, each of
which calls `runtime.tasks.member.serve`. A crew is as it began or it is lost: when one member goes, all of its operators'
versions are in files, so another crew is gathered and does the same phase again.
"""

from __future__ import annotations

import pickle
import queue
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from runtime.core.cancellation import look
from runtime.tasks.links import Door, Frame, Hub, Link
from runtime.tasks.member import (
    ASIDE,
    JOIN_SECONDS,
    Answered,
    Ended,
    Forget,
    Hello,
    Joining,
    Order,
    Peers,
    owners_of,
    packed,
)
from runtime.tasks.reading import ReadStage
from runtime.tasks.saving import SaveStage
from runtime.tasks.stage import Stage
from runtime.tasks.task import Record
from runtime.tasks.working import WorkStage

__all__ = ["Crew", "CrewLost", "Started"]

_LOOK_SECONDS = 0.1
_END_SECONDS = 2.0


class CrewLost(Exception):
    """A member has gone, or the crew cannot be gathered. Says why."""


class Started(Protocol):
    """The processes of a crew, from outside."""

    def failure(self) -> str | None:
        """Why they have ended, when they have."""
        ...

    def end(self) -> None:
        """They end now, whatever they do; back when they have, or after a bounded time."""
        ...


class Crew:
    """A crew whose members have all joined.

    Args:
        start: starts `size` processes that join.
        host, port: where members reach the driver; port 0 is any.
        seconds: so long they may take to come.

    Raises:
        CrewLost: they did not come.
    """

    def __init__(
        self,
        start: Callable[[Joining, int], Started],
        size: int,
        host: str,
        port: int = 0,
        seconds: float = JOIN_SECONDS,
    ) -> None:
        self.size = size
        self._members: dict[int, Link] = {}
        self._number = 0
        self._waiting: set[int] = set()
        self._came: queue.Queue[tuple[Link, Frame | None]] = queue.Queue()
        self._beside: queue.Queue[tuple[Link, Frame | None] | None] = queue.Queue()
        self._orders_beside = 0
        self._is_beside = threading.Lock()
        self.pids: dict[int, int] = {}
        """The process of each member, on its machine."""
        secret = secrets.token_bytes(32)
        self._hub = Hub(self._take)
        try:
            self._door = Door(host, port, secret, self._hub.add)
        except OSError as error:
            self._hub.close()
            raise CrewLost(f"nothing can be listened to at {host}:{port}: {error}") from error
        try:
            self._started = start(Joining(self._door.address, secret), size)
            self._gather(seconds)
        except BaseException:
            self.end()
            raise

    def _gather(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        addresses: dict[int, tuple[str, int]] = {}
        while len(addresses) < self.size:
            found = self._next(
                until, f"{self.size - len(addresses)} of {self.size} tasks did not come within {seconds:.0f} s"
            )
            link, hello = found
            if not isinstance(hello, Hello) or not 1 <= link.number <= self.size:
                raise CrewLost(f"task {link.number} is not one of {self.size}")
            self._members[link.number] = link
            addresses[link.number] = hello.address
            self.pids[link.number] = hello.pid
        # Who is not of the crew by now will never be.
        self._door.close()
        self._tell(Peers(tuple(addresses[n] for n in sorted(addresses))))

    def _take(self, link: Link, frame: Frame | None) -> None:
        if frame is None or frame.tag == ASIDE:
            self._beside.put((link, frame))
        if frame is None or frame.tag != ASIDE:
            self._came.put((link, frame))

    def _next(self, until: float | None, late: str = "") -> tuple[Link, Any]:
        """The next message of a member."""
        while True:
            try:
                link, frame = self._came.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                look()
                failure = self._started.failure()
                if failure is not None:
                    raise CrewLost(failure) from None
                if until is not None and time.monotonic() > until:
                    raise CrewLost(late) from None
                continue
            if frame is None:
                raise CrewLost(f"task {link.number} has gone")
            return link, frame.load()

    def _tell(self, thing: Any) -> None:
        for number, link in self._members.items():
            try:
                link.send(thing)
            except OSError as error:
                raise CrewLost(f"task {number} has gone: {error}") from error

    @property
    def idle(self) -> bool:
        """Whether no member is at work."""
        return not self._waiting

    def carry_out(
        self, stages: Sequence[Stage | ReadStage | SaveStage | WorkStage], given: Sequence[Sequence[Record]]
    ) -> list[Record]:
        """The stages one after another, from the records of each partition on. Gives the records of the last one.

        Raises:
            CrewLost: a member has gone. Whatever a task has raised is raised here.
        """
        self._number += 1
        owners = owners_of(len(given), self.size)
        data = pickle.dumps(list(stages), protocol=5)
        parts: dict[int, dict[int, list[Any]]] = {}
        for partition, records in enumerate(given):
            parts.setdefault(owners[partition], {})[partition] = [packed(tuple(record)) for record in records]
        self._waiting = set(parts)
        for member, part in parts.items():
            try:
                self._members[member].send(Order(self._number, data, len(given), part))
            except OSError as error:
                raise CrewLost(f"task {member} has gone: {error}") from error
        found: dict[int, Answered] = {}
        while self._waiting:
            link, answer = self._next(None)
            if not isinstance(answer, Answered) or answer.number not in (0, self._number):
                continue
            if answer.lost:
                raise CrewLost(answer.lost)
            self._waiting.discard(link.number)
            if answer.error is not None:
                # The others wait for rows of this one, until they are told to do something else.
                self._waiting.clear()
                raise answer.error
            found[link.number] = answer
        return [Record(*fields) for member in sorted(found) for fields in found[member].found]

    def aside(self, stages: Sequence[SaveStage | WorkStage], given: Sequence[Sequence[Record]]) -> list[Record]:
        """A stage that members carry out beside phases, from any thread.

        Raises:
            CrewLost: a member has gone, or the crew has ended. Whatever a task has raised is raised here.
        """
        with self._is_beside:
            self._orders_beside += 1
            owners = owners_of(len(given), self.size)
            data = pickle.dumps(list(stages), protocol=5)
            parts: dict[int, dict[int, list[Any]]] = {}
            for partition, records in enumerate(given):
                if records:
                    parts.setdefault(owners[partition], {})[partition] = [packed(tuple(r)) for r in records]
            for member, part in parts.items():
                try:
                    self._members[member].send(Order(self._orders_beside, data, len(given), part), ASIDE)
                except OSError as error:
                    raise CrewLost(f"task {member} has gone: {error}") from error
            found: dict[int, Answered] = {}
            while len(found) < len(parts):
                try:
                    came = self._beside.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    look()
                    continue
                if came is None:
                    # For whoever asks next as well.
                    self._beside.put(None)
                    raise CrewLost("the long-lived tasks have ended")
                link, frame = came
                if frame is None:
                    self._beside.put(None)
                    raise CrewLost(f"task {link.number} has gone")
                answer: Answered = frame.load()
                if answer.number != self._orders_beside:
                    continue
                if answer.error is not None:
                    raise answer.error
                found[link.number] = answer
            return [Record(*fields) for member in sorted(found) for fields in found[member].found]

    def check(self) -> None:
        """Raises CrewLost when a member has gone meanwhile."""
        while True:
            try:
                link, frame = self._came.get_nowait()
            except queue.Empty:
                return
            if frame is None:
                raise CrewLost(f"task {link.number} has gone")

    def forget(self) -> None:
        """A job has ended: members drop what they keep of it."""
        with suppress(CrewLost):
            self._tell(Forget())

    def end(self) -> None:
        """All members end. May be called twice."""
        self._beside.put(None)
        self._door.close()
        for link in self._members.values():
            with suppress(OSError):
                link.send(Ended())
        self._hub.close()
        started: Started | None = getattr(self, "_started", None)
        if started is not None:
            started.end()
