"""A query as a streaming DataFrame that is computed where the environment's jobs run: in the tasks of Spark.

The query is a job of the environment that writes the changes of each epoch into a log of files; the stream reads these, and
an offset of Spark is an epoch. What a checkpoint of the job holds is shown, and shown once.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runtime.checkpoint.storage import below
from runtime.core.errors import ConnectorError, OptionError, SqlEngineError, UnsupportedError
from runtime.local.job import Job
from runtime.spark import data_source
from runtime.spark.data_source import spark_schema
from runtime.spark.epoch_log import EpochLog, EpochLogSink
from runtime.spark.followed_log import FollowedLog, watched
from runtime.spi.registry import ConnectorFactory, TableRequest
from sqlengine.values.code import name_sql

if TYPE_CHECKING:
    from runtime.core.schema import Schema
    from sqlengine.frames.environment import Environment

__all__ = ["LogQuery", "stream_of"]

FORMAT = "sqlengine-changes"
_WAIT_SECONDS = 0.02
_lock = threading.Lock()
_running: dict[str, tuple[Job, object]] = {}
"""What runs for a folder in this process: its job, and what tells whose and which query it is."""
_OPTIONS = ("execution.checkpointing.dir", "execution.checkpointing.interval")


class LogQuery:
    """What reads the log of a query that runs elsewhere: see `runtime.spark.data_source.SourceQuery`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._folder = options.get("folder", "")
        if not self._folder:
            raise OptionError(
                f"the format {FORMAT} needs the option 'folder'", code="E1504", hint="Table.to_spark_stream gives it"
            )

    def schema(self) -> pa.Schema:
        raise self._only_streams()

    def rows(self) -> Iterator[pa.RecordBatch]:
        raise self._only_streams()

    def follow(self) -> FollowedLog:
        return FollowedLog(self._folder)

    def _only_streams(self) -> UnsupportedError:
        return UnsupportedError("what Table.to_spark_stream gives is a stream", hint="use Table.to_spark for rows")


def stream_of(
    environment: Environment,
    query: str,
    schema: Schema,
    checkpoint: str,
    session: Any,
    *,
    changelog: bool,
    interval: str,
) -> Any:
    """Begin a query, or go on with it, and give its changes as a streaming DataFrame. Arguments and errors as of
    `Table.to_spark_stream`."""
    # The process of the stream may be in another folder.
    checkpoint = checkpoint if "://" in checkpoint else os.path.abspath(checkpoint)
    columns = pa.schema([pa.field("op", pa.string()), *schema.arrow]) if changelog else schema.arrow
    data_source.register(session, f"{__name__}:{LogQuery.__name__}", FORMAT)
    frame = session.readStream.format(FORMAT).schema(spark_schema(columns)).option("folder", checkpoint)
    meaning = (id(environment.session), query, changelog)
    with _lock:
        running = _running.get(checkpoint)
        if running is None or running[0].status != "RUNNING":
            job = _begun(environment, query, schema, checkpoint, changelog=changelog, interval=interval)
            _running[checkpoint] = job, meaning
        elif running[1] != meaning:
            raise ConnectorError(
                f"{checkpoint} belongs to another query, which runs",
                code="E3108",
                hint="give each query a folder of its own; STOP JOB ends the other one",
            )
    return frame.load()


def _begun(
    environment: Environment, query: str, schema: Schema, checkpoint: str, *, changelog: bool, interval: str
) -> Job:
    """The query as a job that writes its changes below a folder."""
    log = EpochLog(below(checkpoint, "changes"))
    place = hashlib.blake2b(checkpoint.encode(), digest_size=6).hexdigest()
    name = f"changes_{place}"
    connector = f"{name}_{uuid.uuid4().hex[:8]}"

    def sink(request: TableRequest) -> EpochLogSink:
        return EpochLogSink(request.name, request.schema, log.folder)

    environment.session.registry.connectors.add(
        ConnectorFactory(name=connector, document="changes for a stream of Spark", sink=sink)
    )
    options = (below(checkpoint, "state").replace("s3a://", "s3://", 1), interval)
    with _options(environment, dict(zip(_OPTIONS, options, strict=True))):
        environment.session.job_names.pop(name, None)
        environment.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name_sql(name)}")
        columns = ", ".join(f"{name_sql(f.name)} {f.type.materialized()}" for f in schema)
        environment.execute_sql(
            f"CREATE TEMPORARY TABLE {name_sql(name)} ({columns}) WITH ('connector' = '{connector}')"
        )
        result = environment.execute_sql(f"INSERT INTO {name_sql(name)} {query.strip().rstrip(';')}")
    job = result.job
    assert job is not None
    if not changelog and not job.dataflow.vertices[-1].node.inputs[0].mode.is_append_only:
        job.cancel()
        raise UnsupportedError(
            "the rows of this query are taken back, which a stream without the column op cannot tell",
            code="E1632",
            hint="leave out changelog=False",
        )

    def status() -> tuple[str, str]:
        found = {"FAILED": "failed", "RUNNING": "running"}.get(job.status, "finished")
        if found != "failed":
            return found, ""
        try:
            result.wait()
        except Exception as error:
            return found, str(error)
        return found, "it does not say why"

    watched(checkpoint, uuid.uuid4().hex, status, lambda: _catch_up(job))
    return job


def _catch_up(job: Job) -> None:
    """A job whose input ends has shown all when it has ended; another one when what was there is taken and a checkpoint
    holds it."""
    while job.bounded and job.status == "RUNNING":
        time.sleep(_WAIT_SECONDS)
    with suppress(SqlEngineError):
        if job.status != "RUNNING":
            return
        job.between_epochs(job.begin_flush).result()
        while job.status == "RUNNING" and not job.flushed:
            time.sleep(_WAIT_SECONDS)
        checkpoints = job.checkpoints
        assert checkpoints is not None
        job.between_epochs(lambda: checkpoints.now(job)).result()


@contextmanager
def _options(environment: Environment, given: Mapping[str, str]) -> Iterator[None]:
    """The environment begins jobs in the background with these options meanwhile."""
    session = environment.session
    before = session.options.as_dict()
    background, session.inserts_in_background = session.inserts_in_background, True
    try:
        for key, value in given.items():
            environment.get_config().set(key, value)
        yield
    finally:
        session.inserts_in_background = background
        for key in given:
            if key in before:
                environment.get_config().set(key, str(before[key]))
            else:
                environment.execute_sql(f"RESET '{key}'")
