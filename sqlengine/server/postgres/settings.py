"""The settings (GUC) of a connection: what SET, SHOW and `current_setting` know.

Only a few change anything; the others are there because clients set them and read them back. Source: PostgreSQL 15,
chapter 20 "Server Configuration".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from runtime.core.errors import did_you_mean
from sqlengine import __version__
from sqlengine.server.postgres.sqlstate import PgError

__all__ = ["SERVER_VERSION", "Settings", "milliseconds"]

SERVER_VERSION = f"15.0 (sqlengine {__version__})"
"""Begins with the number of the PostgreSQL whose catalogue clients find here."""

_FIXED = {
    "server_version": SERVER_VERSION,
    "server_version_num": "150000",
    "server_encoding": "UTF8",
    "integer_datetimes": "on",
    "in_hot_standby": "off",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "max_index_keys": "32",
    "max_identifier_length": "63",
    "block_size": "8192",
    "wal_level": "logical",
    "max_connections": "1000",
    "session_authorization": "",
    "is_superuser": "on",
    "data_checksums": "off",
    "segment_size": "131072",
}
"""Those that nobody can change."""

_DEFAULTS = {
    "application_name": "",
    "backslash_quote": "safe_encoding",
    "bytea_output": "hex",
    "check_function_bodies": "on",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "off",
    "enable_seqscan": "on",
    "escape_string_warning": "on",
    "extra_float_digits": "1",
    "geqo": "on",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "lc_messages": "C.UTF-8",
    "lc_monetary": "C.UTF-8",
    "lc_numeric": "C.UTF-8",
    "lc_time": "C.UTF-8",
    "lock_timeout": "0",
    "log_statement": "none",
    "maintenance_work_mem": "64MB",
    "plan_cache_mode": "auto",
    "quote_all_identifiers": "off",
    "role": "none",
    "row_security": "on",
    "search_path": '"$user", public',
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronize_seqscans": "on",
    "synchronous_commit": "on",
    "temp_tablespaces": "",
    "timezone": "UTC",
    "transaction_deferrable": "off",
    "transaction_isolation": "serializable",
    "transaction_read_only": "off",
    "work_mem": "4MB",
    "xmloption": "content",
}

_REPORTED = {
    "server_version": "server_version",
    "server_encoding": "server_encoding",
    "client_encoding": "client_encoding",
    "application_name": "application_name",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "is_superuser": "is_superuser",
    "session_authorization": "session_authorization",
    "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle",
    "timezone": "TimeZone",
    "integer_datetimes": "integer_datetimes",
    "standard_conforming_strings": "standard_conforming_strings",
}
"""Those of which a client is told, with the names under which it is."""

_DISPLAYED = {"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}
_UNITS = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}


class Settings:
    """The settings of one connection.

    Args:
        changed: called with the name and value of each setting that is reported to the client.
    """

    def __init__(self, changed: Callable[[str, str], object]) -> None:
        self._values = dict(_DEFAULTS)
        self._initial: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._fixed = dict(_FIXED)
        self._changed = changed

    def knows(self, name: str) -> bool:
        """Whether it is a setting of PostgreSQL, or one that was made up by SET."""
        key = name.lower()
        return key in self._values or key in self._fixed or key in self._own

    def fix(self, name: str, value: str) -> None:
        """What a connection is, such as its user."""
        self._values.pop(name, None)
        self._fixed[name] = value

    def start(self, name: str, value: str) -> None:
        """A value of the startup message: RESET comes back to it."""
        self.set(name, value, quietly=True)
        self._initial[name.lower()] = self.get(name)

    def set(self, name: str, value: str | None, *, quietly: bool = False) -> None:
        """SET; None is DEFAULT.

        Raises PgError 42704 for an unknown name, 55P02 for one that cannot change, 22023 for a value that it cannot
        have.
        """
        key = name.lower()
        if key in self._fixed:
            if value is None or quietly or value == self._fixed[key]:
                return
            raise PgError("55P02", f'parameter "{name}" cannot be changed')
        if key not in self._values:
            if "." not in key:
                raise self._unknown(name)
            if value is None:
                self._own.pop(key, None)
            else:
                self._own[key] = value
            return
        made = _checked(key, self._initial.get(key, _DEFAULTS[key]) if value is None else value)
        if made != self._values[key]:
            self._values[key] = made
            if key in _REPORTED and not quietly:
                self._changed(_REPORTED[key], made)

    def reset_all(self) -> None:
        for key in tuple(self._values):
            self.set(key, None)
        self._own.clear()

    @staticmethod
    def shown_name(name: str) -> str:
        """The name as PostgreSQL writes it."""
        return _DISPLAYED.get(name.lower(), name)

    def get(self, name: str) -> str:
        """Raises PgError 42704 for an unknown name."""
        key = name.lower()
        for values in (self._values, self._fixed, self._own):
            if key in values:
                return values[key]
        raise self._unknown(name)

    def reported(self) -> Iterator[tuple[str, str]]:
        """What a client is told when it connects."""
        for key, name in _REPORTED.items():
            yield name, self.get(key)

    def everything(self) -> Iterator[tuple[str, str]]:
        """Names and values, for SHOW ALL and pg_settings."""
        for key in sorted({**self._values, **self._fixed, **self._own}):
            yield _DISPLAYED.get(key, key), self.get(key)

    def _unknown(self, name: str) -> PgError:
        hint = did_you_mean(name.lower(), [*self._values, *self._fixed])
        return PgError("42704", f'unrecognized configuration parameter "{name}"', hint=hint)


def milliseconds(value: str) -> float:
    """A duration of a setting: `500`, `10s`, `1min`. Raises PgError 22023."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|)\s*", value)
    if match is None:
        raise PgError("22023", f'"{value}" is no duration', hint="write it like 500ms, 10s or 1min")
    return float(match[1]) * _UNITS[match[2]]


def _checked(key: str, value: str) -> str:
    match key:
        case "client_encoding":
            if value.strip("'\"").upper().replace("-", "") not in ("UTF8", "UNICODE", "SQL_ASCII"):
                raise PgError(
                    "22023", f'invalid value for parameter "client_encoding": "{value}"', hint="only UTF8 is there"
                )
            return "UTF8"
        case "datestyle":
            if not value.upper().replace(" ", "").startswith("ISO") and value.upper() not in (
                "MDY",
                "DMY",
                "YMD",
                "DEFAULT",
            ):
                raise PgError("22023", f'DateStyle "{value}" is not supported', hint="dates are shown in the style ISO")
            return "ISO, MDY"
        case "standard_conforming_strings":
            if value.lower() not in ("on", "true", "yes", "1"):
                raise PgError("22023", "standard_conforming_strings is always on")
            return "on"
        case "statement_timeout" | "lock_timeout" | "idle_in_transaction_session_timeout" | "idle_session_timeout":
            milliseconds(value)
            return value
        case _:
            return value
