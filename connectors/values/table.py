"""The source `values`: `'data'` holds JSON lines; with a `'changelog-mode'` each has a field `op` (`+I`, `-U`, `+U`,
`-D`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.json_decoder import decode_lines
from connectors.formats.records import Lines
from connectors.formats.text_values import ANY, TextRules
from connectors.options import TableOptions, physical_part
from connectors.pending_rows import end_of_part
from runtime.core.changelog import APPEND, KIND_NAMES, RETRACT, UPSERT, ChangelogBatch, ChangelogMode
from runtime.core.errors import FormatError, OptionError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Field, Schema
from runtime.core.strict_json import as_count
from runtime.core.types import STRING
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["VALUES", "ValuesReader", "ValuesSource"]

DATA = text_option("data", "", "the rows, one JSON object a line, or a JSON array of them")
BOUNDED = bool_option("bounded", True, "true or false: whether the rows end")
MODE = text_option("changelog-mode", "append", "the row kinds of the rows", ("append", "upsert", "retract"))
_MODES = {"append": APPEND, "upsert": UPSERT, "retract": RETRACT}
_OP = "op"


@dataclass(frozen=True)
class ValuesSource:
    """A handful of rows, decoded when the table is bound."""

    name: str
    schema: Schema
    text: str
    changelog_mode: ChangelogMode
    bounded: bool
    changes: ChangelogBatch = field(compare=False, repr=False)

    def statistics(self) -> TableStatistics:
        return TableStatistics(rows=float(len(self.changes)), counted=True)

    def splits(self) -> list[Split]:
        return [Split("rows")]

    def open(self, split: Split, context: ReadContext) -> ValuesReader:
        return ValuesReader(self)

    def with_columns(self, names: Sequence[str]) -> ValuesSource:
        positions = [self.schema.index_of(n) for n in names]
        return replace(self, schema=self.schema.select(tuple(positions)), changes=self.changes.select(positions))

    def describe(self) -> dict[str, Any]:
        options = {"data": self.text}
        return {
            "connector": "values",
            "rows": len(self.changes),
            "columns": list(self.schema.names),
            "options": options,
        }


class ValuesReader:
    """A position is the number of changes given."""

    def __init__(self, source: ValuesSource) -> None:
        self._source = source
        self._at = 0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        changes = self._source.changes
        if max_rows <= 0 or self._at >= len(changes):
            return None
        end = end_of_part(changes, self._at, max_rows)
        part = changes.slice(self._at, end - self._at)
        self._at = end
        return part

    @property
    def finished(self) -> bool:
        return self._source.bounded and self._at >= len(self._source.changes)

    def position(self) -> int:
        return self._at

    def seek(self, position: Any) -> None:
        self._at = as_count(position)

    def close(self) -> None:
        self._at = len(self._source.changes)


def _source(request: TableRequest) -> ValuesSource:
    options = TableOptions(request.options, "connector 'values'", (DATA, BOUNDED, MODE))
    schema = physical_part(request)
    mode = _MODES[options.get(MODE).lower()]
    text = options.get(DATA)
    with_op = not mode.is_append_only
    if with_op and schema.index_of(_OP) >= 0:
        raise OptionError(
            "a table of connector 'values' with row kinds cannot have a column 'op'", hint="name the column otherwise"
        )
    data = text.strip()
    one_array = data.startswith("[")
    lines = Lines.of((data.replace("\n", " ") if one_array else data).encode())
    read = Schema((*schema.fields, Field(_OP, STRING))) if with_op else schema
    block = decode_lines(lines, read, TextRules(request.time_zone, ANY))
    if block.rejected:
        wrong = block.rejected[0]
        raise FormatError(
            f"option 'data', line {wrong.line + 1}: {wrong.reason}: {wrong.raw}",
            code="E3201",
            hint="write one JSON object a line",
        )
    kinds: np.ndarray | None = None
    columns = block.rows.columns
    if with_op:
        *columns, op = columns
        index = pc.index_in(pc.fill_null(op, "+I"), value_set=pa.array(KIND_NAMES))
        if index.null_count:
            raise FormatError(
                "a row of connector 'values' has an unknown 'op'",
                code="E3201",
                hint="it is one of: " + ", ".join(KIND_NAMES),
            )
        kinds = index.to_numpy(zero_copy_only=False).astype(np.int8)
    return ValuesSource(
        request.name, schema, text, mode, options.get(BOUNDED), ChangelogBatch.of(columns, schema, kinds)
    )


VALUES = ConnectorFactory(
    name="values",
    document="rows written into the options of the table, for tests",
    source=_source,
    options=(DATA, BOUNDED, MODE),
)
