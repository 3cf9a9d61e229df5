"""Sessions of clients over HTTP: each has a session of the engine, its settings, and the statements that were sent."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from runtime.core.errors import SqlEngineError
from runtime.core.rooms import Room
from runtime.core.secrets import shown_value
from sqlengine.api.environment import TableEnvironment
from sqlengine.options.dialect import DIALECT
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_statement
from sqlengine.parse import session_nodes as sn
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.server.audit import Trail
from sqlengine.server.http.operation import Operation, job_hex
from sqlengine.server.http.refused import Refused

if TYPE_CHECKING:
    import sqlengine.shell.suggest as _suggest
    from sqlengine.shell.suggest import Suggestion
else:
    _suggest = Room("sqlengine.shell.suggest")

__all__ = ["HttpSession"]

_MOST_OPERATIONS = 100
"""Statements of a session that were sent and not closed."""
_HEX = re.compile(r"'([0-9a-f]{32})'")
_CONFIGURES = (
    sn.Set, sn.Reset, sn.UseCatalog, sn.UseDatabase, sn.UseModules, sn.LoadModule, sn.UnloadModule, sn.AddJar, st.CreateFunction,
    st.DropFunction, ddl.CreateTable, st.DropTable, ddl.AlterTable, st.CreateView, st.DropView, ddl.AlterView,
    st.CreateDatabase, st.DropDatabase, ddl.AlterDatabase, st.CreateCatalog, st.DropCatalog, ddl.AlterCatalog,
    st.CreateModel, st.DropModel, st.AlterModel, st.CreateConnection, st.DropConnection, st.AlterConnection,
)  # fmt: skip


class HttpSession:
    """A session of a client. Its statements are carried out in the order in which they were sent; queries give rows
    beside the statements behind them.

    Args:
        environment: its own.
        properties: its first settings. What means nothing here is kept for the client to ask for.
        missing: the status of HTTP for what is not there.
        trail: where its statements are written down, if they are.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        properties: Mapping[str, str],
        name: str | None,
        *,
        missing: int,
        trail: Trail | None = None,
    ) -> None:
        self.handle = str(uuid.uuid4())
        self.name = name
        self.missing = missing
        self.trail = trail
        self.environment = environment
        self.operations: dict[str, Operation] = {}
        self.used = time.monotonic()
        self.on_close: Callable[[], object] = lambda: None
        """Called when it has ended."""
        self._jobs: dict[str, str] = {}
        self._foreign: dict[str, str] = {}
        self._turns = threading.Condition()
        self._waiting: list[Operation] = []
        for key, value in properties.items():
            try:
                environment.get_config().set(key, value)
            except SqlEngineError:
                self._foreign[key] = value
        environment.session.noted_options.clear()

    @property
    def user(self) -> str:
        """Who has opened it."""
        authority = self.environment.session.authority
        return "" if authority is None else authority.user

    @property
    def dialect(self) -> str:
        """How its statements are read."""
        return self.environment.session.options.get(DIALECT).lower()

    @property
    def time_zone(self) -> str:
        return self.environment.session.time_zone

    @property
    def properties(self) -> dict[str, str]:
        """All settings."""
        options = self.environment.session.options.as_dict()
        return {**self._foreign, **{key: shown_value(key, value) for key, value in options.items()}}

    def touch(self) -> None:
        """The client is there."""
        self.used = time.monotonic()

    # --- statements

    def send(self, text: str, seconds: float, settings: Mapping[str, str], *, follow: bool = True) -> Operation:
        """Have a statement carried out. `settings` are those of this statement alone. `follow`: a query that is a stream
        follows tables in memory and views. Raises Refused."""

        def work() -> Result:
            self.environment.session.queries_follow = follow
            return self._execute(text, settings)

        return self._operation(work, text, seconds)

    def _operation(self, work: Callable[[], Result], text: str, seconds: float) -> Operation:
        if len(self.operations) >= _MOST_OPERATIONS:
            raise Refused(self.missing, f"the session has {_MOST_OPERATIONS} operations; close some first")
        authority = self.environment.session.authority
        limit = None if authority is None else authority.role.limits.milliseconds
        if limit is not None:
            seconds = min(seconds or limit / 1000, limit / 1000)
        with self._turns:
            operation = Operation(self, work, text, seconds)
            self._waiting.append(operation)
        self.operations[operation.handle] = operation
        return operation

    def take_turn(self, operation: Operation) -> None:
        """Wait until the statements that were sent before have been carried out."""
        with self._turns:
            while operation not in self._waiting[:1]:
                self._turns.wait()

    def end_turn(self) -> None:
        """The next statement may be carried out."""
        with self._turns:
            del self._waiting[:1]
            self._turns.notify_all()

    def _execute(self, text: str, settings: Mapping[str, str]) -> Result:
        options = self.environment.session.options
        before = options.as_dict()
        for key, value in settings.items():
            self.environment.get_config().set(key, value)
        try:
            return self.environment.execute_sql(self._with_own_job(text))
        finally:
            for key in settings:
                options.reset(key)
                if key in before:
                    options.set(key, before[key])

    def _with_own_job(self, text: str) -> str:
        """The statement with the name that a job has here, where it names one as clients were told."""
        if _HEX.search(text) is None or not isinstance(parse_statement(text, self.dialect), sn.StopJob):
            return text
        names = {job_hex(name): name for name in self.environment.session.jobs.jobs}
        return _HEX.sub(lambda match: f"'{names.get(match[1], match[1])}'", text)

    def known_job(self, name: str) -> str:
        """The id by which clients know a job."""
        return job_hex(name)

    def configure(self, text: str, seconds: float) -> None:
        """Carry out a statement that changes settings or definitions, and wait for it. Raises Refused, and what it
        raises. On a thread that is no loop's."""
        statement = parse_statement(text, self.dialect)
        if not isinstance(statement, _CONFIGURES):
            raise Refused(
                self.missing,
                "configure-session takes SET, RESET, USE, CREATE, DROP, ALTER, LOAD and UNLOAD; send others as statements",
            )
        with self._turns:
            while self._waiting:
                self._turns.wait()
            began = time.perf_counter()
            try:
                self._execute(text, {})
            except BaseException as error:
                if self.trail is not None:
                    self.trail.statement(text, time.perf_counter() - began, error=error)
                raise
            if self.trail is not None:
                self.trail.statement(text, time.perf_counter() - began)

    def suggestions(self, text: str, position: int) -> list[Suggestion]:
        """What may be typed at a position, the best first."""
        return _suggest.Suggester(self.environment.session).suggest(text[:position], text[position:])

    def complete(self, text: str, position: int) -> list[str]:
        """What may be typed at a position; tables with their whole names."""
        session, found = self.environment.session, self.suggestions(text, position)
        here = f"{session.catalogs.current_catalog}.{session.catalogs.current_database}."
        kinds = ("table", "view", "materialized view", "materialized table")
        return [here + s.text if s.kind in kinds and "." not in s.text else s.text for s in found]

    def operation(self, handle: str) -> Operation:
        """Raises Refused for one that is not there."""
        found = self.operations.get(handle)
        if found is None:
            raise Refused(self.missing, f"there is no operation {handle} in the session {self.handle}")
        return found

    def close_operation(self, handle: str) -> None:
        """Raises Refused for one that is not there."""
        self.operation(handle).close()
        del self.operations[handle]

    def stop(self) -> None:
        """Its operations end."""
        for operation in tuple(self.operations.values()):
            operation.close()
        self.operations.clear()

    def close(self) -> None:
        """It ends, once the statement at hand has. On a thread that is no loop's."""
        with self._turns:
            while self._waiting:
                self._turns.wait()
        self.on_close()
        self.environment.close()
