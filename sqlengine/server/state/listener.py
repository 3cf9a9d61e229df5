"""The port of the state server: Arrow Flight.

    GetFlightInfo [of, state]    what it has for columns and key, where it is, and a ticket for all of its rows
    ListFlights                  the same for all that can be asked
    DoGet ticket                 rows (`sqlengine.server.state.wire`)

Everything else is refused. A failure is that of its call: the code, the text and the advice are in its `extra_info`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
from pyarrow import flight

from runtime.core.errors import SqlEngineError, code_and_text
from runtime.core.logs import Log
from sqlengine.api.environment import TableEnvironment
from sqlengine.roles.authority import Authority
from sqlengine.server.access import Access
from sqlengine.server.lookups import Indices
from sqlengine.server.state.access import NAME, Caller, FlightAccess
from sqlengine.server.state.asked import Asked
from sqlengine.server.state.door import Door, peer_of
from sqlengine.server.state.failures import Malformed
from sqlengine.server.state.requests import Answer, Requests
from sqlengine.server.state.states import States
from sqlengine.server.state.wire import KEY, Ask, packed, unpacked
from sqlengine.server.tls import Tls

__all__ = ["StateServer"]

T = TypeVar("T")
_log = Log("server")
_MOST_NAME = 1024


class StateServer:
    """Serves the rows of tables and views, and the state of jobs, by key.

    Args:
        environment: a session of the database; the server gets one of its own.
        access: who may ask; everybody, if not given.
        tls: how connections are encrypted; None: they are not.
        ports: they are tried in this order; 0 is any that is free.
        threads: so many requests are carried out at once.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        *,
        access: Access | None = None,
        tls: Tls | None = None,
        ports: Sequence[int] = (0,),
        threads: int = 4,
    ) -> None:
        self._environment = environment.new_session()
        session = self._environment.session
        self.requests = Requests(States(session, Indices.of(session.database)), threads)
        session.database.metrics.add(self.requests.samples)
        self._access = FlightAccess(access or Access(session.database, trusting=True))
        self._tls = tls
        self._ports = tuple(ports)
        self._door: Door | None = None
        self._flight: _Flight | None = None
        self.address = ""
        """`HOST:PORT`, once it listens."""

    def __enter__(self) -> StateServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """See `listen`; `port` is the first of the ports."""
        return self.listen(host)

    def listen(self, host: str) -> tuple[str, int]:
        """Listen at the first port that is free; the address. Raises OSError when none is."""
        if not self._ports:
            raise OSError("no port is given")
        door = self._door = Door(self._tls)
        try:
            self._flight = _Flight(self.requests, door.inside, self._access)
        except pa.ArrowException as error:
            raise OSError(f"the server cannot be started: {error}") from error
        chosen = self._chosen(door, host)
        self.address = f"{host}:{chosen}"
        return host, chosen

    def _chosen(self, door: Door, host: str) -> int:
        for port in self._ports[:-1]:
            try:
                return door.listen(host, port)
            except OSError as error:
                _log.info("the port %d is taken: %s", port, error)
        return door.listen(host, self._ports[-1])

    async def stop(self) -> None:
        """Take no more requests."""
        self.close()

    def close(self) -> None:
        """Take no more requests; those at hand end with an error."""
        self.requests.close()
        if self._door is not None:
            self._door.close()
        if self._flight is not None:
            self._flight.shutdown()
        self._environment.close()


class _Flight(flight.FlightServerBase):
    def __init__(self, requests: Requests, place: str, access: FlightAccess) -> None:
        self._requests = requests
        self._audit = access.audit
        super().__init__(f"grpc+unix://{place}", middleware={NAME: access})

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        data = ticket.ticket
        with _told(lambda: unpacked(data)[0].request):
            answer = self._requests.answer(data, _who(context))
        self._write_down(data, context)
        return flight.GeneratorStream(answer.schema, _pieces(answer))

    def _write_down(self, data: bytes, context: Any) -> None:
        """In the audit, where there is one."""
        if self._audit is not None:
            ask, keys = unpacked(data)
            state = ask.of if not ask.state else f"{ask.of} {ask.state}"
            many = None if keys is None else keys.num_rows
            self._audit.tell("read", "state", peer_of(context.peer()), _who(context).user, state=state, keys=many)

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        with _told():
            of, state = _named(descriptor)
            return _info(self._requests.described(of, state, _who(context)), of, state)

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        with _told():
            of, state = _named(descriptor)
            return flight.SchemaResult(_schema(self._requests.described(of, state, _who(context))))

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        with _told():
            ask = packed(Ask(operation="states"))
            for batch in self._requests.answer(ask, _who(context)).batches:
                for row in batch.to_pylist():
                    names = (row["of"],) if row["state"] is None else (row["of"], row["state"])
                    descriptor = flight.FlightDescriptor.for_path(*names)
                    ticket = packed(Ask(operation="scan", of=row["of"], state=row["state"] or ""))
                    yield flight.FlightInfo(
                        pa.schema([]), descriptor, [flight.FlightEndpoint(ticket, [])], row["rows"] or -1, -1
                    )

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> NoReturn:
        _refuse("DoPut")

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> NoReturn:
        _refuse("DoExchange")

    def do_action(self, context: Any, action: Any) -> NoReturn:
        _refuse("DoAction")

    def list_actions(self, context: Any) -> Iterable[tuple[str, str]]:
        return ()


def _who(context: Any) -> Authority:
    """On whose behalf a call comes."""
    caller = context.get_middleware(NAME)
    assert isinstance(caller, Caller)
    return caller.authority


def _pieces(answer: Answer) -> Iterator[pa.RecordBatch]:
    with _told():
        yield from answer.batches


def _named(descriptor: flight.FlightDescriptor) -> tuple[str, str]:
    path = descriptor.path or ()
    if not 1 <= len(path) <= 2 or any(len(part) > _MOST_NAME for part in path):
        raise Malformed("the descriptor is no path of a name, and perhaps a state")
    try:
        names = [part.decode() for part in path]
    except UnicodeDecodeError as error:
        raise Malformed("the descriptor is no UTF-8") from error
    return names[0], names[1] if len(names) == 2 else ""


def _schema(asked: Asked) -> pa.Schema:
    return asked.columns.with_metadata({KEY: json.dumps(asked.key).encode()})


def _info(asked: Asked, of: str, state: str) -> flight.FlightInfo:
    """No location: it is where the question was."""
    names = (of, state) if state else (of,)
    ticket = packed(Ask(operation="scan", of=of, state=state))
    endpoint = flight.FlightEndpoint(ticket, [])
    return flight.FlightInfo(_schema(asked), flight.FlightDescriptor.for_path(*names), [endpoint], -1, -1)


def _refuse(method: str) -> NoReturn:
    with _told():
        raise Malformed(f"{method} is not served", hint="GetFlightInfo, ListFlights, GetSchema and DoGet are")


@contextmanager
def _told(request: Callable[[], str] = str) -> Iterator[None]:
    """What is raised is told to the client, without a stack trace.

    Args:
        request: whose failure it is.
    """
    try:
        yield
    except SqlEngineError as error:
        code = code_and_text(error)[0]
        try:
            name = request()
        except SqlEngineError:
            name = ""
        facts = {"code": code, "message": error.message, "hint": error.hint or "", "request": name}
        raise flight.FlightServerError(f"{code} {error.message}", json.dumps(facts).encode()) from None
