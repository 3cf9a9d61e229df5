"""Expressions: one rule for each class of tree, gathered from the rooms, and the binder that applies them.

`ExpressionBinder.bind` gives a typed expression over the columns of a scope. Everything implicit is explicit in it:
casts, the operands of BETWEEN, the branches of COALESCE. Errors carry the place of the smallest tree that they are
about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from runtime.core.errors import InternalError, Span, SqlEngineError, UnsupportedError
from runtime.expr.nodes import Expr
from sqlengine.bind.calls import CALLS
from sqlengine.bind.coerce import as_boolean
from sqlengine.bind.construct import CONSTRUCTS
from sqlengine.bind.literals import LITERALS
from sqlengine.bind.operators import IN_LIST, OPERATORS
from sqlengine.bind.over import OVER
from sqlengine.bind.quantified import quantified
from sqlengine.bind.scope import Scope
from sqlengine.bind.session import Clause, ExpressionRules, QueryEnv
from sqlengine.bind.subquery import SUBQUERIES, in_query
from sqlengine.parse.spans import span_of

__all__ = ["ExpressionBinder"]


def _in(binder: ExpressionRules, tree: exp.In) -> Expr:
    query = tree.args.get("query")
    return IN_LIST(binder, tree) if query is None else in_query(binder, tree.this, query, span_of(tree))


_RULES: dict[type[exp.Expr], Callable[..., Expr]] = {
    **LITERALS,
    **OPERATORS,
    **CONSTRUCTS,
    **CALLS,
    **OVER,
    **SUBQUERIES,
    exp.In: _in,
}


class ExpressionBinder(ExpressionRules):
    """Binds expressions over the columns of a scope.

    `aliases` are further names for whole expressions (the select list, for ORDER BY and QUALIFY), which a plain name
    means before it means a column when `aliases_first`, else after. `keys` are keys of GROUP BY that hold subqueries, as
    written and as bound: written again in the same scope they mean the same, though each subquery is bound anew.
    """

    def __init__(
        self,
        env: QueryEnv,
        scope: Scope,
        clause: Clause,
        *,
        windows: Mapping[str, exp.Window] | None = None,
        aliases: Mapping[str, Expr] | None = None,
        aliases_first: bool = False,
        mentions: dict[int, Span] | None = None,
        keys: Sequence[tuple[exp.Expr, Expr]] = (),
    ) -> None:
        self.env = env
        self.scope = scope
        self.clause = clause
        self.windows = windows or {}
        self.aliases = aliases or {}
        self.aliases_first = aliases_first
        self.mentions = {} if mentions is None else mentions
        self.keys = keys

    def within(self, clause: Clause) -> ExpressionBinder:
        return ExpressionBinder(
            self.env,
            self.scope,
            clause,
            windows=self.windows,
            aliases=self.aliases,
            aliases_first=self.aliases_first,
            mentions=self.mentions,
            keys=self.keys,
        )

    def bind(self, tree: exp.Expr) -> Expr:
        if isinstance(tree, exp.Column) and self.aliases:
            meant = self._alias(tree)
            if meant is not None:
                return meant
        for written, bound in self.keys:
            if type(written) is type(tree) and written == tree:
                return bound
        rule = _RULES.get(type(tree))
        if rule is None:
            raise UnsupportedError(
                f"this expression is not supported: {type(tree).__name__.upper()}",
                span=span_of(tree),
                hint="SHOW FUNCTIONS lists what there is",
            )
        try:
            if isinstance(tree, exp.Binary) and isinstance(tree.expression, exp.Any | exp.All):
                return quantified(self, tree)
            return rule(self, tree)
        except InternalError:
            raise
        except SqlEngineError as error:
            if error.span is None:
                error.span = span_of(tree)
            raise

    def condition(self, tree: exp.Expr, place: str) -> Expr:
        """A truth value."""
        return as_boolean(self.bind(tree), place, span_of(tree))

    def _alias(self, tree: exp.Column) -> Expr | None:
        if len(tree.parts) != 1 or tree.name not in self.aliases:
            return None
        if not self.aliases_first and any(s.find(tree.name) for s in self.scope.sources):
            return None
        return self.aliases[tree.name]
