"""The catalogs of pyiceberg, and its errors in our words."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from requests import ConnectionError as NoConnection
from requests import Timeout

from connectors.iceberg.folder import FolderCatalog
from connectors.iceberg.options import Address
from runtime.core.errors import ConnectorError, SqlEngineError, UnavailableError
from runtime.core.secrets import Secret

__all__ = ["loaded", "opened", "told"]

_PASSING = (
    ServiceUnavailableError, ServerError, TooManyRequestsError, CommitStateUnknownException, NoConnection, Timeout,
    ConnectionError, TimeoutError,
)  # fmt: skip


@contextmanager
def told(place: str) -> Generator[None]:
    """Errors of the library as ConnectorError E3191, as UnavailableError E3191 where it may work later."""
    try:
        yield
    except SqlEngineError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise ConnectorError(
            f"there is no Iceberg table {place}", code="E3191", hint="check 'catalog-database' and 'catalog-table'"
        ) from error
    except _PASSING as error:
        raise UnavailableError(
            f"the catalog of {place} does not answer: {_first_line(error)}",
            code="E3191",
            hint="is it there, and reachable from here?",
        ) from error
    except (UnauthorizedError, ForbiddenError) as error:
        raise ConnectorError(
            f"the catalog of {place} refuses: {_first_line(error)}",
            code="E3191",
            hint="check 'credential' or 'token', and its rights",
        ) from error
    except (RESTError, OSError, ValueError, TypeError, KeyError, NotImplementedError, pa.ArrowException) as error:
        raise ConnectorError(f"the Iceberg table {place} fails: {_first_line(error)}", code="E3191") from error
    except Exception as error:
        kind = type(error)
        if not kind.__module__.startswith(("pyiceberg.", "sqlalchemy.", "botocore.", "pydantic")):
            raise
        if _is_locked(error):
            raise UnavailableError(
                f"the catalog of {place} is busy: {_first_line(error)}", code="E3191", hint="others are writing to it"
            ) from error
        raise ConnectorError(f"the Iceberg table {place} fails: {_first_line(error)}", code="E3191") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _is_locked(error: Exception) -> bool:
    return type(error).__name__ in ("OperationalError", "TimeoutError", "WaitingForLockException", "InterfaceError")


@lru_cache(maxsize=32)
def _opened(name: str, kind: str, properties: tuple[tuple[str, str | Secret], ...]) -> Catalog:
    plain = {key: value.reveal() if isinstance(value, Secret) else value for key, value in properties}
    if kind == "hadoop":
        return FolderCatalog(name, **plain)
    if "warehouse" in plain and "://" not in plain["warehouse"] and kind != "rest":
        plain["warehouse"] = f"file://{plain['warehouse']}"
    return load_catalog(name, type=kind, **plain)


def _from_here(address: Address) -> tuple[tuple[str, str | Secret], ...]:
    """The properties of a catalog, with the whole path of its folder: a program may change its folder meanwhile."""
    return tuple(
        (key, os.path.abspath(value))
        if key == "warehouse" and isinstance(value, str) and "://" not in value and address.type != "rest"
        else (key, value)
        for key, value in address.properties
    )


def opened(address: Address) -> Catalog:
    """The catalog of a table; raises ConnectorError E3191. Catalogs stay open."""
    with told(address.place if address.table else address.catalog):
        return _opened(address.catalog, address.type, _from_here(address))


def loaded(address: Address) -> Table:
    """A table as it is now; raises ConnectorError E3191."""
    catalog: Any = opened(address)
    with told(address.place):
        return catalog.load_table(address.identifier)
