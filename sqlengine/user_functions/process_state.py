"""State and timers of process table functions: Python objects by key slot, and the tables as which they are saved."""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.clock import MAX_WATERMARK
from runtime.core.errors import ExpressionError
from runtime.core.types import DataType, TypeRoot
from runtime.plan.state import StateSpec, column_names
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from runtime.state.table import TOUCHED, StateTable, every_row
from sqlengine.user_functions.scalar import as_column
from sqlengine.user_functions.views import ListView, MapView
from sqlengine.values.rows import python_values

__all__ = ["KeptState", "Timers", "as_milliseconds", "state_table"]

_EPOCH = dt.datetime(1970, 1, 1)
_MILLISECOND = dt.timedelta(milliseconds=1)
_OBJECT = 200
"""About how many bytes an object in memory has."""
_MOST_AT_END = 100_000


def as_milliseconds(time: Any) -> int:
    """A datetime, or milliseconds since the epoch, as these. Raises TypeError for anything else."""
    if isinstance(time, dt.datetime):
        plain = time if time.tzinfo is None else time.astimezone(dt.UTC).replace(tzinfo=None)
        return (plain - _EPOCH) // _MILLISECOND
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    raise TypeError(f"the time of a timer is a datetime or a number of milliseconds, not {time!r}")


class StateRow:
    """A state of a ROW type: its fields can be read and set, and are None at first."""

    __slots__ = ()

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, None)

    def __repr__(self) -> str:
        return f"({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__slots__)})"


def state_table(
    spec: StateSpec,
    ttl: int,
    live: Callable[[], np.ndarray],
    read: Callable[[np.ndarray], list[pa.Array]],
    load: Callable[[list[pa.Array]], np.ndarray],
) -> StateTable:
    """The table of a state by key slot: the columns of its spec, and with a time to live when it was used."""
    columns = [(n, f.type.arrow) for n, f in zip(column_names(spec.schema), spec.schema, strict=True)]
    if ttl:
        columns.append((TOUCHED, pa.int64()))
    return StateTable(spec.name, columns, live=live, read=read, load=load, key=spec.key_names, of=every_row, ttl=ttl)


class _Objects(dict[int, Any]):
    """Objects by key slot; what is asked for in brackets and is not there is made."""

    def __init__(self, new: Callable[[], Any]) -> None:
        super().__init__()
        self._new = new

    def __missing__(self, slot: int) -> Any:
        held = self[slot] = self._new()
        return held


class _Kept:
    """Objects by key slot, and their table."""

    def __init__(
        self, owner: str, spec: StateSpec, width: int, keys: KeyIndex, ttl: int, new: Callable[[], Any]
    ) -> None:
        self._keys = keys
        self._type = spec.schema[width].type.with_nullable(True)
        self._named = f"{owner} (its state {spec.name})"
        self._width = width
        self._objects = _Objects(new)
        self._idle = IdleSlots(ttl) if ttl else None
        self.table = state_table(spec, ttl, lambda: np.array(sorted(self._objects), np.int64), self._read, self._load)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def nbytes(self) -> int:
        """About how large the objects are."""
        return _OBJECT * len(self._objects)

    def expire(self, now: int) -> np.ndarray:
        """Forgets what was not used for longer than its time to live; the slots of that."""
        if self._idle is None:
            return np.empty(0, np.int64)
        expired = self._idle.expired(now)
        for slot in expired.tolist():
            self._objects.pop(slot, None)
        return expired

    def clear(self, slot: int) -> None:
        """Forgets the object of a key."""
        self._objects.pop(slot, None)

    def settle(self, slots: Sequence[int], touched: np.ndarray, now: int) -> np.ndarray:
        """Notes that the objects of these slots may have changed; which of them there are."""
        objects, empty = self._objects, self._is_empty
        live = np.zeros(len(slots), np.bool_)
        for at, slot in enumerate(slots):
            held = objects.get(slot)
            if held is not None:
                if empty(held):
                    del objects[slot]
                else:
                    live[at] = True
        self.table.wrote(touched[live])
        self.table.freed(touched[~live])
        if self._idle is not None:
            self._idle.forget(touched[~live])
            self._idle.touch(touched[live], now)
        return live

    def _is_empty(self, held: Any) -> bool:
        return not held

    def _read(self, slots: np.ndarray) -> list[pa.Array]:
        values = [self._saved(self._objects[slot]) for slot in slots.tolist()]
        column = as_column(self._named, values, self._type)
        return [*self._keys.columns(slots), column, *([] if self._idle is None else [self._idle.times(slots)])]

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        keys, column = columns[: self._width], columns[self._width]
        slots, _ = self._keys.insert(keys, len(column))
        for slot, value in zip(slots.tolist(), python_values(column, self._type), strict=True):
            self._objects[slot] = self._loaded(value)
        if self._idle is not None:
            self._idle.restore(slots, columns[self._width + 1])
        return slots

    def _saved(self, held: Any) -> Any:
        return list(held)

    def _loaded(self, value: Any) -> Any:
        return value


