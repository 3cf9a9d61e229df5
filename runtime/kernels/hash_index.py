"""The index of all keyed state: key words to dense slot ids, open addressing, whole batches at a time.

The table is one uint64 array with linear probing. An entry holds the upper 32 bits of the key's hash (so that nearly
every mismatch is seen without touching the keys) and the slot + 2 in the lower 32 bits; 0 is empty, 1 a tombstone. A
probe begins at the place that the upper bits name: so a table grows by passing over the old one in order, writing in
order, without a look at the keys.
Key words live beside it, addressed by slot, and every match is verified against them.
"""

from __future__ import annotations

import numpy as np

from runtime.core.cancellation import look
from runtime.core.errors import InternalError
from runtime.kernels.grow import grow, grown, kept_bytes
from runtime.kernels.hashing import hash_row, hash_words
from runtime.kernels.native import kernel
from runtime.kernels.slots import SlotAllocator

__all__ = ["HashIndex"]

_HIGH = np.uint64(0xFFFFFFFF00000000)
_LOW = np.uint64(0x00000000FFFFFFFF)
_TWO = np.uint64(2)
_SLOT_LIMIT = np.uint64((1 << 32) - 2)
_TOMBSTONE = np.uint64(1)
_MOST_KEYS = (1 << 31) - 4
_CHUNK = 65536
_MAX_LOAD = 0.6
_SMALLEST_TABLE = 64

_find = kernel("index_find", "wwnwII")
_claim = kernel("index_claim", "WwnwIII")
_settle = kernel("index_settle", "WWBnwIiii")
_refill = kernel("index_refill", "wW")


