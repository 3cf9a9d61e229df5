"""A table that can be written, as the planner sees it. It is immutable and opens nothing; its writers are in
`writer.py`."""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

from runtime.core.changelog import ChangelogMode
from runtime.core.schema import Schema
from runtime.spi.writer import SinkWriter

__all__ = ["Delivery", "SinkTable"]


Delivery = Literal["exactly-once", "at-least-once"]
"""How often a row is seen in a sink when a job goes on after a crash."""


@runtime_checkable
class SinkTable(Protocol):
    """A table that can be written."""

    @property
    def schema(self) -> Schema:
        """The columns to write, in order."""
        ...

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Names of the key's columns; empty when there is none."""
        ...

    @property
    def delivery(self) -> Delivery:
        """What becomes of rows that a job wrote after the checkpoint from which it goes on: `exactly-once` when they
        were hidden and are written anew, or are replaced by key; `at-least-once` when they come twice."""
        ...

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        """The kinds of changes that the sink takes from a query that gives `requested`. A sink of insertions answers
        APPEND whatever is asked."""
        ...

    def open_writer(self, job: str) -> SinkWriter:
        """A writer for one sink of a job. `job` names that sink, is the same when the job goes on after a crash, and is
        that of no other sink."""
        ...

    def describe(self) -> dict[str, Any]:
        """A JSON object for EXPLAIN, as `SourceTable.describe`."""
        ...