class KeptState(_Kept):
    """A state of a function: a row with fields, a `ListView` or a `MapView` for each key."""

    def __init__(
        self, owner: str, spec: StateSpec, width: int, type_: DataType, ttl: int, keys: KeyIndex | None
    ) -> None:
        assert keys is not None
        self.name = spec.name
        self._root = type_.root
        self._fields = tuple(f.name for f in type_.fields) if type_.root is TypeRoot.ROW else ()
        self._record: Any = type(spec.name, (StateRow,), {"__slots__": self._fields})
        made = {TypeRoot.ROW: self._record, TypeRoot.ARRAY: ListView}.get(self._root, MapView)
        super().__init__(owner, spec, width, keys, ttl, made)
        self.at = self._objects.__getitem__
        """The object of a key, an empty one when there is none."""

    def _is_empty(self, held: Any) -> bool:
        if self._root is TypeRoot.ROW:
            return all(getattr(held, name) is None for name in self._fields)
        return not held

    def _saved(self, held: Any) -> Any:
        match self._root:
            case TypeRoot.ROW:
                return {name: getattr(held, name) for name in self._fields}
            case TypeRoot.ARRAY:
                return list(held)
            case _:
                return [{"key": key, "value": value} for key, value in held.items()]

    def _loaded(self, value: Any) -> Any:
        if self._root is TypeRoot.ROW:
            held = self._record()
            for name, part in zip(self._fields, value, strict=True):
                setattr(held, name, part)
            return held
        return ListView(value) if self._root is TypeRoot.ARRAY else MapView(tuple(entry) for entry in value)


class Timers(_Kept):
    """The timers of each key: by name, or by time those that have none. All of them stand in a heap by time; one that is
    moved to a later time stands at the earlier one until that comes, so that moving it costs no place in the heap."""

    def __init__(self, owner: str, spec: StateSpec, width: int, keys: KeyIndex | None) -> None:
        assert keys is not None
        super().__init__(owner, spec, width, keys, 0, dict)
        self._heap: list[tuple[int, int, int, str | int]] = []
        self._number = 0
        self._ended: dict[int, int] = {}

    def register(self, slot: int, name: str | None, time: int) -> None:
        """A timer of a key; one of the same name is replaced."""
        key = time if name is None else name
        mine = self._objects[slot]
        if name is None and key in mine:
            return
        self._number += 1
        before = mine.get(key)
        mine[key] = (time, self._number)
        if before is None or before[0] > time:
            heapq.heappush(self._heap, (time, self._number, slot, key))

    def clear(self, slot: int, key: str | int | None = None) -> None:
        """Takes a timer back."""
        mine = self._objects.get(slot)
        if mine and key is not None:
            mine.pop(key, None)

    def clear_all(self, slot: int) -> None:
        """Takes all timers of a key back."""
        self._objects.pop(slot, None)

    @property
    def next(self) -> int | None:
        """No timer is set for an earlier time."""
        return self._heap[0][0] if self._heap else None

    def begin(self) -> None:
        """The watermark has moved."""
        self._ended = {}

    def pop(self, watermark: int) -> tuple[int, int, str | None] | None:
        """The next timer that the watermark has passed: time, slot of its key, and name. Raises ExpressionError E2113 when
        the input has ended, and timers that set one another go on without end."""
        for time, number, slot, key in self.due(watermark):
            if self.fires(slot, time, number, key, watermark):
                return time, slot, key if isinstance(key, str) else None
        return None

    def due(self, watermark: int) -> Iterator[tuple[int, int, int, str | int]]:
        """Takes what the watermark has passed out of the heap, in order: time, number, slot and key. It may have been
        taken back or moved since: `fires` tells."""
        heap = self._heap
        while heap and heap[0][0] <= watermark:
            time, number, slot, key = heapq.heappop(heap)
            if self._is_set(slot, time, number, key):
                yield time, number, slot, key

    def fires(self, slot: int, time: int, number: int, key: str | int, watermark: int) -> bool:
        """Whether a timer is still set; it is not any more."""
        if not self._is_set(slot, time, number, key):
            return False
        del self._objects[slot][key]
        if watermark == MAX_WATERMARK:
            self._count(slot)
        return True

    def _is_set(self, slot: int, time: int, number: int, key: str | int) -> bool:
        """Whether a timer is set for this time. One that was moved goes to its own place in the heap."""
        mine = self._objects.get(slot)
        held = None if mine is None else mine.get(key)
        if held == (time, number):
            return True
        if held is not None:
            heapq.heappush(self._heap, (*held, slot, key))
        return False

    def _count(self, slot: int) -> None:
        self._ended[slot] = self._ended.get(slot, 0) + 1
        if self._ended[slot] > _MOST_AT_END:
            raise ExpressionError(
                "the input has ended, and timers of a key set one another without end",
                code="E2113",
                hint="set no timer in on_timer when ctx.current_watermark() is datetime.max",
            )

    def moment(self, time: int, zoned: bool) -> dt.datetime:
        """Milliseconds as a datetime."""
        found = _EPOCH + dt.timedelta(milliseconds=time)
        return found.replace(tzinfo=dt.UTC) if zoned else found

    def restored(self) -> None:
        """All timers stand in the heap again."""
        self._heap = []
        for slot, mine in self._objects.items():
            for key, (time, _) in mine.items():
                self._number += 1
                mine[key] = (time, self._number)
                self._heap.append((time, self._number, slot, key))
        heapq.heapify(self._heap)

    def _saved(self, held: Any) -> Any:
        ordered = sorted(held.items(), key=lambda item: item[1][1])
        return [{"name": key if isinstance(key, str) else None, "time": time} for key, (time, _) in ordered]

    def _loaded(self, value: Any) -> Any:
        return {time if name is None else name: (time, 0) for name, time in value}
