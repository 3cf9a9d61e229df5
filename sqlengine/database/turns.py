"""A lock that is given out in the order of asking, as a whole or in parts."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar, cast

__all__ = ["Part", "TurnLock"]

T = TypeVar("T")
_MOST_SERVED = 64
"""The most calls that one thread carries out for others before it goes on."""

Part = Callable[[], Collection[Hashable]]
"""What somebody needs of what a lock guards, by name. Asked while nobody changes what is guarded."""


@dataclass(eq=False)
class _Turn:
    """Somebody who waits. `part`: what is needed, None for all. `call`: what whoever has the lock may carry out instead
    of giving it; then `result` or `error` is what came of it."""

    thread: int
    part: Part | None
    call: Callable[[], object] | None = None
    given: bool = False
    served: bool = False
    result: object = None
    error: BaseException | None = None
    woken: threading.Lock = field(default_factory=threading.Lock)
    """Held until it is given the lock, or was served."""

    def __post_init__(self) -> None:
        self.woken.acquire()


class TurnLock:
    """A reentrant lock; whoever waits longest is next.

    Python's own lock may be taken again by the thread that has just released it, so a background job that holds it
    for one epoch after another would keep a statement of the user waiting for as long as there is input.

    One thread has the lock at a time. It may keep a part of what the lock guards and give up the rest (`keeping`): then
    others have the lock who need nothing of that part, and whoever needs all waits.

    Short calls may be carried out by whoever has the lock for one of them (`together`), so that many threads do not hand
    it from one to the next: each would have to wake, and to wait for the interpreter. (Hendler et al., "Flat Combining and
    the Synchronization-Parallelism Tradeoff", 2010.)
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._owner: int | None = None
        self._parts: list[Part | None] = []
        """What the owner has asked for, each time."""
        self._kept: list[tuple[int, frozenset[Hashable]]] = []
        self._waiting: deque[_Turn] = deque()

    @property
    def held(self) -> bool:
        """Whether this thread has it."""
        return self._owner == threading.get_ident()

    @property
    def held_once(self) -> bool:
        """Whether this thread has it, and has taken it once."""
        return self.held and len(self._parts) == 1

    @property
    def kept(self) -> Collection[Hashable]:
        """What is kept by threads that do not have the lock."""
        return frozenset[Hashable]().union(*(part for _, part in self._kept)) if self._kept else ()

    def acquire(self, part: Part | None = None) -> None:
        """Wait for the lock. `part`: what is needed of what it guards; None: all."""
        me = threading.get_ident()
        with self._guard:
            if self._owner == me:
                if None in self._parts or self._is_free(part, me):
                    self._parts.append(part)
                    return
            elif self._owner is None and self._is_free(part, me):
                self._owner = me
                self._parts.append(part)
                return
            before, self._parts = (self._parts, []) if self._owner == me else ([], self._parts)
            turn = _Turn(me, part)
            self._waiting.append(turn)
            if before:
                # It needs more than it has, and that is kept: as if it came anew.
                self._pass_on()
        self._wait(turn, before)

    def _wait(self, turn: _Turn, before: list[Part | None]) -> None:
        try:
            turn.woken.acquire()
        except BaseException:  # Ctrl-C while waiting: the turn is given up, or passed on if it has come meanwhile
            with self._guard:
                if turn.given:
                    self._pass_on()
                else:
                    self._waiting.remove(turn)
            if before:
                self._take_again(before)
            raise
        if before:
            with self._guard:
                self._parts[:0] = before

    def release(self) -> None:
        with self._guard:
            if self._owner != threading.get_ident():
                raise RuntimeError("released by a thread that does not hold it")
            self._parts.pop()
            if not self._parts:
                self._pass_on()

    def together(self, call: Callable[[], T], part: Part | None, afterwards: Callable[[], object]) -> T:
        """What a short call gives or raises that is carried out with the lock, here or by another thread that has the lock
        for such a call.

        Args:
            part: what the call needs of what the lock guards; None: all.
            afterwards: called by whoever has carried out calls, without the lock, before any of them is told as done.
        """
        me = threading.get_ident()
        turn: _Turn | None = None
        if self._owner == me:
            return call()  # Whoever has taken it does the rest.
        with self._guard:
            if self._owner is None and self._is_free(part, me):
                self._owner = me
                self._parts.append(part)
            else:
                turn = _Turn(me, part, call)
                self._waiting.append(turn)
        if turn is not None:
            turn.woken.acquire()
            if turn.error is not None:
                raise turn.error
            if turn.served:
                return cast(T, turn.result)
        served: list[_Turn] = []
        try:
            try:
                result = call()
            except BaseException:
                self._serve_and_release(served)
                # What it raised is told, and not what follows from it: the others ask themselves what has become of theirs.
                with suppress(Exception):
                    afterwards()
                raise
            self._serve_and_release(served)
            afterwards()
            return result
        finally:
            for other in served:
                other.woken.release()

    def _serve_and_release(self, served: list[_Turn]) -> None:
        try:
            self._serve(served)
        finally:
            self.release()

    def _serve(self, served: list[_Turn]) -> None:
        """Carry out the calls of those who wait longest."""
        me = threading.get_ident()
        while len(served) < _MOST_SERVED:
            with self._guard:
                if not self._waiting:
                    return
                turn = self._waiting[0]
                if turn.call is None or not self._is_free(turn.part, me):
                    return
                self._waiting.popleft()
            served.append(turn)
            turn.served = True
            try:
                turn.result = turn.call()
            except BaseException as error:
                turn.error = error

    @contextmanager
    def only(self, part: Part | None) -> Iterator[None]:
        """The lock for the time of a block that needs no more than a part of what it guards."""
        self.acquire(part)
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Let others have the lock for the time of a block, however often this thread has taken it."""
        parts = self._let_go(())
        try:
            yield
        finally:
            self._take_again(parts)

    @contextmanager
    def keeping(self, part: Collection[Hashable]) -> Iterator[None]:
        """For the time of a block let others have the lock, however often this thread has taken it, but nobody who needs
        anything of a part: that is this thread's alone."""
        kept = threading.get_ident(), frozenset(part)
        parts = self._let_go((kept,))
        try:
            yield
        finally:
            self._take_again(parts, kept)

    def give_way(self) -> None:
        """Let those go first who need all: they would never have a turn, if one after another kept a part."""
        with self._guard:
            wanted = any(turn.part is None for turn in self._waiting)
        if wanted:
            with self.given_up(), self:
                pass

    def _let_go(self, kept: Collection[tuple[int, frozenset[Hashable]]]) -> list[Part | None]:
        with self._guard:
            if self._owner != threading.get_ident():
                raise RuntimeError("given up by a thread that does not hold it")
            parts, self._parts = self._parts, []
            self._kept += kept
            self._pass_on()
        return parts

    def _take_again(self, parts: list[Part | None], kept: tuple[int, frozenset[Hashable]] | None = None) -> None:
        """Have it as often as before, whatever interrupts the waiting: whoever has given it up releases it so often."""
        interrupted: BaseException | None = None
        part = _none_of_it if kept is not None else None if None in parts else parts[0]
        while True:
            try:
                self.acquire(part)
                break
            except BaseException as error:
                interrupted = error
        with self._guard:
            self._parts = parts
            if kept is not None:
                self._kept.remove(kept)
        if interrupted is not None:
            raise interrupted

    def _is_free(self, part: Part | None, thread: int) -> bool:
        # What a thread keeps itself is no reason to wait: a user's function may call the engine.
        others = [kept for keeper, kept in self._kept if keeper != thread]
        if not others:
            return True
        return part is not None and all(map(frozenset(part()).isdisjoint, others))

    def _pass_on(self) -> None:
        """The next in line has the lock from now on, so that nobody can slip in before that thread wakes. Whoever needs
        what is kept is passed over."""
        self._owner = None
        self._parts = []
        for turn in self._waiting:
            if self._is_free(turn.part, turn.thread):
                self._waiting.remove(turn)
                self._owner, self._parts = turn.thread, [turn.part]
                turn.given = True
                turn.woken.release()
                return

    def __enter__(self) -> TurnLock:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def _none_of_it() -> Collection[Hashable]:
    return ()
