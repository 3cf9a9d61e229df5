"""Options of a table about how it is looked up: `lookup.*` in WITH (..) or in an OPTIONS hint.

Source: Flink 2.3, `LookupOptions` (FLIP-221).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runtime.core.errors import OptionError, did_you_mean
from runtime.core.options import Option, Options, bool_option, duration_option, int_option, text_option
from runtime.plan.parts import CachedTable, PartialCaching, Reload, WholeTable
from runtime.spi.lookup import LookupTable
from runtime.spi.source import SourceTable
from sqlengine.catalog.objects import CatalogTable
from sqlengine.table_options.watermarks import is_for_connector

__all__ = ["LOOKUP_OPTIONS", "looked_up", "read_lookup_options"]

_CACHE = text_option(
    "lookup.cache",
    "NONE",
    "what is remembered of the answers: 'NONE', 'PARTIAL' for keys that were asked for, 'FULL' for the whole table",
    ("NONE", "PARTIAL", "FULL"),
)
_MAX_ROWS = int_option(
    "lookup.partial-cache.max-rows",
    0,
    "the most rows that 'PARTIAL' keeps; those that were not used for the longest time go first",
)
_AFTER_WRITE = duration_option(
    "lookup.partial-cache.expire-after-write", 0, "how long an answer counts, such as '10 min'"
)
_AFTER_ACCESS = duration_option(
    "lookup.partial-cache.expire-after-access", 0, "for how long nobody may ask for a key that is kept, such as '1 h'"
)
_MISSING = bool_option(
    "lookup.partial-cache.cache-missing-key", True, "whether it is remembered that a key has no rows"
)
_STRATEGY = text_option(
    "lookup.full-cache.reload-strategy",
    "PERIODIC",
    "when 'FULL' reads the table again: 'PERIODIC' after an interval, 'TIMED' at a time of day",
    ("PERIODIC", "TIMED"),
)
_INTERVAL = duration_option(
    "lookup.full-cache.periodic-reload.interval", 0, "the interval of 'PERIODIC', such as '10 min'"
)
_MODE = text_option(
    "lookup.full-cache.periodic-reload.schedule-mode",
    "FIXED_DELAY",
    "what the interval is counted from: 'FIXED_DELAY' is the end of the last reload, 'FIXED_RATE' its beginning",
    ("FIXED_DELAY", "FIXED_RATE"),
)
_TIME = text_option(
    "lookup.full-cache.timed-reload.iso-time",
    "",
    "the time of 'TIMED': '10:15' of the session's time zone, '10:15Z' or '10:15+07:00'",
)
_DAYS = int_option("lookup.full-cache.timed-reload.interval-in-days", 1, "how many days lie between reloads of 'TIMED'")
_RETRIES = int_option(
    "lookup.max-retries", 3, "how often a lookup that fails is tried again, after 0.1 s, 0.2 s, 0.4 s, ..."
)
LOOKUP_OPTIONS: tuple[Option[Any], ...] = (
    _CACHE, _MAX_ROWS, _AFTER_WRITE, _AFTER_ACCESS, _MISSING, _STRATEGY, _INTERVAL, _MODE, _TIME, _DAYS, _RETRIES,
)  # fmt: skip
_KNOWN = {option.key: option for option in LOOKUP_OPTIONS}
_ISO_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(Z|[+-](?:0\d|1[0-8]):[0-5]\d)?")


def read_lookup_options(table: CatalogTable, hints: Mapping[str, str]) -> tuple[PartialCaching | Reload | None, int]:
    """What is remembered, and how often a lookup that fails is tried again. Options of a hint go before the table's.

    Raises:
        OptionError: E1503 for an option that is not known, E1504 for one that is missing, E1500 for a wrong value.
    """
    merged = {**table.options, **hints}
    for key in merged:
        if key.startswith("lookup.") and not is_for_connector(key) and key not in _KNOWN:
            raise OptionError(f"a table has no option '{key}'", code="E1503", hint=did_you_mean(key, _KNOWN))
    given = Options({key: value for key, value in merged.items() if key in _KNOWN})
    for option in LOOKUP_OPTIONS:
        given.get(option)
    retries = _at_least(given, _RETRIES, 0)
    match given.get(_CACHE).upper():
        case "PARTIAL":
            return _partial(given), retries
        case "FULL":
            return _reload(given), retries
        case _:
            return None, retries


def _partial(given: Options) -> PartialCaching:
    bounds = (_MAX_ROWS, _AFTER_WRITE, _AFTER_ACCESS)
    if not any(option.key in given for option in bounds):
        raise OptionError(
            f"the '{_CACHE.key}' 'PARTIAL' has no bound",
            code="E1504",
            hint="set " + " or ".join(f"'{option.key}'" for option in bounds),
        )
    rows, write, access = (_at_least(given, option, 1) if option.key in given else None for option in bounds)
    return PartialCaching(rows, write, access, given.get(_MISSING))


def _reload(given: Options) -> Reload:
    if given.get(_STRATEGY).upper() == "PERIODIC":
        _required(given, _INTERVAL)
        return Reload(_at_least(given, _INTERVAL, 1), given.get(_MODE).upper() == "FIXED_RATE")
    _required(given, _TIME)
    text = given.get(_TIME)
    matched = _ISO_TIME.fullmatch(text.strip())
    if matched is None:
        raise OptionError(f"option '{_TIME.key}' cannot be '{text}'", hint=_TIME.description)
    hours, minutes, seconds = (int(part or 0) for part in matched.groups()[:3])
    zone = "UTC" if matched[4] == "Z" else matched[4]
    time = ((hours * 60 + minutes) * 60 + seconds) * 1000
    return Reload(time=time, zone=zone, days=_at_least(given, _DAYS, 1))


def _required(given: Options, option: Option[Any]) -> None:
    if option.key not in given:
        strategy = given.get(_STRATEGY).upper()
        raise OptionError(
            f"the '{_CACHE.key}' 'FULL' with the strategy '{strategy}' needs the option '{option.key}'",
            code="E1504",
            hint=f"set it to {option.description}",
        )


def _at_least(given: Options, option: Option[int], least: int) -> int:
    value = given.get(option)
    if value < least:
        raise OptionError(f"option '{option.key}' must be at least {least}", hint=option.description)
    return value


def looked_up(
    table: CatalogTable, hints: Mapping[str, str], source: SourceTable | None, lookup: LookupTable | None
) -> LookupTable | None:
    """The table as lookups see it; None when it cannot be looked up.

    Raises:
        OptionError: E1500 for a cache that the connector has no use for, and what `read_lookup_options` raises.
    """
    cache, retries = read_lookup_options(table, hints)
    if isinstance(cache, Reload):
        if source is None or not source.bounded or not source.changelog_mode.is_append_only:
            reason = (
                "cannot be read as a whole"
                if source is None
                else "has no end"
                if not source.bounded
                else "has updates and deletes"
            )
            raise OptionError(
                f"option '{_CACHE.key}' cannot be 'FULL': {table.path.name} {reason}",
                hint="'PARTIAL' keeps the keys that were asked for" if lookup is not None else "leave it out",
            )
        return WholeTable(source, cache, retries)
    if lookup is None:
        if cache is not None:
            raise OptionError(
                f"option '{_CACHE.key}' cannot be 'PARTIAL': connector '{table.connector}' cannot be asked by key",
                hint="'FULL' reads the whole table from time to time",
            )
        return None
    return CachedTable(lookup, cache, retries)
