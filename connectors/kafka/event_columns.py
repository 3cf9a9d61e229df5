"""Columns of a topic's table that the format of its values tells: `METADATA FROM 'value.source.database'`."""

from __future__ import annotations

from dataclasses import replace

from connectors.formats.event_metadata import CarriesMetadata
from connectors.kafka.messages import METADATA, MessageColumns
from runtime.core.errors import OptionError, did_you_mean
from runtime.core.schema import Schema
from runtime.spi.format import Format
from runtime.spi.registry import TableRequest

__all__ = ["with_event_columns"]

_PREFIX = "value."


def with_event_columns(
    request: TableRequest, columns: MessageColumns, format_: Format
) -> tuple[MessageColumns, Format]:
    """Columns and format of a table whose format tells some of the metadata columns.

    Raises:
        OptionError: nobody knows such metadata; it has another type; or old rows cannot be had with it, and there is no key.
    """
    known = (
        {_PREFIX + key: field for key, field in format_.metadata.items()}
        if isinstance(format_, CarriesMetadata)
        else {}
    )
    told: list[tuple[str, str]] = []
    for name, key in request.metadata:
        if key in known:
            type_ = request.schema[request.schema.index_of(name)].type
            if type_.root is not known[key].type.root or type_.arrow != known[key].type.arrow:
                raise OptionError(
                    f"metadata '{key}' is {known[key].type}, and column {name} {type_}", hint="declare it so"
                )
            told.append((name, key.removeprefix(_PREFIX)))
        elif key not in METADATA:
            names = [*METADATA, *known]
            raise OptionError(f"connector 'kafka' has no metadata '{key}'", hint=did_you_mean(key, names))
    keys = {key for _, key in told}
    if "source.properties" in keys and any(key.startswith("source.") for key in keys - {"source.properties"}):
        raise OptionError(
            "metadata 'value.source.properties' has the other fields of the source", hint="take them from it: p['db']"
        )
    if not isinstance(format_, CarriesMetadata) or not told:
        return columns, format_
    changing = [key for _, key in told if not format_.metadata[key].lasting]
    if changing and not request.primary_key:
        raise OptionError(
            f"metadata '{_PREFIX}{changing[0]}' of an old row is not known: a message has that of the new one",
            hint=f"declare a PRIMARY KEY of {request.name}, by which rows replace each other, or leave the column out",
        )
    missing = [name for name in request.primary_key if changing and columns.value.index_of(name) < 0]
    if missing:
        raise OptionError(
            f"column {missing[0]} of the primary key of {request.name} is not in the values of its topic",
            hint="with metadata of values that changes, rows replace each other by what is in the values",
        )
    fields = tuple(request.schema[request.schema.index_of(name)] for name, _ in told)
    others = tuple((name, key) for name, key in columns.metadata if key not in known)
    made = format_.with_metadata(told, request.primary_key if changing else None)
    return replace(columns, value=Schema((*columns.value, *fields)), metadata=others), made
