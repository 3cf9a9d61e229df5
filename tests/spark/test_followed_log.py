"""What a query in the driver and its stream in another process tell each other, without Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.checkpoint.storage import below
from runtime.core.errors import CheckpointError, ConnectorError, OptionError, SparkError
from runtime.spark.data_source import whole_log
from runtime.spark.epoch_log import EpochLog
from runtime.spark.followed_log import FollowedLog, Talk, watched
from sqlengine.frames.streaming import LogQuery


def test_the_driver_catches_up_when_it_is_asked_and_tells_how_the_query_ends(tmp_path: Path) -> None:
    folder = str(tmp_path)
    log = EpochLog(below(folder, "changes"))
    found = {"status": "running", "error": ""}
    changed = threading.Event()

    def catch_up() -> None:
        log.show(log.stage(log.latest() + 1, pa.RecordBatch.from_pydict({"op": ["+I"]})))

    def status() -> tuple[str, str]:
        if found["status"] != "running":
            changed.set()
        return found["status"], found["error"]

    watched(folder, "first", status, catch_up)
    following = LogQuery({"folder": folder}).follow()
    for epoch in (1, 2):
        following.catch_up()
        assert following.log.latest() == epoch
    # What was asked of an earlier run is not asked of this one.
    Talk(folder).say("asked", request="old", run="another")
    following.check()
    found.update(status="failed", error="E2101 cannot cast 'x'")
    assert changed.wait(30)
    with pytest.raises(SparkError, match="E3612 the query has failed: E2101 cannot cast 'x'"):
        while True:
            following.catch_up()


def test_a_query_that_has_ended_has_nothing_to_catch_up_with(tmp_path: Path) -> None:
    ended = threading.Event()

    def status() -> tuple[str, str]:
        ended.set()
        return "finished", ""

    watched(str(tmp_path), "run", status, lambda: None)
    assert ended.wait(30)
    following = FollowedLog(str(tmp_path))
    following.catch_up()
    following.stop()
    assert following.log.latest() == 0


def test_a_run_that_ends_late_says_nothing_of_the_next_one(tmp_path: Path) -> None:
    folder, ends, ended = str(tmp_path), threading.Event(), threading.Event()

    def status() -> tuple[str, str]:
        if not ends.is_set():
            return "running", ""
        ended.set()
        return "failed", "of the first"

    watched(folder, "first", status, lambda: None)
    second = threading.Event()
    watched(folder, "second", lambda: ("finished" if second.is_set() else "running", ""), lambda: None)
    following = FollowedLog(folder)
    ends.set()
    assert ended.wait(30)
    following.catch_up()
    following.check()
    second.set()
    following.catch_up()


def test_a_second_stream_is_refused(tmp_path: Path) -> None:
    log = EpochLog(str(tmp_path / "changes"))
    whole_log(log)
    log.show(log.stage(1, pa.RecordBatch.from_pydict({"op": ["+I"]})))
    whole_log(log)
    log.forget(1)
    with pytest.raises(ConnectorError, match="E3108 the changes up to epoch 1 .* another stream"):
        whole_log(log)


def test_words_that_are_none(tmp_path: Path) -> None:
    talk = Talk(str(tmp_path))
    assert talk.heard("state") == {}
    talk.say("state", status="running")
    (tmp_path / "talk" / "state").write_bytes(b"{")
    with pytest.raises((ConnectorError, CheckpointError), match="E3402 state in .* is damaged"):
        talk.heard("state")
    with pytest.raises(OptionError, match="E1504"):
        LogQuery({})
