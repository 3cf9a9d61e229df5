"""The sink `print`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TextIO

from connectors.formats.lines_out import block_of_lines
from connectors.kit.direct import DirectWriter
from connectors.options import TableOptions
from connectors.printing.display import change_lines
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.options import bool_option, int_option, text_option
from runtime.core.schema import Schema
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.sink import Delivery

__all__ = ["PRINT", "PrintSink"]

IDENTIFIER = text_option("print-identifier", "", "text in front of every line, as in 'text> +I[1, a]'")
STANDARD_ERROR = bool_option(
    "standard-error", False, "true or false: write to standard error instead of standard output"
)
PARALLELISM = int_option("sink.parallelism", 1, "accepted for compatibility")
_OPTIONS = (IDENTIFIER, STANDARD_ERROR, PARALLELISM)


@dataclass(frozen=True)
class PrintSink:
    """Takes all row kinds."""

    schema: Schema
    primary_key: tuple[str, ...]
    identifier: str
    standard_error: bool

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    @property
    def delivery(self) -> Delivery:
        """Lines cannot be taken back: those after a checkpoint come again."""
        return "at-least-once"

    def open_writer(self, job: str) -> PrintWriter:
        return PrintWriter(self.schema, self.identifier, self.standard_error)

    def describe(self) -> dict[str, Any]:
        return {"connector": "print"}


class PrintWriter(DirectWriter):
    """Writes the lines of an epoch when it is complete."""

    def __init__(self, schema: Schema, identifier: str, standard_error: bool) -> None:
        self._schema = schema
        self._prefix = f"{identifier}> " if identifier else ""
        self._standard_error = standard_error
        self._lines: list[str] = []

    def write(self, batch: ChangelogBatch) -> None:
        text = block_of_lines(change_lines(batch, self._schema)).decode("utf-8")
        if self._prefix and text:
            text = self._prefix + text[:-1].replace("\n", "\n" + self._prefix) + "\n"
        self._lines.append(text)

    def flush(self, epoch: int) -> None:
        lines, self._lines = self._lines, []
        if lines:
            # Looked up now, because whoever embeds the engine may have redirected it.
            out: TextIO = sys.stderr if self._standard_error else sys.stdout
            out.write("".join(lines))
            out.flush()

    def settle(self) -> None:
        self.flush(0)

    def abort(self) -> None:
        self._lines = []

    def close(self) -> None:
        self._lines = []


def _sink(request: TableRequest) -> PrintSink:
    options = TableOptions(request.options, "connector 'print'", _OPTIONS)
    return PrintSink(request.schema, request.primary_key, options.get(IDENTIFIER), options.get(STANDARD_ERROR))


PRINT = ConnectorFactory(
    name="print",
    document="every change as a line on standard output",
    sink=_sink,
    options=_OPTIONS,
)
