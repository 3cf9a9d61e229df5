"""State of process table functions that are called by epoch: columns by key slot, and what the function sees of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError, did_you_mean
from runtime.core.types import DataType, TypeRoot
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.plan.state import StateSpec
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex
from sqlengine.user_functions.process_state import state_table
from sqlengine.user_functions.scalar import as_column

__all__ = ["ColumnState", "StateColumns", "columns_by_name", "key_numbers", "wrong_columns"]


class ColumnState:
    """A state of a function, as columns: a ROW in a column for each field, an ARRAY in one, a MAP in one of lists of its
    entries. A key whose fields are all NULL, or whose list is NULL or empty, has none."""

    def __init__(
        self, owner: str, spec: StateSpec, width: int, type_: DataType, ttl: int, keys: KeyIndex | None
    ) -> None:
        assert keys is not None
        self.name = spec.name
        self.named = f"{owner} (its state {spec.name})"
        self.type = spec.schema[width].type.with_nullable(True)
        self.fields = type_.fields if type_.root is TypeRoot.ROW else ()
        self._keys = keys
        self._width = width
        self._columns = ColumnStore([f.type.arrow for f in self.fields] if self.fields else [self.type.arrow])
        self._there = np.zeros(0, np.bool_)
        self._count = 0
        self._idle = IdleSlots(ttl) if ttl else None
        self.table = state_table(spec, ttl, lambda: np.flatnonzero(self._there), self._read, self._load)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """How large the columns are."""
        return self._columns.nbytes + self._there.nbytes

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        """The fields at slots, or the one column; NULL where there is nothing."""
        return self._columns.take(np.where(self._is_there(slots), slots, -1))

    def put(self, slots: np.ndarray, value: pa.Array) -> None:
        """Writes a value of the state's type for each slot; no slot twice. NULL and what is empty forgets it."""
        value = as_column(self.named, value, self.type)
        there = ~_empty(value)
        self.clear(slots[~there])
        if not there.all():
            slots, value = slots[there], value.filter(pa.array(there))
        if len(slots):
            self._there = grown(self._there, int(slots.max()) + 1)
            self._count += len(slots) - int(np.count_nonzero(self._there[slots]))
            self._there[slots] = True
            self._columns.put(slots, value.flatten() if self.fields else [value])

    def clear(self, slots: np.ndarray) -> None:
        """Forgets what is at slots; no slot twice."""
        known = slots[self._is_there(slots)]
        self._there[known] = False
        self._count -= len(known)
        self._columns.free(known)

    def expire(self, now: int) -> np.ndarray:
        """Forgets what was not used for longer than its time to live; the slots of that."""
        expired = np.empty(0, np.int64) if self._idle is None else self._idle.expired(now)
        self.clear(expired)
        return expired

    def settle(self, slots: Sequence[int], touched: np.ndarray, now: int) -> np.ndarray:
        """Notes that what is at these slots may have changed; at which of them there is something."""
        del slots
        live = self._is_there(touched)
        self.table.wrote(touched[live])
        self.table.freed(touched[~live])
        if self._idle is not None:
            self._idle.forget(touched[~live])
            self._idle.touch(touched[live], now)
        return live

    def _is_there(self, slots: np.ndarray) -> np.ndarray:
        known = slots < len(self._there)
        known[known] = self._there[slots[known]]
        return known

    def _read(self, slots: np.ndarray) -> list[pa.Array]:
        found = self.take(slots)
        value = pa.StructArray.from_arrays(found, fields=list(self.type.arrow)) if self.fields else found[0]
        return [*self._keys.columns(slots), value, *([] if self._idle is None else [self._idle.times(slots)])]

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        slots, _ = self._keys.insert(columns[: self._width], len(columns[0]))
        self.put(slots, columns[self._width])
        if self._idle is not None:
            self._idle.restore(slots, columns[self._width + 1])
        return slots


