"""The client of a state server: keys in, rows out, in columns."""

from __future__ import annotations

import base64
import itertools
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from runtime.core.errors import StateQueryError
from sqlengine.server.state.failures import (
    FAILURES,
    NotAllowed,
    NotStarted,
    Overloaded,
    TimedOut,
    UnknownKey,
    Unreachable,
    WrongKey,
)
from sqlengine.server.state.wire import ASKED, EPOCH, FOUND, KEY, MOST_BYTES, MOST_KEYS, Ask, packed

__all__ = ["KeysAsked", "StateClient", "StateInfo", "epoch_of"]

T = TypeVar("T")
KeysAsked = Mapping[str, Any] | pa.Table | pa.RecordBatch | pa.Array | Sequence[Any]
"""Keys: columns by name, Arrow or not; or the values alone, where the key is one column."""

_PASSING = (NotStarted, Overloaded, Unreachable)
"""Failures after which it pays to ask again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


@dataclass(frozen=True, slots=True)
class StateInfo:
    """What something that can be asked is like.

    Attributes:
        columns: those of its rows.
        key: the columns by which it is asked. Tables and views can be asked by any of their columns; then it is the primary
            key, or empty.
    """

    columns: pa.Schema
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something is asked, and what it is like."""

    client: flight.FlightClient
    info: StateInfo


def epoch_of(rows: pa.Table | pa.RecordBatch) -> int:
    """The epoch of which an answer is: the database's for tables and views, the job's for its state."""
    return int((rows.schema.metadata or {})[EPOCH])


