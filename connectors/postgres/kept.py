"""Connections for columns that are kept for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from connectors.databases.kept import Kept
from connectors.postgres.address import Address
from connectors.postgres.bulk import BulkConnection

__all__ = ["lent"]

_kept: Kept[BulkConnection] = Kept()


@contextmanager
def lent(address: Address, what: str) -> Generator[BulkConnection]:
    """A connection without a transaction, to be given back without one. After an error it is closed."""
    with _kept.lent(address, lambda: BulkConnection(address, what)) as connection:
        connection.what = what
        yield connection
