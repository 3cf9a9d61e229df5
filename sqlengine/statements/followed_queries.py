"""A query that somebody follows: its answer is kept as that of a materialized view, without a name, as long as that.

Nothing of it is in catalogs, in the log or in checkpoints: it ends with the process at the latest.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from connectors.memory import MemoryTable
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.local.job import Job
from sqlengine.catalog.objects import MaterializedView, ObjectPath, PhysicalColumn
from sqlengine.database.database import Database
from sqlengine.database.filling import InTheMaking
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.session import Session
from sqlengine.database.view_traits import calls_out, follows_time, reads_outside
from sqlengine.parse.trees import Tree
from sqlengine.statements.planning import bound_schema, bound_view, plan_view

if TYPE_CHECKING:
    import sqlengine.statements.verified as _attach
else:
    _attach = Room("sqlengine.statements.verified")

__all__ = ["FollowedQuery", "follow_query", "followed_schema"]

T = TypeVar("T")
_numbers = itertools.count(1)


def followed_schema(query: Tree, session: Session) -> Schema:
    """The columns of a query. Raises what binding it raises."""
    return session.at_a_version(lambda: bound_schema(bound_view(session, query)))


class FollowedQuery:
    """The answer of a query, kept up to date in `contents` until `close`."""

    def __init__(self, path: ObjectPath, contents: MemoryTable, database: Database) -> None:
        self.path = path
        self.contents = contents
        self._database = database
        self._guard = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Keep it no longer. From any thread; harmless when called again."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        database = self._database
        with database.views.lock:
            database.views.remove(self.path)
            database.forget_rows(self.path)
            database.show(redefined=True)


def follow_query(
    query: Tree, text: str, session: Session, begin: Callable[[MemoryTable], T]
) -> tuple[FollowedQuery, T]:
    """Begin to keep the answer of a query. What `begin` gives of it is as of the moment when it is there, before anything
    else happens.

    Raises what planning it raises; then nothing has changed.
    """
    while True:
        try:
            with session.alone(redefines=True):
                made = _kept(query, text, session)
                try:
                    return made, begin(made.contents)
                except BaseException:
                    made.close()
                    raise
        except InTheMaking as error:
            filling = error.filling
        filling.wait()


def _kept(query: Tree, text: str, session: Session) -> FollowedQuery:
    number = next(_numbers)
    path = ObjectPath("(subscriptions)", "(queries)", f"subscription {number}")
    bound = bound_view(session, query)
    schema = bound_schema(bound)
    columns = tuple(PhysicalColumn(f.name, f.type.materialized()) for f in schema)
    view = MaterializedView(path, query, text, columns)
    contents = session.database.new_table(view, session.options)
    planned = plan_view(session, bound, contents, schema.names)
    contents.append_only = planned.physical.mode.is_append_only
    job = Job(path.name, [planned.physical], session.job_settings([planned.physical]))
    _attach.verify(session, job, [planned])
    read = {id(source.table) for source in job.dataflow.sources}
    inputs = frozenset(path for path, table in session.memory.items() if id(table) in read)
    for filling in session.views.in_the_making:
        if filling.path in inputs:
            job.close()
            raise InTheMaking(filling)
    made = MaintainedView(
        path,
        job,
        reads_outside(job),
        inputs,
        contents=contents,
        follows_time=follows_time(job),
        calls_out=calls_out(job, session.functions, session.user_functions),
        passing=True,
    )
    session.database.keep(path, contents)
    try:
        session.views.add(made)
    except BaseException:
        session.database.forget_rows(path)
        raise
    return FollowedQuery(path, contents, session.database)
