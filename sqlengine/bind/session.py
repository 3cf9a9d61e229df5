"""What the rooms of the binder share: the surroundings of a query, the answer of binding one, and the two points of
recursion.

A query is bound in a `QueryEnv`: the catalog, the common table expressions it may name, and the scope around it. Rooms
reach back to queries through `QueryEnv.query` and to expressions through `ExpressionRules.bind`, so that no room
imports the room above it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from planner.logical.nodes import LogicalNode
from runtime.core.errors import BindError, Span
from runtime.core.options import text_option
from runtime.expr.nodes import Column, Expr
from sqlengine.bind.hints import QueryHints
from sqlengine.bind.scope import Scope
from sqlengine.catalog.objects import BindContext, CatalogView, ParameterValues
from sqlengine.parse.nodes import CycleClause, SearchClause
from sqlengine.parse.spans import span_of

__all__ = [
    "MATCH_SEMANTICS",
    "BoundQuery",
    "BoundRelation",
    "Clause",
    "CommonTable",
    "ExpressionRules",
    "QueryBinder",
    "QueryEnv",
    "RelationRules",
    "RoundRows",
    "parameters_of",
]

MATCH_SEMANTICS = text_option(
    "sqlengine.match.semantics",
    "flink",
    "which matches MATCH_RECOGNIZE finds: those of 'flink', or of the SQL 'standard'",
    ("flink", "standard"),
)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query as a plan. The plan's columns are exactly the output, in order; `names` are their names."""

    plan: LogicalNode
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The output columns under their names."""
        return tuple(Column(c.id, n, c.type) for c, n in zip(self.plan.columns, self.names, strict=True))


@dataclass(frozen=True, slots=True)
class RoundRows:
    """What the name of a recursive query stands for within the steps of its loop: `read` gives the rows of the round before,
    as a plan with columns of their own. The last `added` columns are those of SEARCH and CYCLE, which `*` leaves out.
    """

    name: str
    names: tuple[str, ...]
    added: int
    read: Callable[[], LogicalNode] = field(compare=False)


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query of WITH, not bound yet; how it is bound where it is used: `common_tables.py`.

    `uses`: how often its name stands in the text. `bound` is filled at the first use: the query that all uses share, or
    None when each has its own. `recursive`: it reads its own rows; `rounds` is what its name means in a step. `group`: the
    queries that it and others, which read each other, form a loop with; those that are not `recursive` are read within steps
    only, each behind what it reads of them. `search` and `cycle` are its clauses. What it gives has the names `columns`
    then.
    """

    name: str
    query: exp.Expr
    columns: tuple[str, ...]
    env: QueryEnv
    uses: int = 1
    bound: list[BoundQuery | None] = field(default_factory=list, compare=False)
    recursive: bool = False
    rounds: RoundRows | None = None
    group: tuple[CommonTable, ...] = ()
    search: SearchClause | None = None
    cycle: CycleClause | None = None


class QueryBinder(ABC):
    """Binds a whole query; the one point where rooms come back to the top."""

    @abstractmethod
    def query(self, tree: exp.Expr, env: QueryEnv) -> BoundQuery: ...


@dataclass(frozen=True, slots=True)
class QueryEnv:
    """The surroundings of a query. `outer` is the scope that correlated names are looked up in.

    `views` are the views being expanded, to refuse a view that contains itself. `keep_order` is false where the order
    of rows means nothing (a subquery), and ORDER BY without LIMIT is left out there. `views_bound`: the views that all
    their uses in this statement share (`common_tables.py`).
    """

    binder: QueryBinder
    context: BindContext
    tables: Mapping[str, CommonTable] = field(default_factory=dict)
    outer: Scope | None = None
    views: tuple[CatalogView, ...] = ()
    keep_order: bool = True
    views_bound: dict[tuple[str, bool], BoundQuery] = field(default_factory=dict, compare=False)

    def query(self, tree: exp.Expr) -> BoundQuery:
        return self.binder.query(tree, self)

    def inside(self, scope: Scope | None) -> QueryEnv:
        """The surroundings of a subquery that sees the columns of `scope`."""
        return replace(self, outer=scope, keep_order=False)

    def with_tables(self, tables: Mapping[str, CommonTable]) -> QueryEnv:
        return replace(self, tables={**self.tables, **tables})

    def of_view(self, view: CatalogView) -> QueryEnv:
        """The surroundings of a view's query: no common tables, no outer scope, its own catalog and database."""
        return QueryEnv(
            self.binder,
            self.context.within(view),
            views=(*self.views, view),
            keep_order=False,
            views_bound=self.views_bound,
        )


def parameters_of(context: BindContext, mark: exp.Expr) -> ParameterValues:
    """The values of the statement; raises BindError E1251 where a parameter stands and none are given."""
    if context.parameters is None:
        raise BindError(
            "the statement has parameters, and no values are given for them",
            code="E1251",
            span=span_of(mark),
            hint="execute_sql(statement, [value, ..]) gives them, EXECUTE name (value, ..) those of a prepared statement",
        )
    return context.parameters


@dataclass(frozen=True, slots=True)
class Clause:
    """Where an expression stands, and what may stand there: aggregates, window functions, subqueries.

    `never_empty`: aggregates here are over groups with at least one row, so that SUM of a NOT NULL column is NOT NULL.
    `gives_rows`: a table function may stand here, as the array of its rows; `row_sets`: as one row after the other.
    """

    name: str
    aggregates: bool = False
    windows: bool = False
    subqueries: bool = True
    never_empty: bool = False
    gives_rows: bool = False
    row_sets: bool = False


class ExpressionRules(ABC):
    """What the rules for single kinds of expression see of the binder that calls them.

    `windows` are the definitions of the WINDOW clause by name; `mentions` remembers where each column was first named,
    by id, for errors that show only later (a column that is not grouped).
    """

    env: QueryEnv
    scope: Scope
    clause: Clause
    windows: Mapping[str, exp.Window]
    mentions: dict[int, Span]

    @abstractmethod
    def bind(self, tree: exp.Expr) -> Expr:
        """The bound expression of a tree; its type is complete."""

    @abstractmethod
    def within(self, clause: Clause) -> ExpressionRules:
        """The same scope under the rules of another place (the arguments of an aggregate, for example)."""


@dataclass(frozen=True, slots=True)
class BoundRelation:
    """What stands in FROM so far: a plan, and the names of its columns. The scope's columns are the plan's."""

    plan: LogicalNode
    scope: Scope


class RelationRules(ABC):
    """What the rooms of single kinds of relation see of the room that dispatches them."""

    env: QueryEnv
    hints: QueryHints

    @abstractmethod
    def relation(self, tree: exp.Expr, env: QueryEnv) -> BoundRelation:
        """A relation under its alias; names in it are looked up in the scope that `env` gives as outer one."""

    @abstractmethod
    def table(
        self, tree: exp.Table, env: QueryEnv, *, for_lookup: bool = False, versions: bool = False
    ) -> BoundRelation:
        """A table, view or common table by name; `for_lookup` where a table that can only be looked up may stand,
        `versions` where all versions of its rows are wanted: of a materialized view those are in its query, because the
        rows that it keeps are the newest of each epoch."""
