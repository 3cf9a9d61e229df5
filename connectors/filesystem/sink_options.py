"""The options of files as a sink: when files are closed, and when partitions are committed."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from connectors.filesystem.partition_commit import PartitionCommit, PartitionTime
from connectors.filesystem.staged_files import RollingPolicy
from connectors.options import TableOptions
from runtime.core.errors import OptionError, UnsupportedError
from runtime.core.options import duration_option, int_option, parse_memory, text_option

__all__ = ["SINK_OPTIONS", "read_partition_commit", "read_rolling_policy"]

FILE_SIZE = text_option(
    "sink.rolling-policy.file-size", "128MB", "the size at which a file is closed and the next one started"
)
ROLLOVER = duration_option(
    "sink.rolling-policy.rollover-interval", 1_800_000, "how long after its start a file is closed, such as '15 min'"
)
INACTIVITY = duration_option(
    "sink.rolling-policy.inactivity-interval",
    1_800_000,
    "how long after its last row a file is closed, such as '5 min'",
)
CHECK = duration_option(
    "sink.rolling-policy.check-interval", 60_000, "how often to check the age of files, such as '1 min'"
)
PARALLELISM = int_option("sink.parallelism", 1, "accepted for compatibility")
TRIGGER = text_option(
    "sink.partition-commit.trigger",
    "process-time",
    "what commits a partition: processing time, or the watermark once it passes the time in the partition's values",
    ("process-time", "partition-time"),
)
DELAY = duration_option("sink.partition-commit.delay", 0, "how long a partition waits, such as '1 h'")
POLICY = text_option("sink.partition-commit.policy.kind", "", "how a partition is committed: 'success-file'")
POLICY_CLASS = text_option("sink.partition-commit.policy.class", "", "a Java class; not supported")
SUCCESS_FILE = text_option(
    "sink.partition-commit.success-file.name", "_SUCCESS", "the name of the file that commits a partition"
)
ZONE = text_option(
    "sink.partition-commit.watermark-time-zone",
    "UTC",
    "the time zone of partition times if the watermark is on a TIMESTAMP_LTZ column",
)
EXTRACTOR = text_option(
    "partition.time-extractor.kind", "default", "how the time is extracted from the values: 'default'"
)
EXTRACTOR_CLASS = text_option("partition.time-extractor.class", "", "a Java class; not supported")
PATTERN = text_option(
    "partition.time-extractor.timestamp-pattern", "", "the text of the time, such as '$day $hour:00:00'"
)
FORMATTER = text_option(
    "partition.time-extractor.timestamp-formatter", "", "the format of that text, such as 'yyyyMMdd HH:mm:ss'"
)
SINK_OPTIONS = (
    FILE_SIZE,
    ROLLOVER,
    INACTIVITY,
    CHECK,
    PARALLELISM,
    TRIGGER,
    DELAY,
    POLICY,
    POLICY_CLASS,
    SUCCESS_FILE,
    ZONE,
    EXTRACTOR,
    EXTRACTOR_CLASS,
    PATTERN,
    FORMATTER,
)


def read_rolling_policy(options: TableOptions) -> RollingPolicy:
    """When files are closed."""
    return RollingPolicy(
        parse_memory(options.get(FILE_SIZE)), options.get(ROLLOVER), options.get(INACTIVITY), options.get(CHECK)
    )


def read_partition_commit(options: TableOptions, columns: tuple[str, ...]) -> PartitionCommit | None:
    """How partitions are committed; None when no policy is given, as in Flink.

    Raises:
        UnsupportedError: E1622 for the policies `metastore` and `custom`, and a custom extractor.
        OptionError: for what makes no sense.
    """
    kinds = [kind.strip().lower() for kind in options.get(POLICY).split(",") if kind.strip()]
    for kind in kinds:
        if kind == "metastore":
            raise UnsupportedError(
                "connector 'filesystem' cannot commit partitions to a metastore",
                code="E1622",
                hint="set 'sink.partition-commit.policy.kind' = 'success-file'",
            )
        if kind == "custom":
            raise _no_classes(POLICY.key, "success-file")
        if kind != "success-file":
            raise OptionError(f"option '{POLICY.key}' cannot be '{kind}'", hint="it is 'success-file'")
    extractor = options.get(EXTRACTOR).lower()
    if extractor == "custom":
        raise _no_classes(EXTRACTOR.key, "default")
    if extractor != "default":
        raise OptionError(f"option '{EXTRACTOR.key}' cannot be '{extractor}'", hint="it is 'default'")
    if not kinds:
        return None
    name = options.get(SUCCESS_FILE)
    if not name.startswith((".", "_")) or "/" in name or "=" in name:
        raise OptionError(
            f"option '{SUCCESS_FILE.key}' cannot be '{name}'",
            hint="a name that begins with '_' or '.', so that it is not read as a file of the table",
        )
    return PartitionCommit(_partition_time(options, columns), options.get(DELAY), name)


def _partition_time(options: TableOptions, columns: tuple[str, ...]) -> PartitionTime | None:
    if options.get(TRIGGER).lower() == "process-time":
        return None
    if not columns:
        raise OptionError(
            f"option '{TRIGGER.key}' cannot be 'partition-time': the table has no partitions",
            hint="create it with PARTITIONED BY, or leave the option out",
        )
    zone = options.get(ZONE)
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise OptionError(
            f"option '{ZONE.key}' cannot be '{zone}'", code="E1508", hint="it is a name such as 'Europe/Berlin'"
        ) from error
    return PartitionTime(columns, options.get(PATTERN), options.get(FORMATTER), zone)


def _no_classes(key: str, instead: str) -> UnsupportedError:
    return UnsupportedError(
        f"option '{key}' = 'custom' names a Java class; not supported",
        code="E1622",
        hint=f"set it to '{instead}'",
    )
