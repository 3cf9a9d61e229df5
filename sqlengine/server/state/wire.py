"""What a client of a state server sends: a ticket of Arrow Flight, read here as if a stranger had written it.

    5 bytes    "sqst" and the version of this form (1)
    4 bytes    the length of the header, little-endian
    header     JSON: what is asked for (`Ask`)
    the rest   an Arrow IPC stream of one batch: the keys, or the bounds of a scan; may be missing

An answer is a Flight stream. Its schema says in its metadata to which request it belongs and of which epoch it is. Of a
lookup its first columns are `$asked`, the position of the key, and `$found`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pyarrow as pa

from runtime.checkpoint.arrow_streams import read_streams
from runtime.core.strict_json import read_json
from sqlengine.server.state.failures import Malformed

__all__ = ["ASKED", "EPOCH", "FOUND", "KEY", "MOST_BYTES", "MOST_KEYS", "REQUEST", "Ask", "packed", "unpacked"]

_BEGIN = b"sqst\x01"
MOST_BYTES = 16 * 1024 * 1024
"""Of a ticket."""
MOST_KEYS = 100_000
"""Of one request."""
_MOST_HEADER = 16 * 1024
_MOST_NAME = 1024
_MOST_COLUMNS = 4096

ASKED, FOUND = "$asked", "$found"
REQUEST, EPOCH, KEY = b"sqlengine.request", b"sqlengine.epoch", b"sqlengine.key"
"""Metadata of schemas: whose answer it is, of which epoch; and the names of the columns of the key, as JSON."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client asks for.

    Attributes:
        request: a text of the client's that its answer, and its failure, have.
        operation: `lookup` of keys, `scan` of rows, `states` for a list of what can be asked.
        of: a table, a materialized view or a job.
        state: the state of a job; empty for the rows of a table or view.
        columns: those that are wanted; empty for all.
        column: of a scan, the one that has bounds.
        limit: the most rows of a scan; 0 for all.
    """

    request: str = ""
    operation: str = "lookup"
    of: str = ""
    state: str = ""
    columns: tuple[str, ...] = ()
    column: str = ""
    limit: int = 0


def packed(ask: Ask, keys: pa.RecordBatch | None = None) -> bytes:
    """A ticket."""
    header = json.dumps(asdict(ask)).encode()
    rest = b""
    if keys is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, keys.schema) as stream:
            stream.write_batch(keys)
        rest = sink.getvalue().to_pybytes()
    return b"".join((_BEGIN, len(header).to_bytes(4, "little"), header, rest))


def unpacked(ticket: bytes) -> tuple[Ask, pa.RecordBatch | None]:
    """What a ticket says. Raises Malformed."""
    if len(ticket) > MOST_BYTES:
        raise Malformed(f"the request has {len(ticket)} bytes, and may have {MOST_BYTES}", hint="ask for fewer keys")
    if ticket[:4] != _BEGIN[:4] or len(ticket) < 9:
        raise Malformed("the ticket is none of a state server", hint="ask with sqlengine.state.StateClient")
    if ticket[:5] != _BEGIN:
        raise Malformed(
            f"the request has version {ticket[4]} of its form, and only 1 is known", hint="use this version"
        )
    end = 9 + int.from_bytes(ticket[5:9], "little")
    if end > len(ticket) or end - 9 > _MOST_HEADER:
        raise Malformed("the header of the request is too long, or cut off")
    try:
        ask = _ask(read_json(ticket[9:end], depth=3))
        keys = _batch(ticket[end:]) if len(ticket) > end else None
    except ValueError as error:
        raise Malformed(f"the request cannot be read: {error}") from error
    return ask, keys


def _batch(data: bytes) -> pa.RecordBatch:
    found: list[pa.RecordBatch] = []
    for batch in read_streams(pa.py_buffer(data)):
        found.append(batch)
        if len(found) > 1 or batch.num_rows > MOST_KEYS:
            raise ValueError(f"there may be one batch of at most {MOST_KEYS} keys")
    if not found:
        raise ValueError("there are no keys")
    return found[0]


def _ask(header: object) -> Ask:
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    known = asdict(Ask())
    unknown = sorted(set(map(str, header)) - set(known))
    if unknown:
        raise ValueError(f"the header has the unknown member {unknown[0][:64]!r}")
    given: dict[str, object] = {**known, **header}
    for name, value in given.items():
        if name == "limit":
            if type(value) is not int or value < 0:
                raise ValueError("limit is no count")
        elif name == "columns":
            if not isinstance(value, list | tuple) or len(value) > _MOST_COLUMNS or not all(map(_is_name, value)):
                raise ValueError("columns is no list of names")
            given[name] = tuple(value)
        elif not _is_name(value):
            raise ValueError(f"{name} is no text of at most {_MOST_NAME} characters")
    return Ask(**given)  # type: ignore[arg-type]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_NAME and "\0" not in value
