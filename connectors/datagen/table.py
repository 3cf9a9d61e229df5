"""The source `datagen`: options as in Flink 2.3, and `seed` for the same rows every time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from connectors.datagen.generators import GeneratedColumn, column_generator, field_option_keys
from connectors.options import TableOptions, physical_part
from connectors.random_words import Numbers
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import int_option
from runtime.core.schema import Schema
from runtime.core.strict_json import counts_of
from runtime.spi.reader import ReadContext
from runtime.spi.registry import ConnectorFactory, TableRequest, check_options
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["DATAGEN", "DatagenReader", "DatagenSource"]

PER_SECOND = int_option(
    "rows-per-second", 10_000, "rows a second; a bounded table without this option gives all rows at once"
)
ROWS = int_option("number-of-rows", 0, "the number of rows; without it, and without a sequence, the table has no end")
SEED = int_option("seed", 0, "the seed of the random rows; without it they differ each time")
PARALLELISM = int_option("scan.parallelism", 1, "accepted for compatibility")
_OPTIONS = (PER_SECOND, ROWS, SEED, PARALLELISM)
_CHUNK = 1 << 16
_QUIET_SECONDS = 0.01
"""After all rows that had come were given, there is none for so long. Otherwise a fast rate never pauses: while a few rows
are made the next ones come, and an epoch, which takes rows until there are none, would last for seconds."""
_SEEDED_START = 1_704_067_200_000
"""2024-01-01: where the time of the rows begins when a seed makes them repeatable."""


@dataclass(frozen=True)
class DatagenSource:
    """`rows`: how many there are, None without end. `per_second`: None is as fast as they are taken."""

    name: str
    schema: Schema
    options: tuple[tuple[str, str], ...]
    seed: int | None
    rows: int | None
    per_second: int | None

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    @property
    def bounded(self) -> bool:
        return self.rows is not None

    def statistics(self) -> TableStatistics:
        return TableStatistics(rows=self.rows)

    def splits(self) -> list[Split]:
        return [Split("rows", endless=not self.bounded)]

    @property
    def distributed_reads(self) -> bool:
        """Rows are made from their numbers, unless they wait for their time."""
        return self.per_second is None

    def position_after(self, split: Split, position: Any, rows: int) -> Any:
        seed = self.seed if position is None else position["seed"]
        after = (0 if position is None else position["row"]) + rows
        if seed is None or (self.rows is not None and after > self.rows):
            return None
        return {"row": after, "seed": seed}

    def watch_splits(self, wake: Callable[[], None]) -> Callable[[], None]:
        """There is one, always."""
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> DatagenReader:
        return DatagenReader(self)

    def with_columns(self, names: Sequence[str]) -> DatagenSource:
        return replace(self, schema=Schema(tuple(self.schema[self.schema.index_of(n)] for n in names)))

    def describe(self) -> dict[str, Any]:
        options = {key: value for key, value in self.options if key == SEED.key or key.startswith("fields.")}
        return {
            "connector": "datagen",
            "rows": self.rows if self.rows is not None else "unbounded",
            "columns": list(self.schema.names),
            **({"options": options} if options else {}),
        }

    def generators(self, seed: int, now: Callable[[], int]) -> list[GeneratedColumn]:
        """The generator of each column; `now` gives milliseconds since the epoch."""
        repeatable, pace = self.seed is not None, self.per_second or PER_SECOND.default

        def moments(rows: Numbers) -> Numbers:
            return _SEEDED_START + rows * 1000 // pace if repeatable else np.full(len(rows), now(), dtype=np.int64)

        options = dict(self.options)
        return [column_generator(f.name, f.type, options, seed, moments) for f in self.schema]


class DatagenReader:
    """Gives rows by number. A position holds the number of rows given and the seed, so that resuming goes on with the
    same rows."""

    def __init__(
        self, source: DatagenSource, clock: Callable[[], float] = time.monotonic, now: Callable[[], int] | None = None
    ) -> None:
        self._source = source
        self._now = now or (lambda: time.time_ns() // 1_000_000)
        self._clock = clock
        self._seed = source.seed if source.seed is not None else int.from_bytes(os.urandom(6), "big")
        self._columns = source.generators(self._seed, self._now)
        self._next = 0
        self._started: float | None = None
        self._first = 0
        self._quiet_until = 0.0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        count = min(max_rows, _CHUNK)
        if self._source.rows is not None:
            count = min(count, self._source.rows - self._next)
        if self._source.per_second is not None:
            now = self._clock()
            if self._started is None:
                self._started, self._first = now, self._next
            if now < self._quiet_until:
                return None
            come = self._first + int((now - self._started) * self._source.per_second) - self._next
            if 0 < come <= count:
                self._quiet_until = now + _QUIET_SECONDS
            count = min(count, come)
        if count <= 0:
            return None
        rows = np.arange(self._next, self._next + count, dtype=np.int64)
        self._next += count
        return ChangelogBatch.of([c.generate(rows) for c in self._columns], self._source.schema)

    def available_in(self) -> float:
        """The time of the next row, when rows come at a rate."""
        if self._source.per_second is None or self._started is None:
            return 0.0
        at = self._started + (self._next + 1 - self._first) / self._source.per_second
        return max(0.0, max(at, self._quiet_until) - self._clock())

    @property
    def finished(self) -> bool:
        return self._source.rows is not None and self._next >= self._source.rows

    def position(self) -> dict[str, int]:
        return {"row": self._next, "seed": self._seed}

    def seek(self, position: Any) -> None:
        (self._next,) = counts_of(position, "row")
        self._seed = position["seed"]
        if type(self._seed) is not int:
            raise ValueError(f"{str(self._seed)[:40]!r} is no seed")
        self._columns = self._source.generators(self._seed, self._now)

    def close(self) -> None:
        self._next = max(self._next, self._source.rows or 0)


def _source(request: TableRequest) -> DatagenSource:
    schema = physical_part(request)
    options = TableOptions(request.options, "connector 'datagen'", _OPTIONS, ("fields.",))
    known = set().union(*(field_option_keys(f.type, f.name) for f in schema)) if len(schema) else set()
    check_options({k: v for k, v in request.options.items() if k.startswith("fields.")}, known, "connector 'datagen'")
    for option in (PER_SECOND, ROWS):
        if options.has(option) and options.get(option) < (1 if option is PER_SECOND else 0):
            raise OptionError(f"option '{option.key}' cannot be {options.get(option)}", hint=option.description)
    source = DatagenSource(
        request.name,
        schema,
        tuple(sorted((k, v) for k, v in request.options.items() if k.startswith("fields."))),
        options.get(SEED) if options.has(SEED) else None,
        None,
        None,
    )
    ends = [c.rows for c in source.generators(0, lambda: 0) if c.rows is not None]
    if options.has(ROWS):
        ends.append(options.get(ROWS))
    rows = min(ends) if ends else None
    paced = options.has(PER_SECOND) or rows is None
    return replace(source, rows=rows, per_second=options.get(PER_SECOND) if paced else None)


DATAGEN = ConnectorFactory(
    name="datagen",
    document="rows of random values and sequences",
    source=_source,
    options=_OPTIONS,
    prefixes=("fields.",),
    check=_source,
)
