"""CREATE, ALTER and DROP of views and materialized views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from connectors.memory import MemoryTable
from runtime.core.errors import BindError, CatalogError, Span, SqlEngineError
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import TimeAttribute
from runtime.core.wakeup import nobody
from runtime.local.job import Job
from sqlengine.bind import BoundQuery
from sqlengine.catalog.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, CatalogObject
from sqlengine.catalog.objects import CatalogView, MaterializedView, ObjectPath, PhysicalColumn
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.session import PYTHON_DATABASE, Session
from sqlengine.options.database import WEIGHT
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.trees import Tree, tables_of
from sqlengine.results.result import Result
from sqlengine.statements.planning import Planned, bound_schema, bound_view, object_schema, plan_view, query_schema
from sqlengine.table_options.memory_tables import history_retention

if TYPE_CHECKING:
    import sqlengine.database.filling as _filling
    import sqlengine.database.view_basis as _view_basis
    import sqlengine.database.view_traits as _view_traits
    import sqlengine.statements.query_reads as _query_reads
    import sqlengine.statements.table_refresh as _table_refresh
    import sqlengine.statements.verified as _attach
    import sqlengine.statements.view_keys as _view_keys
    import sqlengine.statements.view_options as _view_options
    import sqlengine.statements.view_replacement as _view_replacement
    from sqlengine.statements.refreshed_partition import RefreshedPartition
    from sqlengine.statements.view_goes_on import ViewGoesOn
    from sqlengine.statements.view_keys import ViewKeys
    from sqlengine.statements.view_replacement import Replacement
else:
    _view_keys = Room("sqlengine.statements.view_keys")
    _view_options = Room("sqlengine.statements.view_options")
    _view_replacement = Room("sqlengine.statements.view_replacement")
    _filling = Room("sqlengine.database.filling")
    _view_basis = Room("sqlengine.database.view_basis")
    _query_reads = Room("sqlengine.statements.query_reads")
    _table_refresh = Room("sqlengine.statements.table_refresh")
    _attach = Room("sqlengine.statements.verified")
    _view_traits = Room("sqlengine.database.view_traits")

__all__ = [
    "alter_view",
    "create_materialized_view",
    "create_view",
    "declared_view",
    "described_materialized_view",
    "drop_materialized_view",
    "drop_view",
    "explained_replacement",
]


def create_view(statement: st.CreateView, session: Session) -> Result:
    """Name a query. It is bound once here, so that a wrong one is refused at once."""
    schema = query_schema(session, statement.query.query)
    _column_names(statement.columns, schema)
    view = declared_view(statement, session)
    before = session.catalogs.twin(view) if statement.or_replace else None
    if isinstance(before, CatalogView):
        _replace_view(session, before, view, statement.query.span)
    else:
        session.catalogs.create(view, if_not_exists=statement.if_not_exists, span=statement.name.span)
    return Result.ok()


def _replace_view(session: Session, view: CatalogView, changed: CatalogView, span: Span) -> None:
    session.catalogs.replace(changed)
    try:
        object_schema(session, changed)  # in its place, so that a view that reads itself is found
    except SqlEngineError as error:
        session.catalogs.replace(view)
        error.span = error.span or span
        raise


def declared_view(statement: st.CreateView, session: Session) -> CatalogView:
    """The view as the statement says, unchecked."""
    return CatalogView(
        session.catalogs.qualify(statement.name.parts),
        statement.query.query,
        statement.query.text,
        tuple(c.name.text for c in statement.columns),
        statement.comment,
        statement.temporary,
        tuple(c.comment for c in statement.columns),
        _keepers(session, statement.query.query),
    )


def _keepers(session: Session, query: Tree) -> tuple[object, ...]:
    """What keeps the rows of Python that a query reads."""
    found = (session.python_keepers.get(name) for name in tables_of(query, PYTHON_DATABASE))
    return tuple(keeper for keeper in found if keeper is not None)


def create_materialized_view(
    statement: st.CreateMaterializedView,
    session: Session,
    saved: ViewGoesOn | None = None,
    *,
    anew: bool = False,
    part: RefreshedPartition | None = None,
) -> Result:
    """Begin to keep the answer of a query; its first answer over tables in memory is there when this returns.

    When that fails nothing has changed. Views and jobs that read a view which is replaced go on with the new answer.

    Args:
        saved: what the view goes on from. CheckpointError E3402 when that cannot be.
        anew: it takes nothing over of the one that it replaces, which may rest.
        part: all other rows stay as they are.
    """
    start = None if statement.table is None else _table_refresh.start_of(statement, session)
    bound = bound_view(session, statement.query.query, start)
    view = described_materialized_view(statement, session, bound, start)
    if view is None:
        return Result.ok()
    if part is not None:
        bound = part.of(bound)
    path, names = view.path, tuple(c.name for c in view.columns)
    with session.filling(view) as keep:
        contents = session.memory_table(view)
        if saved is not None:
            saved.check(view)
        anew = anew or not _starts_as_before(view, session)
        replaces = saved is None and statement.or_replace and not anew and not _rests(session, path)
        taken = _view_replacement.replacement(session, view, bound, contents) if replaces else None
        if taken is not None:
            planned = taken.planned
        else:
            planned = (
                plan_view(session, bound, contents, names) if saved is None else saved.planned(bound, contents, names)
            )
        keys = _view_keys.ViewKeys.of(planned, view, session, part=part is not None)
        keys.check(statement.name.span)
        if taken is not None and _same_columns(view, session) and taken.succession.same_answer:
            _name_again(view, taken, session, keep, keys)
            return Result.ok()
        if taken is not None:
            taken.check(session, statement.name.span)
        contents.append_only = planned.physical.mode.is_append_only and view.refresh is None
        restored = None
        if saved is not None:
            restored = saved.restored(planned.physical)
            saved.fill(contents)
        elif taken is not None:
            restored = taken.succession.restored
        settings = session.job_settings([planned.physical])
        job = Job(_job_name(path), [planned.physical], settings, savepoint=restored)
        _attach.verify(session, job, [planned])
        read = {id(source.table) for source in job.dataflow.sources}
        inputs = frozenset(path for path, table in session.memory.items() if id(table) in read)
        for filling in session.views.in_the_making:
            if filling.path in inputs:
                job.close()
                raise _filling.InTheMaking(filling)
        if path in inputs or not inputs.isdisjoint(session.views.above(path)):
            job.close()
            message = f'the view "{path.name}" would read itself'
            raise BindError(message, code="E1222", span=statement.name.span, hint="let it read tables and other views")
        made = MaintainedView(
            path,
            job,
            _view_traits.reads_outside(job),
            inputs,
            contents=contents,
            follows_time=_view_traits.follows_time(job),
            calls_out=_view_traits.calls_out(job, session.functions, session.user_functions),
            gathers=job.watch is None and _view_traits.may_gather(job, session.functions),
            basis=_basis(session, view, inputs, taken) if saved is None else saved.saved.basis,
            take_over=None if taken is None else taken.fill(session),
            weight=session.options.get(WEIGHT),
            rests=view.rests,
            own_keys=keys.own,
            known_keys=planned.known_keys,
        )
        if saved is not None:
            contents.tell_time(job.dataflow.watermark, job.dataflow.idle)
            saved.begun(made)
            if job.resumed_finished:
                made.close()
        reads = (
            frozenset[ObjectPath]() if session.durable is None else session.durable.view_reads.get(path, frozenset())
        )
        others = nobody if part is None else partial(part.take_others, session.memory[path], contents)

        def followed() -> MemoryTable | None:
            try:
                keys.check(statement.name.span)
            except CatalogError:
                job.close()
                raise
            return _followed(view, session, others)

        replaced = session.views.add(made, followed, reads)
        columns = view.columns if view.refresh is not None else _with_event_time(view.columns, planned)
        if replaced is not None:
            keep(replaced)
            columns = _typed_as_before(view, session)
    keys.settle(replace(view, columns=columns))
    _view_options.keep_history(view, session)
    if view.refresh is not None and view.refresh.full and not view.refresh.suspended and part is None:
        session.views.schedule[path] = session.clock.now() + view.refresh.milliseconds
    return Result.ok()


def _job_name(path: ObjectPath) -> str:
    """What the job of a view is called, in figures too: no other one is called so. The first database goes without saying."""
    parts = path.parts
    if path.catalog == DEFAULT_CATALOG:
        parts = parts[2:] if path.database == DEFAULT_DATABASE else parts[1:]
    return "view " + ".".join(f"`{part}`" if "." in part or "`" in part else part for part in parts)


def _starts_as_before(view: MaterializedView, session: Session) -> bool:
    """Whether rows count from the moment on from which they counted for the view of that name, if there is one."""
    before = session.catalogs.find(view.path)
    if not isinstance(before, MaterializedView) or before.refresh is None or view.refresh is None:
        return True
    return before.refresh.start == view.refresh.start


def _rests(session: Session, path: ObjectPath) -> bool:
    """Whether there is a materialized table whose job has ended: what it was last planned and computed over is past."""
    before = session.catalogs.find(path)
    return isinstance(before, MaterializedView) and before.rests


def _typed_as_before(view: MaterializedView, session: Session) -> tuple[PhysicalColumn, ...]:
    """The columns of a view that takes the place of another one, with the types of that."""
    before = session.catalogs.find(view.path)
    assert isinstance(before, MaterializedView)
    return tuple(replace(c, type=b.type.materialized()) for c, b in zip(view.columns, before.columns, strict=True))


def explained_replacement(statement: st.CreateMaterializedView, session: Session) -> str | None:
    """What a statement would make of the state of the view that is there; None when there is none. Changes nothing."""
    if not isinstance(session.catalogs.find(session.catalogs.qualify(statement.name.parts)), MaterializedView):
        return None
    start = None if statement.table is None else _table_refresh.start_of(statement, session)
    bound = bound_view(session, statement.query.query, start)
    view = described_materialized_view(statement, session, bound, start)
    assert view is not None
    noted, contents = len(session.notes), session.database.new_table(view, session.options)
    found = _view_replacement.replacement(session, view, bound, contents)
    new = plan_view(session, bound, contents, [c.name for c in view.columns]) if found is None else found.planned
    del session.notes[noted:]
    _view_keys.ViewKeys.of(new, view, session).check(statement.name.span)
    return _view_replacement.replacement_text(found)


def _same_columns(view: MaterializedView, session: Session) -> bool:
    """Whether a view of that name has columns of the same names and types."""
    before = session.catalogs.find(view.path)
    return isinstance(before, MaterializedView) and [(c.name, c.type.materialized()) for c in before.columns] == [
        (c.name, c.type.materialized()) for c in view.columns
    ]


def _name_again(
    view: MaterializedView,
    taken: Replacement,
    session: Session,
    keep: Callable[[MemoryTable], object],
    keys: ViewKeys,
) -> None:
    """A view has the answer of its new query, under the same names: it goes on as it is."""
    assert taken.before.contents is not None
    keep(taken.before.contents)
    taken.before.own_keys, taken.before.known_keys = keys.own, taken.planned.known_keys
    keys.settle(replace(view, columns=_typed_as_before(view, session)))
    session.database.histories.keep(taken.before.contents, history_retention(view))


def _basis(
    session: Session, view: MaterializedView, inputs: frozenset[ObjectPath], taken: Replacement | None
) -> _view_basis.ViewBasis:
    """Over what a view was planned."""
    rows = {path.parts: session.memory[path].held for path in inputs}
    known = {} if taken is None else taken.counted
    functions = _query_reads.fingerprints(session, view.query)
    return _view_basis.ViewBasis(
        functions,
        {path: known.get(path, n) for path, n in rows.items()},
        {name: session.user_functions[name] for name in functions},
    )


def _with_event_time(columns: tuple[PhysicalColumn, ...], planned: Planned) -> tuple[PhysicalColumn, ...]:
    """The columns of a view, with the mark of event time where the watermark of its query follows them."""
    (source,) = planned.optimized.inputs
    return tuple(
        replace(c, type=c.type.with_(time_attribute=TimeAttribute.ROWTIME)) if given.type.is_rowtime else c
        for c, given in zip(columns, source.columns, strict=True)
    )


def described_materialized_view(
    statement: st.CreateMaterializedView, session: Session, bound: BoundQuery, start: int | None = None
) -> MaterializedView | None:
    """The view that a statement would make, checked; None when it is there and IF NOT EXISTS. Changes nothing.

    Args:
        bound: its query.
        start: the moment from which on its rows count (`start_of`).
    """
    path, span = session.catalogs.qualify(statement.name.parts), statement.name.span
    schema = bound_schema(bound)
    names = _column_names(statement.columns, schema)
    comments = [c.comment for c in statement.columns] or [None] * len(names)
    columns = tuple(
        PhysicalColumn(n, f.type.materialized(), c) for n, f, c in zip(names, schema, comments, strict=True)
    )
    view = MaterializedView(path, statement.query.query, statement.query.text, columns, (), statement.comment)
    existing = session.catalogs.twin(view, span)
    if statement.table is not None:
        before = existing if isinstance(existing, MaterializedView) else None
        view = replace(view, refresh=_table_refresh.described_refresh(statement, session, columns, before, start))
    if isinstance(existing, MaterializedView) and existing.kind != view.kind and not statement.if_not_exists:
        raise CatalogError(
            f'"{path.name}" is a {existing.kind}, not a {view.kind}',
            code="E1409",
            span=span,
            hint=f"drop it first: DROP {existing.kind.upper()} {path.name}",
        )
    if existing is not None:
        if statement.if_not_exists:
            return None
        if not statement.or_replace or not isinstance(existing, MaterializedView):
            hint = f"use IF NOT EXISTS or {'OR REPLACE' if view.refresh is None else 'OR ALTER'}, or drop it first"
            raise CatalogError(f'"{path.name}" exists already', code="E1401", span=span, hint=hint)
        _check_replaceable(existing, view, session, span)
        if _followed(view, session) is not None:
            view = replace(view, columns=_typed_as_before(view, session))
        if statement.alters:
            view = replace(view, comment=existing.comment, own_options=existing.own_options)
    elif statement.alters:
        session.catalogs.get(statement.name.parts, span, view.kind)
    if statement.options and view.refresh is None:
        view = replace(view, own_options=_view_options.checked_options(statement.options, view.kind))
    return view


def drop_view(statement: st.DropView, session: Session) -> Result:
    found = session.catalogs.find(session.catalogs.qualify(statement.name.parts))
    if found is None and statement.if_exists:
        return Result.ok()
    view = session.catalogs.get(statement.name.parts, statement.name.span, "view")
    if not isinstance(view, CatalogView):
        raise CatalogError(
            f'"{view.path.name}" is a {_kind(view)}, not a view',
            code="E1409",
            span=statement.name.span,
            hint=f"write DROP {_kind(view).upper()} {view.path.name}",
        )
    session.catalogs.remove(view)
    return Result.ok()


def drop_materialized_view(statement: st.DropMaterializedView, session: Session) -> Result:
    found = session.catalogs.find(session.catalogs.qualify(statement.name.parts))
    if found is None and statement.if_exists:
        return Result.ok()
    kind = "materialized table" if statement.table else "materialized view"
    view = session.catalogs.get(statement.name.parts, statement.name.span, kind)
    if not isinstance(view, MaterializedView) or view.kind != kind:
        raise CatalogError(
            f'"{view.path.name}" is a {_kind(view)}, not a {kind}',
            code="E1409",
            span=statement.name.span,
            hint=f"write DROP {_kind(view).upper()} {view.path.name}",
        )
    _check_unread(view, session, statement.name.span)
    session.views.remove(view.path)
    session.views.schedule.pop(view.path, None)
    session.memory.pop(view.storage, None)
    session.catalogs.remove(view)
    return Result.ok()


def _kind(thing: CatalogObject) -> str:
    if isinstance(thing, MaterializedView):
        return thing.kind
    return "view" if isinstance(thing, CatalogView) else "table"


def _check_unread(view: MaterializedView, session: Session, span: Span) -> None:
    """Raise CatalogError E1410 when another materialized view reads the view."""
    dependents = session.views.dependents(view.storage)
    if dependents:
        raise CatalogError(_read_by(view, dependents), code="E1410", span=span, hint="drop that first")


def _read_by(view: MaterializedView, dependents: Sequence[ObjectPath]) -> str:
    return f'"{view.path.name}" is read by the materialized view ' + ", ".join(f'"{d.name}"' for d in dependents)


def _followed(view: MaterializedView, session: Session, others: Callable[[], object] = nobody) -> MemoryTable | None:
    """The contents of a view of the same name that somebody follows, where they may have the answer of this one: who
    follows them was planned over their columns, and over rows that are only added where they are. `others` is called
    first."""
    others()
    before, contents = session.catalogs.find(view.path), session.memory.get(view.storage)
    if not isinstance(before, MaterializedView) or contents is None:
        return None
    if not contents.has_followers and session.database.histories.of(contents) is None:
        return None
    same = len(before.columns) == len(view.columns) and all(map(_holds, before.columns, view.columns))
    return contents if same and not contents.append_only and not _has_time(before) else None


def _check_replaceable(before: MaterializedView, after: MaterializedView, session: Session, span: Span) -> None:
    """Raise CatalogError E1410 when views read one that is replaced, and the other cannot take its place."""
    dependents = session.views.dependents(before.storage)
    if not dependents or _followed(after, session) is not None:
        return
    columns = ", ".join(f"{c.name} {c.type.materialized()}" for c in before.columns)
    hint = f"drop that first, or keep the columns: {columns}"
    if all(map(_holds, before.columns, after.columns)) and len(before.columns) == len(after.columns):
        hint = "drop that first: it was planned over rows that are only added, or come in the order of event time"
    raise CatalogError(_read_by(before, dependents), code="E1410", span=span, hint=hint)


def _has_time(view: MaterializedView) -> bool:
    return any(c.type.time_attribute is not None for c in view.columns)


def _holds(column: PhysicalColumn, other: PhysicalColumn) -> bool:
    """Whether a column may have the values of another one."""
    known = column.type.materialized()
    return column.name == other.name and other.type in (known, known.not_null())


def alter_view(statement: st.AlterView, session: Session) -> Result:
    """RENAME TO, or AS a new query."""
    view = session.catalogs.get(statement.name.parts, statement.name.span, "view")
    if not isinstance(view, CatalogView):
        raise CatalogError(
            f'"{view.path.name}" is not a view', code="E1409", span=statement.name.span, hint="use ALTER TABLE"
        )
    match statement.action:
        case ddl.RenameTo(name=name):
            renamed = replace(view, path=session.catalogs.qualify(name.parts))
            session.catalogs.create(renamed, span=name.span)
            session.catalogs.remove(view)
        case ddl.NewQuery(query=query):
            changed = replace(
                view,
                query=query.query,
                text=query.text,
                columns=(),
                column_comments=(),
                keeps=_keepers(session, query.query),
            )
            _replace_view(session, view, changed, query.span)
        case _:
            raise CatalogError(
                "a view can be renamed or given a new query",
                code="E1413",
                span=statement.span,
                hint="ALTER VIEW v RENAME TO w, or ALTER VIEW v AS SELECT ..",
            )
    return Result.ok()


def _column_names(declared: tuple[st.ViewColumn, ...], schema: Schema) -> tuple[str, ...]:
    """The names that a view's definition gives to the columns of its query, or those that the query gives itself."""
    if not declared:
        return schema.names
    if len(declared) != len(schema):
        raise BindError(
            f"{len(declared)} column name{'' if len(declared) == 1 else 's'} for a query with {len(schema)} columns",
            code="E1427",
            span=declared[0].name.span,
            hint="name them all, or none",
        )
    names = [c.name.text for c in declared]
    for position, column in enumerate(declared):
        if column.name.text in names[:position]:
            raise BindError(
                f'the view has two columns "{column.name.text}"',
                code="E1426",
                span=column.name.span,
                hint="give each column a name of its own",
            )
    return tuple(names)
