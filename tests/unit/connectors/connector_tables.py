"""Tables of connectors as the front door would ask for them, and ways to read and write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.catalogue import standard_registry
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.spi.registry import TableRequest
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable
from sqlengine.testing.connectors.reading import Change, Context, changes_of, drain, end, read_all, rows_of, split_of

__all__ = [
    "REGISTRY",
    "Change",
    "Context",
    "changes_of",
    "drain",
    "end",
    "read_all",
    "request",
    "rows_of",
    "sink",
    "source",
    "split_of",
]
REGISTRY = standard_registry()


def request(schema: Schema, options: Mapping[str, str], **more: Any) -> TableRequest:
    return TableRequest("t", schema, more.pop("primary_key", ()), options, Options({}), registry=REGISTRY, **more)


def source(connector: str, schema: Schema, options: Mapping[str, str], **more: Any) -> SourceTable:
    make = REGISTRY.connectors.get(connector).source
    table = None if make is None else make(request(schema, options, **more))
    assert table is not None
    return table


def sink(connector: str, schema: Schema, options: Mapping[str, str], **more: Any) -> SinkTable:
    make = REGISTRY.connectors.get(connector).sink
    assert make is not None
    return make(request(schema, options, **more))