class StateColumns:
    """A state of a function, for the keys of a call: row i belongs to key number i, see `EpochContext.keys`."""

    def __init__(self, kept: ColumnState, slots: np.ndarray) -> None:
        self._kept = kept
        self._slots = slots

    def get(self) -> Any:
        """What is kept for each key: a `RecordBatch` with the fields of a ROW; for an ARRAY or MAP an Arrow array of
        lists (of a MAP of its entries, structs of `key` and `value`). NULL where nothing is kept."""
        kept = self._kept
        found = kept.take(self._slots)
        return pa.RecordBatch.from_arrays(found, names=[f.name for f in kept.fields]) if kept.fields else found[0]

    def put(self, values: Any, keys: Any = None) -> None:
        """Keep values, one for each key, in the place of what was kept: all fields of a ROW as a `RecordBatch` or a dict
        of columns; for an ARRAY or MAP lists as `get` gives them. `keys`: the numbers of the keys that they belong to,
        each once; all keys in order if not given."""
        kept = self._kept
        if kept.fields:
            columns = columns_by_name(kept.named, values, [(f.name, f.type.with_nullable(True)) for f in kept.fields])
            value: pa.Array = pa.StructArray.from_arrays(
                columns, fields=list(kept.type.arrow), mask=pa.array(_all_null(columns))
            )
        else:
            value = as_column(kept.named, values, kept.type)
        kept.put(self._slots[key_numbers(kept.named, keys, len(self._slots), len(value))], value)

    def clear(self, keys: Any = None) -> None:
        """Forget what is kept for keys, given by their numbers; for all if not given."""
        kept = self._kept
        kept.clear(self._slots[key_numbers(kept.named, keys, len(self._slots), None)])


def columns_by_name(owner: str, values: Any, wanted: Sequence[tuple[str, DataType]]) -> list[pa.Array]:
    """Columns that a function gave as a `RecordBatch` or table, a dict by name, a tuple by position, or the only one by
    itself, as arrays of their types. Raises ExpressionError E2111 for others than the wanted ones."""
    names = [n for n, _ in wanted]
    if isinstance(values, (pa.RecordBatch, pa.Table)):
        values = dict(zip(values.schema.names, values.columns, strict=True))
    if isinstance(values, Mapping):
        for name in values:
            if name not in names:
                hint = did_you_mean(name, names) or f"the columns are {', '.join(names)}"
                raise wrong_columns(owner, f"the column '{name}', which there is not", hint)
        lacking = [n for n in names if n not in values]
        if lacking:
            raise wrong_columns(owner, f"no column '{lacking[0]}'", f"give {', '.join(names)}")
        given = [values[n] for n in names]
    else:
        given = list(values) if isinstance(values, tuple) else [values]
        if len(given) != len(names):
            raise wrong_columns(owner, f"{len(given)} columns for {len(names)}", f"give {', '.join(names)}")
    columns = [as_column(owner, v, t) for v, (_, t) in zip(given, wanted, strict=True)]
    if len({len(c) for c in columns}) > 1:
        raise wrong_columns(owner, f"columns of {', '.join(str(len(c)) for c in columns)} values", "give equally many")
    return columns


def key_numbers(owner: str, keys: Any, known: int, count: int | None) -> np.ndarray:
    """Numbers of keys, each once; `count` values are given for them. Raises ExpressionError E2111 for others."""
    numbers = np.arange(known) if keys is None else np.asarray(keys)
    if numbers.dtype.kind not in "iu" and not len(numbers):
        numbers = numbers.astype(np.int64)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise wrong_columns(owner, "keys that are no numbers", "give positions, as ctx.keys() does")
    if count is not None and count != len(numbers):
        raise wrong_columns(owner, f"{count} values for {len(numbers)} keys", "give a value for each key")
    if keys is not None and len(numbers):
        if numbers.min() < 0 or numbers.max() >= known:
            raise wrong_columns(owner, f"a key number that is not below {known}", "numbers are those of ctx.keys()")
        if np.bincount(numbers).max() > 1:
            raise wrong_columns(owner, "a key twice", "give each key once, with its last value")
    return numbers


def wrong_columns(owner: str, what: str, hint: str) -> ExpressionError:
    """The error of a function that gave what it should not."""
    return ExpressionError(f"the Python function {owner} gave {what}", code="E2111", hint=hint)


def _all_null(columns: Sequence[pa.Array]) -> np.ndarray:
    missing = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        nulls = null_mask(column)
        if nulls is None:
            return np.zeros(len(missing), np.bool_)
        missing &= nulls
    return missing


def _empty(value: pa.Array) -> np.ndarray:
    """Which values keep nothing."""
    if pa.types.is_struct(value.type):
        return _all_null(value.flatten())
    return (value.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)) == 0
