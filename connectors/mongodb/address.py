"""Where a server is, and who asks: options of tables, and the client."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.likeness import did_you_mean
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret, masked_text

__all__ = ["ADDRESS_OPTIONS", "Address", "bson", "client_of", "pymongo", "read_address", "telling"]

URI = text_option("uri", "", "the address, such as 'mongodb://user:${secret:mongo}@host:27017/?replicaSet=rs0'")
DATABASE = text_option("database", "", "the name of the database")
COLLECTION = text_option("collection", "", "the name of the collection")
ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the server's must be signed by")
TIMEOUT = duration_option("connect-timeout", 30_000, "how long a connection, or an answer, may take")
ADDRESS_OPTIONS = (URI, DATABASE, COLLECTION, ROOT, TIMEOUT)

_URI = re.compile(
    r"mongodb(?P<srv>\+srv)?://(?:[^@/?#]*@)?(?P<hosts>[A-Za-z0-9._,:\[\]-]+)(?:/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_KNOWN_NAMES = """
appname authmechanism authsource compressors connecttimeoutms directconnection heartbeatfrequencyms journal loadbalanced
localthresholdms maxidletimems maxpoolsize maxstalenessseconds minpoolsize readconcernlevel readpreference
readpreferencetags replicaset retryreads retrywrites serverselectiontimeoutms sockettimeoutms ssl tls
uuidrepresentation w waitqueuetimeoutms wtimeoutms
"""
_KNOWN = frozenset(_KNOWN_NAMES.split())
"""What may stand behind the `?`: nothing that names a file, a host, or how certificates are not looked at."""
_MECHANISMS = frozenset(("default", "scram-sha-1", "scram-sha-256", "plain"))
_NAME = re.compile(r'[^\0/\\. "$*<>:|?]{1,63}')
_COLLECTION = re.compile(r"[^\0$]{1,200}")


@dataclass(frozen=True)
class Address:
    """A collection. `hosts`: as they are shown; `uri` has user and password; `timeout`: seconds."""

    uri: Secret
    hosts: str
    database: str
    collection: str
    root: str
    timeout: float

    def __str__(self) -> str:
        return f"{self.database}.{self.collection} at {self.hosts}"


def read_address(options: TableOptions, uri: str = "") -> Address:
    """Raises OptionError for what is none. `uri`: in place of the option."""
    uri = uri or options.required(URI)
    found = _URI.fullmatch(uri)
    if found is None:
        raise OptionError("option 'uri' is not the address of MongoDB", hint="write it as 'mongodb://host:27017'")
    for part in filter(None, re.split("[&;]", found["query"] or "")):
        name, _, value = part.partition("=")
        if name.lower() not in _KNOWN:
            near = did_you_mean(name, sorted(_KNOWN)) or f"'{ROOT.key}' is an option of the table"
            raise OptionError(f"option 'uri' has a parameter '{name}' that is not taken", hint=near)
        if name.lower() == "authmechanism" and value.lower() not in _MECHANISMS:
            raise OptionError(
                f"option 'uri' has authMechanism={value}",
                hint="users have passwords: SCRAM-SHA-256, SCRAM-SHA-1 or PLAIN",
            )
    database, collection = options.required(DATABASE), options.required(COLLECTION)
    if (
        _NAME.fullmatch(database) is None
        or _COLLECTION.fullmatch(collection) is None
        or collection.startswith("system.")
    ):
        raise OptionError("'database' and 'collection' are names of MongoDB", hint="without blanks, dots and '$'")
    return Address(
        Secret(uri), found["hosts"], database, collection, options.get(ROOT), max(0.1, options.get(TIMEOUT) / 1000)
    )


def pymongo() -> Any:
    """The library. Raises ConnectorError E3280 where it is not installed."""
    try:
        return importlib.import_module("pymongo")
    except ImportError as error:
        raise ConnectorError(
            "the client of MongoDB is not installed", code="E3280", hint="pip install 'sqlengine[mongodb]'"
        ) from error


def bson() -> Any:
    """The library of its values."""
    pymongo()
    importlib.import_module("bson.json_util")
    return importlib.import_module("bson")


@contextmanager
def telling(address: Address, what: str) -> Generator[None]:
    """Errors of the client as UnavailableError E3150, what passes, or ConnectorError E3281. `what`: for messages."""
    errors: Any = importlib.import_module(f"{pymongo().__name__}.errors")
    bad: Any = importlib.import_module(f"{bson().__name__}.errors")
    try:
        yield
    except (errors.PyMongoError, bad.BSONError, OverflowError) as caught:
        error: Any = caught
        text = masked_text(str(error).split(", full error:")[0].split(", Timeout:")[0])[:500]
        message = f"{what} ({address}): {text}"
        lost = isinstance(error, errors.ConnectionFailure) or (
            isinstance(error, errors.PyMongoError) and error.has_error_label("RetryableWriteError")
        )
        if lost:
            raise UnavailableError(message, hint="is the server there, and reachable from here?") from error
        denied = isinstance(error, errors.OperationFailure) and error.code in (13, 18)
        hint = "check the user of the option 'uri', and what it may do" if denied else "the message is MongoDB's own"
        raise ConnectorError(message, code="E3281", hint=hint) from error


def client_of(address: Address) -> Any:
    """The client of this process; it opens nothing yet."""
    return _client_of(address.uri, address.root, address.timeout, os.getpid())


@functools.lru_cache(maxsize=32)
def _client_of(uri: Secret, root: str, timeout: float, process: int) -> Any:
    # A process that was forked must not share connections.
    del process
    millis = int(timeout * 1000)
    more = {"tls": True, "tlsCAFile": root} if root else {}
    return pymongo().MongoClient(
        uri.reveal(),
        serverSelectionTimeoutMS=min(millis, 5000),
        connectTimeoutMS=millis,
        socketTimeoutMS=millis,
        uuidRepresentation="standard",
        **more,
    )
