"""What stands in FROM: tables, subqueries, table functions, UNNEST, MATCH_RECOGNIZE, and the joins between them."""

from __future__ import annotations

from abc import abstractmethod

from sqlglot import exp

from runtime.core.errors import UnsupportedError
from sqlengine.parse.expressions import ExpressionGrammar
from sqlengine.parse.lexer import END, NUMBER, QUOTED, STRING, WORD, Token
from sqlengine.parse.nodes import (
    FILE_DATABASE,
    AfterMatch,
    FunctionCall,
    HintCall,
    HintOption,
    JoinTree,
    MatchRecognize,
    PatternSubset,
    PatternText,
    TableArg,
    TableFunction,
)

__all__ = ["RelationGrammar"]

_JOIN_WORDS = ("NATURAL", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "JOIN")


class RelationGrammar(ExpressionGrammar):
    """Reads relations."""

    @abstractmethod
    def query(self) -> exp.Expr:
        """A query with its WITH, ORDER BY and LIMIT."""

    # FROM and joins

    def from_clause(self, word: str = "FROM") -> tuple[exp.From, list[exp.Join]]:
        """The first relation after FROM, or another word, and all joins and commas after it, in order."""
        start = self.expect(word)
        first = self.relation()
        from_ = self.place(exp.From(this=first), start)
        joins = self._joins()
        while self.at(","):
            comma = self.advance()
            this = self.relation()
            own = self._joins()
            if any(join.side in ("RIGHT", "FULL") for join in own):
                # A comma binds looser than JOIN, which only shows when the right side keeps its rows.
                this = self.place(JoinTree(this=this, joins=own), comma)
                own = []
            joins.append(self.place(exp.Join(this=this), comma, this.meta["end"] + 1))
            joins.extend(own)
        return from_, joins

    def _joins(self) -> list[exp.Join]:
        joins: list[exp.Join] = []
        while self.at_any(*_JOIN_WORDS) or self.at_asof():
            joins.append(self._join())
        return joins

    def _join(self) -> exp.Join:
        start = self.token
        natural = self.match("NATURAL")
        asof = self.at_asof() and self.match("ASOF")
        kind = self.match_any("INNER", "CROSS")
        side = None if kind else self.match_any("LEFT", "RIGHT", "FULL")
        if side:
            self.match("OUTER")
        if not natural and kind != "CROSS" and not asof:
            asof = self.match("ASOF")
        self.expect("JOIN")
        method = "ASOF" if asof else "NATURAL" if natural else None
        tree = exp.Join(this=self.relation(), side=side, kind=kind, method=method)
        if asof and self.match("MATCH_CONDITION"):
            self.expect("(")
            tree.set("match_condition", self.expression())
            self.expect(")")
            if not self.at_any("ON", "USING"):
                return self.place(tree, start)
        at = self.token
        if not self.at("ON", "CONFLICT", "DO") and not self.at("ON", "CONFLICT", "(") and self.match("ON"):
            if natural or kind == "CROSS":
                self.refuse(f"a {'NATURAL' if natural else 'CROSS'} JOIN takes no ON", at, "write JOIN .. ON")
            tree.set("on", self.expression())
        elif self.match("USING"):
            if natural or kind == "CROSS":
                self.refuse(f"a {'NATURAL' if natural else 'CROSS'} JOIN takes no USING", at)
            self.expect("(")
            tree.set("using", self.comma_separated(lambda: self.identifier("a column name")))
            self.expect(")")
        elif not natural and kind != "CROSS":
            self.fail(
                "ON", "USING", hint="say which rows meet: ON a.x = b.y; to join all pairs of rows, write CROSS JOIN"
            )
        return self.place(tree, start)

    # Relations

    def relation(self) -> exp.Expr:
        """One relation with its alias."""
        start = self.token
        tree = self._lateral() if self.at("LATERAL") else self._relation_without_alias()
        if self.at("MATCH_RECOGNIZE"):
            tree = self._match_recognize(tree, start)
        if self.at_any("TABLESAMPLE"):
            raise UnsupportedError(
                "TABLESAMPLE is not supported",
                span=self.token.span,
                text=self.text,
                hint="filter by chance: WHERE RAND() < 0.1",
            )
        alias = self.table_alias()
        if alias is not None:
            tree.set("alias", alias)
            self.place(tree, start)
        if self.at("MATCH_RECOGNIZE"):
            self.refuse("MATCH_RECOGNIZE stands before the alias", hint="write FROM t MATCH_RECOGNIZE (..) AS a")
        if self.at("FOR", "SYSTEM_TIME"):
            hint = "write FROM t FOR SYSTEM_TIME AS OF x AS a"
            self.refuse("FOR SYSTEM_TIME AS OF stands before the alias", hint=hint)
        return tree

    def table_alias(self) -> exp.TableAlias | None:
        """`[AS] name [(column, ..)]`, if it stands here."""
        start = self.token
        if self.match("AS"):
            name = self.identifier("an alias")
        elif self.at_alias():
            name = self.identifier()
        else:
            return None
        columns: list[exp.Expr] = []
        if self.match("("):
            columns = self.comma_separated(lambda: self.identifier("a column name"))
            self.expect(")")
        return self.place(exp.TableAlias(this=name, columns=columns), start)

    def _relation_without_alias(self) -> exp.Expr:
        start = self.token
        if self.at("("):
            return self._parenthesized_relation()
        if self.at("UNNEST", "("):
            return self._unnest()
        if self.at("TABLE", "("):
            return self._table_function(start, lateral=False)
        if self.at("VALUES"):
            self.refuse("VALUES in FROM stands in parentheses", hint="write FROM (VALUES (1, 'a')) AS t (x, y)")
        self.match("TABLE")
        if self.token.kind is STRING:
            self.advance()
            name = exp.to_identifier(start.value, quoted=True)
            return self._hinted(self._table([exp.to_identifier(FILE_DATABASE, quoted=True), name], start), start)
        return self._table_or_call(start)

    def _lateral(self) -> exp.Expr:
        start = self.expect("LATERAL")
        if self.at("("):
            return self.place(exp.Lateral(this=self.subquery()), start)
        if self.at("UNNEST", "("):
            return self.place(self._unnest(), start)
        if self.at("TABLE", "("):
            return self._table_function(start, lateral=True)
        tree = self._table_or_call(start)
        if isinstance(tree, exp.Lateral | exp.Unnest):
            return tree
        if not isinstance(tree, TableFunction):
            self.refuse("LATERAL is followed by a query in parentheses or a table function", start)
        tree.set("lateral", True)
        return tree

    def _parenthesized_relation(self) -> exp.Expr:
        start = self.token
        if self._query_in_parentheses():
            tree = self.subquery()
            if isinstance(tree.this, exp.Values):
                return self.place(tree.this.pop(), start)
            return tree
        self.expect("(")
        first = self.relation()
        joins = self._joins()
        self.expect(")")
        return self.place(JoinTree(this=first, joins=joins), start) if joins else self.place(first, start)

    def _unnest(self) -> exp.Unnest:
        start = self.expect("UNNEST")
        self.expect("(")
        values = self.comma_separated(self.expression)
        self.expect(")")
        ordinality = self.match("WITH", "ORDINALITY")
        return self.place(exp.Unnest(expressions=values, offset=ordinality), start)

    def _table_function(self, start: Token, *, lateral: bool) -> TableFunction:
        self.expect("TABLE")
        self.expect("(")
        inner = self.token
        parts = self._path("a table function")
        if not self.at("("):
            self.fail("(", hint="TABLE(..) holds a call of a table function")
        call = self.call(parts[-1], parts[:-1], inner)
        self.expect(")")
        return self._as_table_function(call, start, lateral=lateral)

    def _as_table_function(self, call: exp.Expr, start: Token, *, lateral: bool) -> TableFunction:
        if not isinstance(call, FunctionCall):
            self.refuse("FILTER, OVER and the like do not follow a table function", start)
        for argument in call.expressions:
            value = argument.expression if argument.args.get("expression") is not None else argument
            if isinstance(value, exp.Subquery):
                wrapped = TableArg(this=value.copy(), partition_by=[], order=None)
                wrapped.meta.update(value.meta)
                value.replace(wrapped)
        return self.place(TableFunction(this=call, lateral=lateral), start)

    def _path(self, what: str) -> list[exp.Identifier]:
        parts = [self.identifier(what)]
        while self.match("."):
            parts.append(self.identifier(what, reserved=True))
        return parts

    def _table_or_call(self, start: Token) -> exp.Expr:
        parts = self._path("a table")
        if self.at("("):
            return self._as_table_function(self.call(parts[-1], parts[:-1], start), start, lateral=False)
        tree = self._hinted(self._table(parts, start), start)
        at = self.token
        if self.at("FOR", "SYSTEM_VERSION"):
            hint = "write FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01 12:00:00'"
            self.refuse("versions of tables have times, or epochs (FOR SYSTEM_TIME AS OF EPOCH n)", self.token, hint)
        if self.match("FOR", "SYSTEM_TIME"):
            self.expect("AS", "OF")
            version = exp.Version(this="SYSTEM_TIME", kind="AS OF EPOCH", expression=self._epoch())
            if version.expression is None:
                version = exp.Version(this="SYSTEM_TIME", kind="AS OF", expression=self.additive())
            tree.set("version", self.place(version, at))
            self.place(tree, start)
        return tree

    def _epoch(self) -> exp.Expr | None:
        """`EPOCH n`, if it stands here and is no column of that name."""
        token = self.peek()
        if not self.at("EPOCH") or not (token.kind is NUMBER or token.text[:1] in "?$:"):
            return None
        self.advance()
        mark = self.parameter()
        if mark is not None:
            return mark
        token = self.token
        if token.kind is not NUMBER or not token.text.isdigit():
            self.fail("the number of an epoch")
        self.advance()
        return self.place(exp.Literal(this=token.text, is_string=False), token)

    def _hinted(self, tree: exp.Table, start: Token) -> exp.Table:
        hints = self.hints()
        if hints:
            tree.set("hints", hints)
            self.place(tree, start)
        return tree

    def table_name(self) -> exp.Table:
        start = self.token
        return self._table(self._path("a table name"), start)

    def _table(self, parts: list[exp.Identifier], start: Token) -> exp.Table:
        if len(parts) > 3 and parts[0].name == "system":
            # system.state.job.operator.table: sqlglot keeps what exceeds its three parts as dots.
            *front, last = parts[2:]
            dotted = exp.Dot.build([*front, last])
            return self.place(exp.Table(this=dotted, db=parts[1], catalog=parts[0]), start)
        if len(parts) > 3:
            self.refuse("a table name has at most three parts", start, "catalog.database.table")
        keys = ("this", "db", "catalog")
        return self.place(exp.Table(**dict(zip(keys, reversed(parts), strict=False))), start)

    # Hints

    def hints(self) -> list[HintCall]:
        """`/*+ NAME('k'='v', ..), NAME(a, b) */`, if it stands here."""
        found: list[HintCall] = []
        if not self.match("/*+"):
            return found
        while not self.match("*/"):
            start = self.token
            name = self.identifier("a hint", reserved=True).name.upper()
            tree = HintCall(this=name, options=[], expressions=[])
            if self.match("("):
                while not self.match(")"):
                    self._hint_argument(tree)
                    if not self.at(")"):
                        self.expect(",")
            found.append(self.place(tree, start))
            self.match(",")
        return found

    def _hint_argument(self, tree: HintCall) -> None:
        start = self.token
        if self.peek().upper == "=":
            key = self.advance().value
            self.advance()
            value = self.token
            if value.kind not in (STRING, WORD, QUOTED):
                self.fail("a value in single quotes")
            self.advance()
            tree.append("options", self.place(HintOption(this=key, value=value.value), start))
            return
        literal = self.literal()
        tree.append("expressions", literal or self.column(self._path("a name"), start))

    # MATCH_RECOGNIZE

    def _match_recognize(self, relation: exp.Expr, start: Token) -> MatchRecognize:
        self.expect("MATCH_RECOGNIZE", "(")
        tree = MatchRecognize(this=relation)
        outside, self.of_match = self.of_match, True
        if self.match("PARTITION", "BY"):
            tree.set("partition_by", self.comma_separated(self.expression))
        tree.set("order", self.order_by())
        if self.match("MEASURES"):
            tree.set("measures", self.comma_separated(self._measure))
        if self.match("ONE"):
            self.expect("ROW", "PER", "MATCH")
            tree.set("rows", "ONE ROW PER MATCH")
        elif self.match("ALL"):
            self.expect("ROWS", "PER", "MATCH")
            tree.set("rows", f"ALL ROWS PER MATCH{self._which_rows()}")
        if self.at("AFTER", "MATCH"):
            tree.set("after", self._after_match())
        self.expect("PATTERN", "(")
        tree.set("pattern", self._pattern())
        if self.match("WITHIN"):
            if not self.at("INTERVAL"):
                self.fail("INTERVAL")
            tree.set("within", self.interval())
        if self.match("SUBSET"):
            tree.set("subsets", self.comma_separated(self._subset))
        self.expect("DEFINE")
        tree.set("define", self.comma_separated(self._definition))
        self.expect(")")
        self.of_match = outside
        return self.place(tree, start)

    def _measure(self) -> exp.Alias:
        start = self.token
        this = self.expression()
        self.expect("AS")
        return self.place(exp.Alias(this=this, alias=self.identifier("the name of the measure")), start)

    def _which_rows(self) -> str:
        """What follows ALL ROWS PER MATCH, with a space before it."""
        for words in (("SHOW", "EMPTY", "MATCHES"), ("OMIT", "EMPTY", "MATCHES"), ("WITH", "UNMATCHED", "ROWS")):
            if self.match(words[0]):
                self.expect(*words[1:])
                return " " + " ".join(words)
        return ""

    def _subset(self) -> PatternSubset:
        start = self.token
        name = self.identifier("the name of a subset")
        self.expect("=", "(")
        variables = self.comma_separated(lambda: self.identifier("a pattern variable"))
        self.expect(")")
        return self.place(PatternSubset(this=name, expressions=variables), start)

    def _after_match(self) -> AfterMatch:
        start = self.expect("AFTER", "MATCH", "SKIP")
        if self.match("PAST", "LAST", "ROW"):
            return self.place(AfterMatch(this="PAST LAST ROW"), start)
        self.expect("TO")
        if self.match("NEXT", "ROW"):
            return self.place(AfterMatch(this="TO NEXT ROW"), start)
        which = self.match_any("FIRST", "LAST") or "LAST"
        return self.place(AfterMatch(this=f"TO {which}", expression=self.identifier("a pattern variable")), start)

    def _pattern(self) -> PatternText:
        start, depth = self.token, 1
        while True:
            if self.token.kind is END:
                self.fail(")")
            depth += {"(": 1, ")": -1}.get(self.token.upper, 0)
            if depth == 0:
                break
            self.advance()
        if self.token is start:
            self.refuse("a PATTERN needs at least one variable")
        end = self.previous.end
        tree = self.place(PatternText(this=self.text[start.start : end]), start)
        self.expect(")")
        return tree

    def _definition(self) -> exp.Alias:
        start = self.token
        name = self.identifier("a pattern variable")
        self.expect("AS")
        return self.place(exp.Alias(this=self.expression(), alias=name), start)
