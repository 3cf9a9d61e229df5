"""Queries of the engine as DataFrames of Spark: the format `sqlengine`.

    register(spark)
    changes = (
        spark.readStream.format("sqlengine")
        .option("script", "CREATE TABLE orders (...) WITH (...)")
        .option("query", "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
        .option("checkpoint", "/data/totals")
        .load()
    )

Options:

- `query`: what is read.
- `script`: statements before it, most often CREATE TABLE.
- `checkpoint`: a folder that driver and executors reach, or a URI that pyarrow knows, for the state of the query and for
  changes that Spark has not taken yet. A stream that is to go on after a restart needs one; without it the folder is a
  temporary one.
- `checkpoint.interval`: how often changes become visible to Spark, 1 s when not given: each time with a checkpoint.
- `changelog`: `false` leaves out the column `op`, the row kind. A stream without it needs a query whose rows are never
  taken back.
- any option of SET, which has a dot in its name.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from runtime.checkpoint.storage import below
from runtime.core.errors import OptionError, SqlEngineError, UnsupportedError, did_you_mean
from runtime.local.job import Job
from runtime.spark import data_source
from runtime.spark.epoch_log import EpochLog, EpochLogSink
from runtime.spi.registry import ConnectorFactory, TableRequest
from sqlengine.api.environment import TableEnvironment
from sqlengine.results.result import Result
from sqlengine.values.code import name_sql

__all__ = ["SparkQuery", "register"]

_OWN = ("query", "script", "checkpoint", "checkpoint.interval", "changelog")
_LOG = "epoch-log"
_TABLE = "$changes"
_WAIT_SECONDS = 0.02


def register(session: Any) -> None:
    """Make the format `sqlengine` known to a Spark session."""
    data_source.register(session, f"{__name__}:{SparkQuery.__name__}")


class SparkQuery:
    """See `runtime.spark.data_source.SourceQuery`.

    Raises:
        OptionError: E1504 there is no query, E1503 an option is none.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        unknown = next((key for key in options if key not in _OWN and "." not in key), None)
        if unknown is not None:
            raise OptionError(
                f"the format sqlengine has no option '{unknown}'",
                code="E1503",
                hint=did_you_mean(unknown, _OWN) or "it takes " + ", ".join(_OWN) + ", and what SET takes",
            )
        if not options.get("query"):
            raise OptionError(
                "the format sqlengine needs the option 'query'",
                code="E1504",
                hint='.option("query", "SELECT ..."), and the tables in .option("script", "CREATE TABLE ...")',
            )
        self._options = dict(options.items())
        self._with_op = self._options.get("changelog", "true").lower() != "false"

    def schema(self) -> pa.Schema:
        with self._environment() as t_env:
            schema = t_env.sql_query(self._options["query"]).schema.arrow
        return pa.schema([pa.field("op", pa.string()), *schema]) if self._with_op else schema

    def rows(self) -> Iterator[pa.RecordBatch]:
        with self._environment() as t_env:
            for rows in t_env.execute_sql(self._options["query"]).to_arrow().to_batches():
                if self._with_op:
                    op = pa.repeat("+I", rows.num_rows)
                    rows = pa.RecordBatch.from_arrays([op, *rows.columns], names=["op", *rows.schema.names])
                yield rows

    def follow(self) -> FollowedQuery:
        folder = self._options.get("checkpoint") or tempfile.mkdtemp(prefix="sqlengine-changes-")
        log = EpochLog(below(folder, "changes"))
        t_env = self._environment()
        try:
            config = t_env.get_config()
            config.set("execution.checkpointing.dir", below(folder, "state").replace("s3a://", "s3://", 1))
            config.set("execution.checkpointing.interval", self._options.get("checkpoint.interval", "1 s"))
            t_env.session.inserts_in_background = True
            t_env.session.registry.connectors.add(
                ConnectorFactory(name=_LOG, document="changes for a stream of Spark", sink=_sink(log.folder))
            )
            query = self._options["query"].strip().rstrip(";")
            result = t_env.execute_sql(f"CREATE TABLE {name_sql(_TABLE)} WITH ('connector' = '{_LOG}') AS {query}")
            job = result.job
            assert job is not None
            if not self._with_op and not job.dataflow.vertices[-1].node.inputs[0].mode.is_append_only:
                raise UnsupportedError(
                    "the rows of this query are taken back, which a stream without the column op cannot tell",
                    code="E1632",
                    hint='leave out .option("changelog", "false")',
                )
        except BaseException:
            t_env.close()
            raise
        return FollowedQuery(t_env, result, job, log)

    def _environment(self) -> TableEnvironment:
        """An environment of its own, with the tables of the script."""
        config = {k: v for k, v in self._options.items() if "." in k and k not in _OWN}
        t_env = TableEnvironment.create(config)
        try:
            t_env.execute_script(self._options.get("script", ""))
        except BaseException:
            t_env.close()
            raise
        return t_env


class FollowedQuery:
    """See `runtime.spark.data_source.Following`."""

    def __init__(self, t_env: TableEnvironment, result: Result, job: Job, log: EpochLog) -> None:
        self._t_env = t_env
        self._result = result
        self._job = job
        self.log = log

    def check(self) -> None:
        if self._job.status == "FAILED":
            self._result.wait()

    def catch_up(self) -> None:
        """A job whose input ends has shown all when it has ended; another one when what was there is taken and a
        checkpoint holds it."""
        if self._job.bounded:
            self._result.wait()
            return
        with suppress(SqlEngineError):
            self._job.between_epochs(self._job.begin_flush).result()
            while self._job.status == "RUNNING" and not self._job.flushed:
                time.sleep(_WAIT_SECONDS)
            checkpoints = self._job.checkpoints
            assert checkpoints is not None
            self._job.between_epochs(lambda: checkpoints.now(self._job)).result()
        self.check()

    def stop(self) -> None:
        self._t_env.close()


def _sink(folder: str) -> Any:
    def sink(request: TableRequest) -> EpochLogSink:
        return EpochLogSink(request.name, request.schema, folder)

    return sink
