"""SET and RESET."""

from __future__ import annotations

import zoneinfo

from runtime.core.errors import OptionError, did_you_mean
from runtime.core.options import Option
from runtime.core.schema import Schema
from runtime.core.types import STRING
from runtime.local.job import EPOCH_MAX_ROWS
from sqlengine.parse import statement_nodes as st
from sqlengine.result import Result
from sqlengine.session import DYNAMIC_OPTIONS, IDLE_TIMEOUT, TIME_ZONE, Session

__all__ = ["reset_option", "set_option", "set_value"]

CHECKED: dict[str, Option[object]] = {o.key: o for o in (EPOCH_MAX_ROWS, DYNAMIC_OPTIONS, IDLE_TIMEOUT, TIME_ZONE)}  # type: ignore[misc]
_OURS = ("sqlengine.",)
_KNOWN_PREFIXES = (
    "table.",
    "execution.",
    "pipeline.",
    "parallelism.",
    "state.",
    "sql-client.",
    "optimizer.",
    "restart-strategy",
    "rest.",
    "client.",
    *_OURS,
)


def set_option(statement: st.Set, session: Session) -> Result:
    """`SET 'key' = 'value'`, or the list of what is set."""
    if statement.option is None:
        pairs = sorted(session.options.as_dict().items())
        return Result.table(
            Schema.of(("key", STRING), ("value", STRING)), [[k for k, _ in pairs], [v for _, v in pairs]]
        )
    option = statement.option
    try:
        set_value(session, option.key, option.value)
    except OptionError as error:
        error.span = error.span or option.span
        raise
    return Result.ok()


def set_value(session: Session, key: str, value: str) -> None:
    """Set an option; raises OptionError for a value that is none, and for keys that nobody could mean."""
    if key in CHECKED:
        CHECKED[key].read(value)
    elif key.startswith(_OURS) or not key.startswith(_KNOWN_PREFIXES):
        raise OptionError(f"unknown option '{key}'", code="E1503", hint=did_you_mean(key, CHECKED))
    if key == TIME_ZONE.key:
        _check_zone(value)
    session.options.set(key, value)


def _check_zone(value: str) -> None:
    if value != "default" and not is_time_zone(value):
        raise OptionError(
            f"unknown time zone '{value}'", code="E1508", hint="use a name like 'UTC', 'Europe/Berlin' or 'GMT+02:00'"
        )


def is_time_zone(value: str) -> bool:
    """Whether Arrow knows the zone: an IANA name, or an offset such as `+02:00`."""
    if value in ("UTC", "GMT", "Z") or value.startswith(("GMT+", "GMT-", "UTC+", "UTC-", "+", "-")):
        return True
    return value in zoneinfo.available_timezones()


def reset_option(statement: st.Reset, session: Session) -> Result:
    session.options.reset(statement.key.text if statement.key is not None else None)
    return Result.ok()
