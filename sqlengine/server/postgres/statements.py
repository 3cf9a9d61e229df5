"""What a statement of a client is, whoever answers it: described before it runs, then run, piece by piece.

parameters   the types of its parameters, None where only a value tells
columns      those of its result, None for a statement without rows
run          carries it out and gives the outcome
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from sqlengine.server.made_once import MadeOnce
from sqlengine.server.postgres.notices import Notice
from sqlengine.server.postgres.types import Described, PgType

__all__ = ["PIECE", "Copying", "Outcome", "Piece", "SharedPiece", "Statement", "rows_outcome"]

PIECE = 65536
"""At most so many rows are made into messages at once: offsets of Arrow arrays are int32."""
Piece = Sequence[pa.Array]
"""Rows of a result: an Arrow array for each column, all of one length."""


class SharedPiece(list[pa.Array], MadeOnce):
    """A piece that goes to many clients."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        list.__init__(self, columns)
        MadeOnce.__init__(self)


@dataclass(frozen=True, slots=True)
class Copying:
    """How rows go through COPY: `format` is text, csv or binary.

    `escape`: stands before a quote within quotes. `matches`: the header has the names of the columns. `force_quote`: columns
    whose values stand in quotes; `force_not_null`: whose values are texts where they read like NULL; `force_null`: which are
    NULL then also in quotes. `*` is all columns.
    """

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    header: bool = False
    escape: str = '"'
    matches: bool = False
    force_quote: Sequence[str] = ()
    force_not_null: Sequence[str] = ()
    force_null: Sequence[str] = ()


@dataclass(slots=True)
class Outcome:
    """What a statement gives. `tag`: of CommandComplete, made of the number of rows. `pieces`: its rows, as they come.

    `columns`: None where there are no rows. `notices`: sentences for the client, a text is a
    warning. `stop`: ends what runs, from any thread.
    `copy_out`: the rows go as COPY data. `copy_in`: takes the bytes that the client sends, then None at their end, and
    gives the number of rows.
    """

    tag: Callable[[int], str]
    columns: Sequence[Described] | None = None
    pieces: Iterable[Piece] = ()
    notices: Sequence[str | Notice] = ()
    stop: Callable[[], object] | None = None
    copy_out: Copying | None = None
    copy_in: Callable[[bytes | None], int] | None = None
    copy_in_columns: int = 0


class Statement(Protocol):
    """A statement that was read."""

    @property
    def parameters(self) -> Sequence[PgType | None]:
        """Their types, in the order of their numbers."""
        ...

    @property
    def columns(self) -> Sequence[Described] | None:
        """The columns of its result; known before it runs."""
        ...

    @property
    def in_failed_transaction(self) -> bool:
        """Whether it may run although the transaction has failed."""
        ...

    @property
    def writes(self) -> str | None:
        """The command, for one that a transaction cannot have that only reads."""
        ...

    def run(self, values: Sequence[Any]) -> Outcome:
        """Carry it out. Called on the connection's thread."""
        ...


def rows_outcome(tag: str, columns: Sequence[Described], rows: Sequence[Sequence[Any]]) -> Outcome:
    """A few rows of texts."""
    arrays = [pa.array([None if r[i] is None else str(r[i]) for r in rows], pa.string()) for i in range(len(columns))]
    return Outcome(lambda count: tag.replace("#", str(count)), columns, [arrays])
