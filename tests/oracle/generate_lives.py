"""How the jobs of a case live: in one go, or with operators that are made anew from their saved state again and again, as
several tasks, with few keys in memory, with output cut into small batches. What they answer is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.oracle.generate_choices import Choices

__all__ = ["LIVES", "Life", "draw_life"]


@dataclass(frozen=True)
class Life:
    """`restarts`: the seed of when operators are made anew, if they are. `options`: of the jobs."""

    label: str
    restarts: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def for_rows(self, rows: int) -> Life:
        """The same for a run whose largest operator gives so many rows: one after another they would take hours."""
        if rows <= MOST_SINGLE_ROWS or _BATCH not in self.options:
            return self
        return replace(self, options={**self.options, _BATCH: str(rows // MOST_SINGLE_ROWS + 2)})


MOST_SINGLE_ROWS = 4096
_BATCH = "sqlengine.batch.max-rows"
_TASKS = {"parallelism.default": "3"}
_ROCKSDB = {"state.backend.type": "rocksdb", "sqlengine.state.keys-in-memory": "2"}
_ONE = {_BATCH: "1"}

LIVES: tuple[Life, ...] = (
    Life("in one go"),
    Life("restarts", 1),
    Life("three tasks", None, _TASKS),
    Life("three tasks, restarts", 2, _TASKS),
    Life("rocksdb, restarts", 3, _ROCKSDB),
    Life("batches of a row", None, _ONE),
    Life("batches of two rows, three tasks, restarts", 4, {**_TASKS, _BATCH: "2"}),
    Life("rocksdb, batches of a row, three tasks", None, {**_ROCKSDB, **_TASKS, **_ONE}),
)


def draw_life(choose: Choices) -> Life:
    """A third of them in one go."""
    return LIVES[choose.weighted([(6, 0), (4, 1), (1, 2), (2, 3), (1, 4), (2, 5), (1, 6), (1, 7)])]
