"""Key groups: every hash has one task, whatever the number of tasks, and rows saved by some tasks are found by others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.key_group import MOST_TASKS, key_group, key_group_range, key_groups
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.kernels.key_encoding import KeyEncoder
from runtime.tasks.wire import divide

COUNTS = [1, 2, 3, 85, 86, 127, 128, 129, 1000, 1024, 21_846, MOST_TASKS]


@pytest.mark.parametrize("tasks", COUNTS)
def test_ranges_of_tasks_follow_one_another_and_none_is_empty(tasks: int) -> None:
    ranges = [key_group_range(task, tasks) for task in range(tasks)]
    assert ranges[0].start == 0 and ranges[-1].stop == key_groups(tasks)
    assert all(a.stop == b.start for a, b in pairwise(ranges))
    assert all(r.stop > r.start for r in ranges)


def test_few_tasks_have_as_many_groups_as_ever() -> None:
    """Which rows a task has is the same as when there were 128 for all."""
    assert {key_groups(tasks) for tasks in range(1, 86)} == {128}
    hashes = np.random.default_rng(1).integers(0, 1 << 63, 1000).astype(np.uint64)
    assert (key_group(hashes, 128) == hashes % 128).all()


@pytest.mark.parametrize("tasks", COUNTS)
def test_rows_go_to_the_task_that_restores_them(tasks: int) -> None:
    keys = pa.array(range(5000), pa.int64())
    batch = ChangelogBatch.of([keys], Schema.of(("k", BIGINT)))
    hashes = KeyEncoder([keys.type]).stable_hash([keys], len(keys))
    found = divide(batch, (0,), tasks, None)
    assert sum(len(part) for _, part in found) == len(keys)
    for task, part in found:
        mine = key_group_range(task, tasks)
        groups = key_group(hashes[part.column(0).to_numpy()], mine.of)
        assert ((groups >= mine.start) & (groups < mine.stop)).all()
