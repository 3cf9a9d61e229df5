"""Requests to the state server: read, carried out by threads of their own, counted.

The threads of the network only hand over: a question that takes long keeps no socket waiting, and there are never more
questions in memory than may wait.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import InternalError, SqlEngineError, code_and_text
from runtime.core.logs import Log
from runtime.core.metrics import Sample
from sqlengine.roles.authority import Authority
from sqlengine.server.state.asked import PIECE, Asked
from sqlengine.server.state.failures import Malformed, Overloaded, TimedOut, WrongKey
from sqlengine.server.state.states import States
from sqlengine.server.state.statistics import Statistics
from sqlengine.server.state.wire import ASKED, EPOCH, FOUND, REQUEST, Ask, unpacked

__all__ = ["Answer", "Requests"]

T = TypeVar("T")
_log = Log("server")
_WAITING_PER_THREAD = 64
_MOST_SCANS = 16
"""So many are sent at once: a client that does not read keeps what it has asked for in memory."""
_MOST_SECONDS = 60.0
"""So long a request waits for its answer at most."""


class Answer(NamedTuple):
    """Rows, all or piece by piece."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Requests:
    """See the module.

    Args:
        threads: so many requests are carried out at once.
    """

    def __init__(self, states: States, threads: int = 4) -> None:
        self.states = states
        self._statistics = Statistics()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="state")
        self._most = threads * _WAITING_PER_THREAD
        self._waiting = 0
        self._scans: weakref.WeakSet[_Pieces] = weakref.WeakSet()
        self._guard = threading.Lock()

    def samples(self) -> Iterator[Sample]:
        """See `Statistics.samples`."""
        return self._statistics.samples(self._waiting, self.states.nbytes)

    def close(self) -> None:
        """Carry out nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.states.close()

    def answer(self, ticket: bytes, who: Authority | None = None) -> Answer:
        """What a ticket asks for, by `who` (None: by the program itself). Raises SqlEngineError: a failure of this request alone."""
        started = time.perf_counter()
        try:
            ask, keys = unpacked(ticket)
        except Malformed:
            self._statistics.asked("")
            self._statistics.failed(Malformed.code)
            raise
        self._statistics.asked(ask.operation)
        found = self._counted(lambda: self._answer(ask, keys, who))
        count = keys.num_rows if keys is not None and ask.operation == "lookup" else 0
        self._statistics.answered(ask.operation, count, time.perf_counter() - started)
        return found

    def described(self, of: str, state: str, who: Authority | None = None) -> Asked:
        """What has these names. Raises SqlEngineError."""
        return self._counted(lambda: self.states.find(of, state, who))

    def _counted(self, call: Callable[[], T]) -> T:
        """What a call gives, in a thread of ours."""
        with self._guard:
            overloaded = self._waiting >= self._most
            self._waiting += not overloaded
        try:
            if overloaded:
                raise Overloaded(
                    f"{self._most} requests are waiting already", hint="ask again, or for more keys at once"
                )
            done = self._threads.submit(self._carried_out, call)
            return done.result(_MOST_SECONDS)
        except FutureTimeout as error:
            self._statistics.failed(TimedOut.code)
            raise TimedOut(f"there was no answer for {_MOST_SECONDS:g} s") from error
        except SqlEngineError as error:
            self._statistics.failed(code_and_text(error)[0])
            raise
        except Exception as error:
            _log.failure("a request to the state server has failed", error)
            self._statistics.failed(InternalError.code)
            raise InternalError(f"the request has failed: {type(error).__name__}") from error

    def _carried_out(self, call: Callable[[], T]) -> T:
        try:
            return call()
        finally:
            with self._guard:
                self._waiting -= 1

    def _answer(self, ask: Ask, keys: pa.RecordBatch | None, who: Authority | None) -> Answer:
        match ask.operation:
            case "lookup":
                return self._lookup(ask, keys, who)
            case "scan":
                return self._scan(ask, keys, who)
            case "states":
                listed = self.states.listed(who)
                schema = listed.schema.with_metadata({REQUEST: ask.request.encode()})
                return Answer(schema, iter(listed.replace_schema_metadata(schema.metadata).to_batches()))
            case _:
                raise Malformed(
                    f"the operation {ask.operation[:64]!r} is unknown", hint="lookup, scan and states are known"
                )

    def _lookup(self, ask: Ask, keys: pa.RecordBatch | None, who: Authority | None) -> Answer:
        if keys is None:
            raise Malformed("a lookup without keys", hint="send them as an Arrow stream behind the header")
        asked = self.states.find(ask.of, ask.state, who)
        wanted = _wanted(asked, ask)
        epoch, index, rows = asked.find(keys, wanted)
        count = keys.num_rows
        # A key that is not there has one row, of NULLs, at its place among the others.
        sizes = np.bincount(index, minlength=count)
        missing = np.flatnonzero(sizes == 0)
        if len(missing):
            order = np.argsort(np.concatenate([index, missing]), kind="stable")
            places = np.concatenate([np.arange(len(index)), np.full(len(missing), -1)])[order]
            index = np.concatenate([index, missing])[order]
            rows = rows.take(pa.array(places, mask=places < 0))
            found = pa.array(places >= 0)
        else:
            found = pa.array(np.ones(len(index), np.bool_))
        schema = pa.schema(
            [pa.field(ASKED, pa.int32()), pa.field(FOUND, pa.bool_()), *rows.schema], metadata=_metadata(ask, epoch)
        )
        batch = pa.RecordBatch.from_arrays([pa.array(index, pa.int32()), found, *rows.columns], schema=schema)
        return Answer(schema, (batch.slice(at, PIECE) for at in range(0, max(1, len(index)), PIECE)))

    def _scan(self, ask: Ask, bounds: pa.RecordBatch | None, who: Authority | None) -> Answer:
        asked = self.states.find(ask.of, ask.state, who)
        wanted = _wanted(asked, ask)
        if (bounds is None) != (not ask.column):
            raise Malformed("bounds of a scan need a column, and a column needs bounds")
        if bounds is not None:
            _check_bounds(asked.columns, ask.column, bounds)
        if len(self._scans) >= _MOST_SCANS:
            raise Overloaded(f"{_MOST_SCANS} scans are being read", hint="ask again, or look keys up")
        epoch, pieces = asked.scan()
        metadata = _metadata(ask, epoch)
        schema = pa.schema([asked.columns.field(name) for name in wanted], metadata=metadata)
        sent = _Pieces(_kept(pieces, ask, bounds, wanted, metadata))
        self._scans.add(sent)
        return Answer(schema, sent)


class _Pieces(Iterator[pa.RecordBatch]):
    """The rows of a scan, until somebody has read all of them, or nobody will."""

    def __init__(self, pieces: Iterator[pa.RecordBatch]) -> None:
        self._pieces = pieces

    def __next__(self) -> pa.RecordBatch:
        return next(self._pieces)


def _kept(
    pieces: Iterator[pa.RecordBatch],
    ask: Ask,
    bounds: pa.RecordBatch | None,
    wanted: list[str],
    metadata: dict[bytes, bytes],
) -> Iterator[pa.RecordBatch]:
    left = ask.limit or None
    for piece in pieces:
        kept = piece if bounds is None else piece.filter(_within(piece.column(ask.column), bounds))
        kept = kept if left is None else kept.slice(0, left)
        if kept.num_rows:
            yield kept.select(wanted).replace_schema_metadata(metadata)
        if left is not None:
            left -= kept.num_rows
            if not left:
                return


def _wanted(asked: Asked, ask: Ask) -> list[str]:
    unknown = [name for name in ask.columns if asked.columns.get_field_index(name) < 0]
    if unknown:
        raise WrongKey(f'there is no column "{unknown[0]}"', hint=f"the columns are: {', '.join(asked.columns.names)}")
    return list(dict.fromkeys(ask.columns)) or asked.columns.names


def _metadata(ask: Ask, epoch: int) -> dict[bytes, bytes]:
    return {REQUEST: ask.request.encode(), EPOCH: str(epoch).encode()}


_BOUNDS: dict[str, str] = {
    "from": "greater_equal",
    "above": "greater",
    "to": "less_equal",
    "below": "less",
    "prefix": "starts_with",
}


def _check_bounds(columns: pa.Schema, column: str, bounds: pa.RecordBatch) -> None:
    place = columns.get_field_index(column)
    if place < 0:
        raise WrongKey(f'there is no column "{column}"', hint=f"the columns are: {', '.join(columns.names)}")
    type_ = columns.field(place).type
    if bounds.num_rows != 1 or not bounds.num_columns:
        raise Malformed("bounds are one row", hint=f"with columns of {', '.join(_BOUNDS)}")
    for field in bounds.schema:
        if field.name not in _BOUNDS:
            raise Malformed(f"there is no bound {field.name[:64]!r}", hint=f"there are: {', '.join(_BOUNDS)}")
        if field.type != type_ or (field.name == "prefix" and type_ != pa.string()):
            raise WrongKey(f'the bound "{field.name}" is of type {field.type}, the column "{column}" of type {type_}')


def _within(column: pa.Array, bounds: pa.RecordBatch) -> pa.Array:
    """Which values of a column are within bounds; NULL is within none."""
    parts: list[pa.Array] = []
    for name in bounds.schema.names:
        value = bounds.column(name)[0]
        if name == "prefix":
            parts.append(pc.starts_with(column, value.as_py() or ""))
        else:
            parts.append(pc.call_function(_BOUNDS[name], [column, value]))
    return _all(parts)


def _all(parts: Sequence[pa.Array]) -> pa.Array:
    found = parts[0]
    for part in parts[1:]:
        found = pc.and_(found, part)
    return found
