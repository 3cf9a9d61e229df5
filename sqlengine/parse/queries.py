"""Queries: SELECT, VALUES, set operations, WITH, and the clauses around them."""

from __future__ import annotations

from sqlglot import exp

from sqlengine.parse.lexer import CONSTANTS, NUMBER, Token
from sqlengine.parse.nodes import CycleClause, SearchClause
from sqlengine.parse.relations import RelationGrammar

__all__ = ["QueryGrammar"]

_SET_OPERATIONS: dict[str, type[exp.SetOperation]] = {
    "UNION": exp.Union,
    "EXCEPT": exp.Except,
    "INTERSECT": exp.Intersect,
}
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE", "(")


class QueryGrammar(RelationGrammar):
    """Reads queries."""

    def at_query(self) -> bool:
        if self.at_any("SELECT", "WITH", "VALUES"):
            return True
        if self.at("TABLE"):
            return self.peek().upper != "("
        return self.at("(") and self._query_in_parentheses()

    def subquery(self) -> exp.Subquery:
        start = self.expect("(")
        tree = exp.Subquery(this=self.query())
        self.expect(")")
        return self.place(tree, start)

    def query(self) -> exp.Expr:
        start = self.token
        with_ = self._with()
        tree = self._union()
        order = self.order_by()
        if order is not None:
            tree.set("order", order)
        self._limits(tree)
        if self.at_emission():
            self._emission(tree)
        if with_ is not None:
            tree.set("with_", with_)
        return self.place(tree, start)

    def _with(self) -> exp.With | None:
        start = self.token
        if not self.match("WITH"):
            return None
        recursive = self.match("RECURSIVE")
        ctes = self.comma_separated(self._cte)
        return self.place(exp.With(expressions=ctes, recursive=recursive), start)

    def _cte(self) -> exp.CTE:
        start = self.token
        name = self.identifier("the name of the WITH query")
        columns: list[exp.Expr] = []
        if self.match("("):
            columns = self.comma_separated(lambda: self.identifier("a column name"))
            self.expect(")")
        alias = self.place(exp.TableAlias(this=name, columns=columns), start)
        self.expect("AS", "(")
        tree = exp.CTE(this=self.query(), alias=alias)
        self.expect(")")
        tree.set("search", self._search())
        tree.set("cycle", self._cycle())
        return self.place(tree, start)

    def _search(self) -> SearchClause | None:
        """`SEARCH {DEPTH | BREADTH} FIRST BY a, b SET s` of a recursive query."""
        start = self.token
        if not self.match("SEARCH"):
            return None
        kind = self.expect_any("DEPTH", "BREADTH")
        self.expect("FIRST", "BY")
        by = self.comma_separated(lambda: self.identifier("a column name"))
        self.expect("SET")
        tree = SearchClause(kind=kind, expressions=by, sequence=self.identifier("the name of a new column"))
        return self.place(tree, start)

    def _cycle(self) -> CycleClause | None:
        """`CYCLE a, b SET mark [TO x DEFAULT y] USING path` of a recursive query."""
        start = self.token
        if not self.match("CYCLE"):
            return None
        columns = self.comma_separated(lambda: self.identifier("a column name"))
        self.expect("SET")
        tree = CycleClause(expressions=columns, mark=self.identifier("the name of a new column"))
        if self.match("TO"):
            tree.set("value", self.expression())
            self.expect("DEFAULT")
            tree.set("default", self.expression())
        self.expect("USING")
        tree.set("path", self.identifier("the name of a new column"))
        return self.place(tree, start)

    def _union(self) -> exp.Expr:
        start = self.token
        left = self._intersect()
        while self.at_any("UNION", "EXCEPT"):
            left = self._set_operation(left, self.advance().upper, start)
        return left

    def _intersect(self) -> exp.Expr:
        start = self.token
        left = self._query_term()
        while self.match("INTERSECT"):
            left = self._set_operation(left, "INTERSECT", start)
        return left

    def _set_operation(self, left: exp.Expr, word: str, start: Token) -> exp.Expr:
        distinct = self.match_any("ALL", "DISTINCT") != "ALL"
        right = self._query_term() if word == "INTERSECT" else self._intersect()
        return self.place(_SET_OPERATIONS[word](this=left, expression=right, distinct=distinct), start)

    def _query_term(self) -> exp.Expr:
        start = self.token
        match start.upper:
            case "SELECT":
                return self._select()
            case "VALUES":
                return self._values()
            case "(":
                return self.subquery()
            case "TABLE":
                self.advance()
                star = self.place(exp.Star(), start)
                from_ = self.place(exp.From(this=self.table_name()), start)
                return self.place(exp.Select(expressions=[star], from_=from_), start)
        self.fail("SELECT", "VALUES", "WITH")

    # SELECT

    def _select(self) -> exp.Select:
        start = self.expect("SELECT")
        tree = exp.Select()
        hint_start = self.token
        hints = self.hints()
        if hints:
            tree.set("hint", self.place(exp.Hint(expressions=hints), hint_start))
        at = self.token
        if self.match_any("ALL", "DISTINCT") == "DISTINCT":
            on = self._distinct_on() if self.at("ON", "(") else None
            tree.set("distinct", self.place(exp.Distinct(on=on), at))
        tree.set("expressions", self.select_items())
        if self.at("FROM"):
            from_, joins = self.from_clause()
            tree.set("from_", from_)
            if joins:
                tree.set("joins", joins)
        if tree.args.get("from_") is not None or self.at("WHERE"):
            self._clauses(tree)
        return self.place(tree, start)

    def select_items(self) -> list[exp.Expr]:
        """What stands between SELECT and FROM."""
        return self.comma_separated(self._select_item)

    def _distinct_on(self) -> exp.Tuple:
        start = self.expect("ON")
        self.expect("(")
        tree = exp.Tuple(expressions=self.comma_separated(self.expression))
        self.expect(")")
        return self.place(tree, start)

    def _clauses(self, tree: exp.Select) -> None:
        """WHERE to QUALIFY, in the order of the standard."""
        at = self.token
        if self.match("WHERE"):
            tree.set("where", self.place(exp.Where(this=self.expression()), at))
        at = self.token
        if self.match("GROUP"):
            self.expect("BY")
            everything = self.match("ALL")
            items = [] if everything else self.comma_separated(self._group_item)
            tree.set("group", self.place(exp.Group(expressions=items, all=everything or None), at))
        at = self.token
        if self.match("HAVING"):
            tree.set("having", self.place(exp.Having(this=self.expression()), at))
        if self.match("WINDOW"):
            tree.set("windows", self.comma_separated(self._named_window))
        at = self.token
        if self.match("QUALIFY"):
            tree.set("qualify", self.place(exp.Qualify(this=self.expression()), at))

    def _select_item(self) -> exp.Expr:
        start = self.token
        if self.match("*"):
            return self.place(exp.Star(except_=self._left_out() or None), start)
        this = self.expression()
        if self.at(".", "*"):
            self.advance()
            at = self.advance()
            return self._star_of(this, self.place(exp.Star(except_=self._left_out() or None), at), start)
        if self.match("AS") or self.at_alias():
            return self.place(exp.Alias(this=this, alias=self.identifier("an alias")), start)
        return this

    def _left_out(self) -> list[exp.Expr]:
        """`EXCLUDE (a, b)`, `EXCLUDE a` or `EXCEPT (a, b)` behind a star."""
        if not (self.at("EXCLUDE") or (self.at("EXCEPT", "(") and self.peek(2).upper not in _QUERY_WORDS)):
            return []
        self.advance()
        if not self.match("("):
            return [self.identifier("a column name")]
        names = self.comma_separated(lambda: self.identifier("a column name"))
        self.expect(")")
        return names

    def _star_of(self, this: exp.Expr, star: exp.Star, start: Token) -> exp.Expr:
        """`t.*` as a Column whose name is the star; of anything else a Dot."""
        parts = list(this.parts) if isinstance(this, exp.Column) else []
        if 0 < len(parts) < 4:
            keys = ("table", "db", "catalog")
            owner = {key: part.copy() for key, part in zip(keys, reversed(parts), strict=False)}
            return self.place(exp.Column(this=star, **owner), start)
        return self.place(exp.Dot(this=this, expression=star), start)

    def _group_item(self) -> exp.Expr:
        start = self.token
        if self.match("GROUPING", "SETS"):
            return self.place(exp.GroupingSets(expressions=self._group_items()), start)
        if self.at("CUBE", "("):
            self.advance()
            return self.place(exp.Cube(expressions=self._group_items()), start)
        if self.at("ROLLUP", "("):
            self.advance()
            return self.place(exp.Rollup(expressions=self._group_items()), start)
        if self.match("(", ")"):
            return self.place(exp.Tuple(expressions=[]), start)
        return self.expression()

    def _group_items(self) -> list[exp.Expr]:
        self.expect("(")
        items = self.comma_separated(self._grouping_set)
        self.expect(")")
        return items

    def _grouping_set(self) -> exp.Expr:
        """As a group item, but `(a)` is a set of one column."""
        start = self.token
        item = self._group_item()
        return self.place(exp.Tuple(expressions=[item.this]), start) if isinstance(item, exp.Paren) else item

    # VALUES

    def _values(self) -> exp.Values:
        start = self.expect("VALUES")
        return self.place(exp.Values(expressions=self.comma_separated(self._row)), start)

    def _row(self) -> exp.Expr:
        start = self.token
        if start.kind is CONSTANTS:
            return self.constants()
        tree = self.expression()
        if isinstance(tree, exp.Tuple):
            return tree
        if isinstance(tree, exp.Anonymous) and tree.name.upper() == "ROW":
            return self.place(exp.Tuple(expressions=tree.expressions), start)
        value = tree.this if isinstance(tree, exp.Paren) else tree
        return self.place(exp.Tuple(expressions=[value]), start)

    # Windows

    def over(self, call: exp.Expr, start: Token) -> exp.Expr:
        self.expect("OVER")
        if not self.at("("):
            return self.place(exp.Window(this=call, alias=self.identifier("a window")), start)
        tree = exp.Window(this=call)
        self._window_body(tree)
        return self.place(tree, start)

    def _named_window(self) -> exp.Window:
        start = self.token
        tree = exp.Window(this=self.identifier("the name of the window"))
        self.expect("AS")
        self._window_body(tree)
        return self.place(tree, start)

    def _window_body(self, tree: exp.Window) -> None:
        self.expect("(")
        if self.at_name() and not (self.at("PARTITION", "BY") or self.at_any("ROWS", "RANGE")):
            tree.set("first", self.identifier())
        if self.match("PARTITION", "BY"):
            tree.set("partition_by", self.comma_separated(self.expression))
        tree.set("order", self.order_by())
        at = self.token
        kind = self.match_any("ROWS", "RANGE", "GROUPS")
        if kind is not None:
            tree.set("spec", self._frame(kind, at))
        self.expect(")")

    def _frame(self, kind: str, at: Token) -> exp.WindowSpec:
        between = self.match("BETWEEN")
        start, start_side = self._bound()
        end = end_side = None
        if between:
            self.expect("AND")
            end, end_side = self._bound()
        spec = exp.WindowSpec(
            kind=kind, start=start, start_side=start_side, end=end, end_side=end_side, exclude=self._exclusion()
        )
        return self.place(spec, at)

    def _exclusion(self) -> str | None:
        """`EXCLUDE CURRENT ROW | GROUP | TIES | NO OTHERS`."""
        if not self.match("EXCLUDE"):
            return None
        if self.match("CURRENT", "ROW"):
            return "CURRENT ROW"
        if self.match("NO", "OTHERS"):
            return None
        return self.expect_any("GROUP", "TIES", "CURRENT ROW", "NO OTHERS")

    def _bound(self) -> tuple[str | exp.Expr, str | None]:
        if self.match("CURRENT", "ROW"):
            return "CURRENT ROW", None
        bound = "UNBOUNDED" if self.match("UNBOUNDED") else self.additive()
        return bound, self.expect_any("PRECEDING", "FOLLOWING")

    # ORDER BY, LIMIT

    def order_by(self) -> exp.Order | None:
        start = self.token
        if not self.match("ORDER"):
            return None
        self.expect("BY")
        return self.place(exp.Order(expressions=self.comma_separated(self.sort_item)), start)

    def _limits(self, tree: exp.Expr) -> None:
        """LIMIT, OFFSET and FETCH, in any order that the standard or Flink takes."""
        while True:
            at = self.token
            if self.match("LIMIT"):
                if not self.match("ALL"):
                    self._set_once(tree, "limit", exp.Limit(expression=self._count()), at)
            elif self.match("OFFSET"):
                count = self._count()
                self.match_any("ROW", "ROWS")
                self._set_once(tree, "offset", exp.Offset(expression=count), at)
            elif self.match("FETCH"):
                self.expect_any("FIRST", "NEXT")
                one = self.place(exp.Literal(this="1", is_string=False), self.token)
                count = one if self.at_any("ROW", "ROWS") else self._count()
                self.expect_any("ROW", "ROWS")
                self.expect("ONLY")
                self._set_once(tree, "limit", exp.Limit(expression=count), at)
            else:
                return

    def _emission(self, tree: exp.Expr) -> None:
        """`EMIT ON WINDOW CLOSE` of RisingWave and `EMIT CHANGES` of ksqlDB, at the end of a SELECT."""
        at = self.token
        text = "EMIT CHANGES" if self.match("EMIT", "CHANGES") else "EMIT ON WINDOW CLOSE"
        if text == "EMIT ON WINDOW CLOSE":
            self.expect("EMIT", "ON", "WINDOW", "CLOSE")
        if not isinstance(tree, exp.Select) or any(tree.args.get(x) for x in ("order", "limit", "offset")):
            self.refuse(
                f"{text} belongs to one SELECT, without ORDER BY and LIMIT",
                at,
                hint=f"put the SELECT in parentheses: FROM (SELECT .. {text}) AS t",
            )
        tree.set("emit", self.place(exp.Var(this=text.split()[-1]), at))

    def _count(self) -> exp.Expr:
        token = self.token
        mark = self.parameter()
        if mark is not None:
            return mark
        if token.kind is not NUMBER or not token.text.isdigit():
            self.fail("a number of rows")
        self.advance()
        return self.place(exp.Literal(this=token.text, is_string=False), token)

    def _set_once(self, tree: exp.Expr, key: str, clause: exp.Expr, at: Token) -> None:
        if tree.args.get(key) is not None:
            self.refuse(f"{at.upper} is there twice" if key == "offset" else "the number of rows is limited twice", at)
        tree.set(key, self.place(clause, at))
