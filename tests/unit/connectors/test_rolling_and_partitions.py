"""When files are closed and when partitions are committed: by size, by the engine's clock, by the watermark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import rows_of, sink, source

from connectors.filesystem.partition_commit import PartitionTime
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ConnectorError, OptionError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING

SCHEMA = Schema.of(("a", INT), ("day", STRING), ("hour", STRING))
MINUTE = 60_000
HOUR = 60 * MINUTE
MAY_1 = 1_714_521_600_000
"""2024-05-01 00:00 UTC."""


def batch(*rows: tuple[int, str, str]) -> ChangelogBatch:
    columns = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(SCHEMA)]
    return ChangelogBatch.of(columns, SCHEMA, None)


def policy(**options: str) -> dict[str, str]:
    given = {f"sink.partition-commit.{k.replace('_', '-')}": v for k, v in options.items()}
    return {"sink.partition-commit.policy.kind": "success-file", **given}


def opened(folder: Path, options: dict[str, str], partitions: tuple[str, ...] = ("day", "hour")) -> Any:
    given = {"path": str(folder), "format": "csv", **options}
    return sink("filesystem", SCHEMA, given, partitioned_by=partitions).open_writer("job")


def checkpoint(writer: Any) -> Any:
    committable = json.loads(json.dumps(writer.prepare()))
    if committable is not None:
        writer.publish(committable)
    return committable


def marked(folder: Path) -> list[str]:
    return sorted(str(p.parent.relative_to(folder)) for p in folder.rglob("_SUCCESS"))


def count(folder: Path) -> int:
    return len(list(folder.rglob("part-*")))


# --- files


def test_files_are_closed_by_age_and_when_nothing_comes(tmp_path: Path) -> None:
    writer = opened(
        tmp_path,
        {
            "sink.rolling-policy.rollover-interval": "10 min",
            "sink.rolling-policy.inactivity-interval": "3 min",
            "sink.rolling-policy.check-interval": "1 min",
        },
        (),
    )
    for minute in range(13):  # a row a minute: the file is closed at its tenth minute
        writer.advance_time(minute * MINUTE, MIN_WATERMARK)
        writer.write(batch((minute, "d", "h")))
    writer.advance_time(14 * MINUTE, MIN_WATERMARK)
    writer.write(batch((14, "d", "h")))
    writer.advance_time(17 * MINUTE, MIN_WATERMARK)  # three minutes without a row
    writer.write(batch((17, "d", "h")))
    assert count(tmp_path) == 0
    checkpoint(writer)
    assert count(tmp_path) == 3
    contents = sorted(p.read_text().count("\n") for p in tmp_path.glob("part-*"))
    assert contents == [1, 4, 10]


def test_ages_are_looked_at_every_check_interval(tmp_path: Path) -> None:
    writer = opened(
        tmp_path,
        {"sink.rolling-policy.rollover-interval": "1 s", "sink.rolling-policy.check-interval": "10 s"},
        (),
    )
    for second in range(25):
        writer.advance_time(second * 1000, MIN_WATERMARK)
        writer.write(batch((second, "d", "h")))
    checkpoint(writer)
    assert sorted(p.read_text().count("\n") for p in tmp_path.glob("part-*")) == [5, 10, 10]


def test_a_checkpoint_closes_files(tmp_path: Path) -> None:
    writer = opened(tmp_path, {}, ())
    for n in range(3):
        writer.write(batch((n, "d", "h")))
        assert count(tmp_path) == n
        checkpoint(writer)
    assert checkpoint(writer) is None
    assert count(tmp_path) == 3


# --- partitions


def test_without_a_policy_nothing_is_committed(tmp_path: Path) -> None:
    writer = opened(tmp_path, {"sink.partition-commit.trigger": "process-time"})
    writer.advance_time(0, MAX_WATERMARK)
    writer.write(batch((1, "d", "h")))
    assert set(checkpoint(writer)) == {"files"}
    assert marked(tmp_path) == []


def test_process_time_without_delay_commits_with_each_checkpoint(tmp_path: Path) -> None:
    writer = opened(tmp_path, policy())
    writer.advance_time(5, MIN_WATERMARK)
    writer.write(batch((1, "x", "1"), (2, "y", "1")))
    assert marked(tmp_path) == []
    checkpoint(writer)
    assert marked(tmp_path) == ["day=x/hour=1", "day=y/hour=1"]
    assert checkpoint(writer) is None
    for path in tmp_path.rglob("_SUCCESS"):
        path.unlink()
    writer.write(batch((3, "y", "1")))
    checkpoint(writer)
    assert marked(tmp_path) == ["day=y/hour=1"]
    read = source("filesystem", SCHEMA, {"path": str(tmp_path), "format": "csv"}, partitioned_by=("day", "hour"))
    assert sorted(rows_of(read)) == [(1, "x", "1"), (2, "y", "1"), (3, "y", "1")]


def test_process_time_with_delay_counts_from_the_first_file(tmp_path: Path) -> None:
    writer = opened(tmp_path, policy(delay="1 h", **{"success_file.name": "_done"}))

    def done() -> list[str]:
        return sorted(p.parent.parent.name for p in tmp_path.rglob("_done"))

    for now, day, expected in (
        (0, "x", []),
        (HOUR // 2, "y", []),
        (HOUR, "x", []),
        (HOUR + 1, "x", ["day=x"]),
        (HOUR * 3 // 2 + 1, None, ["day=x", "day=y"]),
    ):
        writer.advance_time(now, MIN_WATERMARK)
        if day:
            writer.write(batch((1, day, "1")))
        checkpoint(writer)
        assert done() == expected


def test_partition_time_waits_for_the_watermark(tmp_path: Path) -> None:
    options = policy(trigger="partition-time", delay="1 h")
    options["partition.time-extractor.timestamp-pattern"] = "$day $hour:00:00"
    writer = opened(tmp_path, options)
    writer.advance_time(0, MAY_1 + 12 * HOUR)
    writer.write(batch((1, "2024-05-01", "10"), (2, "2024-05-01", "11"), (3, "2024-05-01", "12")))
    checkpoint(writer)
    assert marked(tmp_path) == ["day=2024-05-01/hour=10"]
    writer.advance_time(0, MAY_1 + 12 * HOUR + 1)
    checkpoint(writer)
    assert marked(tmp_path) == ["day=2024-05-01/hour=10", "day=2024-05-01/hour=11"]
    writer.advance_time(0, MAX_WATERMARK)
    assert checkpoint(writer) == {"files": [], "commit": ["day=2024-05-01/hour=12"], "waiting": {}}
    assert len(marked(tmp_path)) == 3


@pytest.mark.parametrize("ends", [False, True])
def test_partitions_that_wait_go_on_waiting_after_a_restart(ends: bool, tmp_path: Path) -> None:
    options = policy(delay="1 h")
    writer = opened(tmp_path, options)
    writer.advance_time(0, MIN_WATERMARK)
    writer.write(batch((1, "x", "1")))
    held = checkpoint(writer)
    writer.write(batch((2, "z", "1")))  # after the checkpoint: the next run does not know of it
    resumed = opened(tmp_path, options)
    resumed.recover([held])
    resumed.advance_time(HOUR, MAX_WATERMARK if ends else MIN_WATERMARK)
    checkpoint(resumed)
    assert marked(tmp_path) == (["day=x/hour=1"] if ends else [])
    resumed.advance_time(HOUR + 1, MIN_WATERMARK)
    checkpoint(resumed)
    assert marked(tmp_path) == ["day=x/hour=1"]


def test_a_commit_whose_checkpoint_failed_comes_with_the_next(tmp_path: Path) -> None:
    writer = opened(tmp_path, policy())
    writer.advance_time(0, MIN_WATERMARK)
    writer.write(batch((1, "x", "1")))
    writer.prepare()
    committable = json.loads(json.dumps(writer.prepare()))
    assert committable["commit"] == ["day=x/hour=1"] and len(committable["files"]) == 1
    opened(tmp_path, policy()).recover([committable])
    assert marked(tmp_path) == ["day=x/hour=1"] and count(tmp_path) == 1


def test_a_table_without_partitions_is_committed_when_its_input_ends(tmp_path: Path) -> None:
    writer = opened(tmp_path, policy(), ())
    writer.advance_time(0, 5)
    writer.write(batch((1, "x", "1")))
    checkpoint(writer)
    assert marked(tmp_path) == []
    writer.advance_time(0, MAX_WATERMARK)
    checkpoint(writer)
    assert marked(tmp_path) == ["."]


@pytest.mark.parametrize(
    ("pattern", "formatter", "folder", "moment"),
    [
        ("", "", "day=2024-05-01/hour=7", MAY_1),
        ("", "", "day=2024-5-1 07:30:00/hour=7", MAY_1 + 7 * HOUR + 30 * MINUTE),
        ("$day $hour:00:00", "", "day=2024-05-01/hour=7", MAY_1 + 7 * HOUR),
        ("$day $hour:00:00.25", "", "day=2024-05-01/hour=7", MAY_1 + 7 * HOUR + 250),
        ("$day 00:00:00.25", "", "day=2024-05-01/hour=7", MAY_1 + 250),
        ("$day", "yyyyMMdd", "day=20240501/hour=7", MAY_1),
        ("$day$hour", "yyyyMMddHH", "day=20240501/hour=07", MAY_1 + 7 * HOUR),
        ("$hour:$day", "HH:dd.MM.yyyy", "day=01.05.2024/hour=07", MAY_1 + 7 * HOUR),
        ("", "", "day=2024%2D05%2D01/hour=7", MAY_1),
        ("", "", "day=soon/hour=7", None),
        ("", "", "day=2024-02-31/hour=7", None),
        ("", "yyyyMMdd", "day=2024-05-01/hour=7", None),
        ("", "", "day=__DEFAULT_PARTITION__/hour=7", None),
    ],
)
def test_times_of_partitions(pattern: str, formatter: str, folder: str, moment: int | None) -> None:
    time = PartitionTime(("day", "hour"), pattern, formatter, "UTC")
    if moment is None:
        with pytest.raises(ConnectorError, match="E3114 partition .* names no time") as caught:
            time.of(folder)
        assert caught.value.hint is not None
    else:
        assert time.of(folder) == moment
        berlin = PartitionTime(("day", "hour"), pattern, formatter, "Europe/Berlin")
        assert berlin.of(folder) == moment - 2 * HOUR


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"sink.partition-commit.policy.kind": "metastore"}, UnsupportedError, "E1622 .*metastore"),
        ({"sink.partition-commit.policy.kind": "metastore,success-file"}, UnsupportedError, "E1622 .*metastore"),
        ({"sink.partition-commit.policy.kind": "custom"}, UnsupportedError, "E1622 .*Java"),
        ({"sink.partition-commit.policy.kind": "sucess-file"}, OptionError, "cannot be 'sucess-file'"),
        ({"partition.time-extractor.kind": "custom"}, UnsupportedError, "E1622 .*Java"),
        (policy(trigger="partition-tim"), OptionError, "cannot be 'partition-tim'"),
        (policy(**{"success_file.name": "done"}), OptionError, "cannot be 'done'"),
        (policy(trigger="partition-time", watermark_time_zone="Mars"), OptionError, "E1508"),
    ],
)
def test_what_is_refused(options: dict[str, str], error: type[Exception], said: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=said):
        opened(tmp_path, options)
    assert list(tmp_path.iterdir()) == []


def test_a_time_of_partitions_needs_partitions(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the table has no partitions"):
        opened(tmp_path, policy(trigger="partition-time"), ())


def test_a_partition_whose_folder_is_gone_has_nothing_to_commit(tmp_path: Path) -> None:
    writer = opened(tmp_path, policy(delay="1 h"))
    writer.advance_time(0, MIN_WATERMARK)
    writer.recover([{"files": [], "commit": [], "waiting": {"day=x/hour=1": 0}}])
    writer.advance_time(HOUR + 1, MIN_WATERMARK)
    checkpoint(writer)
    assert list(tmp_path.iterdir()) == []
