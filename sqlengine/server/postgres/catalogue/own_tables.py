"""Tables and views of users in questions that read the catalogue, too: their rows, as tables of DuckDB.

The engine reads them, for the session that asks, with its rights, its epoch and its limits; several are read of one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.core.memory import admit
from sqlengine.server.postgres.catalogue.relations import OwnTable
from sqlengine.server.postgres.engine import EngineStatement
from sqlengine.server.postgres.statements import Piece
from sqlengine.statements.limited import reading_parts

if TYPE_CHECKING:
    from sqlengine.server.postgres.session import ClientSession

__all__ = ["own_rows"]


def own_rows(session: ClientSession, tables: Sequence[OwnTable], *, described: bool) -> dict[str, pa.Table]:
    """The rows of each table, by its name in DuckDB; with `described` none of them, for names and types.

    Raises what the engine raises: of unknown tables, missing rights, input without end (E1621).
    """
    if described:
        return {table.name: _rows(_statement(session, table), []) for table in tables}
    with reading_parts(), session.environment.session.alone() if len(tables) > 1 else nullcontext():
        return {table.name: _read(session, table) for table in tables}


def _statement(session: ClientSession, table: OwnTable) -> EngineStatement:
    """The query of the columns that the question may name; of one at least."""
    statement = EngineStatement(session.environment, f"SELECT * FROM {table.text}", must_end=True)
    if table.columns is None or statement.columns is None:
        return statement
    names = [column.name for column in statement.columns if column.name.lower() in table.columns]
    names = names or [column.name for column in statement.columns[:1]]
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    return EngineStatement(session.environment, f"SELECT {quoted} FROM {table.text}", must_end=True)


def _read(session: ClientSession, table: OwnTable) -> pa.Table:
    statement = _statement(session, table)
    engine = session.environment.session
    pieces: list[Piece] = []
    for piece in statement.run(()).pieces:
        admit(engine.options, accounts=engine.database.memory_accounts.accounts)
        pieces.append(piece)
    return _rows(statement, pieces)


def _rows(statement: EngineStatement, pieces: Sequence[Piece]) -> pa.Table:
    assert statement.columns is not None
    names = [column.name for column in statement.columns]
    empty = statement.empty_piece()
    batches = [pa.RecordBatch.from_arrays(list(piece), names=names) for piece in (empty, *pieces)]
    return pa.Table.from_batches(batches)
