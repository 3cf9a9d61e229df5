"""Relations of FROM: tables, views, common tables, queries in parentheses, VALUES, window functions.

Whatever is named twice is bound twice, under new column ids. A view is bound in the catalog and database where it was
created.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.logical.nodes import JoinKind, LogicalNode, Values
from runtime.core.errors import BindError, InternalError, PlanningError, SqlEngineError, UnsupportedError, did_you_mean
from runtime.core.likeness import edits
from runtime.core.rooms import Room
from runtime.expr.function import ProcessFunction, ScalarFunction
from runtime.expr.nodes import Column
from sqlengine.bind.common_tables import common_query, view_query
from sqlengine.bind.hints import QueryHints, table_options
from sqlengine.bind.join import as_rows, bind_joins, bind_unnest, bind_vectors, is_search, lateral_query
from sqlengine.bind.scan import scan_table
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import BoundQuery, BoundRelation, QueryEnv, RelationRules
from sqlengine.bind.table_functions import WINDOW_FUNCTIONS, bind_window_function
from sqlengine.catalog.objects import CatalogView, ObjectPath, OpenTable
from sqlengine.parse.nodes import FILE_DATABASE, JoinTree, MatchRecognize, TableFunction
from sqlengine.parse.spans import placed_at, span_of

if TYPE_CHECKING:
    import sqlengine.bind.changelog_functions as _changelog_functions
    import sqlengine.bind.file_functions as _file_functions
    import sqlengine.bind.match as _match
    import sqlengine.bind.model_evaluation as _model_evaluation
    import sqlengine.bind.models as _models
    import sqlengine.bind.process_functions as _process_functions
    import sqlengine.bind.time_travel as _time_travel
else:
    _changelog_functions = Room("sqlengine.bind.changelog_functions")
    _file_functions = Room("sqlengine.bind.file_functions")
    _match = Room("sqlengine.bind.match")
    _model_evaluation = Room("sqlengine.bind.model_evaluation")
    _models = Room("sqlengine.bind.models")
    _process_functions = Room("sqlengine.bind.process_functions")
    _time_travel = Room("sqlengine.bind.time_travel")

__all__ = ["RelationBinder"]

CHANGELOG_FUNCTIONS = ("FROM_CHANGELOG", "TO_CHANGELOG")
OTHER_FUNCTIONS = ("ML_PREDICT", "ML_EVALUATE", "VECTOR_SEARCH")

_LATER = (
    "DEDUPLICATE_KEEP_FIRST",
    "APPLY_WATERMARK",
)


class RelationBinder(RelationRules):
    """Binds what stands in FROM of one query, with the hints of its SELECT."""

    def __init__(self, env: QueryEnv, hints: QueryHints) -> None:
        self.env = env
        self.hints = hints

    def from_clause(self, first: exp.Expr, joins: list[exp.Join]) -> BoundRelation:
        """The whole FROM: its first relation and all joins, left to right."""
        return bind_joins(self, self._first(first), joins)

    def _first(self, tree: exp.Expr) -> BoundRelation:
        tree = as_rows(self, tree)
        if isinstance(tree, exp.Unnest):
            return bind_unnest(self, _no_columns(self.env), tree, outer_join=False)
        if isinstance(tree, exp.Lateral):
            return lateral_query(self, tree, self.env.outer)
        if is_search(tree):
            return bind_vectors(self, _no_columns(self.env), tree, JoinKind.INNER)
        return self.relation(tree, self.env)

    def relation(self, tree: exp.Expr, env: QueryEnv) -> BoundRelation:
        match tree:
            case exp.Table():
                if tree.args.get("version") is not None:
                    if _time_travel.is_constant_moment(tree):
                        return self.past(tree, env)
                    raise UnsupportedError(
                        "FOR SYSTEM_TIME AS OF a column stands on the right side of a JOIN",
                        span=span_of(tree),
                        hint="write t JOIN versions FOR SYSTEM_TIME AS OF t.time AS v ON .., or give a constant time",
                    )
                return self.table(tree, env)
            case exp.Subquery() | exp.Values():
                return _named(self._query(tree, env), tree)
            case TableFunction():
                return self._table_function(tree, env)
            case JoinTree():
                inner = bind_joins(self, self._first(tree.this), list(tree.args["joins"]))
                return inner
            case MatchRecognize():
                plan = _match.bind_match(tree, self.relation(tree.this, env), env)
                return _source(plan, plan.columns, tree, ())
            case _:
                raise UnsupportedError(
                    "this relation is not supported here",
                    span=span_of(tree),
                    hint="name it with WITH or CREATE VIEW first",
                )

    def past(self, tree: exp.Table, env: QueryEnv) -> BoundRelation:
        """A table as of a constant moment."""
        path = tuple(p.name for p in tree.parts)
        if len(path) == 1 and path[0] in env.tables:
            raise PlanningError(
                f'"{path[0]}" is a common table and keeps no history',
                code="E1721",
                span=span_of(tree),
                hint="read the tables in its query FOR SYSTEM_TIME AS OF",
            )
        plan, table = _time_travel.past_scan(tree, env)
        return _source(plan, plan.columns, tree, _full(table.path))

    def table(
        self, tree: exp.Table, env: QueryEnv, *, for_lookup: bool = False, versions: bool = False
    ) -> BoundRelation:
        """A table, view or common table by name. The versions of a materialized view are those of its query."""
        path = tuple(p.name for p in tree.parts)
        span = span_of(tree)
        common = env.tables.get(path[0]) if len(path) == 1 else None
        if common is not None:
            query = common_query(common, tree, env)
            hidden = 0 if common.rounds is None else common.rounds.added
            named = () if common.recursive else common.columns
            return _source(query.plan, _renamed(query.columns, named, tree, path[0]), tree, path, hidden)
        if path[0] == FILE_DATABASE:
            return self._file(tree, path[-1], table_options(tree), env)
        kept = env.context.kept_query(path) if versions else None
        found = kept or env.context.resolve(path, span, table_options(tree))
        if isinstance(found, CatalogView):
            query = self._view(found, env, tree)
            return _source(query.plan, _renamed(query.columns, found.columns, tree, path[-1]), tree, _full(found.path))
        plan = scan_table(found, env, span, for_lookup=for_lookup)
        return _source(plan, plan.columns, tree, _full(found.table.path))

    def _file(self, tree: exp.Expr, path: str, options: Mapping[str, str], env: QueryEnv) -> BoundRelation:
        """A file by its path, under the name that it has without its folder and its ending."""
        found = env.context.resolve((FILE_DATABASE, path), span_of(tree), options)
        assert isinstance(found, OpenTable)
        plan = scan_table(found, env, span_of(tree))
        name = PurePath(path).name
        return _source(plan, plan.columns, tree, (name.partition(".")[0] or name,))

    def _view(self, view: CatalogView, env: QueryEnv, tree: exp.Table) -> BoundQuery:
        if any(v.path == view.path for v in env.views):
            raise BindError(
                f'the view "{view.path}" contains itself',
                code="E1222",
                span=span_of(tree),
                hint="let it read tables and other views",
            )
        try:
            return view_query(view, tree, env, lambda: env.of_view(view).query(placed_at(view.query, span_of(tree))))
        except InternalError:
            raise
        except SqlEngineError as error:
            # Its places are places in the text of CREATE VIEW; here the view's name is the place.
            error.message = f'in the view "{view.path.name}": {error.message}'
            error.span, error.text = span_of(tree), None
            raise

    def _query(self, tree: exp.Expr, env: QueryEnv) -> BoundQuery:
        query = tree
        if isinstance(tree, exp.Subquery) and not any(tree.args.get(k) for k in ("order", "limit", "offset", "with_")):
            query = tree.this
        return env.inside(env.outer).query(query)

    def _table_function(self, tree: TableFunction, env: QueryEnv) -> BoundRelation:
        call = tree.call
        name = call.name.upper()
        if name in WINDOW_FUNCTIONS:
            plan = bind_window_function(call, env, lambda data: self._argument(data, env))
            return _source(plan, plan.columns, tree, ())
        if name in CHANGELOG_FUNCTIONS:
            plan = _changelog_functions.bind_changelog_function(call, env, lambda data: self._argument(data, env))
            return _source(plan, plan.columns, tree, ())
        if name == "ML_PREDICT":
            plan = _models.bind_prediction(call, env, lambda data: self._argument(data, env))
            return _source(plan, plan.columns, tree, ())
        if name == "ML_EVALUATE":
            query = _model_evaluation.bind_evaluation(call, env, lambda data: self._argument(data, env))
            return _named(query, tree)
        function = env.context.functions.find(name)
        if isinstance(function, ProcessFunction):
            plan = _process_functions.bind_process_function(function, call, env, lambda data: self._argument(data, env))
            return _source(plan, plan.columns, tree, ())
        if name.startswith("READ_") and name in _file_functions.FILE_FUNCTIONS:
            return self._file(tree, *_file_functions.named_file(call, env), env)
        if name == "SNAPSHOT":
            raise BindError(
                "SNAPSHOT stands on the right of a JOIN",
                code="E1230",
                span=span_of(call),
                hint="write t JOIN LATERAL TABLE(SNAPSHOT(input => TABLE u)) AS s ON t.key = s.key",
            )
        if name in _LATER:
            raise UnsupportedError(
                f"the table function {name} is not supported",
                span=span_of(call),
                hint="the window functions TUMBLE, HOP, CUMULATE and SESSION are",
            )
        constructs = [word for word in ("TABLE", "UNNEST") if edits(name, word, 1) == 1]
        raise BindError(
            f"unknown table function {name}",
            code="E1203",
            span=span_of(call),
            hint=did_you_mean(
                name,
                [
                    *(f for f in sorted(WINDOW_FUNCTIONS) if "_" not in f),
                    *CHANGELOG_FUNCTIONS,
                    *OTHER_FUNCTIONS,
                    *_table_functions(env),
                    *constructs,
                ],
            ),
        )

    def _argument(self, tree: exp.Expr, env: QueryEnv) -> tuple[LogicalNode, Source]:
        bound = self.relation(tree, env)
        return bound.plan, bound.scope.sources[0]


def _table_functions(env: QueryEnv) -> list[str]:
    known = env.context.functions.functions.items()
    return [n for n, f in known if isinstance(f, ProcessFunction) or (isinstance(f, ScalarFunction) and f.gives_rows)]


def _no_columns(env: QueryEnv) -> BoundRelation:
    """One row without columns, for what stands beside nothing."""
    return BoundRelation(Values(((),), ()), Scope(parent=env.outer))


def _full(path: ObjectPath) -> tuple[str, ...]:
    return (path.catalog, path.database, path.name)


def _named(query: BoundQuery, tree: exp.Expr) -> BoundRelation:
    return _source(query.plan, query.columns, tree, ())


def _source(
    plan: LogicalNode, columns: tuple[Column, ...], tree: exp.Expr, path: tuple[str, ...], hidden: int = 0
) -> BoundRelation:
    """The relation under its alias: `AS a (x, y)` renames it and its columns, and hides the path of a table."""
    alias = tree.args.get("alias")
    if alias is None or alias.this is None:
        return BoundRelation(plan, Scope([Source(path[-1] if path else None, columns, path, hidden)]))
    name, width = alias.this.name, len(columns) - hidden
    renamed = _renamed(columns[:width], tuple(c.name for c in alias.args.get("columns") or ()), tree, name)
    return BoundRelation(plan, Scope([Source(name, (*renamed, *columns[width:]), hidden=hidden)]))


def _renamed(columns: tuple[Column, ...], names: tuple[str, ...], tree: exp.Expr, owner: str) -> tuple[Column, ...]:
    if not names:
        return columns
    if len(names) != len(columns):
        raise BindError(
            f'"{owner}" has {len(columns)} columns, and {len(names)} names are given for them',
            code="E1208",
            span=span_of(tree),
            hint="name them all, or none",
        )
    return tuple(Column(c.id, n, c.type) for c, n in zip(columns, names, strict=True))
