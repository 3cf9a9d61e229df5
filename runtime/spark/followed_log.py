"""A query that runs in the driver's process and a stream of Spark that reads its changes in another one: what the two tell
each other, in files beside the log of changes (`epoch_log.py`).

    <folder>/changes        the log
    <folder>/talk/run             of the driver: the name of the run that writes the log
    <folder>/talk/state-<run>     of the driver: whether the query runs, what made it fail
    <folder>/talk/asked           of the reader: take what is there now
    <folder>/talk/answered-<run>  of the driver: which request is done

A run that ends says so in files of its own, because the next one may have begun.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from runtime.checkpoint.storage import Damage, Storage, below
from runtime.checkpoint.store import storage_at
from runtime.core.errors import ConnectorError, SparkError
from runtime.spark.epoch_log import EpochLog

__all__ = ["FollowedLog", "Talk", "watched"]

_MOST_BYTES = 65_536
_LOOK_SECONDS = 0.1


class Talk:
    """The files by which the two sides talk."""

    def __init__(self, folder: str) -> None:
        above, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
        place = f"{above.rstrip('/') or '/'}{mark}{options}"
        self._storage: Storage = storage_at("s3://" + place[6:] if place.startswith("s3a://") else place, "talk")

    def say(self, name: str, **what: Any) -> None:
        """Leave a word in the place of the one before."""
        self._storage.publish(name, json.dumps(what).encode())

    def heard(self, name: str) -> Mapping[str, Any]:
        """The last word of a name; nothing when there is none."""
        try:
            found = json.loads(self._storage.read(name, 0, _MOST_BYTES).to_pybytes())
        except FileNotFoundError:
            return {}
        except (Damage, ValueError) as error:
            raise ConnectorError(f"{name} in {self._storage.place} is damaged: {error}", code="E3402") from error
        return found if isinstance(found, dict) else {}

    def forget_runs(self) -> None:
        """Remove what earlier runs have left."""
        for name in self._storage.files():
            if name.startswith(("state-", "answered-")):
                self._storage.delete(name)


class FollowedLog:
    """The side of the stream: see `runtime.spark.data_source.Following`."""

    def __init__(self, folder: str) -> None:
        self.log = EpochLog(below(folder, "changes"))
        self._talk = Talk(folder)
        self._run = str(self._talk.heard("run").get("run", ""))

    def check(self) -> None:
        """Raises SparkError E3612 when the query has failed."""
        state = self._talk.heard(f"state-{self._run}")
        if state.get("status") == "failed":
            raise SparkError(
                f"the query has failed: {state.get('error')}",
                code="E3612",
                hint="mend it, and declare the stream again with the same folder: it goes on",
            )

    def catch_up(self) -> None:
        """The driver takes what is there now, and shows it."""
        request = uuid.uuid4().hex
        self._talk.say("asked", request=request, run=self._run)
        while self._talk.heard(f"answered-{self._run}").get("request") != request:
            if self._talk.heard(f"state-{self._run}").get("status") != "running":
                break
            time.sleep(_LOOK_SECONDS)
        self.check()

    def stop(self) -> None:
        """The query goes on: it is a job of the driver's."""


def watched(folder: str, run: str, status: Callable[[], tuple[str, str]], catch_up: Callable[[], None]) -> None:
    """The side of the driver, in a thread of its own until the query ends.

    Args:
        run: tells this run of the query from others.
        status: whether it is `running`, `finished` or `failed`, and the error.
        catch_up: returns when what is there now is taken and shown.
    """
    talk = Talk(folder)
    talk.forget_runs()
    talk.say(f"state-{run}", status="running")
    talk.say("run", run=run)

    def watch() -> None:
        answered = ""
        while True:
            asked = talk.heard("asked")
            request = str(asked.get("request", "")) if asked.get("run") == run else ""
            if request and request != answered:
                answered = request
                catch_up()
                talk.say(f"answered-{run}", request=request)
            found, error = status()
            if found != "running":
                talk.say(f"state-{run}", status=found, error=error)
                return
            time.sleep(_LOOK_SECONDS)

    threading.Thread(target=watch, name="sqlengine-stream", daemon=True).start()
