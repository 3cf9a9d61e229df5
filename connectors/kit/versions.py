"""A table that has versions, read as changes of rows: version after version. What a batch query reads is what its version has
that nothing has not, so one reader and one kind of position serve both.

A position is `{"from", "to", "step", "rows", "given"}`: between two versions (None is nothing), in which of the steps that lead
from one to the other, how many of its rows were given; and how many in all. Where `to` is None, all of `from` was given. The
same versions have the same steps, and a step the same rows in the same order.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

import pyarrow as pa

from connectors.kit.prefetch import Fetched
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.expr.time_range import OUT_OF_YEARS, has_times_outside

__all__ = ["Position", "VersionedFetching", "checked_times", "given_all", "on_the_way"]

Position = dict[str, Any]
V = TypeVar("V")
S = TypeVar("S")
_ROWS = 65_536
_NOTHING = pa.RecordBatch.from_arrays([], names=[])


def given_all(version: int | None) -> Position:
    """Behind all rows of a version."""
    return {"from": version, "to": None, "step": 0, "rows": 0, "given": 0}


def on_the_way(before: int | None, after: int) -> Position:
    """Before the first step from one version to another."""
    return {"from": before, "to": after, "step": 0, "rows": 0, "given": 0}


class VersionedFetching(ABC, Generic[V, S]):
    """A `Fetching`; a connector has the abstract methods. A view (V) is the table as it is at the moment, a step (S) a part of
    what is different, such as a file.

    Args:
        streaming: goes on with what comes.
        interval: seconds between two looks at the table.
        limit: the most rows in all.
    """

    def __init__(self, *, streaming: bool, interval: float, limit: int | None) -> None:
        self._streaming = streaming
        self._interval = interval
        self._limit = limit

    @abstractmethod
    def telling(self) -> AbstractContextManager[None]:
        """Turns errors of the library into ours."""

    @abstractmethod
    def look(self) -> V:
        """The table now."""

    @abstractmethod
    def begin(self, view: V) -> Position:
        """Where the first reading begins."""

    @abstractmethod
    def following(self, view: V, version: int | None) -> int | None:
        """The version behind one of which all was given; None where there is none yet. Raises ConnectorError when nobody
        knows."""

    @abstractmethod
    def steps(self, view: V, before: int | None, after: int) -> Sequence[S]:
        """How one version leads to another."""

    @abstractmethod
    def rows(self, view: V, step: S) -> Iterator[ChangelogBatch]:
        """The changes of a step."""

    def __call__(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        at: Position | None = position
        while not stop.is_set():
            with self.telling():
                view = self.look()
                if at is None:
                    at = self.begin(view)
                if at["to"] is None and self._streaming:
                    after = self.following(view, at["from"])
                    at = at if after is None else on_the_way(at["from"], after)
                if at["to"] is not None:
                    for fetched in self._between(view, at, stop):
                        at = fetched.after
                        yield fetched
                    if stop.is_set():
                        return
                    assert at is not None
                    at = given_all(at["to"])
                    yield Fetched(_NOTHING, at)
                    if self._streaming:
                        continue
            if not self._streaming:
                return
            yield Fetched(None, at)
            stop.wait(self._interval)

    def _between(self, view: V, at: Position, stop: threading.Event) -> Iterator[Fetched]:
        steps = self.steps(view, at["from"], at["to"])
        given, most = at["given"], self._limit
        for number in range(at["step"], len(steps)):
            done = skip = at["rows"] if number == at["step"] else 0
            for rows in self.rows(view, steps[number]):
                if stop.is_set():
                    return
                if len(rows) <= skip:
                    skip -= len(rows)
                    continue
                rows, skip = rows.slice(skip, len(rows) - skip), 0
                for begin in range(0, len(rows), _ROWS):
                    part = rows.slice(begin, min(_ROWS, len(rows) - begin))
                    if most is not None and given + len(part) > most:
                        part = part.slice(0, most - given)
                    if not len(part):
                        return
                    given, done = given + len(part), done + len(part)
                    yield Fetched(part, {**at, "step": number, "rows": done, "given": given})


def checked_times(rows: pa.RecordBatch, schema: Schema, place: str) -> pa.RecordBatch:
    """The rows; raises FormatError E3205 where a time is outside of the years that there are."""
    for column, field in zip(rows.columns, schema, strict=True):
        if has_times_outside(column):
            raise FormatError(
                f"in column {field.name} of {place} {OUT_OF_YEARS}",
                code="E3205",
                hint="leave the column out: declare the others",
            )
    return rows
