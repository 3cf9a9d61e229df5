"""An ordered multimap for top-n, MIN and MAX under retraction, OVER windows, versions of temporal tables, and timers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from runtime.core.cancellation import look
from runtime.core.errors import InternalError
from runtime.kernels.grow import grown
from runtime.kernels.radix import radix_argsort
from runtime.kernels.sorted_run import SortedRun
from runtime.kernels.word_bytes import bytes_words, word_bytes

__all__ = ["SortedRuns"]

_SIGN = np.uint64(1 << 63)
_MERGE_RATIO = 4
_SMALL_RUN = 512
_SORTED_REQUESTS = 256
_ONES = np.uint64((1 << 64) - 1)
_ZERO = np.uint64(0)

_Bounds = list[tuple[SortedRun, np.ndarray, np.ndarray]]
"""Per run the positions [from, to) of each request."""


class SortedRuns:
    """Entries (partition, order words, seq, value), ordered by the first three, in a few sorted runs of growing sizes.

    - partition: a dense int64 slot (0 or more), for example of a `HashIndex`; a single queue uses partition 0.
    - order words: (n, width) uint64 as `OrderEncoder` makes them.
    - seq: int64, breaks ties, usually the number of arrival.
    - value: the id of the entry, a dense row slot; each id is in at most one entry at a time.

    An insert makes a new run; runs merge when the newer ones have grown to a quarter of the one before (a merge of
    sorted runs is one stable sort, linear for sorted input). Removal marks the entry dead; a run more than half dead
    is rewritten. So inserts and removals cost amortised O(log n) per entry; reads cost O(log n) per request and run,
    plus the result.
    """

    def __init__(self, width: int | None = None) -> None:
        self._width = width
        self._runs: list[SortedRun] = []
        self._run_of = np.empty(0, dtype=np.int64)
        self._place = np.empty(0, dtype=np.int64)
        self._next_seq = 0

    def __len__(self) -> int:
        """The number of live entries."""
        return sum(run.live for run in self._runs)

    @property
    def width(self) -> int | None:
        """The number of order words; None before the first insert if it was not given."""
        return self._width

    @property
    def nbytes(self) -> int:
        return self._run_of.nbytes + self._place.nbytes + sum(run.nbytes for run in self._runs)

    def insert(
        self, partitions: np.ndarray, order_words: np.ndarray, seqs: np.ndarray | None, values: np.ndarray
    ) -> None:
        """Adds entries; `seqs` None numbers them in order of arrival.

        Raises:
            InternalError: the order words have another width than before (pass the encoder's `adapt` to `widen` first).
        """
        if self._width is None:
            self._width = order_words.shape[1]
        count = len(values)
        if count == 0:
            return
        fresh = np.arange(self._next_seq, self._next_seq + count) if seqs is None else seqs
        arrival = np.ascontiguousarray(fresh, dtype=np.int64)
        self._next_seq = max(self._next_seq, int(arrival.max()) + 1)
        keys = self._keys(partitions, order_words, arrival.view(np.uint64) ^ _SIGN)
        columns = [partitions.astype(np.int64, copy=False), *(order_words[:, i] for i in range(self._width))]
        if count > 1 and (arrival[1:] < arrival[:-1]).any():
            columns.append(arrival.view(np.uint64) ^ _SIGN)
        order = radix_argsort(columns)
        high = int(values.max()) + 1
        self._run_of = grown(self._run_of, high, -1)
        self._place = grown(self._place, high)
        self._add(SortedRun(keys[order], values[order]))

    def remove(self, values: np.ndarray) -> None:
        """Removes the entries with these value ids (each once).

        Raises:
            InternalError: a value id has no live entry.
        """
        if len(values) == 0:
            return
        if int(values.max()) >= len(self._run_of) or int(values.min()) < 0:
            raise InternalError("sorted runs were asked to remove a value that they do not hold")
        owner = self._run_of[values]
        if (owner < 0).any():
            raise InternalError("sorted runs were asked to remove a value that they do not hold")
        self._run_of[values] = -1
        if len(self._runs) == 1:
            self._runs[0].kill(self._place[values])
        else:
            for number, run in enumerate(self._runs):
                mine = values[owner == number]
                if len(mine):
                    run.kill(self._place[mine])
        if any(2 * run.live < len(run) for run in self._runs):
            self._rewrite()

    def first(self, partitions: np.ndarray, limit: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first `limit` entries of each partition: `(partition_index, values)`, by request, then in order.

        Args:
            partitions: int64 (n,), may repeat; unknown and negative ones are empty.
            limit: one for all, or int64 (n,).
        """
        return self._ends(partitions, limit, backward=False)

    def last(self, partitions: np.ndarray, limit: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The last `limit` entries of each partition: `(partition_index, values)`, by request, then in (ascending)
        order.
        """
        return self._ends(partitions, limit, backward=True)

    def range(
        self,
        partitions: np.ndarray,
        low_words: np.ndarray | None,
        high_words: np.ndarray | None,
        low_inclusive: bool = True,
        high_inclusive: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The entries of each partition with order words between the bounds of its request: `(partition_index,
        values)`.

        Bounds are (n, width) words or None for no bound; they compare with the order words only. By request, then in
        order.
        """
        bounds = self._bounds(partitions, low_words, high_words, low_inclusive, high_inclusive)
        return self._gather(bounds, len(partitions), None, backward=False)

    def range_chunks(
        self, partitions: np.ndarray, low_words: np.ndarray, high_words: np.ndarray, max_pairs: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`range`, both bounds inclusive, in pieces of at most `max_pairs` pairs (what a single request finds comes in
        one piece), in the same order. The entries must not change meanwhile."""
        bounds = self._bounds(partitions, low_words, high_words, True, True)
        if not bounds:
            return
        ends = np.cumsum(sum(np.maximum(high - low, 0) for _, low, high in bounds))
        start = 0
        while start < len(partitions):
            look()
            done = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, done + max_pairs, side="right")))
            part = [(run, low[start:end], high[start:end]) for run, low, high in bounds]
            index, values = self._gather(part, end - start, None, backward=False)
            if len(index):
                yield index + start, values
            start = end

    def floor(self, partitions: np.ndarray, words: np.ndarray, inclusive: bool = True) -> np.ndarray:
        """For each request the last entry of the partition with order words <= (or <) the given: value ids, -1 if none.

        Among equal order words the one with the greatest seq.
        """
        bounds = self._bounds(partitions, None, words, True, inclusive)
        return self._single(bounds, len(partitions), backward=True)

    def ceiling(self, partitions: np.ndarray, words: np.ndarray, inclusive: bool = True) -> np.ndarray:
        """For each request the first entry of the partition with order words >= (or >) the given: value ids, -1 if
        none.
        """
        bounds = self._bounds(partitions, words, None, inclusive, True)
        return self._single(bounds, len(partitions), backward=False)

    def pop_below(self, partition: int, words: np.ndarray, inclusive: bool = False) -> np.ndarray:
        """Removes the entries of one partition with order words < (or <=) the bound, (width,) words; their values in
        order.
        """
        bound = np.asarray(words, dtype=np.uint64).reshape(1, -1)
        _, values = self.range(np.array([partition], dtype=np.int64), None, bound, True, inclusive)
        self.remove(values)
        return values

    def order_words_of(self, values: np.ndarray) -> np.ndarray:
        """The order words of live entries by value id, uint64 (n, width)."""
        return self._words_of(values)[:, 1:-1]

    def seqs_of(self, values: np.ndarray) -> np.ndarray:
        """The seq of live entries by value id, int64."""
        return (np.ascontiguousarray(self._words_of(values)[:, -1]) ^ _SIGN).view(np.int64)

    def _words_of(self, values: np.ndarray) -> np.ndarray:
        """The whole keys of live entries: partition, order words, seq."""
        keys = np.empty(len(values), dtype=f"S{8 * ((self._width or 0) + 2)}")
        owner = self._run_of[values]
        for number, run in enumerate(self._runs):
            mine = np.flatnonzero(owner == number)
            keys[mine] = run.keys[self._place[values[mine]]]
        return bytes_words(keys)

    def widen(self, adapt: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replaces the order words of all entries by `adapt(words)`, which must not change their order.

        For encoders that have widened their layout: `runs.widen(encoder.adapt)`. Costs O(n).
        """
        width = self._width
        for number, run in enumerate(self._runs):
            words = bytes_words(run.keys)
            adapted = adapt(words[:, 1:-1])
            width = adapted.shape[1]
            wider = SortedRun(word_bytes(np.concatenate((words[:, :1], adapted, words[:, -1:]), axis=1)), run.values)
            wider.kill(np.flatnonzero(~run.alive))
            self._runs[number] = wider
        if not self._runs:
            width = None
        self._width = width

    def clear(self) -> None:
        """Removes all entries and gives the memory back."""
        self._runs = []
        self._run_of = np.empty(0, dtype=np.int64)
        self._place = np.empty(0, dtype=np.int64)

    def _keys(self, partitions: np.ndarray, words: np.ndarray, seq: np.ndarray | np.uint64) -> np.ndarray:
        if words.shape[1] != self._width:
            raise InternalError(f"order words of width {words.shape[1]} where the sorted runs hold {self._width}")
        whole = np.empty((len(partitions), words.shape[1] + 2), dtype=">u8")
        whole[:, 0] = partitions
        whole[:, 1:-1] = words
        whole[:, -1] = seq
        return whole.view(f"S{8 * whole.shape[1]}").reshape(len(partitions))

    def _add(self, run: SortedRun) -> None:
        """Appends a run and merges the newest ones as long as the one before is not much larger."""
        first = len(self._runs)
        size = len(run)
        while first > 0 and len(self._runs[first - 1]) <= max(_MERGE_RATIO * size, _SMALL_RUN):
            first -= 1
            size += self._runs[first].live
        merged = _merge([*self._runs[first:], run])
        self._runs[first:] = [merged] if len(merged) else []
        self._register(first)

    def _rewrite(self) -> None:
        """Drops the dead from runs that are more than half dead, and empty runs."""
        kept: list[SortedRun] = []
        for run in self._runs:
            if run.live:
                kept.append(run if 2 * run.live >= len(run) else SortedRun(*run.living()))
        changed = [i for i, run in enumerate(kept) if i >= len(self._runs) or run is not self._runs[i]]
        self._runs = kept
        if changed:
            self._register(changed[0])

    def _register(self, first: int) -> None:
        """Notes where the live values of the runs from `first` on stand."""
        for number in range(first, len(self._runs)):
            run = self._runs[number]
            live = np.arange(len(run)) if run.live == len(run) else np.flatnonzero(run.alive)
            values = run.values[live]
            self._run_of[values] = number
            self._place[values] = live

    def _bounds(
        self,
        partitions: np.ndarray,
        low: np.ndarray | None,
        high: np.ndarray | None,
        low_inclusive: bool,
        high_inclusive: bool,
    ) -> _Bounds:
        """Per run the positions [from, to) of each request."""
        if not self._runs or self._width is None:
            return []
        # seq is never at its ends, so a key with an end seq stands before or after all entries with its order words.
        before, after = _ZERO, _ONES
        low_seq = before if low is None or low_inclusive else after
        high_seq = after if high is None or high_inclusive else before
        order: np.ndarray | None = None
        if len(partitions) >= _SORTED_REQUESTS:
            # Sorted requests walk each run once, which the processor's caches reward.
            words = high if low is None else low
            order = radix_argsort([partitions, *(() if words is None else words.T)])
            partitions = partitions[order]
            low, high = (None if bound is None else bound[order] for bound in (low, high))
        low_key = None if low is None else self._keys(partitions, low, low_seq)
        high_key = None if high is None else self._keys(partitions, high, high_seq)
        found: _Bounds = []
        for run in self._runs:
            start, end = run.partition_bounds(partitions)
            if low_key is not None:
                start = np.maximum(start, run.search(low_key, "left"))
            if high_key is not None:
                end = np.minimum(end, run.search(high_key, "right"))
            if order is not None:
                back = np.empty((2, len(order)), dtype=np.int64)
                back[0, order], back[1, order] = start, end
                start, end = back
            found.append((run, start, end))
        return found

    def _ends(
        self, partitions: np.ndarray, limit: int | np.ndarray, *, backward: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        bounds = self._bounds(partitions, None, None, True, True)
        limits = np.broadcast_to(np.asarray(limit, dtype=np.int64), (len(partitions),))
        return self._gather(bounds, len(partitions), limits, backward=backward)

    def _gather(
        self, bounds: _Bounds, count: int, limits: np.ndarray | None, *, backward: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The live entries in the bounds of each request, by request and key; at most `limits` from an end."""
        indexes: list[np.ndarray] = []
        values: list[np.ndarray] = []
        keys: list[np.ndarray] = []
        for run, low, high in bounds:
            index, place = run.collect(low, high, limits, backward)
            if len(index):
                indexes.append(index)
                values.append(run.values[place])
                keys.append(run.keys[place])
        if not indexes:
            empty = np.empty(0, dtype=np.int64)
            return empty, empty
        index, value = np.concatenate(indexes), np.concatenate(values)
        # The request decides the partition, so its number may stand in the place of the partition in the keys.
        ranked = np.concatenate(keys)
        ranked.view(">u8").reshape(len(ranked), -1)[:, 0] = index
        order = np.argsort(ranked, kind="stable")
        index, value = index[order], value[order]
        if limits is not None and len(indexes) > 1:
            found = np.bincount(index, minlength=count)
            start = np.cumsum(found) - found
            if backward:
                start = start + np.maximum(found - limits, 0)
                keep = np.arange(len(index)) >= start[index]
            else:
                keep = np.arange(len(index)) < (start + limits)[index]
            index, value = index[keep], value[keep]
        return index, value

    def _single(self, bounds: _Bounds, count: int, *, backward: bool) -> np.ndarray:
        """The first (or last) live entry in the bounds of each request over all runs; -1 if none."""
        best = np.full(count, -1, dtype=np.int64)
        best_key = np.zeros(count, dtype=bounds[0][0].keys.dtype if bounds else "S8")
        one = np.ones(count, dtype=np.int64)
        for run, low, high in bounds:
            index, place = run.collect(low, high, one, backward)
            key = run.keys[place]
            known = best_key[index]
            better = (best[index] < 0) | ((key > known) if backward else (key < known))
            index, place, key = index[better], place[better], key[better]
            best[index] = run.values[place]
            best_key[index] = key
        return best


def _merge(runs: list[SortedRun]) -> SortedRun:
    """One run of all live entries. The stable sort takes sorted stretches as they are, so this is linear."""
    if len(runs) == 1:
        return runs[0]
    look()
    parts = [run.living() for run in runs]
    keys = np.concatenate([part[0] for part in parts])
    order = np.argsort(keys, kind="stable")
    return SortedRun(keys[order], np.concatenate([part[1] for part in parts])[order])
