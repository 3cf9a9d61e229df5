"""Expressions, by the precedence of Flink's parser (Calcite).

From loose to tight: OR; AND; NOT; IS ..; = <> < <= > >= and IS DISTINCT FROM; BETWEEN, IN, LIKE, SIMILAR TO, OVERLAPS;
+ and -; * / % and ||; unary + and -; element and field access, and PostgreSQL's cast `x::INT`.
"""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import SqlSyntaxError
from sqlengine.parse.constant_rows import ComparedConstants, ConstantRows
from sqlengine.parse.cursor import RESERVED
from sqlengine.parse.functions import FunctionGrammar
from sqlengine.parse.lexer import COMPARISONS, CONSTANTS, END, NUMBER, OP, QUOTED, WORD, Token
from sqlengine.parse.literals import INTERVAL_FIELDS
from sqlengine.parse.nodes import DefaultArg, Difference, FunctionCall, IsJson, MapConstructor, ParameterMark, UnaryPlus

__all__ = ["ExpressionGrammar"]

_COMPARISONS: dict[str, type[exp.Expr]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_TERMS: dict[str, type[exp.Expr]] = {"+": exp.Add, "-": exp.Sub}
_FACTORS: dict[str, type[exp.Expr]] = {"*": exp.Mul, "/": exp.Div, "%": exp.Mod, "||": exp.DPipe}
_RANGES = ("BETWEEN", "IN", "LIKE", "ILIKE", "SIMILAR")
_MATCHES: dict[str, type[exp.Expr]] = {
    "~": exp.RegexpLike,
    "~*": exp.RegexpILike,
    "!~": exp.RegexpLike,
    "!~*": exp.RegexpILike,
}
_WITHOUT_PARENTHESES = frozenset(
    (
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "CURRENT_USER",
        "SESSION_USER",
        "SYSTEM_USER",
    )
)
_CLAUSE_WORDS = frozenset(
    (
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "WINDOW",
        "QUALIFY",
        "LIMIT",
        "OFFSET",
        "FETCH",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "JOIN",
        "ON",
        "AS",
        "THEN",
        "WHEN",
        "ELSE",
        "AND",
        "OR",
    )
)
_RESERVED_FUNCTIONS = frozenset(("LEFT", "RIGHT", "ROW", "GROUPING", "INSERT", "OFFSET", "FULL"))


class ExpressionGrammar(FunctionGrammar):
    """Reads expressions."""

    of_match = False
    """Whether the expression stands in MATCH_RECOGNIZE, where RUNNING or FINAL may stand before a call."""

    def expression(self) -> exp.Expr:
        start = self.token
        left = self._conjunction()
        while self.match("OR"):
            left = self.place(exp.Or(this=left, expression=self._conjunction()), start)
        return left

    def _conjunction(self) -> exp.Expr:
        start = self.token
        left = self._negation()
        while self.match("AND"):
            left = self.place(exp.And(this=left, expression=self._negation()), start)
        return left

    def _negation(self) -> exp.Expr:
        start = self.token
        if self.match("NOT"):
            return self.place(exp.Not(this=self._negation()), start)
        return self._truth()

    def _truth(self) -> exp.Expr:
        """IS .. after a comparison; what it gives may be compared again."""
        start = self.token
        left = self._comparison(self._range(), start)
        while self.at("IS"):
            left = self._comparison(self._is(left, start), start)
        return left

    def _is(self, left: exp.Expr, start: Token) -> exp.Expr:
        self.expect("IS")
        negated = self.match("NOT")
        if self.match("DISTINCT"):
            self.expect("FROM")
            kind = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            return self.place(kind(this=left, expression=self._range()), start)
        at = self.token
        match self.match_any("NULL", "TRUE", "FALSE", "UNKNOWN", "JSON"):
            case "NULL":
                tree = exp.Is(this=left, expression=self.place(exp.Null(), at))
            case "UNKNOWN":
                tree = exp.Is(this=left, expression=self.place(exp.Var(this="UNKNOWN"), at))
            case "JSON":
                kind_word = self.match_any("VALUE", "SCALAR", "ARRAY", "OBJECT") or "VALUE"
                tree = IsJson(this=left, kind=kind_word)
            case "TRUE" | "FALSE" as word:
                tree = exp.Is(this=left, expression=self.place(exp.Boolean(this=word == "TRUE"), at))
            case _:
                self.fail("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT FROM", "JSON")
        self.place(tree, start)
        return self.place(exp.Not(this=tree), start) if negated else tree

    def _comparison(self, left: exp.Expr, start: Token) -> exp.Expr:
        if self.token.kind is COMPARISONS:
            if isinstance(left, exp.Column):
                token = self.advance()
                negated = not token.text.lstrip().startswith("=")
                return self.place(ComparedConstants(this=left, text=token.text, negated=negated), start)
            # The AND before the name is that of BETWEEN.
            self.unfold()
        while (kind := _COMPARISONS.get(self.token.upper)) is not None:
            self.advance()
            right_start = self.token
            if self.at_any("ALL", "ANY", "SOME") and self.peek().upper == "(":
                quantifier = exp.All if self.advance().upper == "ALL" else exp.Any
                right: exp.Expr = self.place(quantifier(this=self._compared_values()), right_start)
            else:
                right = self._range()
            left = self.place(kind(this=left, expression=right), start)
        return left

    def _compared_values(self) -> exp.Expr:
        """What ANY and ALL compare with: the rows of a query, or the elements of an array."""
        if self._query_in_parentheses():
            return self.subquery()
        self.expect("(")
        values = self.expression()
        self.expect(")")
        return values

    def _range(self) -> exp.Expr:
        start = self.token
        left = self.additive()
        while True:
            if (kind := _MATCHES.get(self.token.upper)) is not None:
                excluded = self.advance().upper.startswith("!")
                left = self.place(kind(this=left, expression=self.additive()), start)
                left = self.place(exp.Not(this=left), start) if excluded else left
                continue
            negated = self.at("NOT") and self.peek().upper in _RANGES
            if negated:
                self.advance()
            elif self.at("ILIKE") and not self._at_operand(self.peek()):
                return left  # an alias
            match self.match_any(*_RANGES, "OVERLAPS"):
                case "BETWEEN":
                    tree = self._between(left)
                case "IN":
                    tree = self._in(left)
                case "LIKE":
                    tree = self._like(exp.Like, left, start)
                case "ILIKE":
                    tree = self._like(exp.ILike, left, start)
                case "SIMILAR":
                    self.expect("TO")
                    tree = self._like(exp.SimilarTo, left, start)
                case "OVERLAPS":
                    tree = exp.Overlaps(this=left, expression=self.additive())
                case _:
                    return left
            left = self.place(tree, start)
            if negated:
                left = self.place(exp.Not(this=left), start)

    def _at_operand(self, token: Token) -> bool:
        """Whether an expression begins with a token that follows what may be an operator or an alias."""
        if token.kind is WORD:
            return token.upper not in _CLAUSE_WORDS and token.upper not in ("ORDER", "IS", "BETWEEN")
        return token.kind is not END and (token.kind is not OP or token.upper in ("(", "?", "$", ":", "-", "+"))

    def _between(self, left: exp.Expr) -> exp.Expr:
        symmetric = self.match_any("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
        low = self.additive()
        self.expect("AND")
        return exp.Between(this=left, low=low, high=self.additive(), symmetric=symmetric)

    def constants(self) -> ConstantRows:
        """Rows of constants that stand here as one token."""
        token = self.advance()
        return self.place(ConstantRows(this=token.text), token)

    def _in(self, left: exp.Expr) -> exp.Expr:
        if self.token.kind is CONSTANTS:
            return exp.In(this=left, expressions=[self.constants()])
        if not self.at("("):
            self.fail("(")
        if self._query_in_parentheses():
            return exp.In(this=left, query=self.subquery())
        self.expect("(")
        values = self.comma_separated(self.expression)
        self.expect(")")
        return exp.In(this=left, expressions=values)

    def _like(self, kind: type[exp.Expr], left: exp.Expr, start: Token) -> exp.Expr:
        tree = self.place(kind(this=left, expression=self.additive()), start)
        if self.match("ESCAPE"):
            return exp.Escape(this=tree, expression=self.additive())
        return tree

    def additive(self) -> exp.Expr:
        start = self.token
        left = self._multiplicative()
        while (kind := _TERMS.get(self.token.upper)) is not None:
            self.advance()
            left = self.place(kind(this=left, expression=self._multiplicative()), start)
        return left

    def _multiplicative(self) -> exp.Expr:
        start = self.token
        left = self._power()
        while (kind := _FACTORS.get(self.token.upper)) is not None:
            self.advance()
            left = self.place(kind(this=left, expression=self._power()), start)
        return left

    def _power(self) -> exp.Expr:
        """PostgreSQL's `a ^ b`: from left to right, and behind signs."""
        start = self.token
        left = self._unary()
        while self.match("^"):
            left = self.place(exp.Pow(this=left, expression=self._unary()), start)
        return left

    def _unary(self) -> exp.Expr:
        start = self.token
        if self.match("-"):
            return self.place(exp.Neg(this=self._unary()), start)
        if self.match("+"):
            return self.place(UnaryPlus(this=self._unary()), start)
        return self._postfix()

    def _postfix(self) -> exp.Expr:
        start = self.token
        tree = self._primary()
        while True:
            if self.match("["):
                index = self.expression()
                self.expect("]")
                tree = self.place(exp.Bracket(this=tree, expressions=[index]), start)
            elif self.match("::"):
                tree = self.place(exp.Cast(this=tree, to=self.type_spec()), start)
            elif self._at_field():
                self.advance()
                tree = self.place(exp.Dot(this=tree, expression=self.identifier("a field", reserved=True)), start)
            else:
                return tree

    def _at_field(self) -> bool:
        """Whether a dot and a name stand here, or the dot behind which a text breaks off."""
        after = self.peek().kind
        return self.at(".") and (after in (WORD, QUOTED) or (self.unfinished and after is END))

    # Primary expressions

    def _primary(self) -> exp.Expr:
        start = self.token
        if start.kind is OP:
            if start.upper == "(":
                return self._parenthesized()
            mark = self.parameter()
            if mark is not None:
                return mark
            self._no_expression()
        if start.kind is WORD and self.peek().upper in ("(", "["):
            tree = self._keyword_form(start)
            if tree is not None:
                return tree
        literal = self.literal()
        if literal is not None:
            return literal
        if start.upper == "CASE":
            return self._case()
        if self.takes_default and start.upper == "DEFAULT" and self.peek().upper in (",", ")"):
            return self.place(DefaultArg(), self.advance())
        if start.upper in _WITHOUT_PARENTHESES and self.peek().upper not in ("(", "."):
            self.advance()
            return self.place(FunctionCall(this=start.text, expressions=[]), start)
        if not self.at_name() and not (start.upper in _RESERVED_FUNCTIONS and self.peek().upper == "("):
            self._no_expression()
        return self._column_or_call()

    def parameter(self) -> ParameterMark | None:
        """The mark of a parameter, `?`, `$1` or `:name`, if one stands here."""
        start = self.token
        if self.match("?"):
            self.has_parameters = True
            return self.place(ParameterMark(style="?"), start)
        after = self.peek()
        if start.kind is not OP or after.start != start.end:
            return None
        if start.upper == "$" and after.kind is NUMBER and after.text.isdecimal():
            key: int | str = int(after.text)
        elif start.upper == ":" and after.kind is WORD:
            key = after.text
        else:
            return None
        if key == 0:
            self.refuse("parameters count from $1", start.span)
        self.has_parameters = True
        self.advance()
        self.advance()
        return self.place(ParameterMark(this=key, style=start.text), start)

    def _no_expression(self) -> None:
        token = self.token
        if token.upper == "*":
            self.fail("an expression", hint="* stands alone in the select list, after a table (t.*), or in COUNT(*)")
        if token.upper == "/*+":
            self.refuse("a hint does not belong here", hint="hints follow SELECT or the name of a table")
        if token.upper in _CLAUSE_WORDS:
            self.fail("an expression", hint="remove the comma before it" if self.previous.upper == "," else None)
        if token.kind is WORD:
            hint = f"{token.upper} is a reserved word; to use it as a name, write `{token.text}`"
            self.fail("an expression", hint=hint)
        self.fail("an expression")

    def _keyword_form(self, start: Token) -> exp.Expr | None:
        """CAST(..), EXISTS(..), ARRAY[..], MAP[..]: words before a bracket that are no functions."""
        bracket = self.peek().upper
        match start.upper, bracket:
            case ("CAST" | "TRY_CAST") as word, "(":
                self.advance()
                self.expect("(")
                value = self.expression()
                self.expect("AS")
                target = self.type_spec()
                self.expect(")")
                kind = exp.Cast if word == "CAST" else exp.TryCast
                return self.place(kind(this=value, to=target), start)
            case "UNNEST", "(":
                self.advance()
                self.expect("(")
                call = FunctionCall(this=start.text, expressions=[self.expression()])
                self.expect(")")
                return self.place(call, start)
            case "EXISTS", "(":
                self.advance()
                return self.place(exp.Exists(this=self.subquery().this), start)
            case ("ARRAY" | "MAP") as word, "[":
                self.advance()
                self.expect("[")
                values = [] if self.at("]") else self.comma_separated(self.expression)
                self.expect("]")
                if word == "ARRAY":
                    return self.place(exp.Array(expressions=values), start)
                if len(values) % 2:
                    self.refuse("a MAP needs pairs of key and value", start)
                return self.place(MapConstructor(expressions=values), start)
        return None

    def _side(self) -> str | None:
        """RUNNING or FINAL, if one stands here before a call."""
        after = self.peek()
        named = after.kind is QUOTED or (after.kind is WORD and after.upper not in RESERVED and after.upper != "ILIKE")
        return self.match_any("RUNNING", "FINAL") if self.of_match and named and self.peek(2).upper == "(" else None

    def _column_or_call(self) -> exp.Expr:
        start = self.token
        side = self._side()
        if side is not None:
            at = self.token
            call = self.call(self.identifier("a function"), [], at)
            if not isinstance(call, FunctionCall):
                self.refuse(f"{side} stands before FIRST, LAST or an aggregate", start)
            call.set("side", side)
            return self.place(call, start)
        parts = [self.identifier("an expression", reserved=start.upper in _RESERVED_FUNCTIONS)]
        while self._at_field():
            self.advance()
            parts.append(self.identifier("a field", reserved=True))
        if self.at("("):
            return self.call(parts[-1], parts[:-1], start)
        return self.column(parts, start)

    def column(self, parts: list[exp.Identifier], start: Token) -> exp.Expr:
        """A column of dotted parts: up to four in a Column, the rest as fields of it."""
        head = parts[:4]
        keys = ("this", "table", "db", "catalog")
        tree: exp.Expr = exp.Column(**dict(zip(keys, reversed(head), strict=False)))
        self.place(tree, start, head[-1].meta["end"] + 1)
        for field in parts[4:]:
            tree = self.place(exp.Dot(this=tree, expression=field), start, field.meta["end"] + 1)
        return tree

    def _case(self) -> exp.Expr:
        start = self.expect("CASE")
        operand = None if self.at("WHEN") else self.expression()
        branches: list[exp.Expr] = []
        while self.at("WHEN"):
            at = self.advance()
            condition = self.expression()
            if operand is not None and self.at(","):
                self.refuse("a CASE takes one value after WHEN", hint="write WHEN a THEN r WHEN b THEN r")
            self.expect("THEN")
            branches.append(self.place(exp.If(this=condition, true=self.expression()), at))
        if not branches:
            self.fail("WHEN")
        default = self.expression() if self.match("ELSE") else None
        self.expect("END")
        return self.place(exp.Case(this=operand, ifs=branches, default=default), start)

    def _parenthesized(self) -> exp.Expr:
        start = self.token
        if self._query_in_parentheses():
            return self.subquery()
        self.expect("(")
        values = self.comma_separated(self.expression)
        self.expect(")")
        if len(values) == 1:
            if isinstance(values[0], exp.Sub) and self.token.upper in INTERVAL_FIELDS:
                return self._difference(values[0], start)
            return self.place(exp.Paren(this=values[0]), start)
        return self.place(exp.Tuple(expressions=values), start)

    def _difference(self, minus: exp.Sub, start: Token) -> Difference:
        """`(a - b) DAY TO SECOND`: the time between two points in time as an interval."""
        unit, to_unit, _, _ = self.interval_qualifier()
        tree = Difference(this=minus.this, expression=minus.expression, unit=unit, to_unit=to_unit)
        return self.place(tree, start)

    def _query_in_parentheses(self) -> bool:
        """Whether the parenthesis here holds a query.

        `((SELECT 1) UNION SELECT 2)` is one and `((SELECT 1) + 1)` is not, which only reading it can tell.
        """
        if self.peek().upper != "(":
            index = self.index
            self.advance()
            found = self.at_query()
            self.back_to(index)
            return found
        depth = 1
        while self.peek(depth).upper == "(":
            depth += 1
        if self.peek(depth).upper not in ("SELECT", "WITH", "VALUES"):
            return False
        index = self.index
        if index not in self.known_queries:
            try:
                self.subquery()
                self.known_queries[index] = True
            except SqlSyntaxError:
                self.known_queries[index] = False
            self.back_to(index)
        return self.known_queries[index]
