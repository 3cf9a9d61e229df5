"""All connectors and formats that come with the engine. The one place where they are listed."""

from __future__ import annotations

from connectors.blackhole.table import BLACKHOLE
from connectors.datagen.table import DATAGEN
from connectors.filesystem.table import FILESYSTEM
from connectors.formats.csv import CSV
from connectors.formats.debezium import DEBEZIUM_JSON
from connectors.formats.json import JSON
from connectors.formats.parquet import PARQUET
from connectors.lookup.table import LOOKUP_JSONL
from connectors.memory.refusal import MEMORY
from connectors.nexmark.table import NEXMARK
from connectors.printing.table import PRINT
from connectors.values.table import VALUES
from runtime.spi.registry import ConnectorFactory, FormatFactory, Registry

__all__ = ["CONNECTORS", "FORMATS", "standard_registry"]

CONNECTORS: tuple[ConnectorFactory, ...] = (
    BLACKHOLE,
    DATAGEN,
    FILESYSTEM,
    LOOKUP_JSONL,
    MEMORY,
    NEXMARK,
    PRINT,
    VALUES,
)
FORMATS: tuple[FormatFactory, ...] = (CSV, DEBEZIUM_JSON, JSON, PARQUET)


def standard_registry() -> Registry:
    """A registry with all of them; third parties are found by entry point when asked for."""
    registry = Registry()
    for connector in CONNECTORS:
        registry.connectors.add(connector)
    for format_ in FORMATS:
        registry.formats.add(format_)
    return registry
