"""Paths that change what runs: submit, stop, savepoints, restore, rescale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from runtime.core.errors import SqlEngineError
from runtime.core.logs import Log
from sqlengine.api.environment import TableEnvironment
from sqlengine.database.acting import act_for
from sqlengine.database.jobs import Begun, RunningJob
from sqlengine.database.recovery import SAVEPOINT_PATH
from sqlengine.options.savepoint_paths import SAVEPOINT_DIR
from sqlengine.parse import parse_script
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.roles.authority import Authority
from sqlengine.server.http.access import WHO
from sqlengine.server.http.bodies import read_body, text_of
from sqlengine.server.http.refused import Refused
from sqlengine.server.http.sessions import in_thread
from sqlengine.server.web.jobs import Monitor
from sqlengine.server.web.route import JSON, Route, answer, body_of, flag_of, text_or_none

__all__ = ["SQL", "Control"]

_log = Log("server")
SQL = "application/sql"
_PARALLELISM = "parallelism.default"
_MOST_TASKS = 1024


class Control:
    """What the paths answer. `environment`: a session of the database; each request has one of its own."""

    def __init__(self, environment: TableEnvironment, monitor: Monitor) -> None:
        self._environment = environment
        self._monitor = monitor

    def routes(self) -> list[Route]:
        """The paths."""
        jobs = "/api/v1/jobs"
        job = f"{jobs}/{{job}}"
        return [
            Route(
                "POST", jobs, self.submit, "submit",
                "Run a file of SQL, as JSON or as it is: its definitions are made, its INSERTs are jobs in the background."
                " With `savepoint` they go on from there.",
                "Submitted", 201, body="Submission", other_body=SQL, refuses=(415,),
            ),
            Route(
                "POST", f"{job}/stop", self.stop, "stop",
                "End a job after its epoch at hand; with `savepoint` its state is saved first, with `drain` all windows"
                " fire before that.",
                "Stopped", body="Stop", refuses=(404, 415),
            ),
            Route(
                "POST", f"{job}/savepoints", self.savepoint, "create_savepoint",
                "Write a savepoint of a job, which goes on.", "Stopped", 201, body="Savepoint", refuses=(404, 415),
            ),
            Route(
                "POST", f"{job}/rescale", self.rescale, "rescale",
                "Stop a job with a savepoint, and begin its statement again from there with another number of tasks.",
                "Stopped", body="Rescale", refuses=(404, 409, 415),
            ),
            Route(
                "POST", f"{job}/restore", self.restore, "restore",
                "Begin the statement of a job again from a savepoint; the job is stopped if it runs.",
                "Stopped", body="Restore", refuses=(404, 409, 415),
            ),
        ]  # fmt: skip

    # --- submit

    async def submit(self, request: web.Request) -> web.Response:
        if request.content_type == SQL:
            try:
                text, savepoint, settings = (await read_body(request)).decode(), None, {}
            except UnicodeDecodeError:
                raise Refused(400, "the text is not in UTF-8") from None
        elif request.content_type == JSON:
            body = await body_of(request)
            text, savepoint, settings = text_of(body, "sql"), text_or_none(body, "savepoint"), _settings(body)
        else:
            raise Refused(415, f"the body is of the type {JSON} or {SQL}")
        who = WHO.get()
        return answer(await in_thread(lambda: self._run(who, text, settings, savepoint)), 201)

    def _run(self, who: Authority, text: str, settings: Mapping[str, str], savepoint: str | None) -> dict[str, Any]:
        statements = parse_script(text)
        for statement in statements:
            if isinstance(statement, st.QueryStatement | st.Subscribe):
                raise Refused(400, "a query gives rows: send it as a statement of a session, not as a job")
        if not statements:
            raise Refused(400, "there is no statement")
        given = dict(settings) if savepoint is None else {**settings, SAVEPOINT_PATH.key: savepoint}
        environment = self._session(who, given)
        environment.session.inserts_in_background = True
        done: list[dict[str, Any]] = []
        try:
            for result in environment.run_script(text):
                done.append(_done(result))
        except SqlEngineError as error:
            if done:
                _log.info("a file of SQL has failed behind %d statements: %s", len(done), error.code)
            raise
        finally:
            environment.close()
        return {"jobs": [each["job"] for each in done if each["job"] is not None], "statements": done}

    # --- jobs

    async def stop(self, request: web.Request) -> web.Response:
        name, body = self._name(request), await body_of(request)
        savepoint, drain, folder = flag_of(body, "savepoint"), flag_of(body, "drain"), self._folder(name, body)
        words = f"STOP JOB {_quoted(name)}{' WITH SAVEPOINT' * savepoint}{' WITH DRAIN' * drain}"
        who = WHO.get()
        path = await in_thread(lambda: self._told(who, words, folder))
        return answer({"job": name, "savepoint": path if savepoint else None})

    async def savepoint(self, request: web.Request) -> web.Response:
        name, body = self._name(request), await body_of(request)
        folder = self._folder(name, body)
        who = WHO.get()
        path = await in_thread(lambda: self._told(who, f"CREATE SAVEPOINT FOR JOB {_quoted(name)}", folder))
        return answer({"job": name, "savepoint": path}, 201)

    async def rescale(self, request: web.Request) -> web.Response:
        name, body = self._name(request), await body_of(request)
        tasks, folder = body.get("tasks"), self._folder(name, body)
        if type(tasks) is not int or not 1 <= tasks <= _MOST_TASKS:
            raise Refused(400, f"tasks is a whole number from 1 to {_MOST_TASKS}")
        running = self._monitor.running(name)
        begun = _begun(running)
        if running.done.is_set():
            raise Refused(409, f"{name} does not run: it is {running.job.status}")

        who = WHO.get()

        def work() -> tuple[str, str]:
            path = self._told(who, f"STOP JOB {_quoted(name)} WITH SAVEPOINT", folder)
            try:
                return self._again(who, begun, path, {_PARALLELISM: str(tasks)}), path
            except SqlEngineError:
                # What ran before runs again.
                _log.warning("%s goes on as it was: it could not be rescaled", name, job=name)
                self._again(who, begun, path, {})
                raise

        again, path = await in_thread(work)
        return answer({"job": again, "savepoint": path})

    async def restore(self, request: web.Request) -> web.Response:
        name, body = self._name(request), await body_of(request)
        path = text_of(body, "savepoint")
        running = self._monitor.running(name)
        begun = _begun(running)

        who = WHO.get()

        def work() -> str:
            if not running.done.is_set():
                self._told(who, f"STOP JOB {_quoted(name)}", None)
            return self._again(who, begun, path, {})

        return answer({"job": await in_thread(work), "savepoint": path})

    def _name(self, request: web.Request) -> str:
        """Raises Refused 404 for a job that there is not."""
        name = request.match_info["job"]
        if name not in self._environment.session.jobs.failed:
            self._monitor.running(name)
        return name

    def _folder(self, name: str, body: Mapping[str, Any]) -> str | None:
        """Where the savepoints of a job go: where the body says, or where the job was told when it began."""
        found = self._environment.session.jobs.jobs.get(name)
        begun = None if found is None else found.begun
        return text_or_none(body, "folder") or (None if begun is None else begun.options.get(SAVEPOINT_DIR.key))

    def _session(self, who: Authority, settings: Mapping[str, str]) -> TableEnvironment:
        """One that acts for whoever asks. Raises what a setting that means nothing raises."""
        environment = self._environment.new_session()
        act_for(environment.session, who)
        try:
            for key, value in settings.items():
                environment.get_config().set(key, value)
        except SqlEngineError:
            environment.close()
            raise
        return environment

    def _told(self, who: Authority, words: str, folder: str | None) -> str:
        """Carry out a statement; what its first cell says."""
        environment = self._session(who, {} if folder is None else {SAVEPOINT_DIR.key: folder})
        try:
            return str(environment.execute_sql(words).to_arrow().column(0)[0].as_py())
        finally:
            environment.close()

    def _again(self, who: Authority, begun: Begun, savepoint: str, more: Mapping[str, str]) -> str:
        """Begin a job again, from a savepoint; its new name."""
        environment = self._session(who, {**begun.options, SAVEPOINT_PATH.key: savepoint, **more})
        environment.session.inserts_in_background = True
        try:
            environment.session.catalogs.use_database(begun.catalog, begun.database)
            job = environment.execute_sql(begun.text).job
        finally:
            environment.close()
        assert job is not None
        return job.name


def _begun(running: RunningJob) -> Begun:
    """Raises Refused 409 for what cannot be begun again where it was."""
    if running.begun is None:
        raise Refused(409, f"{running.id} is no job that could be begun again")
    if running.locked and running.job.checkpoints is None:
        raise Refused(
            409, f"{running.id} reads or fills tables of a database in memory: its state cannot be taken up again"
        )
    return running.begun


def _done(result: Result) -> dict[str, Any]:
    return {
        "summary": result.summary,
        "warnings": list(result.warnings),
        "job": None if result.job is None or result.bounded else result.job.name,
    }


def _settings(body: Mapping[str, Any]) -> dict[str, str]:
    found = body.get("settings", {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise Refused(400, "settings is an object of texts")
    return dict(found)


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
