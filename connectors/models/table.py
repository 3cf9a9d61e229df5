"""A model as a table that is looked up: by its inputs, for its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from runtime.core.errors import ExpressionError, SqlEngineError
from runtime.core.schema import Field, Schema
from runtime.spi.model import Model

__all__ = ["ModelTable"]


@dataclass(frozen=True)
class ModelTable:
    """Asked for the inputs of rows it answers with one row for each: the inputs, then what the model gives.

    An output that has the name of an input has a number behind it in `schema`.
    """

    name: str
    inputs: Schema
    outputs: Schema
    model: Model = field(compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        taken = set(self.inputs.names)
        return Schema((*self.inputs, *(Field(_free(f.name, taken), f.type) for f in self.outputs)))

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """One row for each of `keys`, which are all of the inputs."""
        features = pa.RecordBatch.from_arrays(
            [keys.column(list(key_columns).index(name)) for name in self.inputs.names], names=list(self.inputs.names)
        )
        rows = features.num_rows
        given = self._asked(features)
        if len(given) != len(self.outputs):
            raise self._wrong(f"gave {len(given)} columns, and {len(self.outputs)} are declared as OUTPUT")
        columns = [self._converted(column, output, rows) for column, output in zip(given, self.outputs, strict=True)]
        found = pa.RecordBatch.from_arrays([*features.columns, *columns], names=list(self.schema.names))
        return pa.array(range(rows), pa.int64()), found

    def describe(self) -> dict[str, Any]:
        return {"model": self.name}

    def _asked(self, features: pa.RecordBatch) -> Sequence[Any]:
        try:
            return self.model.predict(features)
        except SqlEngineError:
            raise
        except Exception as error:
            raise self._wrong(f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0]}") from error

    def _converted(self, column: Any, output: Field, rows: int) -> pa.Array:
        arrow = output.type.arrow
        try:
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            array = array if array.type == arrow else array.cast(arrow)
        except (pa.ArrowException, NotImplementedError, AttributeError) as error:
            what = getattr(column, "type", type(column).__name__)
            raise self._wrong(
                f'gave {what} for its output "{output.name}", which is no {output.type.with_nullable(True)}'
            ) from error
        if len(array) != rows:
            raise self._wrong(f'gave {len(array)} values for {rows} rows in its output "{output.name}"')
        if not output.type.nullable and array.null_count:
            raise self._wrong(f'gave NULL for its output "{output.name}", which is declared NOT NULL')
        return array

    def _wrong(self, what: str) -> ExpressionError:
        return ExpressionError(
            f"the model {self.name} {what}",
            code="E2120",
            hint="INPUT and OUTPUT of CREATE MODEL say what it takes and gives; DESCRIBE MODEL shows them",
        )


def _free(name: str, taken: set[str]) -> str:
    """The name, or with the first number behind it that makes it another one than those that are taken."""
    found, number = name, 0
    while found in taken:
        found, number = f"{name}{number}", number + 1
    taken.add(found)
    return found
