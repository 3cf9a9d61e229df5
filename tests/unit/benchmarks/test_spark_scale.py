"""What an epoch on Spark costs, a checkpoint, and going on from one, grows with the partitions, and not with what is kept."""

from __future__ import annotations

import pytest

from tests.benchmarks.spark_scale import CORES, Costs, Measured, costs


@pytest.fixture(scope="module")
def few() -> Measured:
    # A task for each partition, as on a large cluster.
    return costs(16 // CORES, 16, 2000, changes=200)


@pytest.fixture(scope="module")
def many() -> Measured:
    return costs(64 // CORES, 64, 2000, changes=200)


@pytest.fixture(scope="module")
def loaded() -> Measured:
    return costs(16, 64, 40_000, changes=200)


def grown(more: Costs, less: Costs, name: str) -> float:
    return getattr(more, name) / getattr(less, name)


def test_costs_of_an_epoch(few: Measured, many: Measured, loaded: Measured) -> None:
    assert many.epoch.driver_messages == 4 * few.epoch.driver_messages == 2 * 64
    # One for each stage and pair of tasks.
    assert many.epoch.task_messages == 64 * 63
    assert grown(many.epoch, few.epoch, "driver_bytes") < 4.5
    assert many.epoch.state_files <= 2 * 64
    assert loaded.epoch.driver_messages == many.epoch.driver_messages
    for name in ("driver_bytes", "task_bytes", "state_files", "state_bytes"):
        assert grown(loaded.epoch, many.epoch, name) < 1.3, name


def test_costs_of_a_checkpoint(few: Measured, many: Measured, loaded: Measured) -> None:
    assert many.checkpoint.driver_messages == 4 * few.checkpoint.driver_messages == 2 * 64
    assert grown(many.checkpoint, few.checkpoint, "driver_bytes") < 4.5
    # A task writes one file, and reads what it has written since the checkpoint before.
    assert many.checkpoint.state_files <= 64
    assert many.checkpoint.read_files <= many.epoch.state_files + 2
    for measured in (few, many, loaded):
        assert measured.checkpoint.driver_files == measured.checkpoint.task_messages == 0
    for name in ("driver_bytes", "state_files", "state_bytes", "read_files"):
        assert grown(loaded.checkpoint, many.checkpoint, name) < 1.3, name


def test_costs_of_going_on(few: Measured, many: Measured, loaded: Measured) -> None:
    assert grown(many.start, few.start, "driver_bytes") < 4.5
    assert grown(many.start, few.start, "read_files") < 4.5
    # A task writes a version of each of two stages. The driver reads the figures that it has written itself.
    for measured in (few, many, loaded):
        assert measured.start.driver_files <= 5
    assert many.start.state_files == 2 * 64
    assert grown(loaded.start, many.start, "driver_bytes") < 1.3
    assert grown(loaded.start, many.start, "read_files") < 1.3
