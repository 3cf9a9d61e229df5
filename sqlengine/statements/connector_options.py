"""The options of a table with a connector, as far as they can be known without opening it: told when the table is made
or changed, not when it is first used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from connectors.absent import ABSENT_CONNECTORS, is_absent_connector
from runtime.core.errors import OptionError, Span, SqlEngineError, did_you_mean, pointing_at
from runtime.core.options import Option
from runtime.core.rooms import Room
from runtime.core.secrets import refers
from runtime.spi.registry import ConnectorFactory, Registry, check_options
from sqlengine.catalog.catalog import CONNECTION
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.table_options.lookups import LOOKUP_OPTIONS, read_lookup_options
from sqlengine.table_options.sources import SOURCE_OPTIONS, read_rate_limit
from sqlengine.table_options.watermarks import is_for_connector

if TYPE_CHECKING:
    import sqlengine.database.acting as _acting
    import sqlengine.roles.outside as _outside
else:
    _acting = Room("sqlengine.database.acting")
    _outside = Room("sqlengine.roles.outside")

__all__ = ["check_connector"]


def check_connector(table: CatalogTable, session: Session, given: Sequence[ddl.Option] = ()) -> None:
    """Checks the connector, the formats and the options of a table; errors point at the option where it stands in
    `given`.

    Of a connector of Flink that is not there (`connectors/absent.py`) nothing is known but its name.

    Raises OptionError: E1501 unknown connector, E1502 unknown format, E1503 unknown option, E1500 wrong value.
    """
    connector = table.connector
    if connector is None:
        return
    registry, spans = session.registry, {option.key: option.span for option in given}
    with pointing_at(spans.get(CONNECTION)):
        if session.authority is not None:
            _acting.check_connection(session, session.authority, table.options, table.path)
        table = replace(table, options=session.catalogs.with_connection(table.options, table.path))
    if refers(table.options):
        table = replace(table, options=_acting.with_secrets(session, table.options, session.authority))
    if session.authority is not None:
        _outside.check_outside(session.authority, connector, table.options, span=spans.get("connector"))
    try:
        read_lookup_options(table, {})
        read_rate_limit(table, {})
    except OptionError as error:
        error.span = _place(error, table, spans)
        raise
    with pointing_at(spans.get("connector")):
        if not registry.connectors.knows(connector) and is_absent_connector(connector):
            return
        factory = _connector(connector, registry)
    if not factory.declares:
        return
    try:
        _check(table, factory, registry, spans)
        if factory.check is not None:
            factory.check(session.request(table, {}, for_sink=False))
    except OptionError as error:
        error.span = error.span or _place(error, table, spans)
        raise


def _place(error: OptionError, table: CatalogTable, spans: Mapping[str, Span]) -> Span | None:
    """Where the option stands that an error is about."""
    named = next((k for k in table.options if f"'{k}'" in error.message), None)
    return spans.get(named or "")


def _connector(name: str, registry: Registry) -> ConnectorFactory:
    try:
        return registry.connectors.get(name)
    except OptionError as error:
        near = did_you_mean(name, [*registry.connectors.names(), *ABSENT_CONNECTORS])
        if near is not None and near.startswith("did you mean"):
            error.hint = near
        raise


def _check(table: CatalogTable, factory: ConnectorFactory, registry: Registry, spans: Mapping[str, Span]) -> None:
    where = f"connector '{factory.name}'"
    options = {k: v for k, v in table.options.items() if is_for_connector(k)}
    open_ended = list(factory.prefixes)
    for key in [k for k in ("format", "key.format", "value.format") if k in options]:
        if not any(o.key == key for o in factory.options):
            continue
        name, before = options[key], key.removesuffix("format") if table.connector == "kafka" else ""
        if not registry.formats.knows(name):
            raise OptionError(
                f"unknown format '{name}'",
                code="E1502",
                span=spans.get(key),
                hint=did_you_mean(name, registry.formats.names()),
            )
        chosen = registry.formats.get(name)
        own = {k: v for k, v in options.items() if k.startswith(f"{before}{name}.")}
        known = {f"{before}{name}.{o.key}": o for o in chosen.options}
        check_options(own, set(known), f"format '{name}'")
        _check_values(own, known)
        open_ended.append(f"{before}{name}.")
    known = {o.key: o for o in factory.options}
    for key in options:
        other = key.partition(".")[0]
        if registry.formats.knows(other) and key not in known and not key.startswith(tuple(open_ended)):
            raise OptionError(
                f"unknown option '{key}' for {where}: it is one of format '{other}', which the table does not have",
                code="E1503",
                hint=f"set 'format' = '{other}', or leave it out",
            )
    names = set(known)
    if any(key.startswith("lookup.") for key in options):
        names.update(option.key for option in LOOKUP_OPTIONS)
    if any(key.startswith("scan.") for key in options):
        names.update(option.key for option in SOURCE_OPTIONS)
    check_options(options, names, where, tuple(open_ended))
    _check_values(options, known)


def _check_values(options: Mapping[str, str], known: Mapping[str, Option[object]]) -> None:
    for key, value in options.items():
        if key in known:
            try:
                known[key].read(value)
            except SqlEngineError as error:
                error.message = error.message.replace(f"'{known[key].key}'", f"'{key}'", 1)
                raise