class HashIndex:
    """Maps key words (rows of a (n, width) uint64 array, see `KeyEncoder`) to slots.

    Slots are dense int64 ids, stable until removed, and reused afterwards; new keys get ascending slots in order of
    first occurrence (0, 1, 2, ... in a fresh index). Side arrays indexed by slot need `capacity` entries. Width 0 is
    allowed: all rows are then the same key. Up to 2**31 keys.
    """

    def __init__(self, width: int, capacity: int = 1024) -> None:
        self._width = width
        self._slots = SlotAllocator()
        capacity = max(capacity, 16)
        self._keys = np.empty((capacity, width), dtype=np.uint64)
        self._live = np.zeros(capacity, dtype=np.bool_)
        self._tombstones = 0
        self._reset_table(_table_size(capacity))

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._slots)

    @property
    def width(self) -> int:
        """Words per key."""
        return self._width

    @property
    def capacity(self) -> int:
        """The exclusive upper bound of slot ids handed out so far."""
        return self._slots.high

    @property
    def nbytes(self) -> int:
        high = self._slots.high
        return self._table.nbytes + kept_bytes(self._keys, high) + kept_bytes(self._live, high) + self._slots.nbytes

    def find(self, words: np.ndarray) -> np.ndarray:
        """The slot of each key, int64 (n,), -1 where the key is absent."""
        self._check(words)
        if len(self) == 0:
            return np.full(len(words), -1, dtype=np.int64)
        if len(words) == 1:
            return np.array([self._walk(words[0].tolist())[0]], np.int64)
        return self._locate(words)[0]

    def insert(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finds or adds each key: `(slots int64 (n,), is_new bool (n,))`.

        Equal keys within the batch get one slot; `is_new` is true only at the first occurrence of a key that was
        absent.
        """
        self._check(words)
        count = len(words)
        if count == 1:
            return self._insert_one(words)
        slots = np.empty(count, dtype=np.int64)
        is_new = np.zeros(count, dtype=np.bool_)
        start = 0
        while start < count:
            look()
            # Chunks, so that the table is sized for keys that exist, not for the worst case of a batch of duplicates.
            end = min(count, start + max(_CHUNK, len(self._table) >> 2))
            self._insert_chunk(words[start:end], slots[start:end], is_new[start:end])
            start = end
        return slots, is_new

    def remove(self, slots: np.ndarray) -> None:
        """Frees live slots (each at most once in the call).

        Raises:
            InternalError: a slot is not live.
        """
        if len(slots) == 0:
            return
        if not self._live[slots].all():
            raise InternalError("a hash index was asked to remove a slot that holds no key")
        words = self._keys[slots]
        if len(slots) == 1:
            places = np.array([self._walk(words[0].tolist())[1]], np.int64)
        else:
            places = self._locate(words)[1]
        self._table[places] = _TOMBSTONE
        # Before an empty place nothing can be further along the probe: such a tombstone is simply empty.
        followed = self._table[(places + 1) & self._mask] == 0
        self._table[places[followed]] = 0
        self._tombstones += len(slots) - int(np.count_nonzero(followed))
        self._live[slots] = False
        self._slots.free(slots)

    def keys(self, slots: np.ndarray) -> np.ndarray:
        """The key words of live slots, uint64 (n, width)."""
        return self._keys.take(slots, axis=0)

    def live_slots(self) -> np.ndarray:
        """All live slots, ascending, int64. Cost follows the size of the index: for snapshots and full scans."""
        return np.flatnonzero(self._live[: self._slots.high])

    def rekey(self, words: np.ndarray) -> None:
        """Replaces the keys of all live slots (`words` in the order of `live_slots`), slots unchanged.

        For owners that re-encode their keys, see `KeyEncoder.retain`.
        """
        self._check(words)
        live = self.live_slots()
        self._keys[live] = words
        self._fill((hash_words(words) & _HIGH) | (live.view(np.uint64) + _TWO), 0)

    def clear(self) -> None:
        """Removes all keys and gives the memory back."""
        self._slots.clear()
        self._keys = np.empty((1024, self._width), dtype=np.uint64)
        self._live = np.zeros(1024, dtype=np.bool_)
        self._reset_table(_table_size(1024))

    def _check(self, words: np.ndarray) -> None:
        if words.ndim != 2 or words.shape[1] != self._width or words.dtype != np.uint64:
            raise InternalError(f"a hash index of width {self._width} got {words.dtype} keys of shape {words.shape}")

    def _reset_table(self, size: int) -> None:
        self._table = np.zeros(size, dtype=np.uint64)
        self._mask = size - 1
        self._shift = np.uint64(64 - (size.bit_length() - 1))
        self._tombstones = 0

    def _locate(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slot of each key or -1, and the table place where its probe ended (its entry, or the first empty place)."""
        if _find is None:
            return self._probe(words, hash_words(words))
        slots, places = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
        _find(self._table, self._keys, self._width, words, slots, places)
        return slots, places

    def _probe(self, words: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`_locate` with numpy."""
        places = (hashes >> self._shift).view(np.int64)
        tags = hashes & _HIGH
        entry = self._table[places]
        empty = entry == 0
        entry ^= tags
        # Now a matching tag leaves slot + 2; minus two (wrapping) one comparison rules out empty and tombstone as well.
        entry -= _TWO
        matching = entry < _SLOT_LIMIT
        # Most keys are decided here, so all rows take part; rows without a candidate look at slot 0 in vain.
        found = np.where(matching, entry, 0).astype(np.int64)
        if self._width == 1:
            matching &= self._keys[:, 0].take(found) == words[:, 0]
        else:
            matching &= _rows_equal(self._keys.take(found, axis=0), words)
        slots = np.where(matching, found, -1)
        rows = np.flatnonzero(~(empty | matching))
        while len(rows):
            place = places[rows]
            place += 1
            place &= self._mask
            places[rows] = place
            entry = self._table[place]
            done = entry == 0
            entry ^= tags[rows]
            entry -= _TWO
            local = np.flatnonzero(entry < _SLOT_LIMIT)
            if len(local):
                found = entry[local].astype(np.int64)
                same = self._same(found, words, rows[local])
                local = local[same]
                slots[rows[local]] = found[same]
                done[local] = True
            rows = rows[~done]
        return slots, places

    def _same(self, slots: np.ndarray, words: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Whether the key of each slot equals the row of `words`."""
        if self._width == 1:
            return self._keys[:, 0][slots] == words[:, 0][rows]
        kept = self._keys.take(slots, axis=0)
        asked = words.take(rows, axis=0)
        return _rows_equal(kept, asked)

    def _walk(self, words: list[int]) -> tuple[int, int, int]:
        """Of one key: its slot or -1, the place where its probe ended, and the part of its hash that entries hold."""
        hashed = hash_row(words)
        tag = hashed & int(_HIGH)
        place = hashed >> int(self._shift)
        while True:
            entry = self._table.item(place)
            slot = (entry ^ tag) - 2
            if entry == 0:
                return -1, place, tag
            if 0 <= slot < int(_SLOT_LIMIT) and self._keys[slot].tolist() == words:
                return slot, place, tag
            place = (place + 1) & self._mask

    def _insert_one(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`insert` of one key, in plain numbers: as arrays of one element they would cost ten times as much."""
        if len(self) + self._tombstones + 1 > _MAX_LOAD * len(self._table):
            self._rebuild(1)
        slot, place, tag = self._walk(words[0].tolist())
        if slot >= 0:
            return np.array([slot], np.int64), np.array([False])
        if len(self) >= _MOST_KEYS:
            raise InternalError("a hash index holds more than two thousand million keys")
        slots = self._make_room(1)
        slot = slots.item()
        self._keys[slot] = words[0]
        self._live[slot] = True
        self._table[place] = tag | (slot + 2)
        return slots, np.array([True])

    def _insert_chunk(self, words: np.ndarray, slots: np.ndarray, is_new: np.ndarray) -> None:
        count = len(words)
        if len(self) + self._tombstones + count > _MAX_LOAD * len(self._table):
            self._rebuild(count)
        if len(self) + count > _MOST_KEYS:
            raise InternalError("a hash index holds more than two thousand million keys")
        if _claim is not None and _settle is not None:
            first, places = np.empty(count, np.int64), np.empty(count, np.int64)
            new = _claim(self._table, self._keys, self._width, words, slots, first, places)
            if new:
                fresh = self._make_room(new)
                _settle(self._table, self._keys, self._live, self._width, words, slots, first, places, fresh)
                is_new[first[:new]] = True
            return
        hashes = hash_words(words)
        found, places = self._probe(words, hashes)
        slots[:] = found
        missing = np.flatnonzero(found < 0)
        if len(missing) == 0:
            return
        first = self._claim(words, hashes, places, missing, slots)
        fresh = self._make_room(len(first))
        self._keys[fresh] = words[first]
        self._live[fresh] = True
        self._table[places[first]] = (hashes[first] & _HIGH) | (fresh.astype(np.uint64) + _TWO)
        is_new[first] = True
        if len(first) == len(missing):
            slots[first] = fresh
            return
        # `_claim` left, for every missing row, the row of its key's first occurrence, as -2 - row.
        fresh_of_row = np.empty(count, dtype=np.int64)
        fresh_of_row[first] = fresh
        slots[missing] = fresh_of_row[-2 - slots[missing]]

    def _make_room(self, count: int) -> np.ndarray:
        """Slots for so many new keys."""
        fresh = self._slots.allocate(count)
        grow(self, "_keys", self._slots.high)
        self._live = grown(self._live, self._slots.high, False)
        return fresh

    def _claim(
        self, words: np.ndarray, hashes: np.ndarray, places: np.ndarray, missing: np.ndarray, slots: np.ndarray
    ) -> np.ndarray:
        """Finds an empty place for every absent key; returns the rows of first occurrences, ascending.

        All missing rows advance one place a round. Equal keys share their hash, so they stand at the same place in
        the same round: either one of them has claimed it, or a different key has. Hence whatever was there before the
        round is certainly another key, and comparisons are only among the rows of this chunk.
        """
        first = np.zeros(len(words), dtype=np.bool_)
        rows = missing
        place = places.take(rows)
        # Where a probe ended is an empty place, so that the first round need not look.
        vacant: np.ndarray | None = None
        while len(rows):
            here, where = (rows, place) if vacant is None else (rows[vacant], place[vacant])
            # numpy keeps the last of several assignments to one place: backwards, so that the first occurrence wins.
            self._table[where[::-1]] = here[::-1].view(np.uint64) + _TWO
            owner = (self._table.take(where) - _TWO).view(np.int64)
            settled = owner == here
            winners = here[settled]
            first[winners] = True
            places[winners] = where[settled]
            slots[winners] = -2 - winners
            if len(winners) < len(here):
                other = np.flatnonzero(~settled)
                same = other[hashes.take(owner.take(other)) == hashes.take(here.take(other))]
                taken, asked = owner.take(same), here.take(same)
                equal = _rows_equal(words.take(taken, axis=0), words.take(asked, axis=0))
                if not equal.all():
                    same, taken, asked = same[equal], taken[equal], asked[equal]
                slots[asked] = -2 - taken
                settled[same] = True
            if vacant is None:
                keep = ~settled
            else:
                keep = ~vacant
                keep[vacant] = ~settled
            rows = rows[keep]
            place = (place[keep] + 1) & self._mask
            vacant = self._table.take(place) == 0
        return np.flatnonzero(first)

    def _rebuild(self, extra: int) -> None:
        """A fresh table without tombstones, with room for `extra` more keys."""
        self._fill(self._table, extra)

    def _fill(self, entries: np.ndarray, extra: int) -> None:
        """A fresh table with these entries, tombstones and empty ones left out, and room for `extra` more."""
        self._reset_table(_table_size(len(self) + extra))
        if _refill is not None:
            _refill(entries, self._table)
            return
        entries = entries[entries > _TOMBSTONE]
        place = (entries >> self._shift).view(np.int64)
        while len(entries):
            vacant = np.flatnonzero(self._table.take(place) == 0)
            self._table[place.take(vacant)] = entries.take(vacant)
            left = self._table.take(place) != entries
            entries = entries[left]
            place = (place[left] + 1) & self._mask


def _rows_equal(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Row by row equality of two (n, width) arrays. Width 0: all equal."""
    width = left.shape[1]
    if width == 0:
        return np.ones(len(left), dtype=np.bool_)
    same = left[:, 0] == right[:, 0]
    for column in range(1, width):
        same &= left[:, column] == right[:, column]
    return same


def _table_size(keys: int) -> int:
    """The smallest power of two that holds `keys` at no more than the load limit."""
    size = _SMALLEST_TABLE
    while size * _MAX_LOAD < keys:
        size *= 2
    return size
