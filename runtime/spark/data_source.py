"""A query of the engine as a data source of Spark: `spark.read.format("sqlengine")`, and `spark.readStream` for its
changelog.

Spark asks a stream for offsets in a process of its own beside the driver. There the query runs, embedded, and writes the
changes of its epochs into a log (`runtime/spark/epoch_log.py`); a micro-batch is a range of epochs, an offset the last
of them. A micro-batch that Spark computes again reads the same files.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from runtime.core.errors import ConnectorError
from runtime.spark.epoch_log import EpochLog
from runtime.spark.shipping import attribute

__all__ = ["FORMAT", "Following", "SourceQuery", "register"]

FORMAT = "sqlengine"


class Following(Protocol):
    """A query whose changes go into a log, until it is stopped."""

    @property
    def log(self) -> EpochLog: ...

    def check(self) -> None:
        """Raises what has made the query fail."""
        ...

    def catch_up(self) -> None:
        """Wait until the log shows the changes for all input that is there now."""
        ...

    def stop(self) -> None:
        """End it; it goes on from there when it is followed again."""
        ...


class SourceQuery(Protocol):
    """A query with what it needs, made from the options of a DataFrame reader in each process that needs it."""

    def schema(self) -> pa.Schema:
        """The columns that `rows` and the log have, `op` among them where it is wanted."""
        ...

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Its final rows."""
        ...

    def follow(self) -> Following: ...


def register(session: Any, query: str, name: str = FORMAT) -> None:
    """Make a format known to a session.

    Args:
        query: `module:attribute` of what makes a `SourceQuery` from options, wherever it is needed.
    """
    session.dataSource.register(_data_source(query, name))


def _data_source(query: str, format_name: str) -> type:
    """The class that Spark wants. Processes of Spark get it by value, and find there what it needs of the engine."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as AvailableNow
    except ImportError:
        AvailableNow = object  # type: ignore[misc, assignment]

    open_log = attribute(f"{__name__}:EpochLog")
    check_log = attribute(f"{__name__}:same_log")
    check_whole = attribute(f"{__name__}:whole_log")
    fit = attribute(f"{__name__}:fitted")
    as_spark = attribute(f"{__name__}:spark_schema")

    def asked(options: Mapping[str, str]) -> SourceQuery:
        return pkgutil.resolve_name(query)(options)

    class Reader(DataSourceReader):
        """The rows of a query whose input ends."""

        def __init__(self, options: Mapping[str, str], schema: Any) -> None:
            self._options = options
            self._schema = schema

        def partitions(self) -> list[Any]:
            return [InputPartition(0)]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            yield from (fit()(rows, self._schema) for rows in asked(self._options).rows())

    class StreamReader(DataSourceStreamReader, AvailableNow):  # type: ignore[misc, valid-type]
        """The changes of a query. The same object, pickled before it has done anything, reads in tasks."""

        def __init__(self, options: Mapping[str, str], schema: Any) -> None:
            self._options = options
            self._schema = schema
            self._following: Following | None = None
            self._until: int | None = None

        def _follow(self) -> Following:
            if self._following is None:
                self._following = asked(self._options).follow()
            return self._following

        def initialOffset(self) -> dict[str, Any]:
            log = self._follow().log
            check_whole()(log)
            return {"log": log.name, "epoch": 0}

        def prepareForTriggerAvailableNow(self) -> None:
            following = self._follow()
            following.catch_up()
            self._until = following.log.latest()

        def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
            following = self._follow()
            log = following.log
            # What has failed may have shown more since the last time: first that.
            latest = log.latest() if self._until is None else self._until
            if start is not None:
                check_log()(start, log)
                latest = max(latest, start["epoch"])
            if start is None or latest == start["epoch"]:
                following.check()
            return {"log": log.name, "epoch": latest}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
            log = self._follow().log
            check_log()(end, log)
            epochs = log.epochs(start["epoch"], end["epoch"])
            # One task, so that changes keep their order.
            return [InputPartition((log.folder, epochs))] if epochs else []

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            folder, epochs = partition.value
            log = open_log()(folder)
            yield from (fit()(rows, self._schema) for epoch in epochs for rows in log.parts(epoch))

        def commit(self, end: dict[str, Any]) -> None:
            self._follow().log.forget(end["epoch"])

        def stop(self) -> None:
            if self._following is not None:
                self._following.stop()

    class EngineSource(DataSource):
        """A query of the engine. Options: see `sqlengine/spark_source.py`."""

        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> Any:
            return as_spark()(asked(self.options).schema())

        def reader(self, schema: Any) -> Any:
            return Reader(self.options, schema)

        def streamReader(self, schema: Any) -> Any:
            return StreamReader(self.options, schema)

    return EngineSource


def spark_schema(schema: pa.Schema) -> Any:
    """Columns as Spark has them. Types that it lacks become text, and TIME, which its streams lack."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType, StructType

    found = StructType()
    for field in schema:
        try:
            found.add(field.name, from_arrow_type(field.type), True)
        except PySparkTypeError:
            found.add(field.name, StringType(), True)
    return found


def fitted(rows: pa.RecordBatch, schema: Any) -> pa.RecordBatch:
    """Rows in the Arrow types that Spark carries a schema of its own in, columns by name."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Older versions of PySpark know of no other zone.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    wanted = to_arrow_schema(schema, **zone)
    columns = [rows.column(field.name) for field in wanted]
    return pa.RecordBatch.from_arrays(
        [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, wanted, strict=True)], schema=wanted
    )


def same_log(offset: Mapping[str, Any], log: EpochLog) -> None:
    """Raises ConnectorError E3108 when an offset is one of another log."""
    if offset["log"] != log.name:
        raise ConnectorError(
            f"the stream was at epoch {offset['epoch']} of a query whose changes are not in {log.folder}",
            code="E3108",
            hint="give the folder in the option 'checkpoint' that the stream had before, or begin anew with both",
        )


def whole_log(log: EpochLog) -> None:
    """Raises ConnectorError E3108 for a stream that begins when another one has taken changes."""
    if log.forgotten():
        raise ConnectorError(
            f"the changes up to epoch {log.forgotten()} in {log.folder} were taken by another stream",
            code="E3108",
            hint="a folder is for one stream: go on with that stream's checkpointLocation, or give another folder",
        )
