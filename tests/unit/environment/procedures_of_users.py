"""Procedures that golden files and tests call."""

from __future__ import annotations

from collections.abc import Iterator

from sqlengine import Procedure, ProcedureContext, procedure


@procedure(result_type={"n": "INT", "word": "STRING"}, input_types={"by": "INT", "n": "INT"})
def one(context: ProcedureContext, n, by=2):  # type: ignore[no-untyped-def]
    """Two rows."""
    yield n, "two"
    yield n * by, "times"


class Fill(Procedure):
    """Rows into the table rows_of."""

    def call(self, context: ProcedureContext, most: int) -> Iterator[int]:
        for n in range(most):
            context.execute_sql("INSERT INTO rows_of VALUES (?)", [n])
        yield most
