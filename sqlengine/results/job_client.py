"""A job of an INSERT or a statement set, as Flink's `JobClient`: its status, its end, its savepoints."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from runtime.core.errors import OptionError
from runtime.local.job import Job
from sqlengine.options.savepoint_paths import SAVEPOINT_DIR, next_savepoint

__all__ = ["JobClient"]


class JobClient:
    """The handle of a job, from `Result.get_job_client()`. What takes a while gives a future, as in PyFlink:
    `client.stop_with_savepoint(True, "/a/folder").result()`."""

    def __init__(self, job: Job, savepoint_folder: Callable[[], str]) -> None:
        self._job = job
        self._savepoint_folder = savepoint_folder

    def get_job_id(self) -> str:
        """The id of the job in SHOW JOBS and STOP JOB."""
        return self._job.name

    def get_job_status(self) -> Future[str]:
        """CREATED, RUNNING, RESTARTING, FINISHED, CANCELED or FAILED."""
        return _known(self._job.status)

    def cancel(self) -> Future[None]:
        """End the job after the current epoch; sinks publish their rows."""
        self._job.cancel()
        return _known(None)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> Future[str]:
        """Write a savepoint while the job goes on. The future has its path; OptionError E1509 when nobody says where
        savepoints go."""
        return self._savepoint(savepoint_directory, stop=False, drain=False)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool = False, savepoint_directory: str | None = None
    ) -> Future[str]:
        """Write a savepoint and end the job; with `advance_to_end_of_event_time` all windows fire before. The future
        has its path."""
        return self._savepoint(savepoint_directory, stop=True, drain=advance_to_end_of_event_time)

    def _savepoint(self, folder: str | None, *, stop: bool, drain: bool) -> Future[str]:
        folder = folder or self._savepoint_folder()
        if not folder:
            raise OptionError(
                "it is not said where savepoints go",
                code="E1509",
                hint=f"give savepoint_directory, or set '{SAVEPOINT_DIR.key}'",
            )
        path: Future[str] = Future()

        def told(written: Future[Any]) -> None:
            error = written.exception()
            if error is not None:
                path.set_exception(error)
            else:
                path.set_result(written.result().path)

        written = self._job.savepoint(next_savepoint(folder, self._job.name), stop=stop, drain=drain)
        written.add_done_callback(told)
        return path


def _known(value: Any) -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(value)
    return done