class StateClient:
    """Reads from a state server (`sqlengine serve --state`). Any thread may use it.

    What is asked is named by `of`, a table, a materialized view or a job; and by `state` for the state of a job, or of the
    job that keeps a view. `states()` lists all. Answers are those of the last complete epoch (`epoch_of`).

    While a job starts, starts again or moves, and while the server has too much to do, it asks again until the time limit.

    Args:
        address: `HOST:PORT`.
        user, password: of a role that has a password; or a `token`.
        tls: connect with TLS; `root_certificate`: whose certificates to trust (PEM), where not the system's.
        timeout: seconds for each request, all attempts together.

    Example:
        >>> with StateClient("127.0.0.1:9069") as client:              # doctest: +SKIP
        ...     client.get("totals", {"item": "apple"})
        [{'item': 'apple', 'n': 5}]
    """

    def __init__(
        self,
        address: str = "127.0.0.1:9069",
        *,
        user: str | None = None,
        password: str = "",
        token: str | None = None,
        tls: bool = False,
        root_certificate: bytes | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._tls = tls or root_certificate is not None
        self._root = root_certificate
        self._timeout = timeout
        self._headers: list[tuple[bytes, bytes]] = []
        if user is not None:
            proof = base64.b64encode(f"{user}:{password}".encode())
            self._headers.append((b"authorization", b"Basic " + proof))
        if token is not None:
            self._headers.append((b"authorization", b"Bearer " + token.encode()))
        self._clients: dict[str, flight.FlightClient] = {}
        self._address = f"{'grpc+tls' if self._tls else 'grpc+tcp'}://{address}"
        self._places: dict[tuple[str, str], _Place] = {}
        self._name = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def __enter__(self) -> StateClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self._places.clear()

    def states(self) -> pa.Table:
        """What can be asked: `of`, `state` (NULL for the rows of a table or view), the columns of the `key`, all `columns`,
        and `rows` (of the state of an operator: of all its tables together).

        Raises StateQueryError.
        """
        return self._again(
            (), lambda left: self._read(self._client(self._address), Ask(operation="states"), None, left)
        )

    def describe(self, of: str, *, state: str = "") -> StateInfo:
        """Its columns and its key. Raises StateQueryError."""
        return self._again((of, state), lambda left: self._place(of, state, left, anew=True).info)

    def lookup(self, of: str, keys: KeysAsked, *, state: str = "", columns: Sequence[str] = ()) -> pa.Table:
        """The rows of keys, in the order of the keys.

        Args:
            keys: see `KeysAsked`; any number.
            columns: those that are wanted; all if not given.

        Returns:
            The columns `$asked` (int32: the position of the key), `$found`, and those of the rows. A key that is not there
            has one row of NULLs with `$found` false; a key with several rows has all of them.

        Raises:
            WrongKey: keys have other columns, or values of another type; nothing is sent.
            StateQueryError: of the class that says what is wrong (`sqlengine.server.state.failures`).
        """
        return self._again((of, state), lambda left: self._lookup(of, keys, state, tuple(columns), left))

    def get(self, of: str, key: Any, *, state: str = "", columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The rows of one key, a dict each.

        Args:
            key: the values by column, or the value alone.

        Raises:
            UnknownKey: there is none.
            StateQueryError: as `lookup`.
        """
        asked = {name: [value] for name, value in key.items()} if isinstance(key, Mapping) else [key]
        found = self.lookup(of, asked, state=state, columns=columns)
        if not found.column(FOUND)[0].as_py():
            raise UnknownKey(f"{_named(of, state)} has no key {key!r}")
        return found.drop_columns([ASKED, FOUND]).to_pylist()

    def scan(
        self,
        of: str,
        *,
        state: str = "",
        columns: Sequence[str] = (),
        column: str = "",
        at_least: Any = None,
        above: Any = None,
        at_most: Any = None,
        below: Any = None,
        prefix: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """All rows, or those of which a column is within bounds, in no particular order.

        Args:
            column: the one that has bounds: `at_least`, `above`, `at_most`, `below`, or for texts a `prefix`.
            limit: the most rows.

        Raises StateQueryError, WrongKey for a bound of another type.
        """
        bounds = {"from": at_least, "above": above, "to": at_most, "below": below, "prefix": prefix}
        given = {name: value for name, value in bounds.items() if value is not None}
        if limit is not None and limit < 1:
            raise WrongKey(f"a limit of {limit} rows", hint="give at least 1")
        ask = Ask(operation="scan", of=of, state=state, columns=tuple(columns), column=column, limit=limit or 0)

        def scanned(left: float) -> pa.Table:
            place = self._place(of, state, left)
            batch = None
            if given:
                type_ = _type_of(place.info.columns, column)
                arrays = [_typed([value], type_, column) for value in given.values()]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(given))
            return self._read(place.client, ask, batch, left)

        return self._again((of, state), scanned)

    # --- how it is asked

    def _lookup(self, of: str, keys: KeysAsked, state: str, columns: tuple[str, ...], left: float) -> pa.Table:
        place = self._place(of, state, left)
        typed = _keys(keys, place.info)
        ask = Ask(of=of, state=state, columns=columns)
        parts: list[pa.Table] = []
        # Keys of many bytes go in smaller parts.
        size = min(MOST_KEYS, max(1, MOST_BYTES // 2 * typed.num_rows // max(1, typed.nbytes)))
        for at in range(0, max(1, typed.num_rows), size):
            part = self._read(place.client, ask, typed.slice(at, size), left)
            if at:
                asked = pc.add(part.column(ASKED), pa.scalar(at, pa.int32()))
                part = part.set_column(0, part.schema.field(0), asked)
            parts.append(part)
        return parts[0] if len(parts) == 1 else pa.concat_tables([p.cast(parts[0].schema) for p in parts])

    def _place(self, of: str, state: str, left: float, *, anew: bool = False) -> _Place:
        """Where it is, as it is known; the server is asked where not."""
        found = self._places.get((of, state))
        if found is None or anew:
            path = (of, state) if state else (of,)
            with _Failures():
                info = self._client(self._address).get_flight_info(
                    flight.FlightDescriptor.for_path(*path), self._options(left)
                )
            key = tuple(json.loads((info.schema.metadata or {}).get(KEY, b"[]")))
            locations = [place.uri.decode() for place in info.endpoints[0].locations]
            client = self._client(locations[0] if locations else self._address)
            found = _Place(client, StateInfo(info.schema.remove_metadata(), key))
            self._places[of, state] = found
        return found

    def _client(self, address: str) -> flight.FlightClient:
        found = self._clients.get(address)
        if found is None:
            more = {} if self._root is None else {"tls_root_certs": self._root}
            found = self._clients[address] = flight.FlightClient(address, **more)
        return found

    def _options(self, left: float) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=max(left, 0.001), headers=self._headers)

    def _read(self, client: flight.FlightClient, ask: Ask, keys: pa.RecordBatch | None, left: float) -> pa.Table:
        ask = replace(ask, request=f"{self._name}-{next(self._numbers)}")
        with _Failures():
            return client.do_get(flight.Ticket(packed(ask, keys)), self._options(left)).read_all()

    def _again(self, at: tuple[str, ...], attempt: Callable[[float], T]) -> T:
        """What an attempt gives, given the seconds that are left; another one where that pays. `at`: what is asked."""
        until, pause, anew = time.monotonic() + self._timeout, _FIRST_PAUSE, True
        while True:
            left = until - time.monotonic()
            known = at in self._places
            try:
                return attempt(left)
            except _PASSING:
                # It may be somewhere else by now.
                self._places.clear()
                if time.monotonic() + pause >= until:
                    raise
            except StateQueryError:
                # What was known of it may have changed: once it is looked up again.
                if not known or not anew:
                    raise
                anew, pause = False, 0.0
                self._places.clear()
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, pause * 2))


class _Failures:
    """Gives failures of a call their class."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, flight.FlightUnavailableError):
            raise Unreachable(
                f"nobody answers: {_first_line(error)}", hint="is `sqlengine serve --state` running there?"
            )
        if isinstance(error, flight.FlightTimedOutError):
            raise TimedOut("there is no answer within the time limit", hint="give StateClient a longer timeout")
        if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
            raise NotAllowed(
                "the server does not let you ask", hint="give StateClient a user and a password, or a token"
            )
        if isinstance(error, flight.FlightError):
            raise _told(error) from None
        if isinstance(error, pa.ArrowException):
            raise Unreachable(f"the answer cannot be read: {_first_line(error)}") from None


def _told(error: flight.FlightError) -> StateQueryError:
    """The failure that a server has told."""
    try:
        facts = json.loads(error.extra_info or b"")
        kind = FAILURES.get(facts["code"], StateQueryError)
        found = kind(str(facts["message"]), code=str(facts["code"]), hint=str(facts["hint"]) or None)
        found.request = str(facts["request"])
        return found
    except (ValueError, KeyError, TypeError):
        return StateQueryError(_first_line(error))


def _first_line(error: object) -> str:
    return str(error).partition(". gRPC client")[0].partition("\n")[0][:300]


def _named(of: str, state: str) -> str:
    return f"{of}, state {state}," if state else of


def _keys(keys: KeysAsked, info: StateInfo) -> pa.RecordBatch:
    """Keys with the types of the columns. Raises WrongKey."""
    given: dict[str, Any]
    table: Any = keys
    if isinstance(table, pa.Table | pa.RecordBatch):
        given = dict(zip(table.schema.names, table.columns, strict=True))
    elif isinstance(keys, Mapping):
        given = dict(keys)
    elif len(info.key) == 1:
        given = {info.key[0]: keys}
    else:
        raise WrongKey(
            "values alone do not say which column they are of", hint="give a dict: the values by the name of the column"
        )
    if not given:
        raise WrongKey("there is no column to ask by", hint="scan gives all rows")
    arrays = [_typed(values, _type_of(info.columns, name), name) for name, values in given.items()]
    if len({len(array) for array in arrays}) != 1:
        raise WrongKey("the columns of the keys are not of the same length")
    return pa.RecordBatch.from_arrays(arrays, names=list(given))


def _type_of(columns: pa.Schema, name: str) -> pa.DataType:
    place = columns.get_field_index(name)
    if place < 0:
        raise WrongKey(f'there is no column "{name}"', hint=f"the columns are: {', '.join(columns.names)}")
    return columns.field(place).type


def _typed(values: Any, type_: pa.DataType, name: str) -> pa.Array:
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            if pa.types.is_string(values.type) != pa.types.is_string(type_) and not pa.types.is_large_string(
                values.type
            ):
                raise WrongKey(f'the key "{name}" is of type {type_}, not {values.type}')
            return values if values.type == type_ else values.cast(type_)
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise WrongKey(f'the key "{name}" is of type {type_}: {_first_line(error)}') from None
