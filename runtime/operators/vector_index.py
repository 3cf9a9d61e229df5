"""Indexes over the vectors of rows: all of them compared, or a graph that is searched."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np

from runtime.core.errors import UnsupportedError
from runtime.kernels.grow import grown
from runtime.kernels.vectors import SMALLER_IS_NEARER, nearest, scores
from runtime.plan.parts import VectorIndexSpec

__all__ = ["VectorIndex", "vector_index"]


class VectorIndex(Protocol):
    """Vectors by the slots of their rows."""

    @property
    def nbytes(self) -> int: ...

    def add(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        """Vectors of slots that have none."""
        ...

    def remove(self, slots: np.ndarray) -> None:
        """These slots have none any more."""
        ...

    def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The slots with the nearest vectors to each query, nearest first, and how near they are; -1 where there are
        fewer."""
        ...


def vector_index(spec: VectorIndexSpec, width: int, type_: np.dtype[Any]) -> VectorIndex:
    """An empty index of vectors of so many numbers. Raises UnsupportedError E1624 where its library is not installed."""
    return _Graph(spec, width, type_) if spec.kind == "hnsw" else _Flat(spec, width, type_)


class _Slotted:
    """Vectors in a matrix, by slot."""

    def __init__(self, spec: VectorIndexSpec, width: int, type_: np.dtype[Any]) -> None:
        self._metric = spec.metric
        # The square of a difference is one of large numbers: those of float32 would be lost.
        self._matrix = np.empty((0, width), np.float64 if spec.metric == "euclidean" else type_)
        self._there = np.empty(0, np.bool_)

    @property
    def nbytes(self) -> int:
        return self._matrix.nbytes + self._there.nbytes

    def add(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        size = int(slots.max(initial=-1)) + 1
        if size > len(self._matrix):
            room = np.empty((max(size, 2 * len(self._matrix), 64), self._matrix.shape[1]), self._matrix.dtype)
            room[: len(self._matrix)] = self._matrix
            self._matrix = room
            self._there = grown(self._there, len(room), False)
        self._matrix[slots] = vectors
        self._there[slots] = True

    def remove(self, slots: np.ndarray) -> None:
        self._there[slots] = False


class _Flat(_Slotted):
    """Every vector is compared with every query: exact."""

    def __init__(self, spec: VectorIndexSpec, width: int, type_: np.dtype[Any]) -> None:
        super().__init__(spec, width, type_)
        self._live: np.ndarray | None = None
        self._dense: np.ndarray | None = None

    def add(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        super().add(slots, vectors)
        self._live = self._dense = None

    def remove(self, slots: np.ndarray) -> None:
        super().remove(slots)
        self._live = self._dense = None

    def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        if self._live is None or self._dense is None:
            self._live = np.flatnonzero(self._there)
            whole = len(self._live) == (self._live[-1] + 1 if len(self._live) else 0)
            self._dense = self._matrix[: len(self._live)] if whole else self._matrix[self._live]
        found, values = nearest(self._metric, queries.astype(self._matrix.dtype, copy=False), self._dense, count)
        if not len(self._live):
            return found, values
        return np.where(found >= 0, self._live[found], -1), values


class _Graph(_Slotted):
    """A graph of neighbours (HNSW), kept by the library usearch: a search looks at few vectors, and may miss some that are
    near. How near those are that it finds is computed exactly."""

    _NAMES = {"cosine": "cos", "dot": "ip", "euclidean": "l2sq"}

    def __init__(self, spec: VectorIndexSpec, width: int, type_: np.dtype[Any]) -> None:
        super().__init__(spec, width, type_)
        given = {
            "connectivity": spec.connectivity,
            "expansion_add": spec.expansion_add,
            "expansion_search": spec.expansion_search,
        }
        self._index: Any = _library().Index(
            ndim=width, metric=self._NAMES[spec.metric], dtype="f32", **{k: v for k, v in given.items() if v}
        )

    @property
    def nbytes(self) -> int:
        return super().nbytes + int(self._index.memory_usage)

    def add(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        super().add(slots, vectors)
        # With several threads the graph would depend on which of them is first.
        self._index.add(slots.astype(np.uint64), np.ascontiguousarray(vectors, np.float32), threads=1)

    def remove(self, slots: np.ndarray) -> None:
        super().remove(slots)
        self._index.remove(slots.astype(np.uint64))

    def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        count = min(count, len(self._index))
        if not count or not len(queries):
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
        matches = self._index.search(np.ascontiguousarray(queries, np.float32), count, threads=1)
        found = np.asarray(matches.keys).reshape(len(queries), -1).astype(np.int64)
        counts = np.asarray(getattr(matches, "counts", count)).reshape(-1)
        missing = np.arange(found.shape[1]) >= counts[:, None]
        safe = np.where(missing, 0, found)
        values = scores(self._metric, queries[:, None, :], self._matrix[safe])
        missing |= np.isnan(values)
        order = np.where(missing, np.inf, values if self._metric in SMALLER_IS_NEARER else -values)
        ranked = np.lexsort((safe, order), axis=-1)
        found = np.take_along_axis(np.where(missing, -1, safe), ranked, axis=1)
        return found, np.take_along_axis(values, ranked, axis=1)


def _library() -> Any:
    try:
        return importlib.import_module("usearch.index")
    except ImportError as error:
        raise UnsupportedError(
            "the Python package usearch is not installed, which keeps indexes of type 'hnsw'",
            code="E1624",
            hint="pip install 'sqlengine[vectors]', or use 'index' = 'flat'",
        ) from error
