"""What the engine uses of Arrow Flight; pyarrow has no types for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

class FlightError(Exception):
    extra_info: bytes
    def __init__(self, message: str = "", extra_info: bytes = b"") -> None: ...

class FlightServerError(FlightError, pa.ArrowException): ...
class FlightUnavailableError(FlightError, pa.ArrowException): ...
class FlightTimedOutError(FlightError, pa.ArrowException): ...
class FlightUnauthenticatedError(FlightError, pa.ArrowException): ...
class FlightUnauthorizedError(FlightError, pa.ArrowException): ...

class Ticket:
    ticket: bytes
    def __init__(self, ticket: bytes) -> None: ...

class Location:
    uri: bytes

class FlightDescriptor:
    path: list[bytes] | None
    @staticmethod
    def for_path(*path: str | bytes) -> FlightDescriptor: ...

class FlightEndpoint:
    ticket: Ticket
    locations: list[Location]
    def __init__(self, ticket: Ticket | bytes, locations: Sequence[Location | str]) -> None: ...

class FlightInfo:
    schema: pa.Schema
    descriptor: FlightDescriptor
    endpoints: list[FlightEndpoint]
    def __init__(
        self,
        schema: pa.Schema,
        descriptor: FlightDescriptor,
        endpoints: Sequence[FlightEndpoint],
        total_records: int = -1,
        total_bytes: int = -1,
    ) -> None: ...

class SchemaResult:
    schema: pa.Schema
    def __init__(self, schema: pa.Schema) -> None: ...

class FlightDataStream: ...

class GeneratorStream(FlightDataStream):
    def __init__(self, schema: pa.Schema, generator: Iterable[pa.RecordBatch]) -> None: ...

class FlightStreamReader:
    def read_all(self) -> pa.Table: ...
    def cancel(self) -> None: ...

class FlightCallOptions:
    def __init__(self, timeout: float | None = None, headers: Sequence[tuple[bytes, bytes]] | None = None) -> None: ...

class FlightClient:
    def __init__(self, location: str, *, tls_root_certs: bytes | None = None) -> None: ...
    def do_get(self, ticket: Ticket, options: FlightCallOptions | None = None) -> FlightStreamReader: ...
    def get_flight_info(self, descriptor: FlightDescriptor, options: FlightCallOptions | None = None) -> FlightInfo: ...
    def list_flights(self, criteria: bytes = b"", options: FlightCallOptions | None = None) -> Iterator[FlightInfo]: ...
    def close(self) -> None: ...

class ServerMiddleware: ...

class ServerMiddlewareFactory:
    def start_call(self, info: Any, headers: Mapping[str, Sequence[str | bytes]]) -> ServerMiddleware | None: ...

class FlightServerBase:
    port: int
    def __init__(
        self,
        location: str | None = None,
        *,
        tls_certificates: Sequence[tuple[bytes, bytes]] | None = None,
        middleware: Mapping[str, ServerMiddlewareFactory] | None = None,
    ) -> None: ...
    def shutdown(self) -> None: ...
