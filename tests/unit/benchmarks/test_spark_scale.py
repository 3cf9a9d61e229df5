"""What an epoch on Spark costs grows with the partitions, and not with what is kept."""

from __future__ import annotations

from tests.benchmarks.spark_scale import CORES, Costs, costs


def grown(more: Costs, less: Costs, name: str) -> float:
    return getattr(more, name) / getattr(less, name)


def test_costs_grow_with_partitions_and_not_with_state() -> None:
    # A task for each partition, as on a large cluster.
    few, many = (costs(n // CORES, n, 2000, changes=200) for n in (16, 64))
    assert many.driver_messages == 4 * few.driver_messages == 2 * 64
    # One for each stage and pair of tasks.
    assert many.task_messages == 64 * 63
    assert grown(many, few, "driver_bytes") < 4.5
    assert many.state_files <= 2 * 64
    loaded = costs(16, 64, 40_000, changes=200)
    assert loaded.driver_messages == many.driver_messages
    for name in ("driver_bytes", "task_bytes", "state_files", "state_bytes"):
        assert grown(loaded, many, name) < 1.3, name
